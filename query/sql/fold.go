//go:build cgo

package sql

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
)

// DuckDB's optimizer does not evaluate a condition for a branch's label where that
// might fail, as every cast might: dt = DATE '2022-07-16' would leave all days.
// The labels are few and known, so such a condition is evaluated for each of them,
// and in the planner the texts for which it is true stand in its place.

// maxConditions is how many conditions of a statement are evaluated.
const maxConditions = 32

// folded gives the statement with its conditions on labels alone evaluated; "" where
// there is none, or where it is not certain that they are about labels.
func (p *planner) folded(ctx context.Context) (string, error) {
	name, ok := p.soleLabelColumn()
	if !ok || slices.ContainsFunc(p.statement.trees(), func(tree any) bool { return !onlyLabels(tree, name) }) {
		return "", nil
	}
	f := folder{planner: p, ctx: ctx, column: name}
	trees := p.statement.trees()
	for i := range trees {
		trees[i] = f.part(trees[i])
	}
	if f.err != nil || f.done == 0 {
		return "", f.err
	}
	var fault *Error
	err := createDefined(ctx, p.engine, p.statement.views, func(v *defined) (string, error) {
		return p.render(ctx, trees[1+slices.Index(p.statement.views, v)])
	})
	if errors.As(err, &fault) {
		return "", nil // as they were given, they are made anew
	}
	if err != nil {
		return "", err
	}
	return p.render(ctx, trees[0])
}

// soleLabelColumn gives the name that labels have in all tables, where nothing
// else in them has it.
func (p *planner) soleLabelColumn() (name string, ok bool) {
	for _, r := range p.readings {
		if r.hasDays() {
			if name != "" && name != r.labelColumn {
				return "", false
			}
			name = r.labelColumn
		}
	}
	for _, r := range p.readings {
		if slices.ContainsFunc(r.fields, func(f schema.Field) bool { return hasName(f, name) }) {
			return "", false
		}
	}
	return name, name != ""
}

// hasName tells whether a column or a part of it has a name.
func hasName(f schema.Field, name string) bool {
	var within func(t schema.Type) bool
	within = func(t schema.Type) bool {
		switch t.Primitive {
		case schema.Struct:
			return slices.ContainsFunc(t.Nested.Fields, func(f schema.Field) bool { return hasName(f, name) })
		case schema.Array:
			return within(t.Nested.Element)
		case schema.Map:
			return within(t.Nested.Key) || within(t.Nested.Element)
		}
		return false
	}
	return strings.EqualFold(f.Name, name) || within(f.Type)
}

// onlyLabels tells whether whatever a statement calls by a name can only be the
// label of a table, or NULL: nothing else in it is given that name, and no set
// operation puts other values under it.
func onlyLabels(part any, name string) bool {
	switch part := part.(type) {
	case []any:
		return !slices.ContainsFunc(part, func(p any) bool { return !onlyLabels(p, name) })
	case map[string]any:
		switch text(part, "type") {
		case "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE":
			return false
		}
		for key, value := range part {
			switch value := value.(type) {
			case string:
				if strings.Contains(strings.ToLower(value), name) && (key == "value" || strings.EqualFold(value, name)) {
					if key != "alias" || !isColumn(part, name) {
						return false
					}
				}
			default:
				if key == "using_columns" || key == "exclude_list" {
					continue
				}
				if key == "column_names" {
					if names, _ := value.([]any); len(names) > 2 || len(names) == 2 && strings.EqualFold(fmt.Sprint(names[0]), name) {
						return false
					}
					continue
				}
				if list, ok := value.([]any); ok && slices.ContainsFunc(list, func(v any) bool { s, _ := v.(string); return strings.EqualFold(s, name) }) {
					return false
				}
				if !onlyLabels(value, name) {
					return false
				}
			}
		}
	}
	return true
}

// isColumn tells a reference to a column of a name.
func isColumn(o map[string]any, name string) bool {
	names, _ := o["column_names"].([]any)
	return text(o, "class") == "COLUMN_REF" && len(names) > 0 && strings.EqualFold(fmt.Sprint(names[len(names)-1]), name)
}

// nowhere is the place of what does not stand in the statement.
const nowhere = uint64(math.MaxUint64)

// maxAsked is how many labels of a statement are looked at one by one.
const maxAsked = 64

// askedFor gives the texts that a statement wants a label to be equal to, or to be
// one of.
func (p *planner) askedFor(ctx context.Context) ([]string, error) {
	columns := p.labelColumns()
	isLabel := func(o any) bool {
		of, _ := o.(map[string]any)
		for text(of, "class") == "CAST" {
			of, _ = of["child"].(map[string]any)
		}
		for name := range columns {
			if isColumn(of, name) {
				return true
			}
		}
		return false
	}
	var values []any
	var look func(part any)
	look = func(part any) {
		switch part := part.(type) {
		case []any:
			for _, p := range part {
				look(p)
			}
		case map[string]any:
			switch text(part, "type") {
			case "COMPARE_EQUAL":
				for _, sides := range [][2]any{{part["left"], part["right"]}, {part["right"], part["left"]}} {
					if isLabel(sides[0]) && isConstant(sides[1]) {
						values = append(values, sides[1])
					}
				}
			case "COMPARE_IN":
				children, _ := part["children"].([]any)
				for i, c := range children {
					if i > 0 && isLabel(children[0]) && isConstant(c) {
						values = append(values, c)
					}
				}
			}
			for _, key := range slices.Sorted(maps.Keys(part)) {
				look(part[key])
			}
		}
	}
	for _, tree := range p.statement.trees() {
		look(tree)
	}
	if len(values) == 0 {
		return nil, nil
	}
	names := []string{"('')"}
	for _, r := range p.readings {
		if r.hasDays() {
			for _, e := range r.Labels.Entries {
				names = append(names, "("+quoted(e.Name)+")")
			}
		}
	}
	if err := p.exec(ctx, "CREATE OR REPLACE TABLE __gscd.names (name VARCHAR); INSERT INTO __gscd.names VALUES "+strings.Join(names, ", ")); err != nil {
		return nil, err
	}
	var asked []string
	for _, v := range values[:min(len(values), maxAsked)] {
		// A date or a time is equal to a label that is spelled another way.
		rows, err := p.evaluated(ctx, "SELECT TRY(__gscd_value)::VARCHAR, (SELECT min(name) FROM __gscd.names WHERE TRY(name = __gscd_value))", v)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil || len(rows) != 1 {
			continue // it can't be bound, say, which is told in its place
		}
		s := cmp.Or(rows[0][1], strings.TrimSuffix(strings.TrimSuffix(rows[0][0], "+00"), " 00:00:00"))
		odd := strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
		if s != "" && len(s) <= 64 && !odd && !slices.Contains(asked, s) {
			asked = append(asked, s)
		}
	}
	return asked, nil
}

// isConstant tells an expression without columns and queries.
func isConstant(part any) bool {
	switch part := part.(type) {
	case []any:
		return !slices.ContainsFunc(part, func(p any) bool { return !isConstant(p) })
	case map[string]any:
		switch text(part, "class") {
		case "COLUMN_REF", "SUBQUERY", "WINDOW", "LAMBDA", "STAR", "PARAMETER", "POSITIONAL_REFERENCE":
			return false
		}
		for _, p := range part {
			if !isConstant(p) {
				return false
			}
		}
	}
	return true
}

// folder evaluates the conditions of a tree.
type folder struct {
	*planner
	ctx    context.Context
	column string
	labels []string        // of all branches, sorted; nil before the first condition
	real   map[string]bool // of them, those of the map
	done   int
	err    error
}

// part gives a part of the tree with its conditions replaced.
func (f *folder) part(part any) any {
	switch part := part.(type) {
	case []any:
		list := slices.Clone(part)
		for i := range list {
			list[i] = f.part(list[i])
		}
		return list
	case map[string]any:
		if f.err == nil && f.done < maxConditions {
			if of, ok := f.condition(part); ok {
				if in := f.evaluate(part, of); in != nil {
					f.done++
					return in
				}
			}
		}
		object := maps.Clone(part)
		for key, value := range object {
			object[key] = f.part(value)
		}
		return object
	}
	return part
}

// volatile are functions that give something else each time.
var volatile = []string{"random", "uuid", "uuidv4", "uuidv7", "gen_random_uuid", "setseed", "hash"}

// condition tells a comparison that has no column but one label, and gives that.
func (f *folder) condition(o map[string]any) (of map[string]any, ok bool) {
	switch text(o, "class") {
	case "COMPARISON", "BETWEEN":
	case "OPERATOR":
		if kind := text(o, "type"); kind != "COMPARE_IN" && kind != "COMPARE_NOT_IN" {
			return nil, false
		}
	default:
		return nil, false
	}
	ok = true
	var look func(part any)
	look = func(part any) {
		switch part := part.(type) {
		case []any:
			for _, p := range part {
				look(p)
			}
		case map[string]any:
			switch class := text(part, "class"); class {
			case "COLUMN_REF":
				if !isColumn(part, f.column) || of != nil && !reflect.DeepEqual(of["column_names"], part["column_names"]) {
					ok = false
				}
				of = part
			case "SUBQUERY", "WINDOW", "LAMBDA", "STAR", "PARAMETER", "POSITIONAL_REFERENCE":
				ok = false
			case "FUNCTION":
				if slices.Contains(volatile, strings.ToLower(text(part, "function_name"))) {
					ok = false
				}
			}
			for _, p := range part {
				look(p)
			}
		}
	}
	look(o)
	return of, ok && of != nil
}

// prepare makes a table of the labels, and the query that evaluates a condition.
func (f *folder) prepare() error {
	f.real = map[string]bool{}
	for _, branches := range f.branches {
		for _, b := range branches {
			f.labels = append(f.labels, b.label)
			if b.entry != nil {
				f.real[b.label] = true
			}
		}
	}
	slices.Sort(f.labels)
	f.labels = slices.Compact(f.labels)
	rows := make([]string, len(f.labels))
	for i, l := range f.labels {
		rows[i] = fmt.Sprintf("(%d, %s)", i, quoted(l))
	}
	name := identifier(f.column)
	err := f.exec(f.ctx, "CREATE OR REPLACE TABLE __gscd.labels (n INTEGER, "+name+" VARCHAR); INSERT INTO __gscd.labels VALUES (-1, NULL), "+strings.Join(rows, ", "))
	if err != nil {
		return err
	}
	return nil
}

// evaluate gives what stands for a condition: which labels it is true for; nil where
// that is not all that it says.
func (f *folder) evaluate(o, of map[string]any) any {
	if f.labels == nil {
		if f.err = f.prepare(); f.err != nil {
			return nil
		}
	}
	condition := replaced(o, func(o map[string]any) (any, bool) {
		if text(o, "class") != "COLUMN_REF" {
			return nil, false
		}
		return map[string]any{"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "", "query_location": nowhere, "column_names": []any{f.column}}, true
	})
	rows, err := f.evaluated(f.ctx, "SELECT n::VARCHAR, TRY(__gscd_value)::VARCHAR, "+identifier(f.column)+" FROM __gscd.labels", condition)
	if err != nil || len(rows) != len(f.labels)+1 { // an aggregate, say
		return nil
	}
	var in []string
	for _, row := range rows {
		n, err := strconv.Atoi(row[0])
		known := err == nil && n >= 0 && n < len(f.labels)
		switch answer := row[1]; {
		case n == -1 && answer != "", !known && n != -1, known && answer == "" && f.real[f.labels[n]]:
			return nil
		case known && answer == "true":
			in = append(in, f.labels[n])
		}
	}
	slices.Sort(in)
	return f.among(of, in)
}

// evaluated runs a query with an expression in the place of __gscd_value.
func (p *planner) evaluated(ctx context.Context, query string, value any) ([][]string, error) {
	trees, err := p.engine.texts(ctx, "SELECT json_serialize_sql($1::VARCHAR)::VARCHAR", query)
	if err != nil {
		return nil, err
	}
	var parsed struct{ Statements []any }
	d := json.NewDecoder(strings.NewReader(trees[0][0]))
	d.UseNumber()
	if err := d.Decode(&parsed); err != nil {
		return nil, err
	}
	statement, err := p.render(ctx, replaced(parsed.Statements[0], func(o map[string]any) (any, bool) { return value, isColumn(o, "__gscd_value") }))
	if err != nil {
		return nil, err
	}
	return p.engine.texts(ctx, statement)
}

// among is the condition that a label is one of some, as those that the optimizer
// follows best: equality, a range, and only then a list.
func (f *folder) among(of map[string]any, in []string) any {
	constant := func(s string) any {
		return map[string]any{
			"class": "CONSTANT", "type": "VALUE_CONSTANT", "alias": "", "query_location": nowhere,
			"value": map[string]any{"type": map[string]any{"id": "VARCHAR", "type_info": nil}, "is_null": false, "value": s},
		}
	}
	compare := func(kind, with string) any {
		return map[string]any{"class": "COMPARISON", "type": kind, "alias": "", "query_location": nowhere, "left": of, "right": constant(with)}
	}
	var between []any // which, unlike a list, is taken over to what is equal
	switch n := len(in); {
	case n == 0:
		return compare("COMPARE_EQUAL", "") // no label is empty
	case n == 1:
		return compare("COMPARE_EQUAL", in[0])
	default:
		between = []any{compare("COMPARE_GREATERTHANOREQUALTO", in[0]), compare("COMPARE_LESSTHANOREQUALTO", in[n-1])}
		first := slices.Index(f.labels, in[0])
		if slices.Equal(f.labels[first:first+n], in) {
			return both(between...)
		}
	}
	children := []any{of}
	for _, s := range in {
		children = append(children, constant(s))
	}
	list := map[string]any{"class": "OPERATOR", "type": "COMPARE_IN", "alias": "", "query_location": nowhere, "children": children}
	return both(append(between, list)...)
}

func both(conditions ...any) any {
	return map[string]any{"class": "CONJUNCTION", "type": "CONJUNCTION_AND", "alias": "", "query_location": nowhere, "children": conditions}
}

// replaced gives a tree with some of its objects replaced.
func replaced(part any, with func(o map[string]any) (any, bool)) any {
	switch part := part.(type) {
	case []any:
		list := slices.Clone(part)
		for i := range list {
			list[i] = replaced(list[i], with)
		}
		return list
	case map[string]any:
		if other, ok := with(part); ok {
			return other
		}
		object := maps.Clone(part)
		for key, value := range object {
			object[key] = replaced(value, with)
		}
		return object
	}
	return part
}
