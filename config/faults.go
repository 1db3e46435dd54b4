package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong.
type Fault struct {
	// Line in the file, from 1; 0 where the fault is not in the file.
	Line int
	// Path is the key, tables[0].drift.wait; the variable, GSCD_KAFKA_BROKERS; or the flag.
	Path string
	// Message says what is wrong and what to write instead.
	Message string
}

// String reads "line 12: tables[0].late: …".
func (f Fault) String() string {
	text := f.Message
	if f.Path != "" {
		text = f.Path + ": " + text
	}
	if f.Line > 0 {
		text = fmt.Sprintf("line %d: %s", f.Line, text)
	}
	return text
}

// Faults is everything that is wrong with a configuration, in the order of the
// file; what comes from the environment and from flags stands first.
type Faults struct {
	// File is the name of the file, as given.
	File string
	List []Fault
}

// Error lists all faults, one a line where there are several.
func (f *Faults) Error() string {
	name := cmp.Or(f.File, "configuration")
	if len(f.List) == 1 {
		return name + ": " + f.List[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d faults", name, len(f.List))
	for _, fault := range f.List {
		b.WriteString("\n  " + fault.String())
	}
	return b.String()
}

// sorted orders the faults and drops what is said twice.
func sorted(faults []Fault) []Fault {
	slices.SortStableFunc(faults, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	var kept []Fault
	for _, f := range faults {
		if !slices.Contains(kept, f) {
			kept = append(kept, f)
		}
	}
	return kept
}

// nearest is the candidate that a misspelt word most likely means, or "".
func nearest(word string, candidates []string) string {
	best, bestDistance := "", 3
	if len(word) <= 4 {
		bestDistance = 2
	}
	for _, c := range candidates {
		// What differs in case or in - and _ alone is taken whatever the length.
		if strings.EqualFold(strings.ReplaceAll(word, "-", "_"), strings.ReplaceAll(c, "-", "_")) {
			return c
		}
		if d := distance(word, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance is the number of letters to add, drop, change or swap with the next
// one, to get from a to b.
func distance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
