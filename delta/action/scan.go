package action

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads one JSON object by hand: reflection and a tree of values would
// cost several times the reading of the file, and a table is opened by reading
// thousands of lines. Strings without escapes are parts of s, not copies.
type scanner struct {
	s       string
	i       int
	scratch []byte
}

// maxNesting bounds the nesting of values that are skipped.
const maxNesting = 256

var errEnd = errors.New("the line ends early")

func (p *scanner) errorf(format string, args ...any) error {
	return fmt.Errorf("byte %d: "+format, append([]any{p.i}, args...)...)
}

// peek skips white space and gives the next byte, 0 at the end.
func (p *scanner) peek() byte {
	for p.i < len(p.s) {
		switch c := p.s[p.i]; c {
		case ' ', '\t', '\r', '\n':
			p.i++
		default:
			return c
		}
	}
	return 0
}

func (p *scanner) expect(c byte) error {
	if got := p.peek(); got != c {
		if p.i >= len(p.s) {
			return errEnd
		}
		return p.errorf("%q instead of %q", got, c)
	}
	p.i++
	return nil
}

// object calls field for every key, with the scanner at the key's value.
func (p *scanner) object(field func(key string) error) error {
	if err := p.expect('{'); err != nil {
		return err
	}
	if p.peek() == '}' {
		p.i++
		return nil
	}
	for {
		key, err := p.str()
		if err != nil {
			return err
		}
		if err := p.expect(':'); err != nil {
			return err
		}
		if err := field(key); err != nil {
			return err
		}
		switch p.peek() {
		case ',':
			p.i++
		case '}':
			p.i++
			return nil
		default:
			return p.expect('}')
		}
	}
}

// array calls element with the scanner at each element.
func (p *scanner) array(element func() error) error {
	if err := p.expect('['); err != nil {
		return err
	}
	if p.peek() == ']' {
		p.i++
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		switch p.peek() {
		case ',':
			p.i++
		case ']':
			p.i++
			return nil
		default:
			return p.expect(']')
		}
	}
}

// null consumes a null and reports whether there was one.
func (p *scanner) null() bool {
	if p.peek() == 'n' && len(p.s)-p.i >= 4 && p.s[p.i:p.i+4] == "null" {
		p.i += 4
		return true
	}
	return false
}

func (p *scanner) str() (string, error) {
	if err := p.expect('"'); err != nil {
		return "", err
	}
	start := p.i
	for j := start; j < len(p.s); j++ {
		switch c := p.s[j]; {
		case c == '"':
			p.i = j + 1
			return p.s[start:j], nil
		case c == '\\':
			return p.escaped(start, j)
		case c < 0x20:
			p.i = j
			return "", p.errorf("control character in a string")
		}
	}
	return "", errEnd
}

// escaped reads a string that has its first backslash at j.
func (p *scanner) escaped(start, j int) (string, error) {
	s, out := p.s, append(p.scratch[:0], p.s[start:j]...)
	for j < len(s) {
		run := j
		for j < len(s) && s[j] != '"' && s[j] != '\\' && s[j] >= 0x20 {
			j++
		}
		out = append(out, s[run:j]...)
		if j >= len(s) {
			break
		}
		if s[j] == '"' {
			p.i, p.scratch = j+1, out
			return string(out), nil
		}
		if s[j] < 0x20 {
			p.i = j
			return "", p.errorf("control character in a string")
		}
		if j+1 >= len(s) {
			break
		}
		switch c := s[j+1]; c {
		case '"', '\\', '/':
			out = append(out, c)
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, ok := hex4(s, j+2)
			if !ok {
				p.i = j
				return "", p.errorf("bad \\u escape")
			}
			j += 4
			if utf16.IsSurrogate(r) {
				if low, ok := escapedRune(s, j+2); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
					r = utf16.DecodeRune(r, low)
					j += 6
				} else {
					r = utf8.RuneError
				}
			}
			out = utf8.AppendRune(out, r)
		default:
			p.i = j
			return "", p.errorf("bad escape \\%c", c)
		}
		j += 2
	}
	return "", errEnd
}

func escapedRune(s string, i int) (rune, bool) {
	if i+2 > len(s) || s[i] != '\\' || s[i+1] != 'u' {
		return 0, false
	}
	return hex4(s, i+2)
}

func hex4(s string, i int) (rune, bool) {
	if i+4 > len(s) {
		return 0, false
	}
	var r rune
	for _, c := range []byte(s[i : i+4]) {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// strOrNull reads null as "".
func (p *scanner) strOrNull() (string, error) {
	if p.null() {
		return "", nil
	}
	return p.str()
}

// integer reads a JSON integer. A null is 0: writers leave optional numbers out
// in either way.
func (p *scanner) integer() (int64, error) {
	if p.null() {
		return 0, nil
	}
	p.peek()
	negative := p.i < len(p.s) && p.s[p.i] == '-'
	j := p.i
	if negative {
		j++
	}
	first, n := j, uint64(0)
	for ; j < len(p.s) && '0' <= p.s[j] && p.s[j] <= '9'; j++ {
		if n > (math.MaxUint64-9)/10 {
			return 0, p.errorf("number out of range")
		}
		n = n*10 + uint64(p.s[j]-'0')
	}
	switch {
	case j == first:
		return 0, p.errorf("no integer")
	case j < len(p.s) && (p.s[j] == '.' || p.s[j] == 'e' || p.s[j] == 'E'):
		return 0, p.errorf("a fraction where an integer is due")
	case negative && n > -math.MinInt64, !negative && n > math.MaxInt64:
		return 0, p.errorf("number out of range")
	}
	p.i = j
	if negative {
		return -int64(n), nil
	}
	return int64(n), nil
}

func (p *scanner) int32() (int32, error) {
	n, err := p.integer()
	if err == nil && (n < math.MinInt32 || n > math.MaxInt32) {
		return 0, p.errorf("number out of range")
	}
	return int32(n), err
}

// optional reads an integer that may be null.
func (p *scanner) optional() (*int64, error) {
	if p.null() {
		return nil, nil
	}
	n, err := p.integer()
	return &n, err
}

// boolean reads true or false; null is false.
func (p *scanner) boolean() (bool, error) {
	p.peek()
	rest := p.s[p.i:]
	switch {
	case len(rest) >= 4 && rest[:4] == "true":
		p.i += 4
		return true, nil
	case len(rest) >= 5 && rest[:5] == "false":
		p.i += 5
		return false, nil
	case p.null():
		return false, nil
	}
	return false, p.errorf("no boolean")
}

// values reads a map of strings and nulls. An empty map is nil. Numbers and
// booleans, which some writers put there, are taken as their text.
func (p *scanner) values() (map[string]*string, error) {
	if p.null() {
		return nil, nil
	}
	var m map[string]*string
	err := p.object(func(key string) error {
		if m == nil {
			m = make(map[string]*string)
		}
		if p.null() {
			m[key] = nil
			return nil
		}
		text, err := p.text()
		m[key] = &text
		return err
	})
	return m, err
}

// strings reads a map of strings; nulls are left out.
func (p *scanner) strings() (map[string]string, error) {
	if p.null() {
		return nil, nil
	}
	var m map[string]string
	err := p.object(func(key string) error {
		if p.null() {
			return nil
		}
		text, err := p.text()
		if m == nil {
			m = make(map[string]string)
		}
		m[key] = text
		return err
	})
	return m, err
}

// text reads a string, or any other value as its JSON.
func (p *scanner) text() (string, error) {
	if p.peek() == '"' {
		return p.str()
	}
	start := p.i
	err := p.skip()
	return p.s[start:p.i], err
}

// names reads a list of strings; nil for null, not nil for an empty list.
func (p *scanner) names() ([]string, error) {
	if p.null() {
		return nil, nil
	}
	list := []string{}
	err := p.array(func() error {
		s, err := p.str()
		list = append(list, s)
		return err
	})
	return list, err
}

// skip passes over any value. Brackets and strings are checked, the rest is not.
func (p *scanner) skip() error {
	var open [maxNesting]byte
	depth := 0
	for {
		switch c := p.peek(); c {
		case 0:
			if p.i >= len(p.s) {
				return errEnd
			}
			return p.errorf("a zero byte")
		case '{', '[':
			if depth == maxNesting {
				return p.errorf("nested deeper than %d", maxNesting)
			}
			open[depth] = c + 2 // '{'+2 is '}', '['+2 is ']'
			depth++
			p.i++
		case '}', ']':
			if depth == 0 || open[depth-1] != c {
				return p.errorf("unexpected %q", c)
			}
			depth--
			p.i++
		case '"':
			if err := p.pass(); err != nil {
				return err
			}
		case ',', ':':
			if depth == 0 {
				return p.errorf("unexpected %q", c)
			}
			p.i++
			continue
		default:
			if err := p.bare(); err != nil {
				return err
			}
		}
		if depth == 0 {
			return nil
		}
	}
}

// pass skips a string without decoding it.
func (p *scanner) pass() error {
	for j := p.i + 1; j < len(p.s); j++ {
		switch p.s[j] {
		case '\\':
			j++
		case '"':
			p.i = j + 1
			return nil
		}
	}
	return errEnd
}

// bare skips a number, true, false or null.
func (p *scanner) bare() error {
	start := p.i
	for p.i < len(p.s) {
		c := p.s[p.i]
		if c != '+' && c != '-' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && c != 'E' {
			break
		}
		p.i++
	}
	if p.i == start {
		return p.errorf("unexpected %q", p.s[p.i])
	}
	return nil
}
