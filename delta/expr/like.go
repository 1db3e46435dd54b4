package expr

import (
	"strings"
	"unicode/utf8"

	"github.com/gscd-io/gscd/delta/schema"
)

// like tests a text column against a pattern.
type like struct {
	column  int
	pattern string // as written, with escape
	escape  rune
	not     bool

	segments []segment // what stands between the %; len-1 of them
	prefix   string    // the text before the first wildcard
}

// segment is a run of a pattern without %: characters, and anyRune for _.
type segment []rune

const anyRune rune = -1

// newLike compiles a pattern. reason is "" on success.
func newLike(column int, pattern string, escape rune) (l *like, reason string) {
	l = &like{column: column, pattern: pattern, escape: escape}
	var current segment
	escaped, wild := false, false
	for i, r := range pattern {
		if r == utf8.RuneError && !strings.HasPrefix(pattern[i:], "\ufffd") {
			return nil, "the pattern is not UTF-8"
		}
		switch {
		case escaped:
			escaped = false
			current = append(current, r)
		case r == escape:
			escaped = true
			continue
		case r == '%':
			l.segments = append(l.segments, current)
			current, wild = nil, true
			continue
		case r == '_':
			current, wild = append(current, anyRune), true
			continue
		default:
			current = append(current, r)
		}
		if !wild {
			l.prefix += string(r)
		}
	}
	if escaped {
		return nil, "the pattern ends in its escape character: write it twice"
	}
	l.segments = append(l.segments, current)
	return l, ""
}

// matches reports whether a text fits the pattern.
func (l *like) matches(s string) bool {
	first, last := l.segments[0], l.segments[len(l.segments)-1]
	rest, ok := first.cut(s)
	if !ok {
		return false
	}
	if len(l.segments) == 1 {
		return rest == ""
	}
	// The first fit is the best one for each part in between: it leaves most to the others.
	for _, part := range l.segments[1 : len(l.segments)-1] {
		if rest, ok = part.find(rest); !ok {
			return false
		}
	}
	tail := rest
	for range utf8.RuneCountInString(rest) - len(last) {
		_, size := utf8.DecodeRuneInString(tail)
		tail = tail[size:]
	}
	end, ok := last.cut(tail)
	return ok && end == ""
}

// cut takes the segment off the front of a text.
func (g segment) cut(s string) (rest string, ok bool) {
	for _, want := range g {
		r, size := utf8.DecodeRuneInString(s)
		if size == 0 || want != anyRune && (r != want || r == utf8.RuneError && size == 1) {
			return "", false
		}
		s = s[size:]
	}
	return s, true
}

// find looks for the segment and gives what stands behind its first place.
func (g segment) find(s string) (rest string, ok bool) {
	for {
		if rest, ok = g.cut(s); ok {
			return rest, true
		}
		_, size := utf8.DecodeRuneInString(s)
		if size == 0 {
			return "", false
		}
		s = s[size:]
	}
}

func (l *like) test(v schema.Value) bool { return l.matches(v.S) != l.not }

func (l *like) keep(_ *Evaluator, columns [][]schema.Value, sel []int32) []int32 {
	return keepCells(columns[l.column], sel, l.test)
}

func (l *like) mayBeTrue(bounds func(int) Bounds) bool {
	b := bounds(l.column)
	switch {
	case b.AllNulls:
		return false
	case b.Exact:
		return l.test(b.Min)
	case l.not:
		return true
	}
	b = b.usable(schema.String)
	prefix := schema.StringValue(l.prefix)
	// Texts that begin with prefix are one range, from prefix itself upwards.
	if !b.Min.IsNull() && Compare(b.Min, prefix) > 0 && !strings.HasPrefix(b.Min.S, l.prefix) {
		return false
	}
	return b.mayBeAbove(prefix) || b.mayBe(prefix)
}

func (l *like) negate() node {
	negated := *l
	negated.not = !l.not
	return &negated
}

func (l *like) write(s *scope) string {
	word := " LIKE '"
	if l.not {
		word = " NOT LIKE '"
	}
	quote := func(text string) string { return strings.ReplaceAll(text, "'", "''") }
	out := s.quoted(l.column) + word + quote(l.pattern) + "'"
	if l.escape != '\\' {
		out += " ESCAPE '" + quote(string(l.escape)) + "'"
	}
	return out
}

func (l *like) addColumns(columns []int) []int { return append(columns, l.column) }
