package dv

import (
	"encoding/binary"
	"fmt"
)

// z85 is the alphabet of ZeroMQ RFC 32.
const z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

var z85Values = func() (t [256]int8) {
	for i := range t {
		t[i] = -1
	}
	for i := range len(z85) {
		t[z85[i]] = int8(i)
	}
	return t
}()

// EncodeZ85 gives the text of bytes: 5 characters for each 4 bytes; what is
// missing in the last 4 is zero.
func EncodeZ85(data []byte) string {
	out := make([]byte, 0, (len(data)+3)/4*5)
	for len(data) > 0 {
		var word [4]byte
		n := copy(word[:], data)
		data = data[n:]
		v := binary.BigEndian.Uint32(word[:])
		var text [5]byte
		for i := 4; i >= 0; i-- {
			text[i] = z85[v%85]
			v /= 85
		}
		out = append(out, text[:]...)
	}
	return string(out)
}

// DecodeZ85 gives the bytes of a text, a multiple of 4. A last group of fewer than 4
// bytes may be written as the Rust kernel does: a "#" for each byte that is missing,
// then the digits of those that are there. (By the RFC no group begins with "#": it
// would stand for more than 4 bytes.) The error wraps ErrCorrupt.
func DecodeZ85(text string) ([]byte, error) {
	if len(text)%5 != 0 {
		return nil, fmt.Errorf("%w: Z85 text of %d characters", ErrCorrupt, len(text))
	}
	out := make([]byte, 0, len(text)/5*4)
	for i := 0; i < len(text); i += 5 {
		group, missing := text[i:i+5], 0
		for i+5 == len(text) && missing < 3 && group[missing] == '#' {
			missing++
		}
		v := uint64(0)
		for j := missing; j < 5; j++ {
			d := z85Values[group[j]]
			if d < 0 {
				return nil, fmt.Errorf("%w: %q is no Z85 character", ErrCorrupt, group[j])
			}
			v = v*85 + uint64(d)
		}
		if v>>(8*(4-missing)) != 0 {
			return nil, fmt.Errorf("%w: %q stands for more than %d bytes in Z85", ErrCorrupt, group, 4-missing)
		}
		out = binary.BigEndian.AppendUint32(out, uint32(v)<<(8*missing))
	}
	return out, nil
}
