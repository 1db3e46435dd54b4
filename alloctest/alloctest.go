// Package alloctest bounds in tests what a function allocates.
//
// Invariants:
//
//  1. What counts is the sum of all allocations, freed or not: a bound on it is one on
//     the memory in use.
//  2. Other goroutines count too, so a run over the limit is run again: only what is over
//     it three times fails.
package alloctest

import (
	"runtime/metrics"
	"testing"
)

// Within fails the test where do allocates more than factor bytes for each byte of an input
// of size bytes, and constant beside them. do may be run up to three times.
func Within(t testing.TB, size int, factor, constant uint64, do func()) {
	t.Helper()
	limit := uint64(size)*factor + constant
	least := uint64(0)
	for run := range 3 {
		before := allocated()
		do()
		n := allocated() - before
		if n <= limit {
			return
		}
		if run == 0 || n < least {
			least = n
		}
	}
	t.Errorf("%d bytes of input made it allocate %d bytes, more than %d for each and %d", size, least, factor, constant)
}

func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
