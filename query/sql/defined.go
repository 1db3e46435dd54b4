//go:build cgo

package sql

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// defined is a View that a statement uses: parsed and checked as a statement is.
type defined struct {
	View
	tree map[string]any
	refs []reference
	uses []*defined // directly, and what these use before
}

// defineViews checks all views, each against the tables and the views before it.
func defineViews(ctx context.Context, e *engine, views []View, tables []Table) ([]*defined, error) {
	var list []*defined
	for _, v := range views {
		if v.Name == "" || strings.HasPrefix(strings.ToLower(v.Name), "__gscd") {
			return nil, rejectedf(v.Query, -1, "view %q: give another name", v.Name)
		}
		for _, t := range tables {
			if slices.ContainsFunc(t.Names, func(n string) bool { return strings.EqualFold(n, v.Name) }) {
				return nil, rejectedf(v.Query, -1, "view %s: a table has that name", v.Name)
			}
		}
		if slices.ContainsFunc(list, func(d *defined) bool { return strings.EqualFold(d.Name, v.Name) }) {
			return nil, rejectedf(v.Query, -1, "view %s: there are two of that name", v.Name)
		}
		s, err := parseQuery(ctx, e, &statement{text: v.Query, query: v.Query}, tables, list)
		if err != nil {
			return nil, ofView(v, err, 0)
		}
		list = append(list, &defined{View: v, tree: s.tree, refs: s.refs, uses: s.views})
	}
	return list, nil
}

// ofView says of an error that it is in a view. Positions are those of its query, behind
// prefix bytes.
func ofView(v View, err error, prefix int) error {
	var fault *Error
	if errors.As(err, &fault) {
		named := *fault
		named.Message = "view " + v.Name + ": " + fault.Message
		return &named
	}
	raw, ok := err.(*duckError) //nolint:errorlint // errorOf's errors are never wrapped on the way here
	if !ok {
		return err
	}
	if raw.at >= 0 {
		raw.at -= prefix
	}
	return ofView(v, asError(v.Query, raw, true), 0)
}

// createDefined makes the views that a statement uses, behind the tables. query gives
// what each is; nil: as it was given.
func createDefined(ctx context.Context, e *engine, views []*defined, query func(*defined) (string, error)) error {
	for _, v := range views {
		text := v.Query
		if query != nil {
			var err error
			if text, err = query(v); err != nil {
				return err
			}
		}
		prefix := "CREATE OR REPLACE VIEW " + identifier(v.Name) + " AS "
		if err := e.exec(ctx, prefix+text); err != nil {
			return ofView(v.View, err, len(prefix))
		}
	}
	return nil
}

// useView notes that a statement names a view: it uses what that uses too.
func (s *statement) useView(v *defined) {
	for _, u := range append(slices.Clone(v.uses), v) {
		if !slices.Contains(s.views, u) {
			s.views = append(s.views, u)
		}
	}
}

// trees are the syntax trees of the statement and of the views that it uses.
func (s *statement) trees() []any {
	all := []any{s.tree}
	for _, v := range s.views {
		all = append(all, v.tree)
	}
	return all
}
