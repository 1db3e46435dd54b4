package scd2

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

// plainField is a column of the source as the history table has it: NULL is allowed, for
// the source may change its mind, and nothing is generated.
func plainField(f schema.Field, name string) schema.Field {
	out := schema.Field{Name: name, Type: plainType(f.Type), Nullable: true}
	if comment, ok := f.Metadata["comment"]; ok {
		out.Metadata = map[string]json.RawMessage{"comment": comment}
	}
	return out
}

// plainType is a type without the ids and names of column mapping of what is inside.
func plainType(t schema.Type) schema.Type {
	if t.Nested == nil {
		return t
	}
	n := *t.Nested
	n.Fields = make([]schema.Field, len(t.Nested.Fields))
	for i, f := range t.Nested.Fields {
		n.Fields[i] = schema.Field{Name: f.Name, Type: plainType(f.Type), Nullable: f.Nullable}
	}
	n.Key, n.Element = plainType(n.Key), plainType(n.Element)
	t.Nested = &n
	return t
}

// checkNames refuses a source that has columns of the names that the history table adds.
func checkNames(c Columns, fields []schema.Field) error {
	flags := map[string]string{c.ValidFrom: "--valid-from-column", c.ValidTo: "--valid-to-column", c.IsCurrent: "--is-current-column", c.RowHash: "--row-hash", c.LoadTime: "--load-time-column"}
	seen := map[string]bool{}
	for _, name := range c.list() {
		lower := strings.ToLower(name)
		if seen[lower] {
			return fmt.Errorf("%w: two columns are to be named %q", ErrSettings, name)
		}
		seen[lower] = true
		for _, f := range fields {
			if strings.EqualFold(f.Name, name) {
				return fmt.Errorf("%w: the source has a column %q itself: give the history's another name with %s", ErrSettings, f.Name, flags[name])
			}
		}
	}
	return nil
}

// follow gives the changes of the history table's columns that rows of a version of the
// source need, and the settings behind them; none where there are none. anew tells that a
// column was given up for one of another type, so that all rows must be looked at.
func follow(st *state, out *schema.Schema, source *schema.Schema, label string) (changes []write.Change, after *settings, anew bool, err error) {
	next := *st.settings
	next.Fields = maps.Clone(st.Fields)
	names := map[string]bool{} // of the history table, as they come to be
	for _, f := range out.Fields {
		names[strings.ToLower(f.Name)] = true
	}
	rename := func(from, to string) {
		delete(names, strings.ToLower(from))
		names[strings.ToLower(to)] = true
		changes = append(changes, write.RenameColumn(from, to))
	}
	live := map[string]bool{} // what the source has now
	for i := range source.Fields {
		live[source.Fields[i].Stored()] = true
	}
	// aside gives a column that is no more, or is another one now, a name that is free.
	aside := func(stored string) {
		name := next.Fields[stored]
		to := name + "_until_" + strings.Map(wordRune, label)
		for n := 2; names[strings.ToLower(to)]; n++ {
			to = fmt.Sprintf("%s_until_%s_%d", name, strings.Map(wordRune, label), n)
		}
		rename(name, to)
		if next.Fields[stored] = to; live[stored] { // it is another column now
			delete(next.Fields, stored)
			next.Fields[stored+" until "+label] = to
		}
	}
	holder := func(name string) (stored string, ok bool) {
		for stored, n := range next.Fields {
			if strings.EqualFold(n, name) {
				return stored, true
			}
		}
		return "", false
	}
	// Names are freed before they are taken: two columns may have changed theirs about.
	for i := range source.Fields {
		f := &source.Fields[i]
		if n, ok := next.Fields[f.Stored()]; !ok || n != f.Name {
			if stored, held := holder(f.Name); held && stored != f.Stored() {
				if live[stored] {
					rename(next.Fields[stored], next.Fields[stored]+"_moving")
					next.Fields[stored] += "_moving"
				} else {
					aside(stored)
				}
			}
		}
	}
	last := ""
	for i := range source.Fields {
		f := &source.Fields[i]
		stored := f.Stored()
		if n, ok := next.Fields[stored]; ok {
			at := out.Index(st.Fields[stored])
			if at < 0 {
				return nil, nil, false, fmt.Errorf("column %q of the history table is gone: another program dropped it; build the table anew", n)
			}
			if n != f.Name {
				rename(n, f.Name)
				next.Fields[stored] = f.Name
			}
			is, want := out.Fields[at].Type, plainType(f.Type)
			switch {
			case sameType(is, want), delta.Widens(want, is):
			case delta.Widens(is, want):
				changes = append(changes, write.WidenColumn(schema.FormatPath(f.Name), want))
			default:
				aside(stored)
				ok, anew = false, true
			}
			if ok {
				last = f.Name
				continue
			}
		}
		for _, own := range st.Columns.list() {
			if strings.EqualFold(own, f.Name) {
				return nil, nil, false, fmt.Errorf("%w: the source has a column %q since %s, and so has the history: rename one of them", ErrSettings, f.Name, label)
			}
		}
		at := write.After(last)
		if last == "" {
			at = write.First()
		}
		changes = append(changes, write.AddColumn(plainField(*f, f.Name), at))
		next.Fields[stored], last = f.Name, f.Name
	}
	if len(changes) == 0 {
		return nil, st.settings, false, nil
	}
	changes = append(changes, write.SetProperties(map[string]string{Property: next.text()}))
	return changes, &next, anew, nil
}

// wordRune makes a label a part of a name.
func wordRune(r rune) rune {
	if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
		return r
	}
	return '_'
}

func sameType(a, b schema.Type) bool {
	if a.Nested == nil || b.Nested == nil {
		return a == b
	}
	return a.Primitive == b.Primitive && slices.EqualFunc(a.Nested.Fields, b.Nested.Fields, func(x, y schema.Field) bool {
		return x.Name == y.Name && sameType(x.Type, y.Type)
	}) && sameType(a.Nested.Key, b.Nested.Key) && sameType(a.Nested.Element, b.Nested.Element)
}

// placing says where the columns of a version of the source are in the history table.
type placing struct {
	at   []int // by place in the source
	cast []func(schema.Value) (schema.Value, error)
	key  []int // places of the key columns in the history table
}

// place finds the columns of a version of the source in a history table that follows it.
func place(st *state, out, source *schema.Schema) (*placing, error) {
	p := &placing{at: make([]int, len(source.Fields)), cast: make([]func(schema.Value) (schema.Value, error), len(source.Fields))}
	for i := range source.Fields {
		f := &source.Fields[i]
		at := out.Index(st.Fields[f.Stored()])
		if at < 0 {
			return nil, fmt.Errorf("column %q of the history table is gone: another program dropped or renamed it; build the table anew", st.Fields[f.Stored()])
		}
		p.at[i] = at
		if from, to := f.Type, out.Fields[at].Type; !sameType(from, to) {
			if !delta.Widens(from, to) {
				return nil, fmt.Errorf("column %q is %s in the history table, which can't hold %s", f.Name, to, from)
			}
			p.cast[i] = caster(from, to)
		}
	}
	for _, stored := range st.Key {
		at := out.Index(st.Fields[stored])
		if at < 0 {
			return nil, fmt.Errorf("key column %q of the history table is gone; build the table anew", st.Fields[stored])
		}
		p.key = append(p.key, at)
	}
	return p, nil
}

// places are the places of the columns in the history table, rising.
func (p *placing) places() []int {
	list := slices.Clone(p.at)
	slices.Sort(list)
	return list
}

// hashed gives columns of the history table by the names that a row hash has them: those
// of the source's files, which a renaming leaves alone.
func (s *settings) hashed(out *schema.Schema) []schema.Field {
	fields := slices.Clone(out.Fields)
	for stored, name := range s.Fields {
		if i := out.Index(name); i >= 0 {
			fields[i].Name = stored
		}
	}
	return fields
}

// row puts the cells of a row of the source where they are in the history table. The
// other cells of into stay.
func (p *placing) row(cells, into []schema.Value) error {
	for i, at := range p.at {
		v := cells[i]
		if p.cast[i] != nil && !v.IsNull() {
			var err error
			if v, err = p.cast[i](v); err != nil {
				return err
			}
		}
		into[at] = v
	}
	return nil
}

// caster converts cells to a type that widens theirs; nil where the cells are alike.
func caster(from, to schema.Type) func(schema.Value) (schema.Value, error) {
	if sameType(from, to) {
		return nil
	}
	scale := func(by uint8) func(*big.Int) (schema.Value, error) {
		factor := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(by)), nil)
		return func(n *big.Int) (schema.Value, error) {
			v, ok := schema.DecimalValue(new(big.Int).Mul(n, factor))
			if !ok {
				return v, fmt.Errorf("a value of %s does not fit %s", from, to)
			}
			return v, nil
		}
	}
	switch to.Primitive {
	case schema.DoubleType:
		if from.Primitive == schema.FloatType {
			return func(v schema.Value) (schema.Value, error) { return schema.DoubleValue(float64(v.Float32())), nil }
		}
		return func(v schema.Value) (schema.Value, error) { return schema.DoubleValue(float64(v.I)), nil }
	case schema.DecimalType:
		if from.Primitive == schema.DecimalType {
			if from.Scale == to.Scale {
				return nil
			}
			by := scale(to.Scale - from.Scale)
			return func(v schema.Value) (schema.Value, error) { return by(v.Unscaled()) }
		}
		by := scale(to.Scale)
		return func(v schema.Value) (schema.Value, error) { return by(big.NewInt(v.I)) }
	case schema.TimestampNTZ:
		return func(v schema.Value) (schema.Value, error) { return schema.IntValue(v.I * 86400e6), nil }
	}
	return nil
}
