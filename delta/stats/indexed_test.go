package stats_test

import (
	"slices"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
)

func structOf(fields ...schema.Field) schema.Type {
	return schema.Type{Primitive: schema.Struct, Nested: &schema.Nested{Fields: fields}}
}

func TestIndexed(t *testing.T) {
	long := schema.Of(schema.Long)
	list := schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: structOf(schema.Field{Name: "x", Type: long})}}
	columns := []schema.Field{
		{Name: "a", Type: long}, {Name: "l", Type: list},
		{Name: "b", Type: structOf(schema.Field{Name: "x", Type: long}, schema.Field{Name: "d.e", Type: structOf(schema.Field{Name: "y", Type: long}, schema.Field{Name: "m", Type: list})})},
		{Name: "c", Type: long}, {Name: "c.d", Type: long},
	}
	all := []string{"a", "b.x", "b.`d.e`.y", "c", "c.d"}
	for _, c := range []struct {
		properties map[string]string
		want       []string
	}{
		{nil, all},
		{map[string]string{"delta.dataSkippingNumIndexedCols": "2"}, []string{"a"}}, // the list is one of the two
		{map[string]string{"delta.dataSkippingNumIndexedCols": "4"}, all[:3]},
		{map[string]string{"delta.dataSkippingNumIndexedCols": "0"}, nil},
		{map[string]string{"delta.dataSkippingNumIndexedCols": "-1"}, all},
		{map[string]string{"delta.dataSkippingNumIndexedCols": "many"}, all},
		{map[string]string{"delta.dataSkippingStatsColumns": "`c`, A,c,nothing,l", "delta.dataSkippingNumIndexedCols": "1"}, []string{"a", "c"}},
		{map[string]string{"delta.dataSkippingStatsColumns": "c, B"}, all[1:4]},
		{map[string]string{"delta.dataSkippingStatsColumns": "b.`d.e`.y,c.d,b.nothing"}, []string{all[2], all[4]}},
		{map[string]string{"delta.dataSkippingStatsColumns": "b.`d.e`"}, all[2:3]},
	} {
		var got []string
		for _, l := range stats.Indexed(c.properties, stats.Leaves(columns)) {
			got = append(got, schema.FormatPath(l.Path...))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %q, want %q", c.properties, got, c.want)
		}
	}
}
