//go:build cgo

package sql

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// statement is what was asked, parsed and checked.
type statement struct {
	text string // as it was given, and as it will run
	// query is the SELECT in it: all of text, or what stands behind EXPLAIN.
	query   string
	explain bool
	// dry: no row of a table is read: the plan or the columns are asked for.
	dry bool

	// tree is the syntax tree of query, as DuckDB serializes it.
	tree map[string]any
	// refs are the tables that it names, each once.
	refs []reference
	// views are those that it uses, each behind what it uses itself; refs has their tables.
	views []*defined
}

// reference is a name of a table in a statement.
type reference struct {
	schema, name string // as they stand there; schema is mostly ""
	table        *Table
}

var explainForm = regexp.MustCompile(`(?is)^((?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*)EXPLAIN\b(\s+ANALYZE\b)?\s*(\(\s*(?:FORMAT|ANALYZE)\b[^)]*\))?`)

// parse parses a statement and checks that it is one SELECT that names nothing
// but tables.
func parse(ctx context.Context, e *engine, given string, o *Options) (*statement, error) {
	s := &statement{text: given, query: given}
	if m := explainForm.FindStringSubmatch(given); m != nil {
		s.explain, s.dry = true, m[2] == "" && !strings.Contains(strings.ToUpper(m[3]), "ANALYZE")
		s.query = given[len(m[0]):]
	}
	views, err := defineViews(ctx, e, o.Views, o.Tables)
	if err != nil {
		return nil, err
	}
	return parseQuery(ctx, e, s, o.Tables, views)
}

// parseQuery parses the query of a statement, and checks that it names nothing but the
// tables and views.
func parseQuery(ctx context.Context, e *engine, s *statement, tables []Table, views []*defined) (*statement, error) {
	given := s.text
	if at := strings.IndexByte(given, 0); at >= 0 {
		return nil, rejectedf(given, at, "the statement has a zero byte")
	}
	for at := 0; at < len(given); {
		r, n := utf8.DecodeRuneInString(given[at:])
		if r == utf8.RuneError && n == 1 {
			return nil, rejectedf(given, at, "the statement is not UTF-8")
		}
		at += n
	}
	rows, err := e.texts(ctx, "SELECT json_serialize_sql($1::VARCHAR)::VARCHAR", s.query)
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	if len(rows) != 1 {
		return nil, fmt.Errorf("parse: %d syntax trees", len(rows))
	}
	var parsed struct {
		Error      bool             `json:"error"`
		Kind       string           `json:"error_type"`
		Message    string           `json:"error_message"`
		Position   string           `json:"position"`
		Statements []map[string]any `json:"statements"`
	}
	d := json.NewDecoder(bytes.NewReader([]byte(rows[0][0])))
	d.UseNumber() // the tree goes back to DuckDB
	if err := d.Decode(&parsed); err != nil {
		return nil, fmt.Errorf("parse: syntax tree: %w", err)
	}
	switch {
	case parsed.Error && parsed.Kind == "not implemented":
		return nil, rejectedf(given, -1, "only a query can be run here: SELECT, WITH, VALUES, FROM, DESCRIBE, SUMMARIZE, or EXPLAIN with one of them")
	case parsed.Error:
		at, err := strconv.Atoi(parsed.Position)
		if err != nil {
			at = -1
		}
		return nil, s.rejectedf(at, "%s", parsed.Message)
	case len(parsed.Statements) == 0:
		return nil, rejectedf(given, -1, "the statement is empty")
	case len(parsed.Statements) > 1:
		return nil, rejectedf(given, -1, "there are %d statements: give one", len(parsed.Statements))
	}
	s.tree = parsed.Statements[0]
	if node, ok := s.tree["node"].(map[string]any); ok {
		from, _ := node["from_table"].(map[string]any)
		s.dry = s.dry || text(from, "type") == "SHOW_REF" && text(from, "show_type") == "DESCRIBE"
	}
	c := checker{statement: s, tables: tables, views: views, seen: map[string]bool{}}
	c.visit(s.tree, nil)
	if c.fault != nil {
		return nil, c.fault
	}
	for _, v := range s.views {
		for _, r := range v.refs {
			c.refer(r)
		}
	}
	slices.SortFunc(s.refs, func(a, b reference) int { return strings.Compare(a.key(), b.key()) })
	return s, nil
}

func (r reference) key() string { return strings.ToLower(r.schema + "." + r.name) }

// rejectedf refuses the statement for what stands at a byte of query.
func (s *statement) rejectedf(at int, format string, args ...any) *Error {
	if at >= 0 {
		at += len(s.text) - len(s.query)
	}
	return rejectedf(s.text, at, format, args...)
}

// tableFunctions are those that make rows of their arguments alone.
var tableFunctions = []string{"range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree"}

// closedFunctions tell of what is inside, or run a text as SQL.
var closedFunctions = []string{
	"getvariable", "current_setting", "json_serialize_plan", "json_execute_serialized_sql", "pg_get_viewdef", "pg_get_expr",
	"write_log", "nextval", "currval", "getenv", "pg_sleep", "sleep_ms",
}

// checker looks at every part of a syntax tree.
type checker struct {
	statement *statement
	tables    []Table
	views     []*defined
	seen      map[string]bool // references
	fault     *Error
}

// scope is the CTEs that a part of a statement can name, in lower case.
type scope map[string]bool

// visit checks what is below a part of the tree.
func (c *checker) visit(part any, in scope) {
	if c.fault != nil {
		return
	}
	switch part := part.(type) {
	case []any:
		for _, p := range part {
			c.visit(p, in)
		}
	case map[string]any:
		c.object(part, in)
	}
}

func (c *checker) object(o map[string]any, in scope) {
	in = c.commonTables(o, in)
	switch text(o, "type") {
	case "BASE_TABLE":
		if o["class"] == nil {
			c.table(o, in)
		}
	case "TABLE_FUNCTION":
		if f, ok := o["function"].(map[string]any); ok {
			if name := strings.ToLower(text(f, "function_name")); !slices.Contains(tableFunctions, name) {
				c.refuse(o, "the table function %s can't be used: a query reaches the tables only, and %s", name, strings.Join(tableFunctions, ", "))
			}
		}
	case "SHOW_REF":
		if o["query"] == nil {
			c.refuse(o, "this can't be shown; %s", c.known())
		}
	}
	switch text(o, "class") {
	case "FUNCTION":
		if name := strings.ToLower(text(o, "function_name")); slices.Contains(closedFunctions, name) {
			c.refuse(o, "the function %s can't be used here", name)
		}
	case "PARAMETER":
		c.refuse(o, "the statement has a parameter, and there is no value for it")
	}
	for _, key := range slices.Sorted(maps.Keys(o)) {
		if key != "cte_map" {
			c.visit(o[key], in)
		}
	}
}

// commonTables checks the CTEs of a query, and gives the scope of its other parts.
func (c *checker) commonTables(o map[string]any, in scope) scope {
	if name := text(o, "cte_name"); name != "" && text(o, "type") == "RECURSIVE_CTE_NODE" {
		in = in.with(name)
	}
	list, ok := o["cte_map"].(map[string]any)
	if !ok {
		return in
	}
	entries, _ := list["map"].([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		c.visit(entry["value"], in) // which can name those before it alone
		in = in.with(text(entry, "key"))
	}
	return in
}

func (s scope) with(name string) scope {
	wider := maps.Clone(s)
	if wider == nil {
		wider = scope{}
	}
	wider[strings.ToLower(name)] = true
	return wider
}

// table checks a name in FROM.
func (c *checker) table(o map[string]any, in scope) {
	catalog, schema, name := text(o, "catalog_name"), text(o, "schema_name"), text(o, "table_name")
	if catalog == "" && schema == "" && in[strings.ToLower(name)] {
		return
	}
	full := strings.TrimPrefix(strings.Join([]string{catalog, schema, name}, "."), ".")
	full = strings.TrimPrefix(full, ".")
	if catalog != "" && !strings.EqualFold(catalog, "memory") {
		c.refuse(o, "there is no table %s; %s", full, c.known())
		return
	}
	wanted := name
	if schema != "" && !strings.EqualFold(schema, "main") {
		wanted = schema + "." + name
	}
	for _, v := range c.views {
		if strings.EqualFold(v.Name, wanted) {
			c.statement.useView(v)
			return
		}
	}
	for i := range c.tables {
		if !slices.ContainsFunc(c.tables[i].Names, func(n string) bool { return strings.EqualFold(n, wanted) }) {
			continue
		}
		r := reference{schema: schema, name: name, table: &c.tables[i]}
		if strings.EqualFold(schema, "main") {
			r.schema = ""
		}
		c.refer(r)
		return
	}
	if strings.ContainsAny(name, "/:") || strings.Contains(name, ".") && schema == "" {
		c.refuse(o, "%q is no table: a query reaches no files and no addresses; %s", full, c.known())
		return
	}
	c.refuse(o, "there is no table %s; %s", full, c.known())
}

// refer notes that a table is named.
func (c *checker) refer(r reference) {
	if !c.seen[r.key()] {
		c.seen[r.key()] = true
		c.statement.refs = append(c.statement.refs, r)
	}
}

// known lists the tables and views.
func (c *checker) known() string {
	var names []string
	for _, t := range c.tables {
		names = append(names, t.Names...)
	}
	for _, v := range c.views {
		names = append(names, v.Name)
	}
	if len(names) == 0 {
		return "there are no tables: give --table ADDRESS, or a configuration with -c FILE"
	}
	return "the tables are " + strings.Join(names, ", ")
}

func (c *checker) refuse(o map[string]any, format string, args ...any) {
	if c.fault == nil {
		c.fault = c.statement.rejectedf(location(o), format, args...)
	}
}

// location is where a part begins, -1 where the tree does not say.
func location(o map[string]any) int {
	n, ok := o["query_location"].(json.Number)
	if !ok {
		return -1
	}
	at, err := strconv.Atoi(n.String())
	if err != nil {
		return -1
	}
	return at
}

func text(o map[string]any, key string) string {
	s, _ := o[key].(string)
	return s
}
