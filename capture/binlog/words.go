package binlog

import (
	"slices"
	"strings"

	"github.com/gscd-io/gscd/ddl"
)

// lexer gives the words of a statement, comments left out; the text of a comment that
// MySQL runs (/*!40000 … */) belongs to it.
type lexer struct{ rest string }

// next gives a word in upper case, a name as it is between its backticks, or one other
// character; "" at the end.
func (l *lexer) next() (token string, quoted bool) {
	for {
		l.rest = strings.TrimLeft(l.rest, " \t\r\n\f\v\x00")
		switch s := l.rest; {
		case strings.HasPrefix(s, "/*!"), strings.HasPrefix(s, "/*M!"):
			s = s[strings.IndexByte(s, '!')+1:]
			l.rest = strings.TrimLeft(s, "0123456789")
			continue
		case strings.HasPrefix(s, "/*"):
			_, l.rest, _ = strings.Cut(s[2:], "*/")
			continue
		case strings.HasPrefix(s, "*/"):
			l.rest = s[2:]
			continue
		case strings.HasPrefix(s, "#"), strings.HasPrefix(s, "-- "), strings.HasPrefix(s, "--\n"), strings.HasPrefix(s, "--\t"):
			_, l.rest, _ = strings.Cut(s, "\n")
			continue
		}
		break
	}
	s := l.rest
	if s == "" {
		return "", false
	}
	if s[0] == '`' {
		for i := 1; i < len(s); i++ {
			if s[i] != '`' {
				continue
			}
			if i+1 < len(s) && s[i+1] == '`' {
				i++
				continue
			}
			l.rest = s[i+1:]
			return strings.ReplaceAll(s[1:i], "``", "`"), true
		}
		l.rest = ""
		return s[1:], true
	}
	n := 0
	for n < len(s) && (s[n] >= 0x80 || s[n] == '_' || s[n] == '$' || s[n]-'0' <= 9 || s[n]|0x20 >= 'a' && s[n]|0x20 <= 'z') {
		n++
	}
	n = max(n, 1)
	l.rest = s[n:]
	return s[:n], false
}

// leading gives the first words of a statement in upper case.
func leading(statement string, n int) []string {
	l := lexer{statement}
	var words []string
	for len(words) < n {
		w, _ := l.next()
		if w == "" {
			break
		}
		words = append(words, strings.ToUpper(w))
	}
	return words
}

func word(words []string, i int) string {
	if i < len(words) {
		return words[i]
	}
	return ""
}

// changedBy finds the one table that a statement changes; not ok where it may be
// several, or is not told.
func changedBy(q query) (name ddl.Name, ok bool) {
	l := lexer{q.text}
	verb, _ := l.next()
	verb = strings.ToUpper(verb)
	t, quoted := l.next()
	for !quoted && slices.Contains([]string{"LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "QUICK", "IGNORE"}, strings.ToUpper(t)) {
		t, quoted = l.next()
	}
	switch verb {
	case "INSERT", "REPLACE":
		if !quoted && strings.EqualFold(t, "INTO") {
			t, _ = l.next()
		}
	case "DELETE":
		if quoted || !strings.EqualFold(t, "FROM") {
			return name, false
		}
		t, _ = l.next()
	case "UPDATE":
	default:
		return name, false
	}
	name = ddl.Name{Database: q.database, Table: t}
	after, _ := l.next()
	if after == "." {
		name.Database = name.Table
		name.Table, _ = l.next()
		after, _ = l.next()
	}
	switch verb {
	case "DELETE":
		ok = slices.Contains([]string{"", "WHERE", "ORDER", "LIMIT", "PARTITION", "RETURNING", ";"}, strings.ToUpper(after))
	case "UPDATE":
		ok = strings.EqualFold(after, "SET") || strings.EqualFold(after, "PARTITION")
	default:
		ok = true
	}
	return name, ok && name.Table != "" && name.Database != ""
}
