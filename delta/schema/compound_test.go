package schema_test

import (
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
	"pgregory.net/rapid"
)

func TestCompoundCellsGiveTheirPartsBack(t *testing.T) {
	big38, _ := schema.DecimalValue(new(big.Int).Exp(big.NewInt(10), big.NewInt(37), nil))
	leaf := rapid.SampledFrom([]schema.Value{
		{}, schema.BoolValue(true), schema.IntValue(-5), schema.FloatValue(1.5), schema.DoubleValue(-0.1), {Kind: schema.Dec, I: -7}, big38,
		schema.StringValue(""), schema.StringValue(strings.Repeat("x", 200)), schema.BinaryValue("\x00\xff"), schema.CompoundValue(),
	})
	rapid.Check(t, func(rt *rapid.T) {
		parts := rapid.SliceOfN(leaf, 0, 5).Draw(rt, "parts")
		for range rapid.IntRange(0, 3).Draw(rt, "depth") {
			parts = append(parts, schema.CompoundValue(parts...))
		}
		v := schema.CompoundValue(parts...)
		if got := slices.Collect(v.Parts()); !slices.Equal(got, parts) {
			rt.Fatalf("%v, want %v", got, parts)
		}
		encoded := string(v.AppendEncoded(nil))
		if n, null := schema.EncodedLen(encoded + "more"); n != len(encoded) || null {
			rt.Fatalf("length %d of %d", n, len(encoded))
		}
	})
}

func TestPartsOfGarbage(t *testing.T) {
	for _, s := range []string{"\x02", "\x06\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x0a\x05\x02", "\x05\x00"} {
		if got := slices.Collect(schema.Value{Kind: schema.Compound, S: s}.Parts()); len(got) != 0 {
			t.Errorf("%q: %v", s, got)
		}
	}
}

const mappedSchema = `{"type":"struct","fields":[
 {"name":"a","type":"long","nullable":true,"metadata":{"delta.columnMapping.id":1,"delta.columnMapping.physicalName":"col-1"}},
 {"name":"s","type":{"type":"struct","fields":[
  {"name":"a","type":{"type":"array","elementType":{"type":"struct","fields":[
    {"name":"x","type":"long","nullable":true,"metadata":{"delta.columnMapping.id":4,"delta.columnMapping.physicalName":"col-4"}}]},"containsNull":true},
   "nullable":true,"metadata":{"delta.columnMapping.id":3,"delta.columnMapping.physicalName":"col-3"}}]},
  "nullable":true,"metadata":{"delta.columnMapping.id":2,"delta.columnMapping.physicalName":"col-2"}}]}`

func TestColumnMapping(t *testing.T) {
	s, err := schema.Parse(mappedSchema)
	if err != nil {
		t.Fatal(err)
	}
	if f := s.Fields[0]; f.Stored() != "a" || f.FieldID != 0 {
		t.Errorf("not in force: %+v", f)
	}
	for _, byID := range []bool{false, true} {
		m, err := s.Mapped(byID)
		if err != nil {
			t.Fatal(err)
		}
		inner := m.Fields[1].Type.Nested.Fields[0]
		deep := inner.Type.Nested.Element.Nested.Fields[0]
		if m.Fields[0].Stored() != "col-1" || m.Fields[1].FileName != "col-2" || inner.FileName != "col-3" || deep.FileName != "col-4" || deep.Name != "x" {
			t.Errorf("by id %t: %+v", byID, m)
		}
		if (deep.FieldID == 4) != byID || (m.Fields[0].FieldID == 1) != byID {
			t.Errorf("by id %t: %+v", byID, m)
		}
		if m.String() != s.String() || m.Index("a") != 0 {
			t.Error("the schema string changed")
		}
	}
	if s.Fields[1].Type.Nested.Fields[0].FileName != "" {
		t.Error("the schema itself changed")
	}
	for damage, byID := range map[string]bool{`"delta.columnMapping.id":4`: true, `"delta.columnMapping.physicalName":"col-4"`: false, `"col-1"`: false} {
		bad := strings.Replace(mappedSchema, damage, map[string]string{`"delta.columnMapping.id":4`: `"delta.columnMapping.id":1`, `"delta.columnMapping.physicalName":"col-4"`: `"x":1`, `"col-1"`: `"col-2"`}[damage], 1)
		s, err := schema.Parse(bad)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Mapped(byID); err == nil || !strings.Contains(err.Error(), "delta.columnMapping") {
			t.Errorf("%s: %v", damage, err)
		}
	}
}
