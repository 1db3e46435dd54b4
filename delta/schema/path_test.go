package schema_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
)

func TestPath(t *testing.T) {
	for text, want := range map[string][]string{
		"a": {"a"}, "a.b.c": {"a", "b", "c"}, "`a.b`.c": {"a.b", "c"}, "a.`b``c`": {"a", "b`c"}, "`a`.`b`": {"a", "b"},
	} {
		got, err := schema.ParsePath(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q %v", text, got, err)
		}
		again, err := schema.ParsePath(schema.FormatPath(got...))
		if err != nil || !slices.Equal(again, want) {
			t.Errorf("%s written: %q %v", text, again, err)
		}
	}
	for _, text := range []string{"", ".", "a.", ".a", "a..b", "`a", "`a`b", "``"} {
		if got, err := schema.ParsePath(text); !errors.Is(err, schema.ErrSchema) {
			t.Errorf("%q: %q %v", text, got, err)
		}
	}
}

func TestPart(t *testing.T) {
	v := schema.CompoundValue(schema.StringValue("a"), schema.NullValue(), schema.CompoundValue(schema.IntValue(7)))
	for i, want := range []schema.Value{schema.StringValue("a"), {}, schema.CompoundValue(schema.IntValue(7)), {}} {
		if got := v.Part(i); got != want {
			t.Errorf("part %d: %+v, want %+v", i, got, want)
		}
	}
	if got := schema.NullValue().Part(0); !got.IsNull() {
		t.Errorf("part of NULL: %+v", got)
	}
}
