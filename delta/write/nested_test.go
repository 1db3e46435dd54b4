package write_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

func TestNestedColumns(t *testing.T) {
	point := schema.Type{Primitive: schema.Struct, Nested: &schema.Nested{Fields: []schema.Field{
		{Name: "x", Type: schema.Of(schema.Long)}, write.Column("tags", schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: schema.Of(schema.StringType), ContainsNull: true}}),
	}}}
	fields := []schema.Field{
		write.Column("id", schema.Of(schema.Long)), write.Column("at", point),
		write.Column("more", schema.Type{Primitive: schema.Map, Nested: &schema.Nested{Key: schema.Of(schema.StringType), Element: point, ContainsNull: true}}),
	}
	for name, properties := range modes {
		t.Run(name, func(t *testing.T) {
			table := delta.New(mem.New())
			must(t)(write.Create(ctx, table, write.Definition{Columns: fields, Properties: maps.Clone(properties)}, values(
				[]any{1, map[string]any{"x": 5, "tags": []any{"a", nil}}, map[string]any{"k": map[string]any{"x": 6}, "j": nil}},
				[]any{2, nil, map[string]any{}}, []any{3, map[string]any{"x": 7, "tags": []any{}}, nil})))
			first, third := `1|{"x":5,"tags":["a",null]}|{"j":null,"k":{"x":6,"tags":null}}`, `3|{"x":7,"tags":[]}|-`
			want(t, rows(t, table, -1), first, `2|-|{}`, third)
			must(t)(write.Delete(ctx, table, "id = 2"))
			must(t)(write.Update(ctx, table, "id = 3", write.Set{"at": map[string]any{"x": 8}}))
			must(t)(write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}}, write.Values([][]any{{4, map[string]any{"x": 9, "tags": []any{"z"}}}}, "id", "at")))
			want(t, rows(t, table, -1), first, `3|{"x":8,"tags":null}|-`, `4|{"x":9,"tags":["z"]}|-`)
			if properties["delta.enableChangeDataFeed"] == "true" {
				want(t, changes(t, table, 2), "update_preimage "+third, `update_postimage 3|{"x":8,"tags":null}|-`)
			}
			for reason, v := range map[string]any{
				"at.x is NOT NULL": map[string]any{"tags": nil}, "lacks a field": map[string]any{"x": 1, "y": 2}, "can't hold": []any{1}, "can't hold hm": "hm",
			} {
				if _, err := write.Append(ctx, table, write.Values([][]any{{v}}, "at")); !errors.Is(err, write.ErrRow) || !strings.Contains(err.Error(), reason) {
					t.Errorf("%s: %v", reason, err)
				}
			}
		})
	}
}
