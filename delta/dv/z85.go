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

// DecodeZ85 gives the bytes of a text. The error wraps ErrCorrupt.
func DecodeZ85(text string) ([]byte, error) {
	if len(text)%5 != 0 {
		return nil, fmt.Errorf("%w: Z85 text of %d characters", ErrCorrupt, len(text))
	}
	out := make([]byte, 0, len(text)/5*4)
	for i := 0; i < len(text); i += 5 {
		v := uint64(0)
		for j := range 5 {
			d := z85Values[text[i+j]]
			if d < 0 {
				return nil, fmt.Errorf("%w: %q is no Z85 character", ErrCorrupt, text[i+j])
			}
			v = v*85 + uint64(d)
		}
		// Some writers fill the last group with characters that stand for more
		// than 4 bytes; Spark and the kernels cut them, so they are read alike.
		out = binary.BigEndian.AppendUint32(out, uint32(v))
	}
	return out, nil
}
