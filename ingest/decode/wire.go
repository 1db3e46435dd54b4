package decode

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// The wire types of protobuf that are read. Groups are not: nothing writes them
// any more.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// span is a stretch of the scanned bytes.
type span struct{ start, end int32 }

// wire reads the fields of one protobuf message, a stretch of b, in their order.
// It allocates nothing, and no length that is declared is believed before the
// bytes are there.
type wire struct {
	b       []byte
	at, end int
	err     error

	// The field read last: its number and type, a varint's value, or where the
	// bytes of any other field are.
	field int
	typ   int
	value uint64
	bytes span
	// seen has a bit for each field up to 63 that was read.
	seen uint64
}

func newWire(b []byte, s span) wire { return wire{b: b, at: int(s.start), end: int(s.end)} }

// next reads one field; false at the end, or after the first fault.
func (w *wire) next() bool {
	if w.err != nil || w.at >= w.end {
		return false
	}
	start := w.at
	tag, ok := w.varint()
	if !ok {
		return w.fail(start, "a field ends early")
	}
	if tag>>3 == 0 || tag>>3 > 1<<29-1 {
		return w.fail(start, "no field has such a number")
	}
	w.field, w.typ, w.value, w.bytes = int(tag>>3), int(tag&7), 0, span{}
	n := 0
	switch w.typ {
	case wireVarint:
		if w.value, ok = w.varint(); !ok {
			return w.fail(start, "a number ends early, or is longer than 64 bits")
		}
		return true
	case wireFixed64:
		n = 8
	case wireFixed32:
		n = 4
	case wireBytes:
		length, ok := w.varint()
		if !ok || length > uint64(w.end-w.at) {
			return w.fail(start, "a field is longer than what it is in")
		}
		n = int(length)
	default:
		return w.fail(start, fmt.Sprintf("wire type %d is not read", w.typ))
	}
	if n > w.end-w.at {
		return w.fail(start, "a field ends early")
	}
	w.bytes = span{int32(w.at), int32(w.at + n)}
	w.at += n
	return true
}

// varint reads up to ten bytes. One of more than 64 bits is not ok.
func (w *wire) varint() (v uint64, ok bool) {
	for shift := uint(0); shift < 64 && w.at < w.end; shift += 7 {
		c := w.b[w.at]
		w.at++
		if shift == 63 && c > 1 {
			return 0, false
		}
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v, true
		}
	}
	return 0, false
}

func (w *wire) fail(at int, what string) bool {
	w.err = fmt.Errorf("protobuf at byte %d: %s", at, what)
	return false
}

// is reports whether the field read last is the one of the number; a field of
// another wire type, or one that comes twice, is a fault.
func (w *wire) is(typ int) bool {
	switch bit := uint64(1) << (w.field & 63); {
	case w.typ != typ:
		return w.fail(w.at, fmt.Sprintf("field %d has wire type %d, not %d", w.field, w.typ, typ))
	case w.field < 64 && w.seen&bit != 0:
		return w.fail(w.at, fmt.Sprintf("field %d twice", w.field))
	default:
		w.seen |= bit
	}
	return true
}

// many is is for a field that may come again.
func (w *wire) many() bool {
	if w.typ != wireBytes {
		return w.fail(w.at, fmt.Sprintf("field %d has wire type %d, not %d", w.field, w.typ, wireBytes))
	}
	return true
}

// text sets s to the field, which must be UTF-8.
func (w *wire) text(s *span) {
	if w.is(wireBytes) {
		if *s = w.bytes; !utf8.Valid(w.b[s.start:s.end]) {
			w.fail(int(s.start), "a string is not UTF-8")
		}
	}
}

// message sets s to the field.
func (w *wire) message(s *span) {
	if w.is(wireBytes) {
		*s = w.bytes
	}
}

// long sets n to the field, an int64.
func (w *wire) long(n *int64) {
	if w.is(wireVarint) {
		*n = int64(w.value)
	}
}

// enum sets n to the field, an enum or a bool.
func (w *wire) enum(n *int) {
	if w.is(wireVarint) {
		if *n = int(min(w.value, math.MaxInt32)); w.value > math.MaxInt32 {
			w.fail(w.at, fmt.Sprintf("field %d has no such value", w.field))
		}
	}
}

// appendBytesField appends a field of bytes to a message.
func appendBytesField(dst []byte, field int, b []byte) []byte {
	dst = appendVarint(dst, uint64(field)<<3|wireBytes)
	return append(appendVarint(dst, uint64(len(b))), b...)
}

// appendVarintField appends a field of a number to a message.
func appendVarintField(dst []byte, field int, v uint64) []byte {
	return appendVarint(appendVarint(dst, uint64(field)<<3|wireVarint), v)
}

func appendVarint(dst []byte, v uint64) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}
