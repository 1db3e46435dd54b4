package integration

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/scd2"
	"github.com/gscd-io/gscd/slice"
	"github.com/gscd-io/gscd/snapshotter"
)

// loader loads the slices of a case into a table of its own.
type loader struct {
	*testing.T
	store  objstore.Store
	o      ingest.Options
	folder string
	files  int
}

func newLoader(t *testing.T, types map[string]schema.Type, key ...string) *loader {
	t.Helper()
	calendar, err := snapshotter.NewCalendar("day", "Asia/Shanghai", "00:00")
	if err != nil {
		t.Fatal(err)
	}
	store := mem.New()
	return &loader{t, store, ingest.Options{Name: "t", Store: store, Calendar: calendar, Key: key, Columns: types}, t.TempDir(), 0}
}

// file writes the rows of a step, or its bytes, as a file.
func (l *loader) file(s step) slice.Source {
	l.Helper()
	l.files++
	var text strings.Builder
	name := filepath.Join(l.folder, s.text("day")+"-"+string(rune('a'+l.files))+".jsonl")
	if s.kind == "slice_file" {
		name = strings.TrimSuffix(name, "jsonl") + "csv"
		text.WriteString(s.text("bytes"))
	}
	var rows []json.RawMessage
	if raw, ok := s.fields["rows"]; ok {
		if err := json.Unmarshal(raw, &rows); err != nil {
			l.Fatal(err)
		}
	}
	for _, r := range rows {
		text.Write(r)
		text.WriteByte('\n')
	}
	if err := os.WriteFile(name, []byte(text.String()), 0o600); err != nil {
		l.Fatal(err)
	}
	at, err := slice.Local(name)
	if err != nil {
		l.Fatal(err)
	}
	src, err := slice.OpenFile(at, slice.FileOptions{Declared: l.o.Columns})
	if err != nil {
		l.Fatal(err)
	}
	return src
}

func (l *loader) slice(s step) ingest.Slice {
	src := l.file(s)
	return ingest.Slice{Label: s.text("day"), Source: src.Name(), Open: src.Open, Replace: s.text("replace") == "true"}
}

func (l *loader) load(s step) (*ingest.Loaded, error) {
	l.Helper()
	return ingest.LoadSlice(ctx, l.o, l.slice(s))
}

func (l *loader) mustLoad(s step) *ingest.Loaded {
	l.Helper()
	done, err := l.load(s)
	if err != nil {
		l.Fatal(err)
	}
	return done
}

func (l *loader) snapshot() (*delta.Table, *delta.Snapshot) {
	l.Helper()
	table, err := delta.Open(ctx, l.store)
	if err != nil {
		l.Fatal(err)
	}
	s, err := table.Snapshot(ctx)
	if err != nil {
		l.Fatal(err)
	}
	return table, s
}

func (l *loader) labels() (*delta.Table, *savepoint.Map) {
	l.Helper()
	table, s := l.snapshot()
	m, err := savepoint.Read(ctx, table, s)
	if err != nil {
		l.Fatal(err)
	}
	return table, m
}

func (l *loader) sealed() (names []string) {
	_, m := l.labels()
	for _, e := range m.Entries {
		if e.State == savepoint.Sealed {
			names = append(names, e.Name)
		}
	}
	return names
}

// rows gives the rows as of a label, as texts by column.
func (l *loader) rows(label string) (out []map[string]string) {
	l.Helper()
	table, m := l.labels()
	r, err := m.Resolve(label, true)
	if err != nil {
		l.Fatal(err)
	}
	at, err := table.SnapshotAt(ctx, r.Entry.Version)
	if err != nil {
		l.Fatal(err)
	}
	rows, err := scan.New(l.store, at, scan.Options{})
	if err != nil {
		l.Fatal(err)
	}
	for row, err := range rows.Rows(ctx) {
		if err != nil {
			l.Fatal(err)
		}
		texts := map[string]string{}
		for i, f := range rows.Columns() {
			if !row[i].IsNull() {
				texts[f.Name] = string(schema.AppendText(nil, f.Type, row[i]))
			}
		}
		out = append(out, texts)
	}
	return out
}

type sliceCounts struct{ New, Changed, Deleted, Unchanged int64 }

func countsOf(d *ingest.Loaded) sliceCounts {
	return sliceCounts{d.New, d.Changed, d.Deleted, d.Unchanged}
}

func (c *given) counts(e *expectation) (want sliceCounts) {
	c.Helper()
	for name, to := range map[string]*int64{"new": &want.New, "changed": &want.Changed, "deleted": &want.Deleted, "unchanged": &want.Unchanged} {
		e.into(c, name, to)
	}
	return want
}

var (
	typeText = schema.Of(schema.StringType)
	typeLong = schema.Of(schema.Long)
)

func TestCase24(t *testing.T) {
	c := theCase(t, 24)
	l := newLoader(t, map[string]schema.Type{"k1": typeText, "k2": typeText, "a": typeText, "b": typeText, "amt": schema.Decimal(10, 2), "d": schema.Of(schema.Date)}, "k1", "k2")
	steps := c.steps("Input")
	l.mustLoad(steps[0])
	done := l.mustLoad(steps[1])
	e := c.expect(nil, "slice", "new", "changed", "deleted", "unchanged", "changed_keys")[0]
	equal(t, "counts", countsOf(done), c.counts(e))
	var changed []string
	for _, k := range done.ChangedKeys { // (r,1)
		changed = append(changed, strings.NewReplacer("(", "", ")", "", ",", "/").Replace(k))
	}
	slices.Sort(changed)
	equal(t, "changed keys", strings.Join(changed, " "), strings.Join(e.strings(t, "changed_keys"), " "))
	keys := map[[2]string]int{}
	for _, r := range l.rows("2022-07-17") {
		keys[[2]string{r["k1"], r["k2"]}]++
	}
	c.theMust(1, func(t *testing.T) {
		equal(t, "blanks and case: r/6 and r/7 changed", strings.Contains(strings.Join(changed, " "), "r/6 r/7"), true)
	})
	c.theMust(2, func(t *testing.T) {
		equal(t, "rows", len(keys), 11)
		equal(t, "the two keys that look alike", keys[[2]string{"1|2", "3"}]+keys[[2]string{"1", "2|3"}], 2)
	})
	c.theMust(3, func(t *testing.T) { equal(t, "12.50 and 12.5, 1.00 and 1 are unchanged", done.Unchanged, int64(3)) })
	for i, where := range map[int]string{4: "delta/rowhash, TestRandomRowsAreToldApart and FuzzForm", 5: "the hash is SHA-256, of which 128 bits a key and 128 bits its values are compared"} {
		c.must[i-1].seen = true
		t.Logf("Must %d: %s", i, where)
	}
	c.theChoice(1, func(t *testing.T) { t.Log("both pairs differ, see delta/rowhash, TestOtherValue") })
}

func TestCase25(t *testing.T) {
	c := theCase(t, 25)
	l := newLoader(t, nil, "shop", "user")
	steps := c.steps("Input")
	l.mustLoad(steps[0])
	_, before := l.snapshot()
	_, err := l.load(steps[1])
	e := c.expect(func(e *expectation) bool { return e.text("attempt") == "1" }, "slice", "attempt", "exit", "says")[0]
	if err == nil {
		t.Fatal("a slice with a key that is there twice was loaded")
	}
	for _, says := range e.strings(t, "says") {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
	sameList(t, "sealed", l.sealed(), c.expect(nil, "snapshots")[0].strings(t, "snapshots"))
	_, after := l.snapshot()
	equal(t, "version", after.Version(), before.Version())
	c.theMust(1, func(t *testing.T) { // two files of one slice
		one, two := steps[1], steps[1]
		one.fields, two.fields = maps.Clone(one.fields), maps.Clone(two.fields)
		one.fields["rows"] = json.RawMessage(`[{"shop":1,"user":5,"level":2},{"shop":1,"user":6,"level":1}]`)
		two.fields["rows"] = json.RawMessage(`[{"shop":1,"user":5,"level":3}]`)
		both := slice.Files("both", l.file(one), l.file(two))
		_, err := ingest.LoadSlice(ctx, l.o, ingest.Slice{Label: "2022-07-17", Source: "both", Open: both.Open})
		if err == nil || !strings.Contains(err.Error(), "(1,5) in rows 1 and 3") {
			t.Error(err)
		}
	})
	done := l.mustLoad(steps[3])
	equal(t, "counts", countsOf(done), c.counts(c.expect(nil, "slice", "attempt", "new", "changed", "deleted", "unchanged")[0]))
	c.leaveMust(2, "history tables are made from sealed days by gscd scd2, which has its own tests")
	c.leaveMust(3, "history tables are checked by gscd scd2")
	c.choice[0].seen = true
	t.Log("left out, Choice 1: every duplicate is refused")
}

func TestCase26(t *testing.T) {
	c := theCase(t, 26)
	l := newLoader(t, nil, "id")
	steps := c.steps("Input")
	l.mustLoad(steps[0])
	_, before := l.snapshot()
	for i, s := range steps[1:4] {
		attempt := string(rune('1' + i))
		e := c.expect(func(e *expectation) bool { return e.text("attempt") == attempt }, "attempt", "exit", "says")[0]
		_, err := l.load(s)
		if err == nil || !strings.Contains(err.Error(), e.text("says")) {
			t.Errorf("attempt %s: %v; it should say %q", attempt, err, e.text("says"))
		}
	}
	c.theMust(1, func(t *testing.T) {
		_, after := l.snapshot()
		equal(t, "version", after.Version(), before.Version())
		sameList(t, "sealed", l.sealed(), []string{"2022-07-16"})
	})
	c.theMust(2, func(t *testing.T) {
		_, err := l.load(steps[2])
		if !errors.Is(err, ingest.ErrTooManyDeletes) || !strings.Contains(err.Error(), "20%") || !strings.Contains(err.Error(), "id 3, 4, 5") {
			t.Error(err)
		}
	})
	c.theMust(3, func(t *testing.T) {
		for _, n := range []int64{0, 2, 4, 1000} {
			s := l.slice(steps[2])
			s.AcceptDeletes = &n
			if _, err := ingest.LoadSlice(ctx, l.o, s); !errors.Is(err, ingest.ErrTooManyDeletes) {
				t.Errorf("--accept-deletes %d: %v", n, err)
			}
		}
		s, three := l.slice(steps[2]), int64(3)
		s.AcceptDeletes, s.DryRun = &three, true
		if done, err := ingest.LoadSlice(ctx, l.o, s); err != nil || done.Deleted != 3 || done.Committed {
			t.Error(done, err)
		}
	})
	done := l.mustLoad(steps[4])
	equal(t, "counts", countsOf(done), c.counts(c.expect(nil, "attempt", "new", "changed", "deleted", "unchanged")[0]))
	c.leaveMust(4, "a file has the name that it is given; --from-dir takes files whose mark is there (cmd/gscd, TestLoadFromDir)")
	c.theChoice(1, func(t *testing.T) { t.Log("max_delete_fraction is a setting; the first slice deletes nothing") })
}

// history brings the history of the table up to date.
func (l *loader) history(store objstore.Store) {
	l.Helper()
	table, s := l.snapshot()
	_, m := l.labels()
	if _, err := scd2.Build(ctx, &scd2.Source{Address: "t", Table: table, Snapshot: s, Labels: m}, delta.New(store), scd2.Options{}); err != nil {
		l.Fatal(err)
	}
}

func TestCase30(t *testing.T) {
	c := theCase(t, 30)
	l := newLoader(t, nil, "id")
	steps := c.steps("Input")
	l.mustLoad(steps[0])
	l.mustLoad(steps[1])
	history := mem.New()
	l.history(history) // of a day that is corrected later
	e := c.expect(func(e *expectation) bool { return e.text("load") == "3" }, "load", "new", "changed", "deleted", "unchanged", "new_version")[0]
	_, before := l.snapshot()
	third := l.mustLoad(steps[2])
	_, after := l.snapshot()
	equal(t, "counts", countsOf(third), c.counts(e))
	equal(t, "new version", third.Committed || after.Version() != before.Version(), e.text("new_version") == "true")
	c.theMust(3, func(t *testing.T) {
		s := l.slice(steps[3])
		s.Replace = false
		if _, err := ingest.LoadSlice(ctx, l.o, s); !errors.Is(err, ingest.ErrSliceLabel) || !strings.Contains(err.Error(), "--replace") {
			t.Error(err)
		}
	})
	replaced := l.mustLoad(steps[3])
	corrected := c.expect(nil, "load", "as_of", "row")[0]
	want := row{}
	corrected.into(t, "row", &want)
	level := func(label, id string) string {
		for _, r := range l.rows(label) {
			if r["id"] == id {
				return r["level"]
			}
		}
		return ""
	}
	equal(t, "level as of 16", level("2022-07-16", "1"), "2")
	c.theMust(1, func(t *testing.T) {
		_, m := l.labels()
		i := slices.IndexFunc(m.Entries, func(e savepoint.Entry) bool { return e.Kept && strings.HasPrefix(e.Name, "2022-07-16@") })
		if i < 0 || m.Entries[i].Version != replaced.Replaced {
			t.Errorf("the map does not show what was replaced: %+v", m.Entries)
		}
	})
	c.theMust(2, func(t *testing.T) {
		next := steps[4]
		next.fields = maps.Clone(next.fields)
		one, two := l.slice(next), l.slice(next)
		next.fields["rows"] = json.RawMessage(strings.Replace(string(next.fields["rows"]), `"level":1`, `"level":7`, 1))
		three := l.slice(next)
		three.Label = one.Label
		results := make([]*ingest.Loaded, 3)
		faults := make([]error, 3)
		var running sync.WaitGroup
		for i, s := range []ingest.Slice{one, two, three} {
			running.Go(func() { results[i], faults[i] = ingest.LoadSlice(ctx, l.o, s) })
		}
		running.Wait()
		committed, refused := 0, 0
		for i := range results {
			switch {
			case faults[i] == nil && results[i].Committed:
				committed++
			case errors.Is(faults[i], ingest.ErrSliceLabel):
				refused++
			case faults[i] != nil:
				t.Error(faults[i])
			}
		}
		equal(t, "loads that won", committed, 1)
		if refused == 0 {
			t.Error("two slices of one day, and neither was refused")
		}
		if faults[0] != nil { // the other slice has won
			s := l.slice(steps[4])
			s.Replace = true
			if _, err := ingest.LoadSlice(ctx, l.o, s); err != nil {
				t.Error(err)
			}
		}
	})
	equal(t, "level as of 17", level("2022-07-17", "1"), "1")
	equal(t, "level as of 16", level("2022-07-16", "1"), "2")
	c.theMust(4, func(t *testing.T) {
		s := l.slice(steps[1])
		s.Replace = true
		if _, err := ingest.LoadSlice(ctx, l.o, s); !errors.Is(err, ingest.ErrSliceLabel) || !strings.Contains(err.Error(), "gscd rollback") || !strings.Contains(err.Error(), "--to 2022-07-15") {
			t.Error(err)
		}
	})
	l.history(history)
	var key1 []struct {
		Level int64  `json:"level"`
		From  string `json:"valid_from"`
		To    string `json:"valid_to"`
	}
	c.expect(nil, "scd2_key_1")[0].into(t, "scd2_key_1", &key1)
	var rows []interval
	for _, v := range key1 {
		rows = append(rows, interval{1, v.Level, v.From, v.To})
	}
	sameList(t, "history of key 1", intervals(t, history, "id = 1"), rows)
	c.expect(nil, "scd2_keys_2_to_5")
	sameList(t, "history of the others", intervals(t, history, "id > 1"),
		[]interval{{2, 1, "2022-07-15", ""}, {3, 1, "2022-07-15", ""}, {4, 1, "2022-07-15", ""}, {5, 1, "2022-07-15", ""}})
	c.theChoice(1, func(t *testing.T) { equal(t, "the old version is readable by number", replaced.Replaced > 0, true) })
}
