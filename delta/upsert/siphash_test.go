package upsert

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"testing"
)

// sipHashOf is SipHash-c-d with 128 bits, as its authors describe it.
func sipHashOf(c, d int, k0, k1 uint64, data []byte) (uint64, uint64) {
	v := [4]uint64{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d ^ 0xee, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
	round := func(n int) {
		for range n {
			v[0] += v[1]
			v[1] = bits.RotateLeft64(v[1], 13) ^ v[0]
			v[0] = bits.RotateLeft64(v[0], 32)
			v[2] += v[3]
			v[3] = bits.RotateLeft64(v[3], 16) ^ v[2]
			v[0] += v[3]
			v[3] = bits.RotateLeft64(v[3], 21) ^ v[0]
			v[2] += v[1]
			v[1] = bits.RotateLeft64(v[1], 17) ^ v[2]
			v[2] = bits.RotateLeft64(v[2], 32)
		}
	}
	padded := append([]byte{}, data...)
	for len(padded)%8 != 7 {
		padded = append(padded, 0)
	}
	padded = append(padded, byte(len(data)))
	for ; len(padded) > 0; padded = padded[8:] {
		m := binary.LittleEndian.Uint64(padded)
		v[3] ^= m
		round(c)
		v[0] ^= m
	}
	v[2] ^= 0xee
	round(d)
	first := v[0] ^ v[1] ^ v[2] ^ v[3]
	v[1] ^= 0xdd
	round(d)
	return first, v[0] ^ v[1] ^ v[2] ^ v[3]
}

// TestSipHash holds the general form against the vectors of its authors (SipHash-2-4),
// and the one in use, SipHash-1-3, against the general form.
func TestSipHash(t *testing.T) {
	k0, k1 := binary.LittleEndian.Uint64([]byte{0, 1, 2, 3, 4, 5, 6, 7}), binary.LittleEndian.Uint64([]byte{8, 9, 10, 11, 12, 13, 14, 15})
	var data []byte
	for i, want := range []string{"a3817f04ba25a8e66df67214c7550293", "da87c1d86b99af44347659119b22fc45", "8177228da4a45dc7fca38bdef60affe4"} {
		a, b := sipHashOf(2, 4, k0, k1, data)
		if got := fmt.Sprintf("%x", binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, a), b)); got != want {
			t.Errorf("SipHash-2-4 of %d bytes: %s, its authors say %s", i, got, want)
		}
		data = append(data, byte(i))
	}
	for n := range 70 {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(i * 37)
		}
		a, b := sipHash(k0, k1, string(data))
		if wa, wb := sipHashOf(1, 3, k0, k1, data); a != wa || b != wb {
			t.Errorf("%d bytes: %x %x, want %x %x", n, a, b, wa, wb)
		}
	}
}
