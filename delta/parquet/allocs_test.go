package parquet_test

import (
	"testing"

	"github.com/gscd-io/gscd/delta/parquet"
)

// TestEncodeAllocs: an encoder that has made a file before allocates for pages and
// metadata of the next one, not for its rows.
func TestEncodeAllocs(t *testing.T) {
	e, err := parquet.NewEncoder(orders, parquet.EncoderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	allocs := func(rows int) float64 {
		list := orderRows(rows)
		return testing.AllocsPerRun(3, func() {
			if _, _, err := e.Encode(list); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := allocs(8192), allocs(16384); many > 2500 || many > 2*few {
		t.Errorf("%.0f allocations for a file of 8,192 rows, %.0f for one of 16,384", few, many)
	} else {
		t.Logf("%.0f allocations for a file of 8,192 rows, %.0f for one of 16,384", few, many)
	}
}
