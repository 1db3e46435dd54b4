package expr

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrValue is wrapped by errors about a text that is no value of its column.
var ErrValue = errors.New("not a value of the column")

// SyntaxError is what is wrong with a text, and where.
type SyntaxError struct {
	// Text is the whole text, Offset the byte at which the fault begins.
	Text   string
	Offset int
	// Reason says what is wrong and, where it can be known, what to write instead.
	Reason string
}

// Error gives the reason, the position (counted in characters from 1) and the
// line with a caret under the place.
func (e *SyntaxError) Error() string {
	line, before := e.Text, e.Text[:e.Offset]
	if cut := strings.LastIndexByte(before, '\n'); cut >= 0 {
		line, before = line[cut+1:], before[cut+1:]
	}
	if cut := strings.IndexByte(line, '\n'); cut >= 0 {
		line = line[:cut]
	}
	var indent strings.Builder
	for _, r := range before {
		if r == '\t' {
			indent.WriteByte('\t')
		} else {
			indent.WriteByte(' ')
		}
	}
	position := utf8.RuneCountInString(e.Text[:e.Offset]) + 1
	return fmt.Sprintf("%s at position %d\n  %s\n  %s^", e.Reason, position, line, indent.String())
}

// nearest gives the name that differs least from name, "" where none is near.
func nearest(name string, names []string) string {
	best, bestDistance := "", len(name)/3+1
	for _, candidate := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(candidate)); d <= bestDistance {
			best, bestDistance = candidate, d-1
		}
	}
	return best
}

// distance counts the single-byte edits between two texts.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
