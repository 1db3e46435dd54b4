package diff_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
	"github.com/gscd-io/gscd/query/diff"
	"github.com/gscd-io/gscd/query/rowkey"
)

func column(name string, t schema.Type) schema.Field { return write.Column(name, t) }

// create makes a table with deletion vectors and column mapping.
func create(t *testing.T, rows [][]any, columns ...schema.Field) *delta.Table {
	t.Helper()
	table := delta.New(mem.New())
	_, err := write.Create(ctx, table, write.Definition{Columns: columns, Properties: map[string]string{
		delta.PropertyDeletionVectors: "true", "delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}}, write.Values(rows))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func at(t *testing.T, table *delta.Table, version int64) *delta.Snapshot {
	t.Helper()
	s, err := table.Snapshot(ctx)
	if version >= 0 {
		s, err = table.SnapshotAt(ctx, version)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// text gives the changes as lines: kind, rows, changed columns.
func text(d *diff.Diff) (string, error) {
	var out strings.Builder
	row := func(cells []schema.Value) string {
		if cells == nil {
			return "-"
		}
		var parts []string
		for i, c := range d.Columns() {
			cell := "NULL"
			if !cells[i].IsNull() {
				cell = string(schema.AppendText(nil, c.Type, cells[i]))
			}
			parts = append(parts, cell)
		}
		return strings.Join(parts, "|")
	}
	for c, err := range d.Changes(ctx) {
		if err != nil {
			return out.String(), err
		}
		fmt.Fprintf(&out, "%s %s %s", c.Kind, row(c.Old), row(c.New))
		for _, i := range c.Changed {
			fmt.Fprintf(&out, " %s", d.Columns()[i].Name)
		}
		out.WriteByte('\n')
	}
	return out.String(), nil
}

// wants compares what two versions say.
func wants(t *testing.T, table *delta.Table, from, to int64, o diff.Options, want string) {
	t.Helper()
	d, err := diff.New(table.Store(), at(t, table, from), at(t, table, to), o)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := text(d); err != nil || got != want {
		t.Errorf("from %d to %d: %v\n%swant\n%s", from, to, err, got, want)
	}
}

// overwrite writes the rows of a table anew, so that no file is shared.
func overwrite(t *testing.T, table *delta.Table, rows [][]any) {
	t.Helper()
	if _, err := write.Overwrite(ctx, table, write.Values(rows)); err != nil {
		t.Fatal(err)
	}
}

// Values are equal as values, not as bytes or texts.
func TestValues(t *testing.T) {
	nan := math.Float64frombits(math.Float64bits(math.NaN()) ^ 1)
	columns := []schema.Field{column("k", schema.Of(schema.StringType)), column("d", schema.Of(schema.DoubleType)), column("n", schema.Decimal(30, 2)), column("s", schema.Of(schema.StringType))}
	table := create(t, [][]any{
		{"dec", 1.0, "12345678901234567890.10", "x"}, {"nan", math.NaN(), nil, "x"}, {"null", nil, nil, nil}, {"zero", 0.0, "0", ""}, {nil, 1.0, "1", "x"},
	}, columns...)
	overwrite(t, table, [][]any{
		{"dec", 1.0, "12345678901234567890.1", "x"}, {"nan", nan, nil, "x"}, {"null", nil, nil, ""}, {"zero", math.Copysign(0, -1), "0.00", ""}, {nil, 2.0, "1", "x"},
	})
	wants(t, table, 0, 1, diff.Options{Key: []string{"K"}}, "updated NULL|1|1.00|x NULL|2|1.00|x d\n"+
		"updated null|NULL|NULL|NULL null|NULL|NULL| s\nupdated zero|0|0.00| zero|-0|0.00| d\n")
	wants(t, table, 0, 1, diff.Options{Key: []string{"k"}, Columns: []string{"n"}}, "")
	null := rowkey.Cell{Column: "k"}
	wants(t, table, 1, 0, diff.Options{Key: []string{"k"}, Only: []rowkey.Cell{null}}, "updated NULL|2|1.00|x NULL|1|1.00|x d\n")
	wants(t, table, 0, 1, diff.Options{Key: []string{"k"}, Where: "d = 2 OR s = ''", Columns: []string{"s"}}, "updated null|NULL null| s\n")
}

// Nested values too, and maps whatever the order of their entries.
func TestNested(t *testing.T) {
	one := func(k string, v any) schema.Value {
		cell := schema.Value{}
		if v != nil {
			cell = schema.DoubleValue(v.(float64))
		}
		return schema.CompoundValue(schema.StringValue(k), cell)
	}
	double := schema.Of(schema.DoubleType)
	asMap := schema.Type{Primitive: schema.Map, Nested: &schema.Nested{Key: schema.Of(schema.StringType), Element: double, ContainsNull: true}}
	asStruct := schema.Type{Primitive: schema.Struct, Nested: &schema.Nested{Fields: []schema.Field{column("a", double), column("m", asMap)}}}
	two := func(a, b schema.Value) schema.Value {
		return schema.Value{Kind: schema.Compound, S: a.S + b.S}
	}
	nan := schema.DoubleValue(math.Float64frombits(math.Float64bits(math.NaN()) ^ 1))
	x, y := two(one("a", 1.0), one("b", nil)), two(one("b", nil), one("a", 1.0))
	for _, c := range []struct {
		t     schema.Type
		a, b  schema.Value
		equal bool
	}{
		{asMap, x, y, true},
		{asMap, x, one("a", 1.0), false},
		{asMap, x, two(one("a", 1.0), one("b", 2.0)), false},
		{asStruct, schema.CompoundValue(schema.DoubleValue(math.NaN()), x), schema.CompoundValue(nan, y), true},
		{asStruct, schema.CompoundValue(schema.DoubleValue(0), x), schema.CompoundValue(schema.DoubleValue(math.Copysign(0, -1)), x), false},
		{asStruct, schema.CompoundValue(schema.Value{}, x), schema.CompoundValue(schema.Value{}, schema.Value{}), false},
		{asStruct, schema.Value{}, schema.Value{}, true},
	} {
		if got := diff.Equal(c.t, c.a, c.b); got != c.equal || diff.Equal(c.t, c.b, c.a) != c.equal {
			t.Errorf("%s: %q and %q: %v", c.t, c.a.S, c.b.S, got)
		}
	}
}

// A column may be renamed, widened, added and dropped between the versions.
func TestColumns(t *testing.T) {
	table := create(t, [][]any{{1, 5, "a"}, {2, 6, "b"}, {3, 7, "c"}}, column("id", schema.Of(schema.Long)), column("n", schema.Of(schema.Integer)), column("s", schema.Of(schema.StringType)))
	_, err := write.Alter(ctx, table, []write.Change{write.RenameColumn("n", "number"), write.WidenColumn("number", schema.Of(schema.Long)), write.AddColumn(column("e", schema.Of(schema.StringType)), write.Place{})})
	if err == nil {
		_, err = write.Update(ctx, table, "id = 2", write.Set{"number": int64(1) << 40, "e": "new"})
	}
	if err == nil {
		_, err = write.Alter(ctx, table, []write.Change{write.DropColumn("s")})
	}
	if err != nil {
		t.Fatal(err)
	}
	o := diff.Options{Key: []string{"id"}}
	wants(t, table, 0, -1, o, "updated 2|6|NULL|b 2|1099511627776|new|NULL number e\n")
	wants(t, table, 3, 0, o, "updated 2|1099511627776|NULL|new 2|6|b|NULL n e\n")
	d, err := diff.New(table.Store(), at(t, table, 0), at(t, table, -1), o)
	if err != nil || fmt.Sprint(d.Gone()) != "[s]" || d.Columns()[1].From != "n" || d.Columns()[1].To != "number" || d.Files() != 2 {
		t.Errorf("%v: gone %v, %d files", err, d.Gone(), d.Files())
	}
	for want, o := range map[error]diff.Options{
		diff.ErrKey: {Key: []string{"s"}}, diff.ErrColumn: {Key: []string{"id"}, Columns: []string{"x"}}, rowkey.ErrKey: {Key: []string{"id"}, Only: []rowkey.Cell{{Column: "e"}}},
	} {
		if _, err := diff.New(table.Store(), at(t, table, 0), at(t, table, -1), o); !errors.Is(err, want) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := write.Replace(ctx, table, write.Definition{Columns: []schema.Field{column("id", schema.Of(schema.Long)), column("e", schema.Of(schema.DoubleType))}}, write.Values([][]any{{2, 1.5}})); err != nil {
		t.Fatal(err)
	}
	if _, err := diff.New(table.Store(), at(t, table, 3), at(t, table, -1), diff.Options{Key: []string{"id"}}); !errors.Is(err, diff.ErrTypes) {
		t.Errorf("text and double: %v", err)
	}
}

// Rows without a key are a multiset; a key that is none is named.
func TestNoKey(t *testing.T) {
	table := create(t, [][]any{{1, "a"}, {1, "a"}, {2, "b"}, {3, "c"}}, column("id", schema.Of(schema.Long)), column("s", schema.Of(schema.StringType)))
	overwrite(t, table, [][]any{{1, "a"}, {1, "x"}, {1, "y"}, {3, "c"}, {3, "c"}})
	wants(t, table, 0, 1, diff.Options{}, "deleted 1|a -\ninserted - 1|x\ninserted - 1|y\ndeleted 2|b -\ninserted - 3|c\n")
	d, err := diff.New(table.Store(), at(t, table, 0), at(t, table, 1), diff.Options{Key: []string{"id"}})
	if err != nil {
		t.Fatal(err)
	}
	var twice *diff.DuplicateKeyError
	if _, err := text(d); !errors.As(err, &twice) || twice.Version != 1 || twice.Key != "id=1" {
		t.Errorf("%v", err)
	}
	// Rows that both versions have are no matter.
	overwrite(t, table, [][]any{{1, "a"}, {1, "x"}, {1, "z"}, {3, "c"}, {3, "c"}})
	wants(t, table, 1, 2, diff.Options{Key: []string{"id"}}, "updated 1|y 1|z s\n")
}
