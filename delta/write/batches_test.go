package write_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

// batchesOf cuts rows into batches of columns of some sizes, one of them empty.
func batchesOf(rows [][]schema.Value, width int, sizes ...int) iter.Seq2[*scan.Batch, error] {
	return func(yield func(*scan.Batch, error) bool) {
		for i, at := 0, 0; at < len(rows) || i == 1; i++ {
			n := min(sizes[i%len(sizes)], len(rows)-at)
			if i == 1 {
				n = 0
			}
			b := &scan.Batch{Rows: n, Columns: make([][]schema.Value, width)}
			for _, row := range rows[at : at+n] {
				for c, v := range row {
					b.Columns[c] = append(b.Columns[c], v)
				}
			}
			if at += n; !yield(b, nil) {
				return
			}
		}
	}
}

func inTurn(rows [][]schema.Value) iter.Seq2[[]schema.Value, error] {
	return func(yield func([]schema.Value, error) bool) {
		for _, row := range rows {
			if !yield(slices.Clone(row), nil) {
				return
			}
		}
	}
}

// Batches of columns, which go into files as they are or row by row, give the files that
// their rows give: the same rows and statistics, however they are cut.
func TestBatchesAreTheirRows(t *testing.T) {
	box := schema.Type{Primitive: schema.Struct, Nested: &schema.Nested{Fields: []schema.Field{write.Column("n", schema.Of(schema.Long)), write.Column("s", schema.Of(schema.StringType))}}}
	plain := []schema.Field{write.Column("id", schema.Of(schema.Long)), write.Column("name", schema.Of(schema.StringType)), write.Column("x", schema.Of(schema.DoubleType)), write.Column("wide", schema.Decimal(30, 2))}
	rapid.Check(t, func(t *rapid.T) {
		columns := slices.Clone(plain)
		if rapid.Bool().Draw(t, "nested") {
			columns = append(columns, write.Column("box", box), write.Column("list", schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: schema.Of(schema.Long), ContainsNull: true}}))
		}
		d := write.Definition{Columns: columns}
		if rapid.IntRange(0, 3).Draw(t, "partitioned") == 0 {
			d.PartitionBy = []string{"name"}
		}
		n := rapid.SampledFrom([]int{0, 1, 40, 3000}).Draw(t, "rows")
		var rows [][]schema.Value
		for i := range int64(n) {
			row := []schema.Value{schema.IntValue(i), schema.StringValue(fmt.Sprint("n", i%3)), schema.DoubleValue(float64(i) / 4), {Kind: schema.Dec, I: i * 7}}
			if len(columns) > 4 {
				row = append(row, schema.CompoundValue(schema.IntValue(-i), schema.StringValue(strings.Repeat("s", int(i%5)))), schema.CompoundValue(schema.IntValue(i), schema.Value{}))
			}
			if i%4 == 1 {
				row[int(i)%len(row)] = schema.Value{}
			}
			rows = append(rows, row)
		}
		options := []write.Option{write.WithMemory(rapid.SampledFrom([]int64{100, 100_000, 1 << 28}).Draw(t, "memory")), write.WithTargetFileSize(rapid.SampledFrom([]int64{1000, 1 << 27}).Draw(t, "target"))}
		read := func(s write.Source) ([][]schema.Value, []string) {
			store := mem.New()
			table := delta.New(store)
			if _, err := write.Create(t.Context(), table, d, write.Source{}); err != nil {
				t.Fatal(err)
			}
			r, err := write.Append(t.Context(), table, s, options...)
			if err != nil || r.Inserted != int64(n) {
				t.Fatalf("%d inserted, %v", r.Inserted, err)
			}
			got, err := scan.New(store, r.Snapshot, scan.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var rows [][]schema.Value
			for row, err := range got.Rows(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				rows = append(rows, slices.Clone(row))
			}
			slices.SortFunc(rows, func(a, b []schema.Value) int {
				return strings.Compare(string(encodedRow(a)), string(encodedRow(b)))
			})
			var stats []string
			for _, add := range r.Snapshot.Files() {
				stats = append(stats, add.Stats)
			}
			return rows, stats
		}
		want, wantStats := read(write.Rows(inTurn(rows)))
		got, stats := read(write.Batches(batchesOf(rows, len(columns), 7, 1, 900)))
		if !slices.EqualFunc(got, want, slices.Equal) || len(got) != n {
			t.Fatalf("%d rows, want %d", len(got), len(want))
		}
		if len(stats) == 1 && len(wantStats) == 1 && stats[0] != wantStats[0] {
			t.Fatalf("statistics %s, want %s", stats[0], wantStats[0])
		}
	})
}

func encodedRow(row []schema.Value) (b []byte) {
	for _, v := range row {
		b = v.AppendEncoded(b)
	}
	return b
}

// What a row of a batch breaks is told as that of a row, and nothing is written.
func TestBatchesAreChecked(t *testing.T) {
	id := write.Column("id", schema.Of(schema.Long))
	id.Nullable = false
	store := mem.New()
	table := delta.New(store)
	if _, err := write.Create(t.Context(), table, write.Definition{Columns: []schema.Field{id, write.Column("n", schema.Of(schema.Integer))}}, write.Source{}); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		bad  []schema.Value
		want string
	}{
		"NULL":       {[]schema.Value{{}, schema.IntValue(1)}, "row 12: "},
		"a text":     {[]schema.Value{schema.StringValue("x"), {}}, "row 12: "},
		"a double":   {[]schema.Value{schema.IntValue(1), schema.DoubleValue(1)}, "row 12: "},
		"out of int": {[]schema.Value{schema.IntValue(1), schema.IntValue(1 << 40)}, "row 12: "},
	} {
		rows := [][]schema.Value{}
		for i := range int64(30) {
			rows = append(rows, []schema.Value{schema.IntValue(i), schema.IntValue(i)})
		}
		rows[12] = tc.bad
		_, err := write.Append(t.Context(), table, write.Batches(batchesOf(rows, 2, 5)))
		if !errors.Is(err, write.ErrRow) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ragged := func(yield func(*scan.Batch, error) bool) {
		yield(&scan.Batch{Rows: 2, Columns: [][]schema.Value{{schema.IntValue(1), schema.IntValue(2)}, {schema.IntValue(1)}}}, nil)
	}
	if _, err := write.Append(t.Context(), table, write.Batches(ragged)); !errors.Is(err, write.ErrRow) {
		t.Errorf("ragged: %v", err)
	}
	narrow := func(yield func(*scan.Batch, error) bool) {
		yield(&scan.Batch{Rows: 1, Columns: [][]schema.Value{{schema.IntValue(1)}}}, nil)
	}
	if _, err := write.Append(t.Context(), table, write.Batches(narrow)); !errors.Is(err, write.ErrRow) {
		t.Errorf("narrow: %v", err)
	}
	s, err := table.Snapshot(t.Context())
	if err != nil || s.Version() != 0 || s.NumFiles() != 0 {
		t.Errorf("version %d, %v", s.Version(), err)
	}
}
