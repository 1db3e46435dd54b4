package diff

import (
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
)

// compareCells orders two cells of one column, NULL first and equal to itself.
func compareCells(a, b schema.Value) int {
	switch {
	case a == b:
		return 0
	case a.IsNull():
		return -1
	case b.IsNull():
		return 1
	}
	return schema.Compare(a, b)
}

// Equal tells whether two cells of a type hold the same value: NULL equals NULL, NaN any
// NaN, 0.0 not -0.0, and maps their entries in any order.
func Equal(t schema.Type, a, b schema.Value) bool {
	if a == b {
		return true
	}
	if a.Kind != b.Kind || a.IsNull() {
		return false
	}
	switch a.Kind {
	case schema.Float, schema.Double, schema.Dec:
		return schema.Compare(a, b) == 0
	case schema.Compound:
		return equalParts(t, slices.Collect(a.Parts()), slices.Collect(b.Parts()))
	}
	return false
}

func equalParts(t schema.Type, a, b []schema.Value) bool {
	if len(a) != len(b) || t.Nested == nil {
		return false
	}
	if t.Primitive == schema.Map {
		return equalEntries(t.Nested, entries(a), entries(b))
	}
	for i := range a {
		of := t.Nested.Element
		if t.Primitive == schema.Struct {
			if i >= len(t.Nested.Fields) {
				return false
			}
			of = t.Nested.Fields[i].Type
		}
		if !Equal(of, a[i], b[i]) {
			return false
		}
	}
	return true
}

// entries gives the pairs of a map's parts by the encoded key.
func entries(parts []schema.Value) [][2]schema.Value {
	list := make([][2]schema.Value, 0, len(parts)/2)
	for i := 0; i+1 < len(parts); i += 2 {
		list = append(list, [2]schema.Value{parts[i], parts[i+1]})
	}
	slices.SortStableFunc(list, func(x, y [2]schema.Value) int {
		return strings.Compare(string(x[0].AppendEncoded(nil)), string(y[0].AppendEncoded(nil)))
	})
	return list
}

func equalEntries(t *schema.Nested, a, b [][2]schema.Value) bool {
	for i := range a {
		if !Equal(t.Key, a[i][0], b[i][0]) || !Equal(t.Element, a[i][1], b[i][1]) {
			return false
		}
	}
	return len(a) == len(b)
}
