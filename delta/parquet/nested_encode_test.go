package parquet_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"pgregory.net/rapid"
)

// nestedCell draws a cell of any type.
func nestedCell(t *rapid.T, typ schema.Type) schema.Value {
	if rapid.IntRange(0, 4).Draw(t, "null") == 0 {
		return schema.Value{}
	}
	var parts []schema.Value
	n := rapid.IntRange(0, 3).Draw(t, "n")
	switch typ.Primitive {
	case schema.Struct:
		for _, f := range typ.Nested.Fields {
			parts = append(parts, nestedCell(t, f.Type))
		}
	case schema.Array:
		for range n {
			parts = append(parts, nestedCell(t, typ.Nested.Element))
		}
	case schema.Map:
		for i := range n {
			parts = append(parts, schema.StringValue(strings.Repeat("k", i)), nestedCell(t, typ.Nested.Element))
		}
	case schema.StringType:
		return schema.StringValue(rapid.String().Draw(t, "s"))
	case schema.DecimalType:
		return schema.Value{Kind: schema.Dec, I: rapid.Int64().Draw(t, "d")}
	case schema.Date:
		return schema.IntValue(int64(rapid.Int32().Draw(t, "day")))
	default:
		return schema.IntValue(rapid.Int64().Draw(t, "i"))
	}
	return schema.CompoundValue(parts...)
}

// What is nested in what comes back as it was written, over any pieces of the file.
func TestNestedCellsAreWritten(t *testing.T) {
	columns := nestedColumns(t)
	columns[6].Name = "only"
	rapid.Check(t, func(rt *rapid.T) {
		e, err := parquet.NewEncoder(columns, parquet.EncoderOptions{RowGroupRows: rapid.IntRange(1, 20).Draw(rt, "group")})
		if err != nil {
			rt.Fatal(err)
		}
		var rows [][]schema.Value
		s := beginStream(e)
		for range rapid.IntRange(0, 3).Draw(rt, "pieces") {
			var piece [][]schema.Value
			for range rapid.IntRange(0, 12).Draw(rt, "rows") {
				row := make([]schema.Value, len(columns))
				for c := range columns {
					row[c] = nestedCell(rt, columns[c].Type)
				}
				piece = append(piece, row)
			}
			if err := s.AppendGroup(piece); err != nil {
				rt.Fatal(err)
			}
			rows = append(rows, piece...)
		}
		data, st := s.finish(nil)
		if st.NumRows != int64(len(rows)) {
			rt.Fatalf("%d rows, want %d", st.NumRows, len(rows))
		}
		got, err := tryScan(t, openBytes(t, data), columns, parquet.ScanOptions{BatchRows: 5})
		if err != nil {
			rt.Fatal(err)
		}
		if !slices.EqualFunc(got, rows, slices.Equal[[]schema.Value]) {
			rt.Fatalf("%v, want\n%v", got, rows)
		}
	})
}

func TestNestedCellsThatDoNotFit(t *testing.T) {
	columns := nestedColumns(t)[:6]
	e, err := parquet.NewEncoder(columns, parquet.EncoderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	one := schema.IntValue(1)
	for name, c := range map[string]struct {
		column int
		cell   schema.Value
	}{
		"a leaf as a struct":    {1, one},
		"a struct as a leaf":    {0, schema.CompoundValue(one)},
		"fields too few":        {1, schema.CompoundValue(schema.StringValue("b"))},
		"fields too many":       {1, schema.CompoundValue(schema.Value{}, schema.Value{}, schema.Value{}, schema.Value{}, schema.Value{})},
		"a field of other kind": {1, schema.CompoundValue(one, schema.Value{}, schema.Value{}, schema.Value{})},
		"an element that is":    {3, schema.CompoundValue(schema.CompoundValue(schema.StringValue("x")))},
		"a NULL key":            {4, schema.CompoundValue(schema.Value{}, schema.Value{})},
		"a key without a value": {4, schema.CompoundValue(schema.StringValue("k"))},
		"no UTF-8":              {1, schema.CompoundValue(schema.StringValue("\xff"), schema.Value{}, schema.Value{}, schema.Value{})},
		"too large a date":      {1, schema.CompoundValue(schema.Value{}, schema.IntValue(1<<40), schema.Value{}, schema.Value{})},
	} {
		row := make([]schema.Value, 6)
		row[c.column] = c.cell
		if _, _, err := e.Encode([][]schema.Value{make([]schema.Value, 6), row}); !errors.Is(err, parquet.ErrValue) || !strings.Contains(err.Error(), "row 1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if data, _, err := e.Encode([][]schema.Value{make([]schema.Value, 6)}); err != nil || len(data) == 0 { // after all that
		t.Error(err)
	}
	for reason, typ := range map[string]string{
		"without fields": `{"type":"struct","fields":[]}`, "keys of type": `{"type":"map","keyType":{"type":"array","elementType":"long","containsNull":true},"valueType":"long","valueContainsNull":true}`,
		"type void": `{"type":"array","elementType":"void","containsNull":true}`,
	} {
		s, err := schema.Parse(`{"type":"struct","fields":[{"name":"x","type":` + typ + `,"nullable":true,"metadata":{}}]}`)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parquet.NewEncoder([]parquet.Column{parquet.ColumnOf(&s.Fields[0])}, parquet.EncoderOptions{}); !errors.Is(err, parquet.ErrUnsupported) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// A file that is made piece by piece is one that is made at once.
func TestEncoderPieceByPiece(t *testing.T) {
	columns := []parquet.Column{{Name: "id", Type: schema.Of(schema.Long)}, {Name: "s", Type: schema.Of(schema.StringType)}}
	e, err := parquet.NewEncoder(columns, parquet.EncoderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	row := func(i int64, s string) []schema.Value {
		return []schema.Value{schema.IntValue(i), schema.StringValue(s)}
	}
	s := beginStream(e)
	if err := s.AppendGroup([][]schema.Value{row(3, "c"), row(1, "a")}); err != nil {
		t.Fatal(err)
	}
	before := s.Size()
	if err := s.AppendGroup([][]schema.Value{row(2, "z"), {schema.Value{}, schema.StringValue("b")}}); err != nil || s.Size() <= before {
		t.Fatal(err, before, s.Size())
	}
	data, st := s.finish(nil)
	if c := st.Columns[0]; st.NumRows != 4 || c.Min.I != 1 || c.Max.I != 3 || c.NullCount != 1 || st.Columns[1].Max.S != "z" {
		t.Errorf("%+v", st)
	}
	f := openBytes(t, data)
	if f.NumRowGroups() != 2 || f.RowGroupRows(0) != 2 {
		t.Errorf("%d row groups", f.NumRowGroups())
	}
	got, err := tryScan(t, f, columns, parquet.ScanOptions{})
	if err != nil || len(got) != 4 || got[2][1].S != "z" || !got[3][0].IsNull() {
		t.Errorf("%v, %v", got, err)
	}
	s = beginStream(e)
	if err := s.AppendGroup([][]schema.Value{row(7, "q")}); err != nil {
		t.Fatal(err)
	}
	if _, st := s.finish(nil); st.NumRows != 1 || st.Columns[0].Min.I != 7 || st.Columns[0].NullCount != 0 {
		t.Errorf("the next file remembers the one before: %+v", st)
	}
}
