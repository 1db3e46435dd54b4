package binlog

import (
	"encoding/binary"
	"errors"
)

var errShort = errors.New("the event is too short")

// cursor takes an event's body apart. After the first fault all it gives is empty,
// and err tells.
type cursor struct {
	b   []byte
	err error
}

func (c *cursor) fail() { c.b, c.err = nil, errShort }

// take gives the next n bytes.
func (c *cursor) take(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.fail()
		return nil
	}
	out := c.b[:n:n]
	c.b = c.b[n:]
	return out
}

// uint reads an unsigned integer of n bytes, little-endian.
func (c *cursor) uint(n int) uint64 {
	b := c.take(uint64(n))
	return littleEndian(b)
}

// length reads a length-encoded integer.
func (c *cursor) length() uint64 {
	first := c.uint(1)
	switch first {
	case 0xfb: // NULL has no place here
		c.fail()
		return 0
	case 0xfc:
		return c.uint(2)
	case 0xfd:
		return c.uint(3)
	case 0xfe:
		return c.uint(8)
	case 0xff:
		c.fail()
		return 0
	}
	return first
}

// text reads a string behind its length.
func (c *cursor) text() []byte { return c.take(c.length()) }

func littleEndian(b []byte) (n uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		n = n<<8 | uint64(b[i])
	}
	return n
}

func bigEndian(b []byte) (n uint64) {
	for _, x := range b {
		n = n<<8 | uint64(x)
	}
	return n
}

func uint16At(b []byte, i int) uint16 { return binary.LittleEndian.Uint16(b[i:]) }

// bit reports bit i of a bitmap, the lowest of each byte first.
func bit(bitmap []byte, i int) bool { return bitmap[i>>3]>>(i&7)&1 == 1 }

// highBit is bit i where the highest of each byte comes first.
func highBit(bitmap []byte, i int) bool {
	return i>>3 < len(bitmap) && bitmap[i>>3]>>(7-i&7)&1 == 1
}
