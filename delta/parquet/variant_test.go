package parquet_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
)

type (
	variantRow struct {
		V *shredded  `parquet:"v"`
		L []shredded `parquet:"l"`
	}
	// shredded has columns for a, b and list of its objects.
	shredded struct {
		Metadata []byte         `parquet:"metadata"`
		Value    *[]byte        `parquet:"value"`
		Typed    *shreddedParts `parquet:"typed_value"`
	}
	shreddedParts struct {
		A    *shreddedLong `parquet:"a"`
		B    *shreddedText `parquet:"b"`
		List *shreddedList `parquet:"list"`
	}
	shreddedLong struct {
		Value *[]byte `parquet:"value"`
		Typed *int64  `parquet:"typed_value"`
	}
	shreddedText struct {
		Typed *string `parquet:"typed_value"`
	}
	shreddedList struct {
		Value *[]byte        `parquet:"value"`
		Typed []shreddedLong `parquet:"typed_value"`
	}
)

// One name in the dictionary, "rest".
var restOnly = []byte("\x01\x01\x00\x04rest")

func bytesOf(s string) *[]byte { b := []byte(s); return &b }

func TestShreddedVariants(t *testing.T) {
	one, text := int64(7), "x<y"
	yes, null := bytesOf("\x04"), bytesOf("\x00")
	rest := bytesOf("\x02\x01\x00\x00\x01\x04") // {"rest":true}
	cases := []struct {
		v    *shredded
		want string
	}{
		{nil, ""},
		{&shredded{Metadata: restOnly}, ""},
		{&shredded{Metadata: restOnly, Value: yes}, "true"},
		{&shredded{Metadata: restOnly, Value: null}, "null"},
		{&shredded{Metadata: restOnly, Value: rest}, `{"rest":true}`},
		{&shredded{Metadata: restOnly, Typed: &shreddedParts{}}, "{}"},
		{&shredded{Metadata: restOnly, Typed: &shreddedParts{A: &shreddedLong{Typed: &one}, B: &shreddedText{Typed: &text}}}, `{"a":7,"b":"x<y"}`},
		{&shredded{Metadata: restOnly, Typed: &shreddedParts{A: &shreddedLong{Value: yes}, B: &shreddedText{}}}, `{"a":true}`},
		{&shredded{Metadata: restOnly, Value: rest, Typed: &shreddedParts{A: &shreddedLong{Value: null}}}, `{"a":null,"rest":true}`},
		{&shredded{Metadata: restOnly, Value: rest, Typed: &shreddedParts{}}, `{"rest":true}`},
		{&shredded{Metadata: restOnly, Typed: &shreddedParts{List: &shreddedList{Typed: []shreddedLong{{Typed: &one}, {Value: rest}, {}}}}}, `{"list":[7,{"rest":true},null]}`},
		{&shredded{Metadata: restOnly, Typed: &shreddedParts{List: &shreddedList{Typed: []shreddedLong{}}}}, `{"list":[]}`},
		{&shredded{Metadata: restOnly, Typed: &shreddedParts{List: &shreddedList{Value: yes}}}, `{"list":true}`},
	}
	var rows []variantRow
	var want [][]schema.Value
	for _, c := range cases {
		r, cell := variantRow{V: c.v}, schema.Value{}
		if c.want != "" {
			cell = schema.StringValue(c.want)
		}
		list := schema.Value{}
		if c.v != nil {
			r.L, list = []shredded{*c.v, {Metadata: restOnly, Value: yes}}, schema.CompoundValue(cell, schema.StringValue("true"))
		}
		rows, want = append(rows, r), append(want, []schema.Value{cell, list})
	}
	data, err := parquet.EncodeStructs(rows, parquet.StructOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v := schema.Of(schema.Variant)
	columns := []parquet.Column{column("v", v), column("l", schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: v, ContainsNull: true}})}
	got := scanAll(t, openBytes(t, data), columns, parquet.ScanOptions{BatchRows: 4})
	for i := range want {
		if got[i][0] != want[i][0] || got[i][1] != want[i][1] {
			t.Errorf("row %d: %q %q, want %q %q", i, got[i][0].S, got[i][1].S, want[i][0].S, want[i][1].S)
		}
	}
	for name, bad := range map[string]shredded{
		"no metadata":   {Value: yes},
		"bad metadata":  {Metadata: []byte("\x07"), Value: yes},
		"a bad value":   {Metadata: restOnly, Value: bytesOf("\x02\x01\x09\x00\x01\x04")},
		"an odd remain": {Metadata: restOnly, Value: yes, Typed: &shreddedParts{}},
	} {
		data, err := parquet.EncodeStructs([]variantRow{{V: &bad}}, parquet.StructOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tryScan(t, openBytes(t, data), columns[:1], parquet.ScanOptions{}); !errors.Is(err, parquet.ErrCorrupt) || !strings.Contains(err.Error(), `"v"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := tryScan(t, openBytes(t, data), []parquet.Column{{Name: "l", Type: v}}, parquet.ScanOptions{}); !errors.Is(err, parquet.ErrColumnType) {
		t.Errorf("a list as a variant: %v", err)
	}
}
