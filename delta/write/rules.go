package write

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/schema"
)

// The metadata of a field, and the properties, that hold rules.
const (
	metadataInvariants = "delta.invariants"
	metadataGeneration = "delta.generationExpression"
	metadataDefault    = "CURRENT_DEFAULT"
	constraintsPrefix  = "delta.constraints."
)

// implemented are the features whose rules are kept here.
var implemented = []string{
	delta.FeatureInvariants, delta.FeatureCheckConstraints, delta.FeatureGeneratedColumns, delta.FeatureIdentityColumns,
	delta.FeatureColumnDefaults, delta.FeatureColumnMapping, delta.FeatureTypeWidening, delta.FeatureTypeWidening + "-preview",
	delta.FeatureInCommitTimestamp, delta.FeatureRowTracking, delta.FeatureClustering, delta.VoidColumns,
}

// rules are what the rows of a table must keep. It is used by one goroutine.
type rules struct {
	fields     []schema.Field
	checks     []*check
	generated  map[int]*generator
	defaults   map[int]string
	identities map[int]*identity
	loose      bool  // fill does not check
	fault      error // a rule that is not understood: no row can be checked
	cells      [][]schema.Value
	one        []int32
}

// unchecked gives the rules with fill checking nothing; inserts does so later.
func (r *rules) unchecked() *rules {
	loose := *r
	loose.loose = true
	return &loose
}

// inserts checks a row that fill has made without, and gives it its numbers.
func (r *rules) inserts(row []schema.Value, given []bool) error {
	if err := r.numberRow(row, given); err != nil {
		return err
	}
	return r.check(row)
}

// check is a condition that every row must fulfil.
type check struct {
	name, text string
	where      *expr.Predicate
	evaluator  *expr.Evaluator
}

// rulesOf reads the rules of a table. One that is not understood is no error before a row
// is to be checked.
func rulesOf(l *layout) *rules {
	r := &rules{fields: l.schema.Fields, generated: map[int]*generator{}, identities: map[int]*identity{}, defaults: map[int]string{}, cells: make([][]schema.Value, len(l.schema.Fields))}
	for _, name := range constraintsOf(l.metadata) {
		r.addCheck("CHECK constraint "+name, l.metadata.Configuration[constraintsPrefix+name], l.schema)
	}
	for i := range l.schema.Fields {
		f := &l.schema.Fields[i]
		if text, ok := f.Metadata[metadataInvariants]; ok {
			if condition, err := invariantOf(text); err != nil {
				r.fault = fmt.Errorf("%w: invariant of column %q: %w", ErrRule, f.Name, err)
			} else {
				r.addCheck("invariant of column "+f.Name, condition, l.schema)
			}
		}
		if raw, ok := f.Metadata[metadataGeneration]; ok {
			g, err := parseGenerator(unquoted(raw), l.schema, f)
			if err != nil {
				r.fault = fmt.Errorf("%w: column %q is generated as %s: %w", ErrRule, f.Name, unquoted(raw), err)
				continue
			}
			r.generated[i] = g
		}
		if raw, ok := f.Metadata[metadataDefault]; ok {
			r.defaults[i] = unquoted(raw)
		}
		if isIdentity(f) {
			id, err := identityOf(f)
			if err != nil {
				r.fault = err
				continue
			}
			r.identities[i] = id
		}
		if where := ruleInside(f.Type, f.Name); where != "" {
			r.fault = fmt.Errorf("%w: %s", ErrRule, where)
		}
	}
	return r
}

func (r *rules) addCheck(name, text string, s *schema.Schema) {
	where, err := expr.Parse(text, s)
	if err != nil {
		r.fault = fmt.Errorf("%w: %s, %s: %w", ErrRule, name, text, err)
		return
	}
	r.checks = append(r.checks, &check{name, text, where, where.NewEvaluator()})
}

// constraintsOf names the CHECK constraints of a table.
func constraintsOf(m *action.Metadata) (names []string) {
	for _, key := range slices.Sorted(maps.Keys(m.Configuration)) {
		if name, ok := strings.CutPrefix(key, constraintsPrefix); ok {
			names = append(names, name)
		}
	}
	return names
}

// ruleInside names a rule about a field inside of a column, "" for none.
func ruleInside(t schema.Type, path string) string {
	if t.Nested == nil {
		return ""
	}
	for i := range t.Nested.Fields {
		f := &t.Nested.Fields[i]
		for _, key := range []string{metadataInvariants, metadataGeneration, metadataIdentityStart} {
			if _, ok := f.Metadata[key]; ok {
				return fmt.Sprintf("%s.%s has %s", path, f.Name, key)
			}
		}
		if where := ruleInside(f.Type, path+"."+f.Name); where != "" {
			return where
		}
	}
	return cmp.Or(ruleInside(t.Nested.Key, path), ruleInside(t.Nested.Element, path))
}

// invariantOf reads the condition in the metadata of a column: JSON in a JSON string.
func invariantOf(raw json.RawMessage) (string, error) {
	var rule struct {
		Expression struct {
			Expression string `json:"expression"`
		} `json:"expression"`
	}
	if err := json.Unmarshal([]byte(unquoted(raw)), &rule); err != nil {
		return "", err
	}
	return rule.Expression.Expression, nil
}

// unquoted gives the text of a JSON string, or what else there is as it is.
func unquoted(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// generates reports whether a column is computed from others, or counted.
func (r *rules) generates(column int) bool {
	id := r.identities[column]
	return r.generated[column] != nil || id != nil && !id.explicit
}

// fill gives the columns that a row lacks their defaults, computes the generated ones,
// and checks the row. given tells which columns it has. The error wraps ErrRow or ErrRule.
func (r *rules) fill(row []schema.Value, given []bool) error {
	if !r.loose && r.fault == nil {
		if err := r.numberRow(row, given); err != nil {
			return err
		}
	}
	for i, text := range r.defaults {
		if given[i] {
			continue
		}
		v, err := literalOf(text, &r.fields[i])
		if err != nil {
			return fmt.Errorf("%w: the default of column %q is %s: name the column and give its value", ErrRule, r.fields[i].Name, text)
		}
		row[i] = v
	}
	for i, g := range r.generated {
		if !given[i] {
			row[i] = g.value(row)
		}
	}
	if r.loose {
		return nil
	}
	return r.check(row)
}

// recompute computes the generated columns of a row that has changed, but for those
// that were set, and checks the row.
func (r *rules) recompute(row []schema.Value, set func(column int) bool) error {
	for i, g := range r.generated {
		if !set(i) {
			row[i] = g.value(row)
		}
	}
	return r.check(row)
}

// check finds the first rule that a row breaks. The error wraps ErrRow or ErrRule.
func (r *rules) check(row []schema.Value) error {
	if r.fault != nil {
		return r.fault
	}
	for i := range r.fields {
		f := &r.fields[i]
		if !f.Nullable && row[i].IsNull() {
			return fmt.Errorf("%w: column %q is NOT NULL, and NULL here", ErrRow, f.Name)
		}
		if f.Type.Nested != nil {
			if path := nullInside(f.Type, row[i], f.Name); path != "" {
				return fmt.Errorf("%w: %s is NOT NULL, and NULL here", ErrRow, path)
			}
		}
		if want := schema.KindOf(f.Type); !row[i].IsNull() && row[i].Kind != want {
			return fmt.Errorf("%w: a cell of column %q is not what %s takes", ErrRow, f.Name, f.Type)
		}
	}
	for i, g := range r.generated {
		if want := g.value(row); !same(want, row[i]) {
			return fmt.Errorf("%w: column %q is generated as %s, which is %s here, not %s", ErrRow, r.fields[i].Name, g.text,
				cellText(&r.fields[i], want), cellText(&r.fields[i], row[i]))
		}
	}
	if len(r.checks) == 0 {
		return nil
	}
	for i := range row {
		r.cells[i] = row[i : i+1]
	}
	for _, c := range r.checks {
		if r.one = append(r.one[:0], 0); len(c.evaluator.Select(r.cells, r.one)) == 0 {
			return fmt.Errorf("%w: %s (%s) does not hold for %s", ErrRow, c.name, c.text, r.shown(row, c.where.Columns()))
		}
	}
	return nil
}

// plain reports whether rows need no look at more than one of their cells.
func (r *rules) plain() bool {
	return r.fault == nil && !r.loose && len(r.checks) == 0 && len(r.generated) == 0 && len(r.identities) == 0
}

// checkColumns is check of plain rules, of rows by columns. Whoever writes the columns in
// stored sees to it that their cells are of their types. On error it names the row.
func (r *rules) checkColumns(columns [][]schema.Value, rows int, stored []int) (int, error) {
	row := make([]schema.Value, len(columns))
	for i := range r.fields {
		f := &r.fields[i]
		if f.Nullable && f.Type.Nested == nil && slices.Contains(stored, i) {
			continue
		}
		for at := range rows {
			v := &columns[i][at]
			if v.IsNull() && !f.Nullable || f.Type.Nested != nil && nullInside(f.Type, *v, f.Name) != "" || !v.IsNull() && v.Kind != schema.KindOf(f.Type) {
				for c := range row {
					row[c] = columns[c][at]
				}
				return at, r.check(row)
			}
		}
	}
	return 0, nil
}

// nullInside names a part of a cell that is NULL and must not be, "" for none.
func nullInside(t schema.Type, v schema.Value, path string) string {
	if t.Nested == nil || v.Kind != schema.Compound {
		return ""
	}
	i := 0
	for part := range v.Parts() {
		of, at, nullable := t.Nested.Element, path+" element", t.Nested.ContainsNull
		switch {
		case t.Primitive == schema.Struct && i < len(t.Nested.Fields):
			f := &t.Nested.Fields[i]
			of, at, nullable = f.Type, path+"."+f.Name, f.Nullable
		case t.Primitive == schema.Map && i%2 == 0:
			of, at, nullable = t.Nested.Key, path+" key", false
		}
		if i++; part.IsNull() && !nullable {
			return at
		}
		if found := nullInside(of, part, at); found != "" {
			return found
		}
	}
	return ""
}

// same compares two cells of a column, NULL being NULL.
func same(a, b schema.Value) bool {
	return a.IsNull() && b.IsNull() || !a.IsNull() && a.Kind == b.Kind && expr.Compare(a, b) == 0
}

func (r *rules) shown(row []schema.Value, columns []int) string {
	var parts []string
	for _, c := range columns {
		parts = append(parts, r.fields[c].Name+" = "+cellText(&r.fields[c], row[c]))
	}
	return strings.Join(parts, ", ")
}

func cellText(f *schema.Field, v schema.Value) string {
	if v.IsNull() {
		return "NULL"
	}
	return string(schema.AppendText(nil, f.Type, v))
}

// literalOf reads a default: NULL, a number, TRUE, or text in quotes, as SQL writes it.
func literalOf(text string, f *schema.Field) (schema.Value, error) {
	text = strings.TrimSpace(text)
	if strings.EqualFold(text, "NULL") {
		return schema.Value{}, nil
	}
	for _, word := range []string{"DATE", "TIMESTAMP"} {
		if len(text) > len(word) && strings.EqualFold(text[:len(word)], word) {
			text = strings.TrimSpace(text[len(word):])
		}
	}
	if n := len(text); n >= 2 && (text[0] == '\'' || text[0] == '"') && text[n-1] == text[0] {
		quote := text[:1]
		text = strings.ReplaceAll(text[1:n-1], quote+quote, quote)
		if strings.Contains(text, quote) || strings.Contains(text, `\`) {
			return schema.Value{}, fmt.Errorf("not one text: %s", text)
		}
		if f.Type.Primitive == schema.StringType {
			return schema.StringValue(text), nil
		}
	} else if f.Type.Primitive == schema.StringType {
		return schema.Value{}, fmt.Errorf("not a text in quotes: %s", text)
	}
	return expr.ParseValue(text, *f)
}
