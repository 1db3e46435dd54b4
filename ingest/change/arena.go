package change

import (
	"unsafe"

	"github.com/gscd-io/gscd/delta/schema"
)

// Arena hands out the memory of one batch's values: few large blocks instead
// of an allocation a record. It is not safe for concurrent use. What it handed
// out stays valid until Reset; the garbage collector frees dropped arenas.
type Arena struct {
	bytes  []byte
	values []schema.Value
	used   int64
}

const (
	arenaBytes  = 256 << 10
	arenaValues = 8 << 10
)

// Values returns n NULL values in one slice of exactly that capacity.
func (a *Arena) Values(n int) []schema.Value { return a.Row(n, 0) }

// Row returns n NULL values in a slice that has room for more of them behind.
func (a *Arena) Row(n, room int) []schema.Value {
	all := n + room
	if all > len(a.values) {
		a.values = make([]schema.Value, max(arenaValues, all))
		a.used += int64(len(a.values)) * int64(unsafe.Sizeof(schema.Value{}))
	}
	out := a.values[:n:all]
	a.values = a.values[all:]
	return out
}

// Bytes returns n bytes, zeroed only where the block is new.
func (a *Arena) Bytes(n int) []byte {
	if n > len(a.bytes) {
		a.bytes = make([]byte, max(arenaBytes, n))
		a.used += int64(len(a.bytes))
	}
	out := a.bytes[:n:n]
	a.bytes = a.bytes[n:]
	return out
}

// String copies b into the arena.
func (a *Arena) String(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	out := a.Bytes(len(b))
	copy(out, b)
	return unsafe.String(&out[0], len(out))
}

// Size gives the bytes of the blocks that the arena has taken, for budgets.
func (a *Arena) Size() int64 { return a.used }
