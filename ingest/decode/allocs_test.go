package decode

import (
	"testing"

	"github.com/gscd-io/gscd/ingest/change"
)

// TestAllocs: a record costs its cells in the arena, and no allocation of its own.
func TestAllocs(t *testing.T) {
	for name, c := range benchCases(t) {
		d, err := New("debezium-json", c.opts)
		if err != nil {
			t.Fatal(err)
		}
		const records = 1000
		arena, out := &change.Arena{}, change.Change{}
		n := testing.AllocsPerRun(5, func() {
			for range records {
				if err := d.Decode(&c.rec, arena, &out); err != nil {
					t.Fatal(err)
				}
			}
		})
		if n > records/100 {
			t.Errorf("%s: %.0f allocations for %d records, of which blocks of the arena are some", name, n, records)
		}
	}
}
