package main

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"

	"github.com/gscd-io/gscd/query/sql"
)

// allViews are those of files, then of flags, then of the session.
func (f *sqlFlags) allViews() (list []sql.View, err error) {
	for _, file := range f.inits {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, usagef("--init: %w", err)
		}
		for rest := string(raw); rest != ""; {
			statement := rest
			if n := statementEnd(rest); n >= 0 {
				statement, rest = rest[:n], rest[n+1:]
			} else {
				rest = ""
			}
			if onlyComments(statement) {
				continue
			}
			v, isView, err := sql.ParseView(statement)
			if err == nil && !isView {
				err = errors.New("only views can be made here: CREATE VIEW name AS SELECT …")
			}
			if err != nil {
				return nil, usagef("--init %s: %w", file, err)
			}
			list = withView(list, v)
		}
	}
	for _, text := range f.views {
		name, query, ok := strings.Cut(text, "=")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, usagef("--view %s: write NAME=SELECT …", text)
		}
		list = withView(list, sql.View{Name: strings.TrimSpace(name), Query: query})
	}
	for _, v := range f.made {
		list = withView(list, v)
	}
	return list, nil
}

var comments = regexp.MustCompile(`(?s)--[^\n]*|/\*.*?\*/`)

func onlyComments(statement string) bool {
	return strings.TrimSpace(comments.ReplaceAllString(statement, "")) == ""
}

// withView adds a view, in the place of one that has its name.
func withView(list []sql.View, v sql.View) []sql.View {
	for i := range list {
		if strings.EqualFold(list[i].Name, v.Name) {
			list[i] = v
			return list
		}
	}
	return append(list, v)
}

// make takes CREATE VIEW in a session: the view is kept where it can be asked for.
func (s *shell) make(ctx context.Context, statement string) (isView bool, err error) {
	v, isView, err := sql.ParseView(statement)
	if !isView || err != nil {
		return isView, asUsage(err)
	}
	tried := s.flags
	tried.sql.made = withView(append([]sql.View{}, s.flags.sql.made...), v)
	stdout := s.a.stdout
	s.a.stdout = discard{}
	err = s.a.answer(ctx, `DESCRIBE "`+strings.ReplaceAll(v.Name, `"`, `""`)+`"`, tried)
	s.a.stdout = stdout
	if err != nil {
		return true, err
	}
	s.flags = tried
	s.words = append(s.words, v.Name)
	return true, nil
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

var dropForm = regexp.MustCompile(`(?is)^DROP\s+VIEW\s+(?:IF\s+EXISTS\s+)?("(?:[^"]|"")+"|[^\s;]+)\s*$`)

// drop takes DROP VIEW of a view of the session.
func (s *shell) drop(statement string) (isDrop bool, err error) {
	m := dropForm.FindStringSubmatch(statement)
	if m == nil {
		return false, nil
	}
	name := m[1]
	if strings.HasPrefix(name, `"`) {
		name = strings.ReplaceAll(name[1:len(name)-1], `""`, `"`)
	}
	for i, v := range s.flags.sql.made {
		if strings.EqualFold(v.Name, name) {
			s.flags.sql.made = append(append([]sql.View{}, s.flags.sql.made[:i]...), s.flags.sql.made[i+1:]...)
			return true, nil
		}
	}
	return true, usagef("there is no view %s of this session", name)
}

func asUsage(err error) error {
	var fault *sql.Error
	if errors.As(err, &fault) {
		return &exitError{code: exitUsage, err: err}
	}
	return err
}
