package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go/encoding/thrift"
)

// ErrCorrupt is wrapped by every error about bytes that are no Parquet file,
// or one that contradicts itself.
var ErrCorrupt = errors.New("corrupt Parquet file")

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
}

// catch turns a panic below into a corruption error. Everything that decodes
// foreign bytes defers it; code that calls back into the caller does not.
func catch(err *error) {
	if p := recover(); p != nil {
		*err = corrupt("decoder stopped: %v", p)
	}
}

// decodeThrift reads one struct from the front of b and returns its length.
// The decoder allocates what a list declares and recurses without limit, so
// the bytes are walked first. The value may share memory with b.
func decodeThrift(b []byte, value any) (n int, err error) {
	defer catch(&err)
	w := thriftWalker{b: b}
	if err := w.structure(0); err != nil {
		return 0, err
	}
	var protocol thrift.CompactProtocol
	if err := thrift.NewDecoder(protocol.NewReaderFromBytes(b[:w.at])).Decode(value); err != nil {
		return 0, corrupt("metadata: %v", err)
	}
	return w.at, nil
}

// thriftWalker walks a struct of the compact protocol and checks that its
// lists and strings lie within the bytes.
type thriftWalker struct {
	b  []byte
	at int
}

// Types of the compact protocol.
const (
	tTrue = 1 + iota
	tFalse
	tI8
	tI16
	tI32
	tI64
	tDouble
	tBinary
	tList
	tSet
	tMap
	tStruct
	tUUID
)

const maxThriftDepth = 32

var errThrift = corrupt("metadata is cut off or nested too deep")

func (w *thriftWalker) skip(n uint64) error {
	if n > uint64(len(w.b)-w.at) {
		return errThrift
	}
	w.at += int(n)
	return nil
}

func (w *thriftWalker) byte() (byte, error) {
	if w.at >= len(w.b) {
		return 0, errThrift
	}
	w.at++
	return w.b[w.at-1], nil
}

func (w *thriftWalker) uvarint() (uint64, error) {
	v, n := binary.Uvarint(w.b[w.at:])
	if n <= 0 {
		return 0, errThrift
	}
	w.at += n
	return v, nil
}

func (w *thriftWalker) structure(depth int) error {
	if depth > maxThriftDepth {
		return errThrift
	}
	for {
		h, err := w.byte()
		if err != nil {
			return err
		}
		if h == 0 {
			return nil
		}
		if h>>4 == 0 {
			if _, err := w.uvarint(); err != nil {
				return err
			}
		}
		if t := h & 15; t != tTrue && t != tFalse { // a boolean field is its type
			if err := w.value(t, depth); err != nil {
				return err
			}
		}
	}
}

func (w *thriftWalker) value(t byte, depth int) error {
	switch t {
	case tTrue, tFalse, tI8:
		return w.skip(1)
	case tI16, tI32, tI64:
		_, err := w.uvarint()
		return err
	case tDouble:
		return w.skip(8)
	case tUUID:
		return w.skip(16)
	case tBinary:
		n, err := w.uvarint()
		if err != nil {
			return err
		}
		return w.skip(n)
	case tList, tSet:
		return w.list(depth)
	case tMap:
		return errThrift // Parquet has none
	case tStruct:
		return w.structure(depth + 1)
	}
	return errThrift
}

func (w *thriftWalker) list(depth int) error {
	h, err := w.byte()
	if err != nil {
		return err
	}
	size := uint64(h >> 4)
	if size == 15 {
		if size, err = w.uvarint(); err != nil {
			return err
		}
	}
	if size > uint64(len(w.b)-w.at) {
		return errThrift
	}
	from := w.at
	for range size {
		if err := w.value(h&15, depth+1); err != nil {
			return err
		}
	}
	// A struct takes up to 500 bytes of memory. Lists of near-empty ones,
	// which no writer makes, must not multiply the file's size by that.
	if h&15 == tStruct && size > 256 && uint64(w.at-from) < 3*size {
		return errThrift
	}
	return nil
}
