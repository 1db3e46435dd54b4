package upsert

import "sync/atomic"

// mapped is what all indexes of the process have outside the Go heap.
var mapped atomic.Int64

// MappedBytes is the memory that the indexes of this process have outside the Go
// heap: it is resident, and the limit of Go's runtime (GOMEMLIMIT) knows nothing of it.
func MappedBytes() int64 { return mapped.Load() }

// memory is zeroed bytes; large ones lie outside the Go heap, where the garbage
// collector neither walks them nor lets garbage grow to their size.
type memory struct {
	bytes  []byte
	mapped bool
}

// mapFrom is the size from which memory is mapped: below it a page is much.
const mapFrom = 128 << 10

func newMemory(size int) memory {
	if size >= mapFrom {
		if b, err := mapBytes(size); err == nil {
			mapped.Add(int64(size))
			return memory{b, true}
		}
	}
	return memory{bytes: make([]byte, size)}
}

// free gives the memory back. Whatever still points into it must not be used.
func (m *memory) free() {
	if m.mapped {
		mapped.Add(-int64(len(m.bytes)))
		unmapBytes(m.bytes)
	}
	*m = memory{}
}
