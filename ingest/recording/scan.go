package recording

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// The scanner knows just enough JSON to check a line and to find its members.
// It accepts what encoding/json accepts (a fuzz test holds it to that) at a
// multiple of the speed, without allocating.

var errSyntax = errors.New("no valid JSON")

// maxDepth is encoding/json's own limit.
const maxDepth = 10000

func syntaxError(at int, what string) error {
	return fmt.Errorf("%w at byte %d: %s", errSyntax, at+1, what)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks the bytes of x that end a run of plain string characters:
// quote, backslash, control characters. Only its lowest mark is exact.
func special(x uint64) uint64 {
	q, s := x^(ones*'"'), x^(ones*'\\')
	return ((q-ones)&^q | (s-ones)&^s | (x-ones*0x20)&^x) & highs
}

// plainRun gives the index of the first special byte at or behind i, len(b) if there is none.
func plainRun(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		if m := special(binary.LittleEndian.Uint64(b[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= 0x20 {
		i++
	}
	return i
}

// skipString gives the index behind the closing quote of the string that
// begins (behind its opening quote) at i.
func skipString(b []byte, i int) (int, error) {
	for {
		// Escaped quotes are a tenth of a kcat payload, so runs are short: the
		// first eight bytes are looked at here, without a call.
		if i+8 <= len(b) {
			m := special(binary.LittleEndian.Uint64(b[i:]))
			if m == 0 {
				i = plainRun(b, i+8)
			} else {
				i += bits.TrailingZeros64(m) / 8
			}
		} else {
			i = plainRun(b, i)
		}
		if i >= len(b) {
			return i, syntaxError(i, "a string without an end")
		}
		if b[i] == '"' {
			return i + 1, nil
		}
		if b[i] != '\\' {
			return i, syntaxError(i, "a control character in a string")
		}
		i++
		switch {
		case i >= len(b):
			return i, syntaxError(i, "a string without an end")
		case escapes[b[i]] != 0:
			i++
		case b[i] != 'u':
			return i, syntaxError(i, "an unknown escape in a string")
		case hex4(b, i+1) < 0:
			return i, syntaxError(i, "\\u without four hex digits")
		default:
			i += 5
		}
	}
}

// hex4 reads four hex digits at i, -1 if there are none.
func hex4(b []byte, i int) rune {
	if i+4 > len(b) {
		return -1
	}
	var r rune
	for _, c := range b[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// skipValue checks the value that begins at i and gives the index behind it.
// depth counts the containers around it.
func skipValue(b []byte, i, depth int) (int, error) {
	if i >= len(b) {
		return i, syntaxError(i, "cut off")
	}
	switch c := b[i]; {
	case c == '"':
		return skipString(b, i+1)
	case c == '{' || c == '[':
		return skipContainer(b, i, depth)
	case c == '-' || c >= '0' && c <= '9':
		return skipNumber(b, i)
	case c == 't':
		return skipWord(b, i, "true")
	case c == 'f':
		return skipWord(b, i, "false")
	case c == 'n':
		return skipWord(b, i, "null")
	}
	return i, syntaxError(i, "not the begin of a value")
}

func skipWord(b []byte, i int, word string) (int, error) {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return i, syntaxError(i, "not the begin of a value")
	}
	return i + len(word), nil
}

func skipContainer(b []byte, i, depth int) (int, error) {
	if depth >= maxDepth {
		return i, syntaxError(i, "nested too deeply")
	}
	object := b[i] == '{'
	end := byte(']')
	if object {
		end = '}'
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == end {
		return i + 1, nil
	}
	for {
		var err error
		if object {
			if i >= len(b) || b[i] != '"' {
				return i, syntaxError(i, "a member name must stand here")
			}
			if i, err = skipString(b, i+1); err != nil {
				return i, err
			}
			if i, err = skipColon(b, i); err != nil {
				return i, err
			}
		}
		if i, err = skipValue(b, i, depth+1); err != nil {
			return i, err
		}
		i = skipSpace(b, i)
		switch {
		case i >= len(b):
			return i, syntaxError(i, "cut off")
		case b[i] == end:
			return i + 1, nil
		case b[i] != ',':
			return i, syntaxError(i, "a comma or the end must stand here")
		}
		i = skipSpace(b, i+1)
	}
}

func skipColon(b []byte, i int) (int, error) {
	i = skipSpace(b, i)
	if i >= len(b) || b[i] != ':' {
		return i, syntaxError(i, "a colon must stand here")
	}
	return skipSpace(b, i+1), nil
}

func skipNumber(b []byte, i int) (int, error) {
	if b[i] == '-' {
		i++
	}
	from := i
	i = skipDigits(b, i)
	if i == from || b[from] == '0' && i > from+1 {
		return i, syntaxError(from, "not a number")
	}
	if i < len(b) && b[i] == '.' {
		from = i + 1
		if i = skipDigits(b, from); i == from {
			return i, syntaxError(i, "not a number")
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		from = i
		if i = skipDigits(b, from); i == from {
			return i, syntaxError(i, "not a number")
		}
	}
	return i, nil
}

func skipDigits(b []byte, i int) int {
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	return i
}

// validJSON tells whether b is exactly one JSON value without space around it.
func validJSON(b []byte) bool {
	end, err := skipValue(b, 0, 0)
	return err == nil && end == len(b)
}

// decodeString decodes the JSON string that begins (behind its opening quote)
// at i in place, and gives its text, which lies in b from i on since no escape
// is shorter than what it stands for, and the index behind its closing quote.
// It checks what skipString checks; bytes that are no UTF-8 stay as they are.
func decodeString(b []byte, i int) (text []byte, end int, err error) {
	r := plainRun(b, i)
	w := r
	for r < len(b) {
		switch c := b[r]; {
		case c == '"':
			return b[i:w:w], r + 1, nil
		case c != '\\':
			return nil, r, syntaxError(r, "a control character in a string")
		case r+1 < len(b) && escapes[b[r+1]] != 0:
			b[w] = escapes[b[r+1]]
			r, w = r+2, w+1
		case hex4(b, r+2) >= 0 && b[r+1] == 'u':
			var n int
			r, n = decodeRune(b, r, w)
			w += n
		default:
			return nil, r, syntaxError(r+1, "an unknown escape in a string")
		}
		// Once writing lags eight bytes behind, eight bytes can be written at a
		// time: what is too much lands on bytes that were read already.
		for r+8 <= len(b) && r-w >= 8 {
			x := binary.LittleEndian.Uint64(b[r:])
			binary.LittleEndian.PutUint64(b[w:], x)
			if m := special(x); m != 0 {
				n := bits.TrailingZeros64(m) / 8
				r, w = r+n, w+n
				break
			}
			r, w = r+8, w+8
		}
		if end := plainRun(b, r); end > r {
			w += copy(b[w:], b[r:end])
			r = end
		}
	}
	return nil, r, syntaxError(r, "a string without an end")
}

var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// decodeRune decodes the \u escape at r to w, and gives the index behind it
// and the bytes written. Half a surrogate pair becomes U+FFFD, as in encoding/json.
func decodeRune(b []byte, r, w int) (next, n int) {
	char := hex4(b, r+2)
	r += 6
	if utf16.IsSurrogate(char) {
		pair := rune(utf8.RuneError)
		if r+1 < len(b) && b[r] == '\\' && b[r+1] == 'u' {
			pair = utf16.DecodeRune(char, hex4(b, r+2))
		}
		if char = pair; pair != utf8.RuneError {
			r += 6
		}
	}
	return r, utf8.EncodeRune(b[w:w+4:w+4], char)
}
