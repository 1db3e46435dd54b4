package sql

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Error is what there is against a statement, or what went wrong in running it.
type Error struct {
	// Message says it, without position.
	Message string
	// Rejected: the statement was refused before any row was read; it must be
	// written another way.
	Rejected bool
	// Line and Column (in characters) are where, from 1; 0 where that is not known.
	Line, Column int
	// Excerpt is the line of the statement with a mark below, or "".
	Excerpt string
}

// Error gives the message, the position and the excerpt.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("%s\nline %d, column %d:\n%s", e.Message, e.Line, e.Column, e.Excerpt)
}

// rejectedf refuses a statement for what stands at a byte of it; -1: no place.
func rejectedf(statement string, at int, format string, args ...any) *Error {
	e := &Error{Message: fmt.Sprintf(format, args...), Rejected: true}
	e.place(statement, at)
	return e
}

// excerptRadius is how many characters of a long line are shown on either side.
const excerptRadius = 50

// place sets the position from a byte offset.
func (e *Error) place(statement string, at int) {
	if at < 0 || at > len(statement) {
		return
	}
	before := statement[:at]
	start := strings.LastIndexByte(before, '\n') + 1
	line, _, _ := strings.Cut(statement[start:], "\n")
	e.Line = strings.Count(before, "\n") + 1
	e.Column = utf8.RuneCountInString(statement[start:at]) + 1

	runes := []rune(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, line))
	from, to := max(0, e.Column-1-excerptRadius), min(len(runes), e.Column-1+excerptRadius)
	mark := 0
	for _, r := range runes[from:min(e.Column-1, len(runes))] {
		mark += width(r)
	}
	head, tail := "", ""
	if from > 0 {
		head, mark = "…", mark+1
	}
	if to < len(runes) {
		tail = "…"
	}
	e.Excerpt = "  " + head + string(runes[from:to]) + tail + "\n  " + strings.Repeat(" ", mark) + "^"
}

// width is how many places a character takes on a terminal: two for those of
// East Asia that are drawn wide.
func width(r rune) int {
	switch {
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3,
		r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60,
		r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1f64f, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}
