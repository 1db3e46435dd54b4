package scan_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
)

// weighing counts the bytes that are read by ranges.
type weighing struct {
	objstore.Store
	bytes atomic.Int64
}

func (w *weighing) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	w.bytes.Add(length)
	return w.Store.GetRange(ctx, key, offset, length)
}

// sorted is a table of one file of one row group above 1 MiB, by id, in pages of 1000 rows.
func sorted(t *testing.T) (*weighing, *delta.Snapshot, shopFile) {
	t.Helper()
	return weighed(t, func(i int) int64 { return int64(i) })
}

// weighed is such a table whose rows have these ids.
func weighed(t *testing.T, id func(i int) int64) (*weighing, *delta.Snapshot, shopFile) {
	t.Helper()
	f := shopFile{city: schema.StringValue("Berlin"), pageRows: 1000}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 40_000 {
		text := make([]byte, 60)
		for j := range text {
			text[j] = byte(' ' + random.IntN(90))
		}
		row := make([]schema.Value, len(shop.Fields))
		row[0], row[2] = schema.IntValue(id(i)), schema.StringValue(string(text))
		f.rows = append(f.rows, row)
		if i%3 == 0 {
			f.dead = append(f.dead, uint32(i))
		}
	}
	store := &weighing{Store: mem.New()}
	groupRows = 1 << 20
	defer func() { groupRows = 7 }()
	return store, writeShop(t, store, []shopFile{f}, nil), f
}

// Of a row group only the pages are read and decompressed that the page index leaves
// over; the rows, and the deletion vector by their places, stay right.
func TestPagesAreSkipped(t *testing.T) {
	store, snapshot, f := sorted(t)
	read := func(o scan.Options) ([][]schema.Value, int64, scan.Reading) {
		s, err := scan.New(store, snapshot, o)
		if err != nil {
			t.Fatal(err)
		}
		store.bytes.Store(0)
		rows := collect(t, s)
		bytes := store.bytes.Load()
		much, err := s.Reading(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return rows, bytes, much
	}
	_, whole, much := read(scan.Options{})
	if much.Pages != much.PagesRead || much.RowGroups != 1 || much.Pages < 200 {
		t.Errorf("all rows: %+v", much)
	}
	o := scan.Options{Where: where(t, `id BETWEEN 20100 AND 20200 OR id = 7`)}
	rows, part, much := read(o)
	if want := naive([]shopFile{f}, o); len(rows) == 0 || !slices.EqualFunc(rows, want, slices.Equal) {
		t.Errorf("%d rows, want %d", len(rows), len(want))
	}
	if part >= whole/4 {
		t.Errorf("%d bytes of %d are read", part, whole)
	}
	if much.PagesRead*10 != much.Pages/2 { // 2 pages of 40 of each column
		t.Errorf("a part: %+v", much)
	}
	if rows, part, much = read(scan.Options{Where: where(t, `id > 20500 AND id < 100`)}); len(rows) != 0 || much.PagesRead != 0 || part >= whole/4 {
		t.Errorf("nothing: %d rows, %d bytes, %+v", len(rows), part, much)
	}
}

// A filter on a column that says nothing of its pages is read ahead of the other columns:
// of them only the pages with a row that it takes are read, unless it takes many.
func TestTheFilterIsReadFirst(t *testing.T) {
	store, snapshot, f := weighed(t, func(i int) int64 { return int64(i) * 7919 % 40_000 })
	read := func(filter string) int64 {
		o := scan.Options{}
		if filter != "" {
			o.Where = where(t, filter)
		}
		s, err := scan.New(store, snapshot, o)
		if err != nil {
			t.Fatal(err)
		}
		store.bytes.Store(0)
		rows := collect(t, s)
		if want := naive([]shopFile{f}, o); len(rows) == 0 || !slices.EqualFunc(rows, want, slices.Equal) {
			t.Errorf("%q: %d rows, want %d", filter, len(rows), len(want))
		}
		return store.bytes.Load()
	}
	whole := read("")
	for filter, most := range map[string]int64{`id = 7919`: whole / 8, `id IN (15838, 7919, 31676, 39999)`: whole / 4, `id < 20000`: whole * 5 / 4, `id < 400`: whole * 5 / 4} {
		if bytes := read(filter); bytes > most {
			t.Errorf("%q: %d bytes are read, of %d", filter, bytes, whole)
		}
	}
}

// Random tables whose columns have pages that end at different rows, with structs and
// arrays beside: a filter gives the rows that it takes of all.
func TestPageSkippingIsTheNaiveRead(t *testing.T) {
	inner, err := schema.New(schema.Field{Name: "n", Type: schema.Of(schema.Long), Nullable: true}, schema.Field{Name: "s", Type: schema.Of(schema.StringType), Nullable: true})
	if err != nil {
		t.Fatal(err)
	}
	nested, err := schema.New(
		schema.Field{Name: "id", Type: schema.Of(schema.Long), Nullable: true},
		schema.Field{Name: "text", Type: schema.Of(schema.StringType), Nullable: true},
		schema.Field{Name: "box", Type: schema.Type{Primitive: schema.Struct, Nested: &schema.Nested{Fields: inner.Fields}}, Nullable: true},
		schema.Field{Name: "list", Type: schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: schema.Of(schema.Long), ContainsNull: true}}, Nullable: true},
		schema.Field{Name: "d", Type: schema.Of(schema.DoubleType), Nullable: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	filters := []string{`id = 50`, `id BETWEEN 30 AND 45`, `box.n > 60`, `box.n < 20 AND text IS NULL`, `box.s = 's5' OR id = 10`, `box IS NULL`, `d > 80`, `d = 3 OR box.n IS NULL`, `text LIKE 't4%'`, `NOT id > 10`}
	columns := make([]parquet.Column, len(nested.Fields))
	for i := range columns {
		columns[i] = parquet.ColumnOf(&nested.Fields[i])
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 120).Draw(t, "rows")
		random := rand.New(rand.NewPCG(uint64(n), rapid.Uint64().Draw(t, "seed")))
		maybe := func(v schema.Value) schema.Value {
			if random.IntN(6) == 0 {
				return schema.Value{}
			}
			return v
		}
		var rows [][]schema.Value
		for i := range int64(n) {
			list := make([]schema.Value, random.IntN(4))
			for e := range list {
				list[e] = maybe(schema.IntValue(random.Int64N(9)))
			}
			rows = append(rows, []schema.Value{
				maybe(schema.IntValue(i)), maybe(schema.StringValue(fmt.Sprintf("t%d", i))),
				maybe(schema.CompoundValue(maybe(schema.IntValue(i)), maybe(schema.StringValue(fmt.Sprintf("s%d", i/10))))),
				maybe(schema.CompoundValue(list...)), maybe(schema.DoubleValue(float64(i))),
			})
		}
		encoder, err := parquet.NewEncoder(columns, parquet.EncoderOptions{PageRows: rapid.IntRange(1, 9).Draw(t, "page"), RowGroupRows: rapid.SampledFrom([]int{33, 1000}).Draw(t, "group")})
		if err != nil {
			t.Fatal(err)
		}
		data, _, err := encoder.Encode(rows)
		if err != nil {
			t.Fatal(err)
		}
		store := mem.New()
		if err := store.Put(ctx, "a.parquet", data); err != nil {
			t.Fatal(err)
		}
		x := delta.NewTransaction(delta.New(store), nil)
		x.SetMetadata(action.Metadata{ID: "n", Format: action.Format{Provider: "parquet"}, SchemaString: nested.String()})
		x.SetProtocol(delta.ProtocolFor())
		x.Add(&action.Add{Path: "a.parquet", Size: int64(len(data)), PartitionValues: map[string]*string{}, DataChange: true})
		outcome, err := x.Commit(ctx)
		if err != nil {
			t.Fatal(err)
		}
		text := rapid.SampledFrom(filters).Draw(t, "where")
		filter, err := expr.Parse(text, nested)
		if err != nil {
			t.Fatal(err)
		}
		s, err := scan.New(store, outcome.Snapshot, scan.Options{Where: filter})
		if err != nil {
			t.Fatal(err)
		}
		var want [][]schema.Value
		for _, row := range rows {
			if passes(filter, row) {
				want = append(want, row)
			}
		}
		if got := collect(t, s); !slices.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("%s\ngot  %v\nwant %v", text, got, want)
		}
	})
}

// passes tells of one row whether a filter takes it.
func passes(filter *expr.Predicate, row []schema.Value) bool {
	columns := make([][]schema.Value, len(row))
	for c := range row {
		columns[c] = row[c : c+1]
	}
	return len(filter.NewEvaluator().Select(columns, []int32{0})) > 0
}

// lying are filters whose rows the statistics in the log deny, as their writer made them.
var lying = map[string]bool{
	`delta-rs/issue_1374: "timestamp" = '2023-05-24T00:01:25.010301Z'`: true, // min is above it in one file, the other's is null
	`kernel-rs/parsed-stats: "ts_col" IS NULL`:                         true, // nullCount is 0
}

// Of the tables of other engines each filter on one of their values gives the rows that
// it takes of all.
func TestGoldenTablesByFilter(t *testing.T) {
	dir, tables := goldenTables(t)
	skipped, asked := int64(0), 0
	for _, g := range tables {
		if *g.Rows > 200_000 || g.Template {
			continue
		}
		store, err := local.New(filepath.Join(dir, g.Table), local.Options{})
		if err != nil {
			t.Fatal(err)
		}
		table, err := delta.Open(ctx, store)
		if err != nil {
			t.Fatalf("%s: %v", g.Table, err)
		}
		snapshot, err := table.SnapshotAt(ctx, g.Version)
		if err != nil {
			t.Fatalf("%s: %v", g.Table, err)
		}
		_, rows := readAll(t, store, snapshot, scan.Options{})
		if len(rows) == 0 {
			continue
		}
		for c, f := range snapshot.Schema().Fields {
			middle := rows[len(rows)/2][c]
			name := `"` + strings.ReplaceAll(f.Name, `"`, `""`) + `"`
			texts := []string{name + " IS NULL"}
			if text := action.FormatPartitionValue(middle, f.Type); f.Type.IsLeaf() && f.Type.Primitive != schema.Variant && text != nil {
				value := "'" + strings.ReplaceAll(*text, "'", "''") + "'"
				texts = append(texts, name+" = "+value, name+" < "+value, name+" >= "+value)
			}
			for _, text := range texts {
				filter, err := expr.Parse(text, snapshot.Schema())
				if err != nil {
					continue // a type that filters don't compare
				}
				s, got := readAll(t, store, snapshot, scan.Options{Where: filter})
				want := [][]schema.Value{}
				for _, row := range rows {
					if passes(filter, row) {
						want = append(want, row)
					}
				}
				if !lying[g.Table+": "+text] && !slices.EqualFunc(got, want, slices.Equal) {
					t.Errorf("%s: %s gives %d rows, want %d", g.Table, text, len(got), len(want))
				}
				asked++
				much, err := s.Reading(ctx)
				if err != nil {
					t.Errorf("%s: %s: %v", g.Table, text, err)
				}
				skipped += much.Pages - much.PagesRead
			}
		}
	}
	t.Logf("%d filters, %d pages skipped", asked, skipped)
	if asked == 0 {
		t.Error("no filter was asked")
	}
}
