package binlog

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/gscd-io/gscd/ddl"
)

// ReadSchema moves a catalog on by the statements of a file, as mysqldump --no-data
// writes it: definitions of tables for a log that names no columns. Statements that
// define nothing are passed over. The error names the line where a statement begins.
func ReadSchema(catalog Catalog, in io.Reader, s ddl.Session) error {
	lines := bufio.NewReader(in)
	delimiter := ";"
	var statement strings.Builder
	number, first := 0, 0
	var open byte // the quote, or comment, that is open
	for {
		line, err := lines.ReadString('\n')
		if err != nil && err != io.EOF {
			return err
		}
		number++
		trimmed := strings.TrimSpace(line)
		if open == 0 && strings.TrimSpace(statement.String()) == "" {
			statement.Reset()
			first = number
			if d, ok := strings.CutPrefix(strings.ToUpper(trimmed), "DELIMITER "); ok {
				delimiter = strings.TrimSpace(d)
				line = ""
			}
		}
		for line != "" {
			n := endOf(line, delimiter, &open)
			if n < 0 {
				statement.WriteString(line)
				break
			}
			statement.WriteString(line[:n])
			line = line[n+len(delimiter):]
			if aerr := applySchema(catalog, statement.String(), &s); aerr != nil {
				return fmt.Errorf("line %d: %w", first, aerr)
			}
			statement.Reset()
			first = number
		}
		if err == io.EOF {
			break
		}
	}
	if err := applySchema(catalog, statement.String(), &s); err != nil {
		return fmt.Errorf("line %d: %w", first, err)
	}
	return nil
}

// applySchema applies one statement; USE changes the database.
func applySchema(catalog Catalog, statement string, s *ddl.Session) error {
	l := lexer{statement}
	if first, _ := l.next(); strings.EqualFold(first, "USE") {
		s.Database, _ = l.next()
		return nil
	}
	_, err := catalog.Apply(statement, *s)
	return err
}

// endOf finds the delimiter in a line outside quotes and comments; -1 where it is not.
// open is the quote or comment that goes on from the line before, and to the next.
func endOf(line, delimiter string, open *byte) int {
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case *open == '*':
			if strings.HasPrefix(line[i:], "*/") {
				*open = 0
				i++
			}
		case *open != 0:
			if c == '\\' && *open != '`' {
				i++
			} else if c == *open {
				*open = 0
			}
		case strings.HasPrefix(line[i:], delimiter):
			return i
		case c == '\'' || c == '"' || c == '`':
			*open = c
		case strings.HasPrefix(line[i:], "/*"):
			*open = '*'
			i++
		case c == '#', strings.HasPrefix(line[i:], "-- "), strings.HasPrefix(line[i:], "--\n"):
			return -1
		}
	}
	return -1
}
