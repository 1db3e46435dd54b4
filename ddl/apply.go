package ddl

import (
	"fmt"
	"slices"
	"strings"
)

// altered is a table after the steps of a statement. As in the server, drops and changes in
// place come first and name columns by their old names; what has a new place, or is
// added, follows in the order of the statement.
func (c *Catalog) altered(old *Table, ch *Change, s Session) *Table {
	t := *old
	t.Columns = slices.Clone(old.Columns)
	t.Keys = make([]Key, len(old.Keys))
	for i, k := range old.Keys {
		t.Keys[i] = k
		t.Keys[i].Columns = slices.Clone(k.Columns)
	}
	if ch.Charset != "" {
		t.Charset = ch.Charset
	}
	for _, step := range ch.Steps {
		if step.Act == Convert {
			t.Charset = step.Charset
			if t.Charset == "" {
				t.Charset = c.charset(t.Database, s)
			}
		}
	}
	// The hidden columns are the server's, and stay behind all others.
	hidden := slices.DeleteFunc(slices.Clone(t.Columns), func(c Column) bool { return !c.Hidden })
	t.Columns = slices.DeleteFunc(t.Columns, func(c Column) bool { return c.Hidden })
	for _, step := range ch.Steps {
		switch step.Act {
		case AddVersioning:
			// Columns of its own for the periods are told as such.
			if !slices.ContainsFunc(ch.Steps, func(s Step) bool {
				return s.Act == AddColumn && s.Definition.Generated && strings.HasPrefix(s.Definition.Type, "timestamp(6)") && s.written.base == "timestamp"
			}) {
				for _, n := range []string{"row_start", "row_end"} {
					hidden = append(hidden, Column{Name: n, Type: "timestamp(6)", Generated: true, Hidden: true})
				}
			}
		case DropVersioning:
			hidden = nil
		}
	}
	convert := slices.ContainsFunc(ch.Steps, func(s Step) bool { return s.Act == Convert })
	for i := range t.Columns {
		if convert {
			converted(&t.Columns[i], t.Charset)
		}
	}
	place(&t, ch.Steps, s, convert)
	t.Columns = append(t.Columns, hidden...)
	for _, step := range ch.Steps {
		if step.Act == DropKey || step.Act == RenameKey {
			i := slices.IndexFunc(t.Keys, func(k Key) bool { return strings.EqualFold(k.Name, step.Key.Name) })
			switch {
			case i < 0:
			case step.Act == DropKey:
				t.Keys = slices.Delete(t.Keys, i, i+1)
			default:
				t.Keys[i].Name = step.To
			}
		}
	}
	for _, step := range ch.Steps {
		if step.Act == AddKey {
			t.addKey(step.Key)
		}
	}
	if len(t.Keys) == 0 {
		t.Keys = nil
	} else if k := t.Keys[0]; k.Name == primaryName { // MODIFY without NOT NULL leaves them so
		for _, n := range k.Columns {
			if j := t.Column(n); j >= 0 {
				t.Columns[j].Nullable = false
			}
		}
	}
	c.number(&t)
	t.findKey()
	return &t
}

// place drops, changes, moves and adds columns. Under a conversion new ones have the
// table's charset, whatever they say.
func place(t *Table, steps []Step, s Session, convert bool) {
	typeOf := func(step *Step) (string, string) {
		w := step.written
		if convert && w.charset != "binary" {
			w.charset = ""
		}
		return w.print(t.Charset, s)
	}
	columns := t.Columns
	type moved struct {
		column Column
		step   *Step
	}
	var later []moved
	dropped := map[string]bool{}
	renamed := map[string]string{}
	taken := map[int]bool{} // places in old that leave their place
	now := map[int]Column{} // and what becomes of the others
	at := func(n string) int { return columnIn(columns, n) }
	for i := range steps {
		step := &steps[i]
		j := at(step.Column)
		switch step.Act {
		case DropColumn:
			if j >= 0 {
				dropped[strings.ToLower(step.Column)] = true
				taken[j] = true
			}
		case RenameColumn, ShowColumn:
			if j < 0 {
				continue
			}
			c, ok := now[j]
			if !ok {
				c = columns[j]
			}
			if step.Act == RenameColumn {
				c.Name = step.Definition.Name
				renamed[strings.ToLower(step.Column)] = c.Name
			} else {
				c.Invisible = step.Definition.Invisible
			}
			now[j] = c
		case ChangeColumn:
			if j < 0 {
				continue
			}
			c := step.Definition
			c.Type, c.Charset = typeOf(step)
			c.ID = columns[j].ID
			renamed[strings.ToLower(step.Column)] = c.Name
			if step.First || step.After != "" {
				taken[j] = true
				later = append(later, moved{c, step})
			} else {
				now[j] = c
			}
		case AddColumn:
			again := slices.ContainsFunc(later, func(m moved) bool { return strings.EqualFold(m.column.Name, step.Definition.Name) })
			if step.IfNotExists && (again || staysIn(columns, dropped, step.Definition.Name)) {
				continue
			}
			c := step.Definition
			c.Type, c.Charset = typeOf(step)
			later = append(later, moved{c, step})
		}
	}
	t.Columns = make([]Column, 0, len(columns)+len(later))
	for j := range columns {
		if taken[j] {
			continue
		}
		if c, ok := now[j]; ok {
			t.Columns = append(t.Columns, c)
		} else {
			t.Columns = append(t.Columns, columns[j])
		}
	}
	for _, m := range later {
		to := len(t.Columns)
		if m.step.First {
			to = 0
		} else if m.step.After != "" {
			if k := columnIn(t.Columns, m.step.After); k >= 0 {
				to = k + 1
			}
		}
		t.Columns = slices.Insert(t.Columns, to, m.column)
	}
	for i := range t.Keys {
		k := &t.Keys[i]
		k.Columns = slices.DeleteFunc(k.Columns, func(n string) bool { return dropped[strings.ToLower(n)] })
		for j, n := range k.Columns {
			if to, ok := renamed[strings.ToLower(n)]; ok {
				k.Columns[j] = to
			}
		}
	}
	t.Keys = slices.DeleteFunc(t.Keys, func(k Key) bool { return len(k.Columns) == 0 })
}

func staysIn(columns []Column, dropped map[string]bool, n string) bool {
	return columnIn(columns, n) >= 0 && !dropped[strings.ToLower(n)]
}

// addKey adds one under its name, or the one that the server gives it.
func (t *Table) addKey(k Key) {
	k.Columns = slices.Clone(k.Columns)
	if len(k.Columns) == 0 {
		return // over an expression
	}
	if k.Name == primaryName && k.Unique {
		for i, n := range k.Columns {
			if j := t.Column(n); j >= 0 {
				t.Columns[j].Nullable = false
				k.Columns[i] = t.Columns[j].Name
			}
		}
		t.Keys = slices.Insert(slices.DeleteFunc(t.Keys, func(k Key) bool { return k.Name == primaryName }), 0, k)
		return
	}
	has := func(n string) bool {
		return slices.ContainsFunc(t.Keys, func(k Key) bool { return strings.EqualFold(k.Name, n) })
	}
	if k.Name == "" {
		k.Name = k.Columns[0]
		for n := 2; has(k.Name); n++ {
			k.Name = fmt.Sprintf("%s_%d", k.Columns[0], n)
		}
	} else if has(k.Name) {
		return // IF NOT EXISTS
	}
	t.Keys = append(t.Keys, k)
}

// ColumnChange is what became of a column between two definitions of a table.
type ColumnChange struct {
	// Old and New are its names; Old is empty where it was added, New where dropped.
	Old, New string
	// OldType and NewType are types as Column.Type; both are there if it stayed.
	OldType, NewType string
}

// Diff says which columns were dropped, renamed, given another type or added, in
// this order of kinds dropped first and then as in the new table. Columns are told apart by ID
// where both tables are of one catalog, else by name. Columns that are the same,
// moved or have another charset are not in it.
func Diff(old, new *Table) []ColumnChange {
	byID := true
	for _, columns := range [][]Column{old.Columns, new.Columns} {
		for _, c := range columns {
			byID = byID && c.ID != 0
		}
	}
	same := func(columns []Column, c *Column) int {
		if byID {
			if i := slices.IndexFunc(columns, func(o Column) bool { return o.ID == c.ID }); i >= 0 {
				return i
			}
		}
		return -1
	}
	// A copy of a table that was not made by LIKE has other IDs: then names decide.
	if byID && !slices.ContainsFunc(new.Columns, func(c Column) bool { return same(old.Columns, &c) >= 0 }) {
		byID = false
	}
	if !byID {
		same = func(columns []Column, c *Column) int { return columnIn(columns, c.Name) }
	}
	var changes []ColumnChange
	for i := range old.Columns {
		if c := &old.Columns[i]; same(new.Columns, c) < 0 {
			changes = append(changes, ColumnChange{Old: c.Name, OldType: c.Type})
		}
	}
	for i := range new.Columns {
		c := &new.Columns[i]
		j := same(old.Columns, c)
		if j < 0 {
			changes = append(changes, ColumnChange{New: c.Name, NewType: c.Type})
		} else if o := &old.Columns[j]; o.Name != c.Name || o.Type != c.Type {
			changes = append(changes, ColumnChange{Old: o.Name, New: c.Name, OldType: o.Type, NewType: c.Type})
		}
	}
	return changes
}
