package decode

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// avroScanner passes over values in Avro's binary encoding, checks them and
// allocates nothing. Like scanner's, its methods take the index where to begin and
// give the index behind what they read, or -1 after the first fault, which err
// then tells.
type avroScanner struct {
	b   []byte
	err error
	// steps is what is left for values that take no bytes: a schema can nest
	// records so that a short text stands for billions of them.
	steps int
}

// freeSteps is how many fields and items a record may have beyond its bytes.
const freeSteps = 1 << 16

func (s *avroScanner) reset(b []byte, at int) {
	s.b, s.err, s.steps = b, nil, freeSteps+8*(len(b)-at)
}

var (
	errAvroEnds  = errors.New("the record ends early")
	errVarint    = errors.New("an integer has too many bytes")
	errAvroInt   = errors.New("an int has more than 32 bits")
	errAvroBool  = errors.New("a boolean is neither 0 nor 1")
	errAvroUTF8  = errors.New("a string is no valid UTF-8")
	errAvroDeep  = fmt.Errorf("nested more than %d deep", maxDepth)
	errAvroSteps = errors.New("more values than the record has bytes for")
)

func (s *avroScanner) fail(i int, err error) int {
	s.err = fmt.Errorf("avro at byte %d: %w", i, err)
	return -1
}

// long reads a zigzag integer.
func (s *avroScanner) long(i int) (int64, int) {
	if i < len(s.b) && s.b[i] < 0x80 {
		u := uint64(s.b[i])
		return int64(u>>1) ^ -int64(u&1), i + 1
	}
	var u uint64
	for n := range 10 {
		if i+n >= len(s.b) {
			return 0, s.fail(i, errAvroEnds)
		}
		c := s.b[i+n]
		if n == 9 && c > 1 {
			break
		}
		u |= uint64(c&0x7f) << (7 * n)
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), i + n + 1
		}
	}
	return 0, s.fail(i, errVarint)
}

// int is long of an int.
func (s *avroScanner) int(i int) (int64, int) {
	n, end := s.long(i)
	if end >= 0 && int64(int32(n)) != n {
		return 0, s.fail(i, errAvroInt)
	}
	return n, end
}

// span reads the length of bytes or of a string, and gives where they are.
func (s *avroScanner) span(i int) (from, to int) {
	n, from := s.long(i)
	switch {
	case from < 0:
		return 0, from
	case n < 0 || n > int64(len(s.b)-from):
		return 0, s.fail(i, fmt.Errorf("a length of %d bytes where %d are left", n, len(s.b)-from))
	}
	return from, from + int(n)
}

// branch reads which type of a union follows.
func (s *avroScanner) branch(t *avroType, i int) (*avroType, int) {
	n, end := s.long(i)
	if end >= 0 && uint64(n) >= uint64(len(t.branches)) {
		end = s.fail(i, fmt.Errorf("branch %d of a union of %d", n, len(t.branches)))
	}
	if end < 0 {
		return nil, end
	}
	return t.branches[n], end
}

// symbol reads a value of an enum.
func (s *avroScanner) symbol(t *avroType, i int) (string, int) {
	n, end := s.long(i)
	if end >= 0 && uint64(n) >= uint64(len(t.symbols)) {
		end = s.fail(i, fmt.Errorf("symbol %d of an enum of %d", n, len(t.symbols)))
	}
	if end < 0 {
		return "", end
	}
	return t.symbols[n], end
}

// block reads how many items follow; 0 at the end of the array or map.
func (s *avroScanner) block(i int) (n int64, end int) {
	if n, end = s.long(i); end < 0 || n >= 0 {
		return n, end
	}
	size, end := s.long(end)
	switch {
	case end < 0:
		return 0, end
	case n == math.MinInt64 || size < 0 || size > int64(len(s.b)-end):
		return 0, s.fail(i, fmt.Errorf("a block of %d items in %d bytes where %d are left", n, size, len(s.b)-end))
	}
	return -n, end
}

// step counts values that may take no bytes.
func (s *avroScanner) step(i, n int) bool {
	if s.steps -= n; s.steps < 0 {
		s.fail(i, errAvroSteps)
		return false
	}
	return true
}

// skip passes over a value.
func (s *avroScanner) skip(t *avroType, i, depth int) int {
	switch t.kind {
	case avroLong:
		_, i = s.long(i)
		return i
	case avroInt:
		_, i = s.int(i)
		return i
	case avroString:
		from, to := s.span(i)
		if to >= 0 && !utf8.Valid(s.b[from:to]) {
			return s.fail(from, errAvroUTF8)
		}
		return to
	case avroBytes:
		_, to := s.span(i)
		return to
	case avroNull:
		return i
	case avroUnion:
		branch, at := s.branch(t, i)
		if at < 0 {
			return at
		}
		return s.skip(branch, at, depth)
	case avroBoolean:
		return s.boolean(i)
	case avroFloat:
		return s.fixed(i, 4)
	case avroDouble:
		return s.fixed(i, 8)
	case avroFixed:
		return s.fixed(i, t.size)
	case avroEnum:
		_, i = s.symbol(t, i)
		return i
	case avroRecord:
		if depth >= maxDepth {
			return s.fail(i, errAvroDeep)
		}
		if !s.step(i, len(t.fields)+1) {
			return -1
		}
		for f := 0; f < len(t.fields) && i >= 0; f++ {
			i = s.skip(t.fields[f].typ, i, depth+1)
		}
		return i
	}
	return s.items(t, i, depth, func(_ string, i int) int { return s.skip(t.item, i, depth+1) })
}

func (s *avroScanner) boolean(i int) int {
	switch {
	case i >= len(s.b):
		return s.fail(i, errAvroEnds)
	case s.b[i] > 1:
		return s.fail(i, errAvroBool)
	}
	return i + 1
}

func (s *avroScanner) fixed(i, size int) int {
	if size > len(s.b)-i {
		return s.fail(i, errAvroEnds)
	}
	return i + size
}

// items calls each at the items of an array, and at the values of a map, with their keys.
func (s *avroScanner) items(t *avroType, i, depth int, each func(key string, i int) int) int {
	if depth >= maxDepth {
		return s.fail(i, errAvroDeep)
	}
	for {
		n, at := s.block(i)
		if i = at; i < 0 || n == 0 {
			return i
		}
		for ; n > 0; n-- {
			if !s.step(i, 1) {
				return -1
			}
			key := ""
			if t.kind == avroMap {
				from, to := s.span(i)
				if to < 0 {
					return to
				}
				key = view(s.b[from:to])
				if i = to; !utf8.ValidString(key) {
					return s.fail(from, errAvroUTF8)
				}
			}
			if i = each(key, i); i < 0 {
				return i
			}
		}
	}
}
