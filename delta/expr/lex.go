package expr

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind enumerates what a text is made of.
type tokenKind uint8

const (
	end    tokenKind = iota
	word             // a plain identifier or keyword
	quoted           // "name" or `name`
	text             // 'text'
	number           // 12, -1.5, 1e3
	hexed            // 0x00ff or X'00ff'
	symbol           // = <> < <= > >= ( ) , .
)

// token is one part of a text. value is its content: unquoted, hex digits
// only; of a word and a symbol as written ("!=" becomes "<>").
type token struct {
	kind   tokenKind
	value  string
	offset int
}

// is reports whether a token is a symbol or a keyword (in capitals).
func (t token) is(s string) bool {
	return t.kind == symbol && t.value == s || t.kind == word && strings.EqualFold(t.value, s)
}

// describe names a token for messages.
func (t token) describe() string {
	switch t.kind {
	case end:
		return "the end"
	case text:
		return fmt.Sprintf("text '%s'", shorten(t.value))
	case quoted:
		return fmt.Sprintf("%q", shorten(t.value))
	}
	return shorten(t.value)
}

func shorten(s string) string {
	if len(s) <= 40 {
		return s
	}
	cut := 37
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}

// Limits of a text, so that a hostile one costs little.
const (
	maxText  = 1 << 20
	maxDepth = 200
)

// lex cuts a text into tokens; the last one is end.
func lex(s string) ([]token, error) {
	if len(s) > maxText {
		return nil, &SyntaxError{s[:80], 0, fmt.Sprintf("the expression has %d bytes, more than %d", len(s), maxText)}
	}
	var tokens []token
	for i := 0; ; {
		for i < len(s) && (s[i] == ' ' || s[i] == '\t' || s[i] == '\n' || s[i] == '\r') {
			i++
		}
		if i == len(s) {
			return append(tokens, token{kind: end, offset: i}), nil
		}
		t, next, err := lexOne(s, i)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, t)
		i = next
	}
}

func lexOne(s string, i int) (t token, next int, err error) {
	fault := func(at int, format string, args ...any) error {
		return &SyntaxError{s, at, fmt.Sprintf(format, args...)}
	}
	c := s[i]
	switch {
	case c == '\'' || c == '"' || c == '`':
		value, next, ok := unquote(s, i)
		if !ok {
			return t, 0, fault(i, "the %c that begins here is not closed", c)
		}
		if c == '\'' {
			return token{text, value, i}, next, nil
		}
		if value == "" {
			return t, 0, fault(i, "a name is empty")
		}
		return token{quoted, value, i}, next, nil
	case (c == 'x' || c == 'X') && i+1 < len(s) && s[i+1] == '\'':
		value, next, ok := unquote(s, i+1)
		if !ok {
			return t, 0, fault(i, "the ' that begins here is not closed")
		}
		return token{hexed, value, i}, next, nil
	case c == '0' && i+1 < len(s) && (s[i+1] == 'x' || s[i+1] == 'X'):
		next = i + 2
		for next < len(s) && isWordByte(s[next]) {
			next++
		}
		return token{hexed, s[i+2 : next], i}, next, nil
	case isDigit(c) || (c == '.' || c == '-' || c == '+') && i+1 < len(s) && (isDigit(s[i+1]) || s[i+1] == '.'):
		next = scanNumber(s, i)
		if r, _ := utf8.DecodeRuneInString(s[next:]); next < len(s) && isNameRune(r) {
			return t, 0, fault(i, "neither a number nor a name: put names that begin with a digit in double quotes")
		}
		if _, ok := parseNumber(s[i:next]); !ok {
			return t, 0, fault(i, "%s is no number that can be compared", shorten(s[i:next]))
		}
		return token{number, s[i:next], i}, next, nil
	case strings.IndexByte("=<>!(),", c) >= 0:
		for _, two := range []string{"<>", "<=", ">=", "!="} {
			if strings.HasPrefix(s[i:], two) {
				value := two
				if two == "!=" {
					value = "<>"
				}
				return token{symbol, value, i}, i + 2, nil
			}
		}
		if c == '!' {
			return t, 0, fault(i, "! alone means nothing here: write NOT, or <> between values")
		}
		if strings.HasPrefix(s[i:], "==") {
			return t, 0, fault(i, "== is written = here")
		}
		return token{symbol, s[i : i+1], i}, i + 1, nil
	}
	if c == '.' {
		return token{symbol, ".", i}, i + 1, nil
	}
	r, size := utf8.DecodeRuneInString(s[i:])
	if !isNameRune(r) || r == utf8.RuneError && size == 1 {
		return t, 0, fault(i, "the character %q has no meaning here", r)
	}
	next = i
	for next < len(s) {
		r, size := utf8.DecodeRuneInString(s[next:])
		if !isNameRune(r) || r == utf8.RuneError && size == 1 {
			break
		}
		next += size
	}
	return token{word, s[i:next], i}, next, nil
}

// unquote reads a quoted text from its opening quote on; a doubled quote stands for one.
func unquote(s string, i int) (value string, next int, ok bool) {
	quote := s[i]
	var b strings.Builder
	for j := i + 1; j < len(s); j++ {
		if s[j] != quote {
			b.WriteByte(s[j])
			continue
		}
		if j+1 < len(s) && s[j+1] == quote {
			b.WriteByte(quote)
			j++
			continue
		}
		return b.String(), j + 1, true
	}
	return "", 0, false
}

func scanNumber(s string, i int) int {
	if s[i] == '-' || s[i] == '+' {
		i++
	}
	for i < len(s) && (isDigit(s[i]) || s[i] == '.') {
		i++
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		j := i + 1
		if j < len(s) && (s[j] == '-' || s[j] == '+') {
			j++
		}
		if j < len(s) && isDigit(s[j]) {
			for j < len(s) && isDigit(s[j]) {
				j++
			}
			return j
		}
	}
	return i
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWordByte(c byte) bool {
	return isDigit(c) || c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

func isNameRune(r rune) bool {
	return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}
