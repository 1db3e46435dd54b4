package schema_test

import (
	"errors"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
)

// Any text gives a schema that is written as it was read, or an error that says so;
// column mapping too.
func FuzzParse(f *testing.F) {
	f.Add(mappedSchema)
	f.Add(`{"type":"struct","fields":[{"name":"a","type":"decimal(38,18)","nullable":false,"metadata":{"comment":"x"}},{"name":"b","type":{"type":"map","keyType":"string","valueType":{"type":"array","elementType":"variant","containsNull":false},"valueContainsNull":true},"nullable":true,"metadata":{}}]}`)
	f.Add(`{"type":"struct","fields":[{"name":"a","type":{"type":"struct","fields":[]}}]}`)
	f.Add(`"long"`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := schema.Parse(text)
		if err != nil {
			if !errors.Is(err, schema.ErrSchema) {
				t.Fatal(err)
			}
			return
		}
		again, err := schema.Parse(s.String())
		if err != nil || again.String() != s.String() {
			t.Fatalf("%s: %v, %s", s, err, again)
		}
		for _, byID := range []bool{false, true} {
			if m, err := s.Mapped(byID); err != nil && !errors.Is(err, schema.ErrSchema) || err == nil && len(m.Fields) != len(s.Fields) {
				t.Fatal(err)
			}
		}
	})
}
