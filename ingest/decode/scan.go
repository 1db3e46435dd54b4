package decode

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// maxDepth bounds the nesting of a record: deeper than any MySQL JSON value
// (100), far below what a stack can take.
const maxDepth = 128

// A kind is what a token is.
type kind uint8

const (
	kindNone kind = iota
	kindNull
	kindFalse
	kindTrue
	kindNumber
	kindString
	kindObject
	kindArray
)

var kindNames = [...]string{"nothing", "null", "false", "true", "a number", "a string", "an object", "an array"}

func (k kind) String() string { return kindNames[k] }

// flags of a token.
const (
	// flagEscaped: the string has backslashes.
	flagEscaped uint8 = 1 << iota
	// flagInteger: the number has neither fraction nor exponent.
	flagInteger
	// flagSpaced: there is white space inside the object or array.
	flagSpaced
)

// token is one JSON value in the scanned bytes: the text between the quotes of
// a string, the whole text of anything else.
type token struct {
	start, end int32
	kind       kind
	flags      uint8
}

// member is one member of an object.
type member struct {
	name, value token
}

// scanner reads JSON strictly (RFC 8259, valid UTF-8) and without allocating.
// Its methods take the index where to begin and give the index behind what
// they read, or -1 after the first fault, which err then tells.
type scanner struct {
	b   []byte
	err error
	// spaced is raised by white space; objects and arrays note it.
	spaced bool
}

func (s *scanner) reset(b []byte) { s.b, s.err, s.spaced = b, nil, false }

func (s *scanner) fail(i int, what string) int {
	if i >= len(s.b) {
		what = "the text ends early"
	}
	s.err = fmt.Errorf("json at byte %d: %s", i, what)
	return -1
}

func (s *scanner) failWith(i int, err error) int {
	s.err = fmt.Errorf("at byte %d: %w", i, err)
	return -1
}

// space skips white space.
func (s *scanner) space(i int) int {
	for i < len(s.b) {
		switch s.b[i] {
		case ' ', '\n', '\r', '\t':
			s.spaced = true
			i++
		default:
			return i
		}
	}
	return i
}

// next finds the next member of an object: i is behind the opening brace
// (first) or behind the member before. It gives the name and the index of the
// value; a name of kindNone means that the object ends at that index.
func (s *scanner) next(i int, first bool) (name token, at int) {
	b := s.b
	if i < len(b) && b[i] <= ' ' {
		i = s.space(i)
	}
	if i >= len(b) {
		return name, s.fail(i, "")
	}
	switch c := b[i]; {
	case c == '}':
		return name, i + 1
	case first:
	case c != ',':
		return name, s.fail(i, "no comma between members")
	default:
		if i++; i < len(b) && b[i] <= ' ' {
			i = s.space(i)
		}
	}
	if i >= len(b) || b[i] != '"' {
		return name, s.fail(i, "no member name")
	}
	if name, i = s.str(i + 1); i < 0 {
		return token{}, i
	}
	if i < len(b) && b[i] <= ' ' {
		i = s.space(i)
	}
	if i >= len(b) || b[i] != ':' {
		return token{}, s.fail(i, "no colon behind a member name")
	}
	if i++; i < len(b) && b[i] <= ' ' {
		i = s.space(i)
	}
	return name, i
}

// members appends the members of the object whose opening brace is before i.
func (s *scanner) members(i, depth int, dst []member) ([]member, int) {
	if depth > maxDepth {
		return dst, s.fail(i, "nested too deep")
	}
	return s.rest(i, depth, true, dst)
}

// rest is members from behind the opening brace (first) or behind one of them on.
func (s *scanner) rest(i, depth int, first bool, dst []member) ([]member, int) {
	for ; ; first = false {
		name, at := s.next(i, first)
		if at < 0 || name.kind == kindNone {
			return dst, at
		}
		value, end := s.value(at, depth)
		if end < 0 {
			return dst, end
		}
		dst = append(dst, member{name, value})
		i = end
	}
}

// value reads one value of any kind; depth is that of the object it is in.
func (s *scanner) value(i, depth int) (t token, end int) {
	if i >= len(s.b) {
		return t, s.fail(i, "")
	}
	switch c := s.b[i]; c {
	case '"':
		return s.str(i + 1)
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return s.number(i)
	case 'n':
		return s.word(i, "null", kindNull)
	case 't':
		return s.word(i, "true", kindTrue)
	case 'f':
		return s.word(i, "false", kindFalse)
	case '{', '[':
		outer := s.spaced
		s.spaced = false
		end = s.skip(i, depth+1)
		t = token{int32(i), int32(end), kindObject, 0}
		if c == '[' {
			t.kind = kindArray
		}
		if s.spaced {
			t.flags = flagSpaced
		}
		s.spaced = s.spaced || outer
		return t, end
	}
	return t, s.fail(i, "no value")
}

// skip checks the object or array at i.
func (s *scanner) skip(i, depth int) int {
	if depth > maxDepth {
		return s.fail(i, "nested too deep")
	}
	if s.b[i] == '{' {
		i++
		for first := true; ; first = false {
			name, at := s.next(i, first)
			if at < 0 || name.kind == kindNone {
				return at
			}
			if _, i = s.value(at, depth); i < 0 {
				return i
			}
		}
	}
	i = s.space(i + 1)
	if i < len(s.b) && s.b[i] == ']' {
		return i + 1
	}
	for {
		_, end := s.value(i, depth)
		if end < 0 {
			return end
		}
		i = s.space(end)
		switch {
		case i < len(s.b) && s.b[i] == ']':
			return i + 1
		case i >= len(s.b) || s.b[i] != ',':
			return s.fail(i, "no comma between elements")
		}
		i = s.space(i + 1)
	}
}

func (s *scanner) word(i int, word string, k kind) (token, int) {
	end := i + len(word)
	if end > len(s.b) || string(s.b[i:end]) != word {
		return token{}, s.fail(i, "no value")
	}
	return token{int32(i), int32(end), k, 0}, end
}

func digits(b []byte, i int) int {
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

func (s *scanner) number(i int) (t token, end int) {
	b, start := s.b, i
	if b[i] == '-' {
		i++
	}
	first := i
	if i = digits(b, i); i == first || b[first] == '0' && i > first+1 {
		return t, s.fail(first, "no number")
	}
	flags := flagInteger
	if i < len(b) && b[i] == '.' {
		flags = 0
		first = i + 1
		if i = digits(b, first); i == first {
			return t, s.fail(i, "no digit behind the point")
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		flags = 0
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		first = i
		if i = digits(b, first); i == first {
			return t, s.fail(i, "no digit in the exponent")
		}
	}
	return token{int32(start), int32(i), kindNumber, flags}, i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// str reads a string whose opening quote is before i. It looks at eight bytes
// at once for a quote, a backslash or a control character.
func (s *scanner) str(i int) (t token, end int) {
	b, start := s.b, i
	var seen uint64 // its high bits tell that there are bytes beyond ASCII
	var flags uint8
	for {
		for i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			quote, slash := w^(ones*'"'), w^(ones*'\\')
			stop := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*' ')&^w) & highs
			if stop != 0 {
				n := bits.TrailingZeros64(stop) &^ 7
				seen |= w & (1<<n - 1)
				i += n >> 3
				break
			}
			seen |= w
			i += 8
		}
		for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' ' {
			seen |= uint64(b[i])
			i++
		}
		switch {
		case i >= len(b):
			return t, s.fail(i, "")
		case b[i] == '"':
			if seen&highs != 0 && !utf8.Valid(b[start:i]) {
				return t, s.fail(start, "a string is not UTF-8")
			}
			return token{int32(start), int32(i), kindString, flags}, i + 1
		case b[i] < ' ':
			return t, s.fail(i, "a control character in a string")
		}
		flags = flagEscaped
		if i = s.escape(i + 1); i < 0 {
			return t, i
		}
	}
}

// escape checks the escape whose backslash is before i.
func (s *scanner) escape(i int) int {
	if i >= len(s.b) {
		return s.fail(i, "")
	}
	switch s.b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		if i+5 <= len(s.b) {
			if _, ok := hex4(s.b[i+1:]); ok {
				return i + 5
			}
		}
	}
	return s.fail(i, "no such escape")
}

// hex4 reads four hexadecimal digits.
func hex4(b []byte) (r rune, ok bool) {
	for _, c := range b[:4] {
		switch {
		case c-'0' <= 9:
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
