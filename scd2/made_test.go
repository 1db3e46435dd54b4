package scd2_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/scd2"
	"github.com/gscd-io/gscd/snapshotter"
)

// made is a table with sealed labels that is written by hand: what no topic brings, such as
// renamed columns, and many rows at once.
type made struct {
	t     testing.TB
	store objstore.Store
	table *delta.Table
	cal   *snapshotter.Calendar
	first snapshotter.Label
	open  snapshotter.Label
}

func make1(t testing.TB, store objstore.Store, granularity, zone, first string, fields []schema.Field, rows write.Source) *made {
	t.Helper()
	cal, err := snapshotter.NewCalendar(granularity, zone, "00:00")
	if err != nil {
		t.Fatal(err)
	}
	m := &made{t: t, store: store, table: delta.New(store), cal: cal}
	if m.first, err = cal.Parse(first); err != nil {
		t.Fatal(err)
	}
	m.open = m.first
	properties := savepoint.Settings{Calendar: cal, Key: []string{"id"}}.Properties()
	properties[delta.PropertyDeletionVectors] = "true"
	if _, err := write.Create(ctx, m.table, write.Definition{Columns: fields, Properties: properties}, rows); err != nil {
		t.Fatal(err)
	}
	return m
}

// seal ends the open label.
func (m *made) seal() {
	m.t.Helper()
	s, err := m.table.Snapshot(ctx)
	if err != nil {
		m.t.Fatal(err)
	}
	name := m.cal.Name(m.open)
	p := &progress.Progress{Kind: progress.SealKind, Label: m.cal.Name(m.open + 1), LastSeal: s.Version() + 1, State: snapshotter.State{First: m.first, Open: m.open + 1}}
	p.Seals = []progress.Evidence{{Label: m.open, Name: name, SealedAt: "2022-07-01T00:00:00Z", Attributes: []string{}}}
	tx := delta.NewTransaction(m.table, s)
	tx.Implements(delta.FeatureColumnMapping, delta.FeatureTypeWidening)
	tx.SetTxn(savepoint.SealAppID(name), delta.OwnVersion)
	if _, conflict, err := savepoint.Commit(ctx, tx, p, "SEAL", nil); err != nil || conflict != nil {
		m.t.Fatal(conflict, err)
	}
	m.open++
}

func (m *made) source() *scd2.Source {
	m.t.Helper()
	s, err := m.table.Snapshot(ctx)
	if err != nil {
		m.t.Fatal(err)
	}
	labels, err := savepoint.Read(ctx, m.table, s)
	if err != nil {
		m.t.Fatal(err)
	}
	return &scd2.Source{Address: "made", Table: m.table, Snapshot: s, Labels: labels}
}

func (m *made) build(out objstore.Store, o scd2.Options) *scd2.Report {
	m.t.Helper()
	r, err := scd2.Build(ctx, m.source(), delta.New(out), o)
	if err != nil {
		m.t.Fatal(err)
	}
	return r
}

func (m *made) check(out objstore.Store) {
	m.t.Helper()
	r, err := scd2.Check(ctx, m.source(), delta.New(out), scd2.CheckOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
	if len(r.Faults) > 0 || r.Differing > 0 || len(r.Labels) != int(m.open-m.first) {
		m.t.Errorf("check of %v: %d labels differ: %+v", r.Labels, r.Differing, r.Faults)
	}
}

// do runs a change of the table.
func (m *made) do(_ write.Result, err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *made) merge(rows [][]any, columns ...string) {
	m.t.Helper()
	m.do(write.Merge(ctx, m.table, write.MergeInto{Key: columns[:1]}, write.Values(rows, columns...)))
}

func column(name string, p schema.Primitive) schema.Field { return write.Column(name, schema.Of(p)) }

// The history follows what becomes of the source's columns: one is added, renamed, widened,
// dropped, two change names about, one comes back with another type, and keys are renamed.
func TestColumns(t *testing.T) {
	m := make1(t, mem.New(), "day", "UTC", "2022-07-01",
		[]schema.Field{column("id", schema.Integer), column("a", schema.StringType), column("b", schema.StringType), column("n", schema.Integer)},
		write.Values([][]any{{1, "a1", "b1", 1}, {2, "a2", "b2", 2}, {3, "a3", "b3", 3}}))
	out := mem.New()
	o := scd2.Options{Columns: scd2.Columns{RowHash: "hash"}}
	step := func(what string, labels int, changed int64) {
		t.Helper()
		m.seal()
		r := m.build(out, o)
		if len(r.Steps) != labels || r.Steps[0].Changed != changed {
			t.Errorf("%s: %+v", what, r.Steps)
		}
		m.check(out)
	}
	m.seal()
	m.build(out, o)
	m.check(out)
	m.do(write.Alter(ctx, m.table, []write.Change{write.RenameColumn("a", "city"), write.AddColumn(column("extra", schema.DoubleType), write.After("id"))}))
	m.merge([][]any{{1, "a1x", 1.5}}, "id", "city", "extra")
	step("renamed and added", 1, 1)
	m.do(write.Alter(ctx, m.table, []write.Change{write.WidenColumn("n", schema.Of(schema.Long)), write.WidenColumn("id", schema.Of(schema.Long)), write.RenameColumn("id", "uid")}))
	m.merge([][]any{{2, int64(1) << 40}}, "uid", "n")
	step("widened, and the key renamed", 1, 1)
	m.do(write.Alter(ctx, m.table, []write.Change{write.RenameColumn("b", "x"), write.RenameColumn("city", "b"), write.RenameColumn("x", "city")}))
	m.merge([][]any{{3, "changed"}}, "uid", "city")
	step("names exchanged", 1, 1)
	m.do(write.Alter(ctx, m.table, []write.Change{write.DropColumn("n")}))
	m.merge([][]any{{1, "later"}}, "uid", "b")
	step("dropped", 1, 1)
	m.do(write.Alter(ctx, m.table, []write.Change{write.AddColumn(column("n", schema.StringType), write.Place{})}))
	m.merge([][]any{{2, "text"}}, "uid", "n")
	step("back with another type", 1, 1)
	s, err := delta.New(out).Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "columns", s.Schema().Names(), "uid", "extra", "b", "city", "n", "n_until_2022_07_06", "valid_from", "valid_to", "is_current", "hash")
	want(t, "key 2", linesOf(lines(t, out, "uid", "b", "city", "n", "n_until_2022_07_06", "valid_from", "valid_to"), "2 "),
		"2 a2 b2 - 1099511627776 2022-07-03 2022-07-06", "2 a2 b2 - 2 2022-07-01 2022-07-03", "2 a2 b2 text - 2022-07-06 5999-01-01")
	// All at once is the same.
	again := mem.New()
	m.build(again, o)
	m.check(again)
}

func linesOf(list []string, prefix string) (out []string) {
	for _, l := range list {
		if len(l) >= len(prefix) && l[:len(prefix)] == prefix {
			out = append(out, l)
		}
	}
	return out
}

// The ends of intervals are dates for days, weeks and months, and instants for hours.
func TestCalendars(t *testing.T) {
	for _, c := range []struct{ granularity, zone, first, from, to string }{
		{"week", "UTC", "2022-W28", "2022-07-11", "2022-07-18"},
		{"month", "Asia/Shanghai", "2022-07", "2022-07-01", "2022-08-01"},
		{"hour", "Asia/Shanghai", "2022-07-16T13", "2022-07-16T05:00:00.000000Z", "2022-07-16T06:00:00.000000Z"},
		{"15m", "UTC", "2022-07-16T13:45", "2022-07-16T13:45:00.000000Z", "2022-07-16T14:00:00.000000Z"},
	} {
		m := make1(t, mem.New(), c.granularity, c.zone, c.first, []schema.Field{column("id", schema.Integer), column("a", schema.StringType)}, write.Values([][]any{{1, "x"}, {2, "y"}}))
		m.seal()
		m.merge([][]any{{1, "z"}}, "id", "a")
		m.seal()
		m.seal()
		out := mem.New()
		if r := m.build(out, scd2.Options{}); len(r.Steps) != 3 {
			t.Errorf("%s: %+v", c.granularity, r)
		}
		m.check(out)
		want(t, c.granularity, linesOf(lines(t, out, "id", "a", "valid_from", "valid_to"), "1 x"), fmt.Sprintf("1 x %s %s", c.from, c.to))
	}
}

// Other engines compact the history between runs; a savepoint is deleted before it is taken.
func TestBetweenRuns(t *testing.T) {
	m := make1(t, mem.New(), "day", "UTC", "2022-07-01", []schema.Field{column("id", schema.Integer), column("a", schema.StringType)}, write.Values([][]any{{1, "x"}, {2, "y"}}))
	out := mem.New()
	for day := range 5 {
		m.seal()
		m.build(out, scd2.Options{})
		m.check(out)
		m.merge([][]any{{1, fmt.Sprint(day)}, {10 + day, "n"}}, "id", "a")
		if _, err := write.Append(ctx, delta.New(out), write.Values([][]any{{100 + day, "not of the source", "2022-07-01", "2022-07-01", false}})); err != nil {
			t.Fatal(err)
		}
		r, err := scd2.Check(ctx, m.source(), delta.New(out), scd2.CheckOptions{})
		if err != nil || len(r.Faults) != 1 || r.Faults[0].Problem != scd2.Interval || r.Faults[0].Key != fmt.Sprintf("id=%d", 100+day) {
			t.Errorf("a row with an empty interval: %+v, %v", r, err)
		}
		if _, err := write.Delete(ctx, delta.New(out), "id >= 100"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := write.Update(ctx, delta.New(out), "id = 2", write.Set{"a": "wrong"}); err != nil {
		t.Fatal(err)
	}
	r, err := scd2.Check(ctx, m.source(), delta.New(out), scd2.CheckOptions{From: "2022-07-03"})
	if err != nil || len(r.Labels) != 3 || len(r.Faults) != 3 || r.Faults[0].Problem != scd2.Different || r.Faults[0].Key != "id=2" || r.Faults[0].Columns[0] != "a" {
		t.Errorf("a row that was changed: %+v, %v", r, err)
	}
}

// An increment costs what has changed: 1 % of the rows beside a build from nothing.
func BenchmarkRuns(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000, 10_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			if testing.Short() && n > 100_000 {
				b.Skip("large")
			}
			open := func() objstore.Store {
				s, err := local.New(b.TempDir(), local.Options{})
				if err != nil {
					b.Fatal(err)
				}
				return s
			}
			row := make([]schema.Value, 4)
			rows := func(count int, id func(int) int64, text string) write.Source {
				return write.Rows(func(yield func([]schema.Value, error) bool) {
					for i := range count {
						k := id(i)
						row[0], row[1] = schema.IntValue(k), schema.StringValue(fmt.Sprintf("name %d", k%5000))
						row[2], row[3] = schema.StringValue(text), schema.IntValue(k*7)
						if !yield(row, nil) {
							return
						}
					}
				})
			}
			m := make1(b, open(), "day", "UTC", "2022-07-01",
				[]schema.Field{column("id", schema.Long), column("name", schema.StringType), column("city", schema.StringType), column("n", schema.Long)},
				rows(n, func(i int) int64 { return int64(i) }, "Hangzhou"))
			m.seal()
			out := open()
			began := time.Now()
			m.build(out, scd2.Options{})
			full := time.Since(began)
			spread, near := time.Duration(0), time.Duration(0)
			for i := range b.N {
				for _, c := range []struct {
					id   func(int) int64
					took *time.Duration
				}{{func(j int) int64 { return int64(j*100 + i%100) }, &spread}, {func(j int) int64 { return int64(j + i*n/200) }, &near}} {
					m.do(write.Merge(ctx, m.table, write.MergeInto{Key: []string{"id"}}, rows(n/100, c.id, fmt.Sprint("city ", i))))
					m.seal()
					began = time.Now()
					m.build(out, scd2.Options{})
					*c.took += time.Since(began)
				}
			}
			b.ReportMetric(full.Seconds(), "s/full-build")
			b.ReportMetric(spread.Seconds()/float64(b.N), "s/1%-everywhere")
			b.ReportMetric(near.Seconds()/float64(b.N), "s/1%-together")
			b.ReportMetric(0, "ns/op")
		})
	}
}
