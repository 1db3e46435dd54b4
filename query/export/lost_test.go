package export_test

import (
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/faulty"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/export"
)

// A folder that says that it is whole has its parts, whatever became of the answer to
// the last write; one that an interrupted run has left is told from others.
func TestLostSuccess(t *testing.T) {
	columns := []schema.Field{{Name: "id", Type: schema.Of(schema.Long), Nullable: true}}
	write := func(store objstore.Store) error {
		_, err := export.Write(t.Context(), store, export.Options{Format: "csv"}, columns, func(yield func([]schema.Value, error) bool) {
			yield([]schema.Value{schema.IntValue(1)}, nil)
		})
		return err
	}
	for name, rules := range map[string][]faulty.Rule{
		"lost":             {faulty.On(faulty.Put, export.Success, faulty.LostAnswer)},
		"lost, and silent": {faulty.On(faulty.Put, export.Success, faulty.Fault{Applied: true, Crash: true})},
	} {
		below := mem.New()
		if err := write(faulty.New(below, rules...)); err == nil {
			t.Errorf("%s: no error", name)
		}
		parts, success := 0, false
		for o := range below.List(t.Context(), "", "") {
			if o.Key == export.Success {
				success = true
			} else {
				parts++
			}
		}
		if success && parts == 0 {
			t.Errorf("%s: it says that it is whole, and has no part", name)
		}
	}
	below := mem.New()
	if err := below.Put(t.Context(), "part-00000-0123abcd.csv", nil); err != nil {
		t.Fatal(err)
	}
	if err := write(below); err == nil || !strings.Contains(err.Error(), "did not come to its end") {
		t.Errorf("parts without %s: %v", export.Success, err)
	}
	if err := below.Put(t.Context(), export.Success, nil); err != nil {
		t.Fatal(err)
	}
	if err := write(below); err == nil || strings.Contains(err.Error(), "did not come to its end") {
		t.Errorf("a whole export: %v", err)
	}
}
