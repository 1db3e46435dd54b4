package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// statementEnd finds the ";" that ends the first statement of a text: one that is in no
// string, quoted name or comment. It is -1 where there is none.
func statementEnd(text string) int {
	for i := 0; i < len(text); i++ {
		closing := ""
		switch rest := text[i:]; {
		case rest[0] == ';':
			return i
		case rest[0] == '\'', rest[0] == '"':
			closing = rest[:1]
		case strings.HasPrefix(rest, "--"):
			closing = "\n"
		case strings.HasPrefix(rest, "/*"):
			closing = "*/"
		case strings.HasPrefix(rest, "$$"):
			closing = "$$"
		default:
			continue
		}
		opening := len(closing)
		if closing == "\n" {
			opening = 2
		}
		n := strings.Index(text[i+opening:], closing)
		if n < 0 {
			return -1
		}
		i += opening + n + len(closing) - 1
	}
	return -1
}

var sqlKeywords = strings.Fields(`SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT JOIN LEFT RIGHT FULL INNER OUTER CROSS ON USING AS
	WITH RECURSIVE UNION ALL EXCEPT INTERSECT DISTINCT CASE WHEN THEN ELSE END AND OR NOT IN BETWEEN LIKE IS NULL TRUE FALSE
	CAST COUNT SUM AVG MIN MAX OVER PARTITION ROWS QUALIFY DESCRIBE SUMMARIZE EXPLAIN ASC DESC \as-of \d \format \snapshots \timing`)

// completions are the words that a line can be completed to: keywords, and the tables,
// columns and labels of what can be opened.
func (s *shell) completions(ctx context.Context) []string {
	words := slices.Clone(sqlKeywords)
	tables, err := s.a.sqlTables(s.flags)
	if err != nil {
		return words
	}
	const most = 20 // tables that are opened for their columns
	for i, t := range tables {
		words = append(words, t.Names...)
		if i >= most {
			continue
		}
		source, err := t.Open(ctx)
		if err != nil {
			continue // a statement that names it says why
		}
		words = append(append(words, source.Newest.Schema().Names()...), "dt")
		if source.Labels == nil {
			continue
		}
		for _, e := range source.Labels.Entries {
			words = append(words, "'"+e.Name+"'", e.Name)
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// complete extends the word before a place to what all words that begin so have in
// common. Keywords keep the case that was begun.
func complete(text string, at int, words []string) (string, int, bool) {
	from := strings.LastIndexAny(text[:at], " \t(),=<>.;") + 1
	begun := text[from:at]
	if begun == "" {
		return "", 0, false
	}
	var found string
	for i, w := range matching(begun, words) {
		if i == 0 {
			found = w
			continue
		}
		n := 0
		for n < min(len(w), len(found)) && strings.EqualFold(w[:n+1], found[:n+1]) {
			n++
		}
		found = found[:n]
	}
	if len(found) <= len(begun) {
		return "", 0, false
	}
	if slices.Contains(sqlKeywords, found) && begun == strings.ToLower(begun) {
		found = strings.ToLower(found)
	}
	return text[:from] + found + text[at:], from + len(found), true
}

func matching(begun string, words []string) (list []string) {
	for _, w := range words {
		if len(w) >= len(begun) && strings.EqualFold(w[:len(begun)], begun) {
			list = append(list, w)
		}
	}
	return list
}

// maxHistory is how many lines are kept.
const maxHistory = 1000

// lineHistory is the lines of this session and those before, the newest last. It
// implements the history of x/term.
type lineHistory struct {
	lines []string
	path  string // "": they are not kept
}

func openHistory(getenv func(string) string) *lineHistory {
	h := &lineHistory{path: historyFile(getenv)}
	if h.path == "" {
		return h
	}
	if raw, err := os.ReadFile(h.path); err == nil {
		for line := range strings.Lines(string(raw)) {
			h.lines = append(h.lines, strings.TrimRight(line, "\n"))
		}
		h.lines = h.lines[max(0, len(h.lines)-maxHistory):]
	}
	return h
}

// Add keeps a line; the file is the user's alone. A history that can't be kept is no
// reason to stop.
func (h *lineHistory) Add(line string) {
	if strings.TrimSpace(line) == "" || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	h.lines = h.lines[max(0, len(h.lines)-maxHistory):]
	if h.path == "" || os.MkdirAll(filepath.Dir(h.path), 0o700) != nil {
		return
	}
	part := h.path + ".part"
	if os.WriteFile(part, []byte(strings.Join(h.lines, "\n")+"\n"), 0o600) == nil {
		_ = os.Rename(part, h.path)
	}
}

// Len is the number of lines.
func (h *lineHistory) Len() int { return len(h.lines) }

// At gives a line, 0 being the newest.
func (h *lineHistory) At(i int) string { return h.lines[len(h.lines)-1-i] }
