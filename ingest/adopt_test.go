package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/upsert"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
)

// foreignTable makes a table that only the other engine has written.
func foreignTable(t *testing.T, rows map[int]string, change func(m *action.Metadata, p *action.Protocol)) *shared {
	s := newShared(t)
	columns, err := schema.New(
		schema.Field{Name: "id", Type: schema.Of(schema.Long)},
		schema.Field{Name: "v", Type: schema.Of(schema.StringType), Nullable: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	m := action.Metadata{ID: "x", Format: action.Format{Provider: "parquet"}, SchemaString: columns.String(), PartitionColumns: []string{}}
	p := delta.ProtocolFor()
	if change != nil {
		change(&m, &p)
	}
	tx := delta.NewTransaction(s.table, nil)
	tx.SetMetadata(m)
	tx.SetProtocol(p)
	if out, err := tx.Commit(context.Background()); err != nil || !out.Committed {
		t.Fatal(out, err)
	}
	s.write("WRITE", true, rows)
	return s
}

// adopt adopts with the key id.
func (s *shared) adopt(src ingest.Source, a ingest.Adoption, change ...func(*ingest.Options)) (*ingest.Adopted, error) {
	o := ingest.Options{Name: "t", Store: s.store, Calendar: s.cal, Key: []string{"id"}}
	for _, c := range change {
		c(&o)
	}
	return ingest.Adopt(context.Background(), o, src, a)
}

func TestAdopt(t *testing.T) {
	s := foreignTable(t, map[int]string{1: "old", 2: "b", 9: "z"}, nil)
	src := &parts{}
	src.put(1, "c", 1, "a", "16T08", 10) // in the table already, as older
	src.put(0, "c", 2, "b", "16T09", 20)
	src.put(1, "u", 1, "aa", "16T10", 30)
	src.put(0, "c", 3, "c", "16T11", 40)
	if err := s.run(src, "17T01:00", nil); !errors.Is(err, savepoint.ErrForeign) || !strings.Contains(err.Error(), "gscd adopt") {
		t.Fatalf("a foreign table is ingested: %v", err)
	}
	start := ingest.Start{At: ingest.AtOffsets, Offsets: map[change.PartitionID]int64{src.id(0): 1, src.id(1): 1}}
	dry, err := s.adopt(src, ingest.Adoption{Label: "2022-07-16", Start: &start, DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	if dry.Committed != -1 || dry.Rows != 3 || !slices.Equal(dry.Nullable, []string{"id"}) || !slices.Equal(dry.Features, []string{"deletionVectors"}) || s.snapshot().Version() != 1 {
		t.Errorf("dry run %+v, version %d", dry, s.snapshot().Version())
	}
	done, err := s.adopt(src, ingest.Adoption{Label: "2022-07-16", Start: &start})
	if err != nil {
		t.Fatal(err)
	}
	if done.Committed != 2 || done.First != "2022-07-16" {
		t.Errorf("adopted %+v", done)
	}
	s.mustRun(src, "17T01:00")
	if got, want := s.asOf("2022-07-16"), "1=aa 2=b 3=c 9=z"; got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
	ev := s.evidence("2022-07-16")
	if !slices.Contains(ev.Attributes, "incomplete") || !slices.Contains(ev.Attributes, "no load") || !strings.Contains(ev.Reason, "adopted") {
		t.Errorf("attributes %v, reason %q", ev.Attributes, ev.Reason)
	}
	s.consistent()
	if _, err := s.adopt(src, ingest.Adoption{Label: "2022-07-17", Start: &start}); !errors.Is(err, ingest.ErrNotAdoptable) || !strings.Contains(err.Error(), "it is gscd's") {
		t.Errorf("adopted twice: %v", err)
	}
}

func TestAdoptRefuses(t *testing.T) {
	start := &ingest.Start{At: ingest.AtOffsets, Offsets: map[change.PartitionID]int64{{Topic: "t"}: 0}}
	rows := map[int]string{1: "a", 2: "b"}
	for _, c := range []struct {
		name   string
		table  func(m *action.Metadata, p *action.Protocol)
		do     func(s *shared)
		o      func(o *ingest.Options)
		a      ingest.Adoption
		source ingest.Source
		is     error
		says   string
	}{
		{name: "key twice", do: func(s *shared) {
			s.commit("WRITE", nil, func(snap *delta.Snapshot, tx *delta.Transaction) {
				b := &upsert.Batch{Schema: snap.Schema(), Rows: [][]schema.Value{{schema.IntValue(2), {Kind: schema.String, S: "x"}}}, Keys: []string{"k"}, Tags: []uint16{0}}
				if _, err := s.writer(snap, false).Write(context.Background(), b, tx); err != nil {
					s.t.Fatal(err)
				}
			})
		}, is: upsert.ErrDuplicateKey, says: "key id=2, in part-"},
		{name: "no such key", o: func(o *ingest.Options) { o.Key = []string{"no"} }, is: ingest.ErrNotAdoptable, says: "no column no, which the key names; it has id, v"},
		{name: "no key", o: func(o *ingest.Options) { o.Key = nil }, is: ingest.ErrNoKey, says: "--key"},
		{name: "a feature", table: func(_ *action.Metadata, p *action.Protocol) { *p = delta.ProtocolFor("rowTracking", "domainMetadata") },
			do: func(*shared) {}, is: delta.ErrUnsupportedFeature, says: "rowTracking"},
		{name: "append only", table: func(m *action.Metadata, _ *action.Protocol) {
			m.Configuration = map[string]string{delta.PropertyAppendOnly: "true"}
		}, is: ingest.ErrNotAdoptable, says: "delta.appendOnly is true"},
		{name: "txn retention", table: func(m *action.Metadata, _ *action.Protocol) {
			m.Configuration = map[string]string{delta.PropertyTxnRetention: "interval 1 day"}
		}, is: ingest.ErrNotAdoptable, says: "unset it first"},
		{name: "a column of gscd's name", do: func(s *shared) {
			s.setColumns("ADD COLUMNS", func(f []schema.Field) []schema.Field {
				return append(f, schema.Field{Name: "__GSCD_x", Type: schema.Of(schema.Long), Nullable: true})
			})
		}, is: ingest.ErrNotAdoptable, says: "__GSCD_x is gscd's own"},
		{name: "partitioned otherwise", o: func(o *ingest.Options) { o.PartitionBy = []string{"v"} }, is: ingest.ErrNotAdoptable, says: "partitioned by [], the configuration says [v]"},
		{name: "no offsets", a: ingest.Adoption{Label: "2022-07-16"}, is: ingest.ErrNotAdoptable, says: "--offsets, --at-end or --start"},
		{name: "nobody to ask", a: ingest.Adoption{Label: "2022-07-16", Start: &ingest.Start{At: ingest.Latest}}, is: ingest.ErrNotAdoptable, says: "configure the brokers"},
		{name: "offset that there is not", a: ingest.Adoption{Label: "2022-07-16", Start: start}, source: &parts{logs: [][]*change.Record{{}, {}}}, is: ingest.ErrRefused, says: "names no offset for partition t/1"},
		{name: "no label", a: ingest.Adoption{Label: "x", Start: start}, is: savepoint.ErrNoLabel, says: "a label looks like"},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := c.table
			write := rows
			if c.name == "a feature" {
				write = nil // the other engine's own matter
			}
			s := newShared(t)
			if write != nil {
				s = foreignTable(t, write, func(m *action.Metadata, p *action.Protocol) {
					if table != nil {
						table(m, p)
					}
					if m.Configuration[delta.PropertyAppendOnly] == "true" {
						*p = delta.ProtocolFor(delta.FeatureAppendOnly)
					}
				})
			} else {
				m := action.Metadata{ID: "x", Format: action.Format{Provider: "parquet"}, PartitionColumns: []string{},
					SchemaString: `{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}`}
				var p action.Protocol
				table(&m, &p)
				commit := action.Commit{Protocol: &p, Metadata: &m}
				if err := s.store.PutIfAbsent(context.Background(), "_delta_log/00000000000000000000.json", commit.Append(nil)); err != nil {
					t.Fatal(err)
				}
			}
			if c.do != nil {
				c.do(s)
			}
			before := s.snapshot().Version()
			a := c.a
			if a.Label == "" {
				a = ingest.Adoption{Label: "2022-07-16", Start: start}
			}
			_, err := s.adopt(c.source, a, func(o *ingest.Options) {
				if c.o != nil {
					c.o(o)
				}
			})
			if !errors.Is(err, c.is) || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("error %v, want %v with %q", err, c.is, c.says)
			}
			if s.snapshot().Version() != before {
				t.Error("a refused adoption has committed something")
			}
		})
	}
}

// TestAdoptAgain takes the rows as they are after what stops the table: offsets and
// map stay where they can be read.
func TestAdoptAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		do    func(s *shared)
		start bool
		want  string // of the 17th
		first string
	}{
		{"restore", func(s *shared) { s.restore("RESTORE", 0) }, false, "1=aa 2=b 4=d", "2022-07-16"}, // the change of 2 was taken, and is undone
		{"overwrite", func(s *shared) { s.overwrite("WRITE", "Overwrite", nil) }, false, "100=x 1=aa 4=d", "2022-07-16"},
		{"properties gone", func(s *shared) {
			s.setMetadata("UNSET TBLPROPERTIES", func(m *action.Metadata) { m.Configuration = map[string]string{} })
		}, false, day17, "2022-07-16"},
		{"progress gone", func(s *shared) {
			txn, _ := s.snapshot().Txn(progress.AppID)
			s.write("WRITE", true, map[int]string{77: "n"})
			snap := s.snapshot()
			if _, err := s.table.Checkpoint(context.Background(), snap, delta.CheckpointOptions{}); err != nil {
				s.t.Fatal(err)
			}
			if err := s.store.Delete(context.Background(), fmt.Sprintf("_delta_log/%020d.json", txn.Version)); err != nil {
				s.t.Fatal(err)
			}
		}, true, "1=aa 2=bb 4=d 77=n", "2022-07-16"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShared(t)
			src := story16()
			s.mustRun(src.upTo(1, 2), "17T07:00")
			s.mustRun(src.upTo(2, 2), "17T08:30")
			c.do(s)
			err := s.run(src, "18T01:00", nil)
			if !errors.Is(err, ingest.ErrForeignCommit) || !strings.Contains(err.Error(), "gscd adopt") {
				t.Fatalf("error %v", err)
			}
			a := ingest.Adoption{Label: "2022-07-17"}
			if c.start {
				if _, err := s.adopt(src, a); !errors.Is(err, ingest.ErrNotAdoptable) {
					t.Errorf("adopted without offsets: %v", err)
				}
				if _, err := s.adopt(src, ingest.Adoption{Label: "2022-07-16", Start: &ingest.Start{}}); !errors.Is(err, ingest.ErrNotAdoptable) || !strings.Contains(err.Error(), "2022-07-16 is sealed by version") {
					t.Errorf("a sealed label was opened: %v", err)
				}
				a.Start = &ingest.Start{At: ingest.AtOffsets, Offsets: map[change.PartitionID]int64{src.id(0): 2, src.id(1): 2}}
			} else if _, err := s.adopt(src, ingest.Adoption{Label: "2022-07-18"}); !errors.Is(err, ingest.ErrNotAdoptable) || !strings.Contains(err.Error(), "adopt it as 2022-07-17") {
				t.Errorf("another label was opened: %v", err)
			}
			done, err := s.adopt(src, a)
			if err != nil {
				t.Fatal(err)
			}
			if done.First != c.first || done.Kept == c.start {
				t.Errorf("adopted %+v", done)
			}
			s.mustRun(src, "18T01:00")
			got := strings.Fields(s.asOf("2022-07-17"))
			want := strings.Fields(c.want)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("the 17th is %v, want %v", got, want)
			}
			if got := s.asOf("2022-07-16"); got != day16 {
				t.Errorf("the 16th is %s, want %s", got, day16)
			}
			if ev := s.evidence("2022-07-17"); !slices.Contains(ev.Attributes, "incomplete") {
				t.Errorf("attributes %v", ev.Attributes)
			}
			s.consistent()
		})
	}
}

// TestSavepointHidesNoForeignCommit makes a commit by hand behind one that stops the
// table: it must stop it all the same.
func TestSavepointHidesNoForeignCommit(t *testing.T) {
	s := newShared(t)
	src := story16()
	s.mustRun(src.upTo(1, 2), "17T07:00")
	s.mustRun(src.upTo(2, 2), "17T08:30")
	s.restore("RESTORE", 0)
	for i := range 2 {
		if _, err := savepoint.CreateNamed(context.Background(), s.table, fmt.Sprintf("before-repair-%d", i), -1); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.run(src, "18T01:00", nil); !errors.Is(err, ingest.ErrForeignCommit) {
		t.Fatalf("error %v", err)
	}
	if _, err := savepoint.Rollback(context.Background(), s.table, "2022-07-16", savepoint.RollbackOptions{Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	s.mustRun(src, "18T01:00")
	if got := s.asOf("2022-07-17"); got != day17 {
		t.Errorf("the 17th is %s, want %s", got, day17)
	}
	s.consistent()
}

func TestSetOffsets(t *testing.T) {
	ctx := context.Background()
	s := newShared(t)
	src := story16()
	s.mustRun(src.upTo(2, 2), "17T08:30")
	states, _, err := src.Partitions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	set := func(h ingest.OffsetsByHand) (*ingest.OffsetsSet, error) { return ingest.SetOffsets(ctx, s.store, h) }
	at := func(partition int, offset int64) map[change.PartitionID]int64 {
		return map[change.PartitionID]int64{src.id(partition): offset}
	}
	before := s.snapshot().Version()
	for _, c := range []struct {
		h    ingest.OffsetsByHand
		says string
	}{
		{ingest.OffsetsByHand{Offsets: at(0, 4), States: states}, "t/0 has 0 to 3, not 4; --force"},
		{ingest.OffsetsByHand{Offsets: at(0, 1)}, "can't be asked whether it has 1; --force"},
		{ingest.OffsetsByHand{Offsets: at(7, 1), Force: true}, "the table has no partition t/7"},
	} {
		if _, err := set(c.h); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("error %v, want %q", err, c.says)
		}
	}
	if dry, err := set(ingest.OffsetsByHand{Offsets: at(0, 3), States: states, DryRun: true}); err != nil || len(dry.Moves) != 1 || dry.Moves[0].From != 2 || dry.Incomplete == "" || dry.Committed != -1 {
		t.Errorf("dry run %+v, %v", dry, err)
	}
	if same, err := set(ingest.OffsetsByHand{Offsets: at(0, 2), States: states}); err != nil || len(same.Moves) != 0 || same.Committed != -1 {
		t.Errorf("nothing to do: %+v, %v", same, err)
	}
	if s.snapshot().Version() != before {
		t.Error("something was committed")
	}

	// Back: everything comes again, and changes nothing.
	if done, err := set(ingest.OffsetsByHand{Offsets: at(0, 0), States: states}); err != nil || done.Committed != before+1 || done.Incomplete != "" {
		t.Fatalf("back: %+v, %v", done, err)
	}
	s.mustRun(src.upTo(2, 2), "17T08:30")
	if p := s.progress(); p.Totals.Missing() != 0 || p.Totals.Duplicates+p.Totals.Superseded != 2 || p.Incomplete != nil {
		t.Errorf("after going back: %+v, incomplete %+v", p.Totals, p.Incomplete)
	}
	// Forward: the insert of 4 is skipped.
	if done, err := set(ingest.OffsetsByHand{Offsets: at(0, 3), States: states}); err != nil || !strings.Contains(done.Incomplete, "offsets 2 to 2 of t/0 were skipped by hand") {
		t.Fatalf("forward: %+v, %v", done, err)
	}
	s.mustRun(src, "18T01:00")
	if got, want := s.asOf("2022-07-17"), "1=aa 2=bb"; got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
	ev := s.evidence("2022-07-17")
	if !slices.Contains(ev.Attributes, "incomplete") || !strings.Contains(ev.Reason, "skipped by hand") {
		t.Errorf("attributes %v, reason %q", ev.Attributes, ev.Reason)
	}
	p := s.progress()
	span := int64(0)
	for _, part := range p.State.Partitions {
		span += part.Next - part.Start
	}
	if p.Totals.Missing() != 0 || p.Totals.Taken+p.Totals.Holes != span+p.Totals.Rewound {
		t.Errorf("totals %+v for %d offsets", p.Totals, span)
	}
	s.consistent()
}
