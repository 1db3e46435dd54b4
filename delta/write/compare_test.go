package write_test

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

// comparedRow is a row of the model: a key of two columns, of which both may be NULL.
type comparedRow struct {
	a schema.Value
	b schema.Value
	v schema.Value
}

func (r comparedRow) key() [2]schema.Value { return [2]schema.Value{r.a, r.b} }

func comparedSource(rows []comparedRow) write.Source {
	return write.Rows(func(yield func([]schema.Value, error) bool) {
		for _, r := range rows {
			if !yield([]schema.Value{r.v, r.a, r.b}, nil) {
				return
			}
		}
	}, "v", "a", "b")
}

func comparedTable(t *testing.T, properties map[string]string, partitionBy []string) *delta.Table {
	t.Helper()
	table := delta.New(mem.New())
	_, err := write.Create(ctx, table, write.Definition{
		Columns:     []schema.Field{write.Column("a", schema.Of(schema.StringType)), write.Column("b", schema.Of(schema.Long)), write.Column("v", schema.Of(schema.Long))},
		PartitionBy: partitionBy, Properties: properties,
	}, write.Source{})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func rowsOfTable(t *testing.T, table *delta.Table, s *delta.Snapshot) map[[2]schema.Value]schema.Value {
	t.Helper()
	rows, err := scan.New(table.Store(), s, scan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[[2]schema.Value]schema.Value{}
	for row, err := range rows.Rows(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		r := comparedRow{row[0], row[1], row[2]}
		r.a.S = strings.Clone(r.a.S)
		if _, twice := out[r.key()]; twice {
			t.Fatalf("the table has the key %v twice", r.key())
		}
		out[r.key()] = r.v
	}
	return out
}

// Random slices, full and of changes, on tables of all kinds: the rows, the counts and the
// change data are those of a map.
func TestCompareModel(t *testing.T) {
	vectors := map[string]string{delta.PropertyDeletionVectors: "true"}
	feed := map[string]string{delta.PropertyDeletionVectors: "true", delta.PropertyChangeDataFeed: "true"}
	for name, tt := range map[string]struct {
		properties  map[string]string
		partitionBy []string
		memory      int64 // of which 1000 rows fit at least
		rows        int
	}{
		"deletion vectors":         {properties: vectors, rows: 40},
		"copy on write":            {rows: 40},
		"partitioned, change data": {properties: feed, partitionBy: []string{"a"}, rows: 40},
		"copy on write, changes":   {properties: map[string]string{delta.PropertyChangeDataFeed: "true"}, rows: 40},
		"spilled":                  {properties: feed, memory: 256 << 10, rows: 4000},
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(9, 30))
			table := comparedTable(t, tt.properties, tt.partitionBy)
			model := map[[2]schema.Value]schema.Value{}
			steps := 25
			if tt.rows > 1000 {
				steps = 4
			}
			for step := range steps {
				rows := randomSlice(random, tt.rows)
				mode := write.Mode(random.IntN(3))
				snapshot, err := table.Snapshot(ctx)
				if err != nil {
					t.Fatal(err)
				}
				g, err := write.Gather(ctx, table, snapshot.Metadata(), []string{"a", "b"}, comparedSource(rows), write.WithMemory(cmp.Or(tt.memory, 64<<20)), write.WithTempDir(t.TempDir()))
				if err != nil {
					t.Fatal(err)
				}
				c, err := g.Compare(ctx, snapshot, mode)
				if err != nil {
					t.Fatal(err)
				}
				want := map[[2]schema.Value]schema.Value{}
				for k, v := range model {
					want[k] = v
				}
				added, changed, deleted, unchanged := int64(0), int64(0), int64(0), int64(0)
				for _, r := range rows {
					old, there := model[r.key()]
					switch {
					case !there:
						added++
					case old == r.v || mode == write.Fill:
						unchanged++
						continue
					default:
						changed++
					}
					want[r.key()] = r.v
				}
				named := map[[2]schema.Value]bool{}
				for _, r := range rows {
					named[r.key()] = true
				}
				for k := range model {
					if mode == write.Full && !named[k] {
						delete(want, k)
						deleted++
					}
				}
				got := fmt.Sprint(c.Table, c.New, c.Changed, c.Deleted, c.Unchanged)
				if counts := fmt.Sprint(len(model), added, changed, deleted, unchanged); got != counts {
					t.Fatalf("step %d: table, new, changed, deleted, unchanged: %s; want %s", step, got, counts)
				}
				if c.Differs() {
					tx := delta.NewTransaction(table, snapshot)
					if _, err := c.Write(ctx, tx); err != nil {
						t.Fatal(err)
					}
					tx.SetCommitInfo("TEST", nil, nil, nil)
					outcome, err := tx.Commit(ctx)
					if err != nil || !outcome.Committed {
						t.Fatal(outcome, err)
					}
					snapshot = outcome.Snapshot
					if tt.properties[delta.PropertyChangeDataFeed] != "" {
						checkChanges(t, table, snapshot, model, want, added, changed, deleted)
					}
				}
				g.Close()
				if rows := rowsOfTable(t, table, snapshot); !equalRows(rows, want) {
					t.Fatalf("step %d, mode %d: the table has %d rows, want %d, or other values", step, mode, len(rows), len(want))
				}
				model = want
			}
		})
	}
}

func equalRows(a, b map[[2]schema.Value]schema.Value) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

func randomSlice(random *rand.Rand, n int) (rows []comparedRow) {
	seen := map[[2]schema.Value]bool{}
	for range n {
		r := comparedRow{v: schema.IntValue(random.Int64N(3)), b: schema.IntValue(random.Int64N(int64(n)))}
		if random.IntN(4) > 0 {
			r.a = schema.StringValue(string("xyz"[random.IntN(3)]))
		}
		if random.IntN(6) == 0 {
			r.b = schema.Value{}
		}
		if random.IntN(6) == 0 {
			r.v = schema.Value{}
		}
		if !seen[r.key()] {
			seen[r.key()] = true
			rows = append(rows, r)
		}
	}
	return rows
}

// checkChanges reads the change data of a version: applied to the rows before they give
// those behind it.
func checkChanges(t *testing.T, table *delta.Table, s *delta.Snapshot, before, after map[[2]schema.Value]schema.Value, added, changed, deleted int64) {
	t.Helper()
	counts := map[string]int64{}
	rows := map[[2]schema.Value]schema.Value{}
	for k, v := range before {
		rows[k] = v
	}
	var puts []comparedRow
	for c, err := range changesOf(t, table, s.Version()) {
		if err != nil {
			t.Fatal(err)
		}
		counts[c.kind]++
		switch c.kind {
		case "delete", "update_preimage":
			if rows[c.row.key()] != c.row.v {
				t.Errorf("version %d: %s of %v, which was %v", s.Version(), c.kind, c.row, rows[c.row.key()])
			}
			delete(rows, c.row.key())
		default:
			puts = append(puts, c.row)
		}
	}
	for _, r := range puts {
		rows[r.key()] = r.v
	}
	want := map[string]int64{"insert": added, "delete": deleted, "update_preimage": changed, "update_postimage": changed}
	for kind, n := range want {
		if counts[kind] != n {
			t.Errorf("version %d: %d changes are %s, want %d", s.Version(), counts[kind], kind, n)
		}
	}
	if !equalRows(rows, after) {
		t.Errorf("version %d: the changes lead to other rows", s.Version())
	}
}

type readChange struct {
	kind string
	row  comparedRow
}

// A key that is there twice is refused, with the numbers of its rows, also where the two
// lie far apart and the rows do not fit into memory.
func TestCompareDuplicates(t *testing.T) {
	table := comparedTable(t, nil, nil)
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{3, 5000} {
		var rows []comparedRow
		for i := range n {
			rows = append(rows, comparedRow{schema.StringValue("k,1"), schema.IntValue(int64(i)), schema.IntValue(0)})
		}
		rows = append(rows, comparedRow{schema.StringValue("k,1"), schema.IntValue(1), schema.IntValue(9)}, comparedRow{v: schema.IntValue(1)}, comparedRow{v: schema.IntValue(2)})
		_, err := write.Gather(ctx, table, s.Metadata(), []string{"a", "b"}, comparedSource(rows), write.WithMemory(1<<10), write.WithTempDir(t.TempDir()))
		var twice *write.DuplicateKeysError
		if !errors.As(err, &twice) || !errors.Is(err, write.ErrDuplicateKey) || twice.Count != 2 {
			t.Fatalf("%d rows: %v", n, err)
		}
		want := fmt.Sprintf(`2 keys occur more than once: ("k,1",1) in rows 2 and %d; (NULL,NULL) in rows %d and %d`, n+1, n+2, n+3)
		if err.Error() != want {
			t.Errorf("%s\nwant %s", err, want)
		}
	}
}

// The digest does not depend on the order of rows, nor on memory, and is another one for
// other values.
func TestGatheredDigest(t *testing.T) {
	table := comparedTable(t, nil, nil)
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	rows := randomSlice(rand.New(rand.NewPCG(1, 2)), 3000)
	digest := func(rows []comparedRow, memory int64) string {
		g, err := write.Gather(ctx, table, s.Metadata(), []string{"a", "b"}, comparedSource(rows), write.WithMemory(memory), write.WithTempDir(t.TempDir()))
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		return g.Digest
	}
	first := digest(rows, 1<<30)
	if spilled := digest(rows, 1<<10); spilled != first {
		t.Error("spilled rows have another digest")
	}
	slices.Reverse(rows)
	if digest(rows, 1<<30) != first {
		t.Error("rows in another order have another digest")
	}
	rows[7].v = schema.IntValue(77)
	if digest(rows, 1<<30) == first {
		t.Error("other values have the same digest")
	}
}

func changesOf(t *testing.T, table *delta.Table, version int64) iter.Seq2[readChange, error] {
	t.Helper()
	return func(yield func(readChange, error) bool) {
		for b, err := range scan.Changes(ctx, table, version, version, nil) {
			if err != nil {
				yield(readChange{}, err)
				return
			}
			for i := range b.Rows {
				r := readChange{b.Kinds[i], comparedRow{b.Columns[0][i], b.Columns[1][i], b.Columns[2][i]}}
				r.row.a.S = strings.Clone(r.row.a.S)
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}
