package scenario

import (
	"context"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/bench"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/savepoint"
)

var env = Env{Open: func(_ context.Context, address string) (objstore.Store, error) {
	return local.New(address, local.Options{NoSync: true})
}}

func small(t *testing.T, name string) Spec {
	return Spec{
		Name: name, Table: t.TempDir(), Scratch: t.TempDir(), Batch: 500, Batches: 4, Decoders: 2, Partitions: 1,
		Params: bench.Params{Seed: 1, Columns: 10, Mix: "standard", Keys: "uniform", Rows: 1000, Events: 2000, Days: 1},
	}
}

// perform runs all phases in this process.
func perform(t *testing.T, s Spec) *Result {
	t.Helper()
	var r *Result
	for _, s.Phase = range []string{Prepare, Run, Verify} {
		s.Result = r
		got, err := Do(t.Context(), &s, env)
		if err != nil {
			t.Fatalf("%s, %s: %v", s.Name, s.Phase, err)
		}
		if s.Phase != Prepare {
			r = got
		}
	}
	return r
}

func TestDecode(t *testing.T) {
	r := perform(t, small(t, "decode"))
	if r.Done != 2000 || r.Unit != "events" || r.Seconds <= 0 || r.CPU() <= 0 || r.Allocations <= 0 || r.PeakRSS < 1<<20 {
		t.Errorf("%+v", r)
	}
}

func TestEncodeAndWrite(t *testing.T) {
	r := perform(t, small(t, "encode"))
	if r.Done != 2000 || r.BytesWritten < 2000*10 || r.OwnBytes != r.BytesWritten {
		t.Errorf("%+v", r)
	}
	r = perform(t, small(t, "write"))
	if r.Done != 2000 || r.Commits != 4 || r.Requests != (Requests{Put: 8, PutIfAbsent: 4}) {
		t.Errorf("%+v", r)
	}
}

// What is counted is the same in two runs, and every row is that of the model.
func TestIngestCounts(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Spec)
		seals  int64
	}{
		{"rows", func(*Spec) {}, 0},
		{"empty", func(s *Spec) { s.Params.Rows = 0 }, 0},
		{"wide", func(s *Spec) { s.Params.Columns = 40 }, 0},
		{"days", func(s *Spec) { s.Params.Days, s.Params.Keys = 5, "zipf" }, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := small(t, "ingest")
			c.change(&s)
			one := perform(t, s)
			s.Table = t.TempDir()
			two := perform(t, s)
			model, err := bench.NewModel(s.Params, s.Params.Events)
			if err != nil {
				t.Fatal(err)
			}
			if !one.Checked || one.Rows != model.Live() || one.Done != 2000 || one.Seals != c.seals || one.Commits < 4 {
				t.Errorf("%+v, want %d rows and %d seals", one, model.Live(), c.seals)
			}
			if one.Requests.PutIfAbsent < int(one.Commits) || one.OwnBytes <= 0 || one.BytesWritten <= one.OwnBytes || one.BytesStored < one.BytesWritten/2 {
				t.Errorf("%+v", one)
			}
			if one.Checksum != two.Checksum || one.Commits != two.Commits || one.OwnBytes != two.OwnBytes || one.Requests.PutIfAbsent != two.Requests.PutIfAbsent || one.Files != two.Files {
				t.Errorf("two runs differ:\n%+v\n%+v", one, two)
			}
		})
	}
}

// A table that lacks events, or has those of another workload, is no result.
func TestWrongRowsAreAnError(t *testing.T) {
	s := small(t, "ingest")
	r := perform(t, s)
	s.Phase, s.Result = Verify, r
	s.Params.Seed = 2
	if _, err := Do(t.Context(), &s, env); err == nil || !strings.Contains(err.Error(), "rows of version") {
		t.Errorf("another workload: %v", err)
	}
	s.Params.Seed, s.Params.Events = 1, 2001
	if _, err := Do(t.Context(), &s, env); err == nil || !strings.Contains(err.Error(), "2000 records") {
		t.Errorf("a missing event: %v", err)
	}
	store, err := env.Open(t.Context(), s.Table)
	if err != nil {
		t.Fatal(err)
	}
	table, err := savepoint.OpenTable(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := table.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Params.Events = 1999 // the last event alone
	if err := checkRows(t.Context(), &s, store, snap, 1999, r); err == nil {
		t.Error("a table with one event more than the model was found equal")
	}
}

// Reads are held against the model by their own phase Verify; here is what they counted. All
// work on one table, those that change it last.
func TestReads(t *testing.T) {
	s := small(t, "query")
	s.Params.Days = 4
	s.Phase = Prepare
	if _, err := Do(t.Context(), &s, env); err != nil {
		t.Fatal(err)
	}
	once := func(name string) *Result {
		t.Helper()
		s.Name, s.Result = name, nil
		for _, s.Phase = range []string{Run, Verify} {
			r, err := Do(t.Context(), &s, env)
			if err != nil {
				t.Fatalf("%s, %s: %v", name, s.Phase, err)
			}
			s.Result = r
		}
		if r := s.Result; !r.Checked || r.Done == 0 || r.Answers != nil {
			t.Errorf("%s: %+v", name, r)
		}
		return s.Result
	}
	for _, name := range []string{"open", "query", "point", "diff", "read-keys", "index"} {
		r, again := once(name), once(name)
		if r.Done != again.Done || r.Requests != again.Requests || r.Rows != again.Rows || r.BytesRead == 0 || r.BytesWritten != 0 || r.Commits != 0 {
			t.Errorf("%s: two runs differ, or write:\n%+v\n%+v", name, r, again)
		}
		switch name {
		case "open", "point":
			if l := r.Latency; l == nil || l.P50 <= 0 || l.Max < l.P99 || l.P99 < l.P50 {
				t.Errorf("%s: %+v", name, l)
			}
		case "query", "index", "read-keys":
			if r.Done != r.Rows {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
	for _, name := range []string{"maintain", "rollback"} {
		if r := once(name); r.Done != 1 || r.BytesWritten == 0 || r.Commits == 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// An answer that the model does not give is an error.
func TestWrongAnswersAreAnError(t *testing.T) {
	s := small(t, "query")
	s.Params.Days, s.Phase = 4, Prepare
	if _, err := Do(t.Context(), &s, env); err != nil {
		t.Fatal(err)
	}
	for _, s.Name = range []string{"point", "diff", "query", "index"} {
		s.Phase = Run
		r, err := Do(t.Context(), &s, env)
		if err != nil {
			t.Fatal(err)
		}
		s.Result = r
		if len(s.Result.Answers) > 0 {
			s.Result.Answers[0][1]++
		} else {
			s.Result.Done--
		}
		s.Phase = Verify
		if _, err := Do(t.Context(), &s, env); err == nil {
			t.Errorf("%s: a wrong answer was taken", s.Name)
		}
	}
}

func TestOneDayHasNothingSealed(t *testing.T) {
	s := small(t, "query")
	for _, s.Phase = range []string{Prepare, Run} {
		if _, err := Do(t.Context(), &s, env); s.Phase == Run && (err == nil || !strings.Contains(err.Error(), "--days")) {
			t.Errorf("%v", err)
		}
	}
}

// What is held for the next day is compared with rows of the table, which are read together:
// a request a row and column would be thousands a midnight.
func TestHeldChangesAreComparedTogether(t *testing.T) {
	s := small(t, "catch-up")
	s.Params.Rows, s.Params.Events, s.Params.Days, s.Batch, s.Batches = 600_000, 40_000, 3, 5000, 8
	r := perform(t, s)
	if most := 60 * int(r.Seals); !r.Checked || r.Seals != 2 || r.Requests.Get > most {
		t.Errorf("%d seals took %d requests, at most %d are expected: %+v", r.Seals, r.Requests.Get, most, r)
	}
}
