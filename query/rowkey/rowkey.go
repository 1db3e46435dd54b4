package rowkey

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/schema"
)

// ErrKey is wrapped by errors about a text that names no key.
var ErrKey = errors.New("not a key")

// Cell is the value of one column of a key.
type Cell struct {
	Column string
	// Text is the value as it was written, without quotes; nil is NULL.
	Text *string
}

// Parse reads K=V[,K=V]. A value that has a comma or a blank at an end, or is the text
// NULL, goes in single or double quotes, which are doubled inside; NULL without quotes is
// NULL. The error wraps ErrKey.
func Parse(text string) ([]Cell, error) {
	var cells []Cell
	for rest := text; ; {
		name, after, ok := strings.Cut(rest, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fmt.Errorf("%w: %q: write column=value, with commas between columns", ErrKey, text)
		}
		if len(name) > 1 && (name[0] == '"' || name[0] == '`') && name[len(name)-1] == name[0] {
			name = name[1 : len(name)-1]
		}
		if slices.ContainsFunc(cells, func(c Cell) bool { return strings.EqualFold(c.Column, name) }) {
			return nil, fmt.Errorf("%w: %q names column %s twice", ErrKey, text, name)
		}
		value, left, err := cutValue(strings.TrimLeft(after, " "))
		if err != nil {
			return nil, fmt.Errorf("%w: %q: column %s: %w", ErrKey, text, name, err)
		}
		cells = append(cells, Cell{name, value})
		if left == "" {
			return cells, nil
		}
		rest = left[1:]
	}
}

// cutValue takes a value off the front; what is left is empty or begins with a comma.
func cutValue(s string) (value *string, left string, err error) {
	if s == "" || s[0] != '\'' && s[0] != '"' {
		end := strings.IndexByte(s, ',')
		if end < 0 {
			end = len(s)
		}
		plain := strings.TrimSpace(s[:end])
		if strings.EqualFold(plain, "NULL") {
			return nil, s[end:], nil
		}
		return &plain, s[end:], nil
	}
	quote := s[0]
	var out strings.Builder
	for i := 1; i < len(s); i++ {
		if s[i] != quote {
			out.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == quote {
			out.WriteByte(quote)
			i++
			continue
		}
		text := out.String()
		if left = strings.TrimLeft(s[i+1:], " "); left != "" && left[0] != ',' {
			return nil, "", errors.New("a comma is expected behind the closing quote")
		}
		return &text, left, nil
	}
	return nil, "", fmt.Errorf("the quote %c is not closed", quote)
}

// Whole checks that cells are those of all columns of a key and of no other, and gives
// them in the order of the key. The error wraps ErrKey.
func Whole(cells []Cell, key []string) ([]Cell, error) {
	out := make([]Cell, len(key))
	for i, name := range key {
		at := slices.IndexFunc(cells, func(c Cell) bool { return strings.EqualFold(c.Column, name) })
		if at < 0 {
			return nil, fmt.Errorf("%w: the key is (%s), and %s has no value", ErrKey, strings.Join(key, ", "), name)
		}
		out[i] = Cell{name, cells[at].Text}
	}
	for _, c := range cells {
		if !slices.ContainsFunc(key, func(name string) bool { return strings.EqualFold(c.Column, name) }) {
			return nil, fmt.Errorf("%w: column %s is not of the key (%s)", ErrKey, c.Column, strings.Join(key, ", "))
		}
	}
	return out, nil
}

// Predicate gives the filter that takes the rows with these cells. The error wraps ErrKey.
func Predicate(cells []Cell, s *schema.Schema) (*expr.Predicate, error) {
	tests := make([]string, len(cells))
	for i, c := range cells {
		at := s.IndexFold(c.Column)
		if at < 0 {
			return nil, fmt.Errorf("%w: there is no column %s; the table has %s", ErrKey, c.Column, strings.Join(s.Names(), ", "))
		}
		name := `"` + strings.ReplaceAll(s.Fields[at].Name, `"`, `""`) + `"`
		if c.Text == nil {
			tests[i] = name + " IS NULL"
			continue
		}
		if _, err := expr.ParseValue(*c.Text, s.Fields[at]); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrKey, err)
		}
		tests[i] = name + " = '" + strings.ReplaceAll(*c.Text, "'", "''") + "'"
	}
	p, err := expr.Parse(strings.Join(tests, " AND "), s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return p, nil
}
