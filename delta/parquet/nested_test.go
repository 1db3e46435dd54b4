package parquet_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"pgregory.net/rapid"
)

type (
	nestedRow struct {
		ID int64                   `parquet:"id"`
		S  *nestedPart             `parquet:"s"`
		L  []*nestedPart           `parquet:"l"`
		LL [][]*int64              `parquet:"ll"`
		M  map[string]*nestedPart  `parquet:"m"`
		N  map[string][]nestedPart `parquet:"n"`
	}
	nestedPart struct {
		A *int64  `parquet:"a"`
		B *string `parquet:"b"`
		C []int32 `parquet:"c"`
	}
)

const partType = `{"type":"struct","fields":[
	{"name":"b","type":"string","nullable":true,"metadata":{}},
	{"name":"new","type":"date","nullable":true,"metadata":{}},
	{"name":"a","type":"decimal(22,1)","nullable":true,"metadata":{}},
	{"name":"c","type":{"type":"array","elementType":"long","containsNull":true},"nullable":true,"metadata":{}}]}`

func nestedColumns(t fatal) []parquet.Column {
	t.Helper()
	list := func(of string) string { return `{"type":"array","elementType":` + of + `,"containsNull":true}` }
	dict := func(of string) string {
		return `{"type":"map","keyType":"string","valueType":` + of + `,"valueContainsNull":true}`
	}
	text := `{"type":"struct","fields":[`
	for i, f := range [][2]string{{"id", `"long"`}, {"s", partType}, {"l", list(partType)}, {"ll", list(list(`"long"`))}, {"m", dict(partType)}, {"n", dict(list(partType))},
		{"only", `{"type":"struct","fields":[{"name":"new","type":"long","nullable":true,"metadata":{}}]}`}} {
		if i > 0 {
			text += ","
		}
		text += `{"name":"` + f[0] + `","type":` + f[1] + `,"nullable":true,"metadata":{}}`
	}
	s, err := schema.Parse(text + "]}")
	if err != nil {
		t.Fatal(err)
	}
	var columns []parquet.Column
	for i := range s.Fields {
		columns = append(columns, parquet.ColumnOf(&s.Fields[i]))
	}
	columns[6].Name = "s" // of which only a field is asked for that the file does not have
	return columns
}

func pointed[T any](p *T, value func(T) schema.Value) schema.Value {
	if p == nil {
		return schema.Value{}
	}
	return value(*p)
}

func listed[T any](list []T, value func(T) schema.Value) schema.Value {
	if list == nil {
		return schema.Value{}
	}
	var parts []schema.Value
	for _, e := range list {
		parts = append(parts, value(e))
	}
	return schema.CompoundValue(parts...)
}

func mapped[T any](m map[string]T, value func(T) schema.Value) schema.Value {
	if m == nil {
		return schema.Value{}
	}
	var parts []schema.Value
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		parts = append(parts, schema.StringValue(k), value(m[k]))
	}
	return schema.CompoundValue(parts...)
}

func (p nestedPart) cell() schema.Value {
	return schema.CompoundValue(
		pointed(p.B, schema.StringValue), schema.Value{},
		pointed(p.A, func(a int64) schema.Value { return schema.Value{Kind: schema.Dec, I: a * 10} }),
		listed(p.C, func(c int32) schema.Value { return schema.IntValue(int64(c)) }))
}

func (r nestedRow) cells() []schema.Value {
	part := func(p *nestedPart) schema.Value { return pointed(p, nestedPart.cell) }
	return []schema.Value{
		schema.IntValue(r.ID), part(r.S), listed(r.L, part),
		listed(r.LL, func(l []*int64) schema.Value {
			return listed(l, func(p *int64) schema.Value { return pointed(p, schema.IntValue) })
		}),
		mapped(r.M, part),
		mapped(r.N, func(l []nestedPart) schema.Value { return listed(l, nestedPart.cell) }),
		pointed(r.S, func(nestedPart) schema.Value { return schema.CompoundValue(schema.Value{}) }),
	}
}

func orNone[T any](g *rapid.Generator[[]T]) *rapid.Generator[[]T] {
	return rapid.Custom(func(t *rapid.T) []T {
		if rapid.Bool().Draw(t, "none") {
			return nil
		}
		return g.Draw(t, "some")
	})
}

// Whatever is nested in what, the cells are those that were written, in any
// batches and from any row on; what the file does not have is NULL inside.
func TestNestedCells(t *testing.T) {
	number := rapid.Int64Range(-1<<55, 1<<55)
	part := rapid.Custom(func(t *rapid.T) nestedPart {
		return nestedPart{A: rapid.Ptr(number, true).Draw(t, "a"), B: rapid.Ptr(rapid.String(), true).Draw(t, "b"), C: orNone(rapid.SliceOfN(rapid.Int32(), 0, 3)).Draw(t, "c")}
	})
	parts := rapid.SliceOfN(rapid.Ptr(part, true), 0, 3)
	row := rapid.Custom(func(t *rapid.T) nestedRow {
		r := nestedRow{ID: number.Draw(t, "id"), S: rapid.Ptr(part, true).Draw(t, "s"), L: orNone(parts).Draw(t, "l")}
		r.LL = orNone(rapid.SliceOfN(orNone(rapid.SliceOfN(rapid.Ptr(number, true), 0, 3)), 0, 3)).Draw(t, "ll")
		if rapid.Bool().Draw(t, "map") {
			r.M = rapid.MapOfN(rapid.StringMatching("[a-c]{0,2}"), rapid.Ptr(part, true), 0, 3).Draw(t, "m")
			r.N = rapid.MapOfN(rapid.StringMatching("[a-c]{0,2}"), orNone(rapid.SliceOfN(part, 0, 2)), 0, 2).Draw(t, "n")
		}
		return r
	})
	rapid.Check(t, func(rt *rapid.T) {
		rows := rapid.SliceOfN(row, 1, 30).Draw(rt, "rows")
		data, err := parquet.EncodeStructs(rows, parquet.StructOptions{})
		if err != nil {
			rt.Fatal(err)
		}
		from := rapid.Int64Range(0, int64(len(rows)-1)).Draw(rt, "from")
		got, err := tryScan(t, openBytes(t, data), nestedColumns(rt), parquet.ScanOptions{BatchRows: rapid.IntRange(1, 9).Draw(rt, "batch"), From: from})
		if err != nil {
			rt.Fatal(err)
		}
		for i, r := range rows[from:] {
			if want := r.cells(); i >= len(got) || !slices.Equal(got[i], want) {
				rt.Fatalf("row %d: %+v\n%v, want\n%v", i, r, got[i], want)
			}
		}
	})
}

func TestNestedColumnsThatDoNotFit(t *testing.T) {
	data, err := parquet.EncodeStructs([]nestedRow{{ID: 1}}, parquet.StructOptions{})
	if err != nil {
		t.Fatal(err)
	}
	columns := nestedColumns(t)
	for name, c := range map[string]parquet.Column{
		"a struct as a list":    {Name: "s", Type: columns[2].Type},
		"a list as a map":       {Name: "l", Type: columns[4].Type},
		"a leaf as a struct":    {Name: "id", Type: columns[1].Type},
		"a list of other parts": {Name: "ll", Type: columns[2].Type},
	} {
		for _, err := range openBytes(t, data).Scan(context.Background(), []parquet.Column{c}, parquet.ScanOptions{}) {
			if !errors.Is(err, parquet.ErrColumnType) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if _, err := openBytes(t, data).Rows(context.Background(), columns[1:2], []int64{0}); !errors.Is(err, parquet.ErrNestedColumn) {
		t.Errorf("rows: %v", err)
	}
}

// Any bytes give nested cells or a known error, and cells that are well formed.
func FuzzNested(f *testing.F) {
	a, b := int64(7), "x"
	part := &nestedPart{A: &a, B: &b, C: []int32{1, 2}}
	for _, codec := range []parquet.Codec{parquet.Uncompressed, parquet.Zstd} {
		data, err := parquet.EncodeStructs([]nestedRow{
			{ID: 1, S: part, L: []*nestedPart{part, nil}, LL: [][]*int64{{&a}, nil, {}}, M: map[string]*nestedPart{"k": part}, N: map[string][]nestedPart{"k": {*part}}}, {},
		}, parquet.StructOptions{Codec: codec})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := parquet.OpenBytes(data)
		if err != nil {
			return
		}
		batches := 0
		for b, err := range file.Scan(t.Context(), nestedColumns(t), parquet.ScanOptions{BatchRows: 100}) {
			if err != nil {
				if !known(err) {
					t.Fatal(err)
				}
				return
			}
			for _, column := range b.Columns {
				for _, v := range column {
					for range v.Parts() {
					}
				}
			}
			if batches++; batches > 20 {
				return
			}
		}
	})
}
