package ddl

import (
	"strings"
	"unicode/utf8"
)

type kind uint8

const (
	end    kind = iota
	word        // not quoted: a keyword, a name, a number
	name        // in backquotes
	text        // in single or double quotes
	symbol      // one character
)

// token is a piece of a statement. Its text has no quotes, doubled quotes and
// escapes are resolved.
type token struct {
	kind   kind
	text   string
	double bool // text in double quotes: a name under ANSI_QUOTES
	at     int  // its first byte in the statement
}

// is reports whether the token is one of some keywords, given in capitals.
func (t token) is(words ...string) bool {
	if t.kind != word {
		return false
	}
	for _, w := range words {
		if strings.EqualFold(t.text, w) {
			return true
		}
	}
	return false
}

func (t token) symbol(c string) bool { return t.kind == symbol && t.text == c }

const (
	modeAnsiQuotes         = 1 << 2
	modeOracle             = 1 << 9
	modeNoBackslashEscapes = 1 << 20
)

// lex cuts a statement into tokens, with one of kind end behind the last.
func lex(s string, session Session) ([]token, *SyntaxError) {
	var tokens []token
	executable := 0 // how many executable comments are open
	for i := 0; ; {
		for i < len(s) && isSpace(s[i]) {
			i++
		}
		if i >= len(s) {
			return append(tokens, token{kind: end, at: len(s)}), nil
		}
		rest := s[i:]
		switch c := s[i]; {
		case c == '#', strings.HasPrefix(rest, "--") && (len(rest) == 2 || rest[2] <= ' '):
			if n := strings.IndexByte(rest, '\n'); n >= 0 {
				i += n + 1
			} else {
				i = len(s)
			}
		case executable > 0 && strings.HasPrefix(rest, "*/"):
			executable--
			i += 2
		case strings.HasPrefix(rest, "/*"):
			if n, run := executableComment(rest, session); run {
				executable++
				i += n
				continue
			}
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				return nil, &SyntaxError{Statement: s, Offset: i, Reason: "a comment has no end"}
			}
			i += n + 4
		case c == '`', c == '"', c == '\'':
			escapes := c != '`' && session.SQLMode&modeNoBackslashEscapes == 0 && (c != '"' || session.SQLMode&modeAnsiQuotes == 0)
			value, n := quoted(rest, escapes)
			if n < 0 {
				return nil, &SyntaxError{Statement: s, Offset: i, Reason: "a quote has no end"}
			}
			t := token{kind: text, text: value, double: c == '"', at: i}
			if c == '`' {
				t.kind = name
			}
			tokens = append(tokens, t)
			i += n
		case isWord(c):
			n := 1
			for n < len(rest) && (isWord(rest[n]) || rest[n] == '.' && isNumber(rest[:n])) {
				n++
			}
			tokens = append(tokens, token{kind: word, text: rest[:n], at: i})
			i += n
		default:
			tokens = append(tokens, token{kind: symbol, text: rest[:1], at: i})
			i++
		}
	}
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' || c == 0 }

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= utf8.RuneSelf
}

func isNumber(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// executableComment reports whether a comment is one that the server runs, and
// how long its opening is. What a server does not run it writes to its log as a plain
// comment, so only what names another product is left out.
func executableComment(s string, session Session) (n int, run bool) {
	switch {
	case strings.HasPrefix(s, "/*M!"):
		n, run = 4, session.MariaDB
	case strings.HasPrefix(s, "/*!"):
		n, run = 3, true
	default:
		return 0, false
	}
	digits := 0
	for digits < 6 && n+digits < len(s) && s[n+digits] >= '0' && s[n+digits] <= '9' {
		digits++
	}
	version := s[n : n+digits]
	if digits < 5 {
		return n, run // digits of the statement itself
	}
	switch {
	case n == 4:
	case session.MariaDB:
		run = digits == 6 || version < "50700" // MySQL's versions from 5.7 on mean other things
	default:
		run = digits == 5
	}
	return n + digits, run
}

// quoted reads a quoted piece from its opening quote on: its value, and the
// bytes that it takes; -1 if it has no end.
func quoted(s string, escapes bool) (value string, n int) {
	quote := s[0]
	if end := strings.IndexByte(s[1:], quote); end >= 0 && strings.IndexByte(s[1:end+1], '\\') < 0 && (end+2 >= len(s) || s[end+2] != quote) {
		return s[1 : end+1], end + 2
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == quote && i+1 < len(s) && s[i+1] == quote:
			b.WriteByte(quote)
			i++
		case c == quote:
			return b.String(), i + 1
		case c == '\\' && escapes && i+1 < len(s):
			i++
			switch e := s[i]; e {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case 'r':
				b.WriteByte('\r')
			case 'b':
				b.WriteByte('\b')
			case '0':
				b.WriteByte(0)
			case 'Z':
				b.WriteByte(26)
			default:
				b.WriteByte(e)
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", -1
}
