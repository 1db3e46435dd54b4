package ddl

import (
	"cmp"
	"slices"
	"strings"
)

// Catalog is the tables of a server. It is not safe for use by several goroutines.
type Catalog struct {
	// FoldNames: names of tables and databases are the same in any case
	// (lower_case_table_names is not 0).
	FoldNames bool

	tables   map[Name]*Table
	charsets map[string]string // of databases
	last     int64             // the highest ID of a column
}

// NewCatalog gives one without tables.
func NewCatalog() *Catalog {
	return &Catalog{tables: map[Name]*Table{}, charsets: map[string]string{}}
}

func (c *Catalog) fold(n Name) Name {
	if c.FoldNames {
		return Name{strings.ToLower(n.Database), strings.ToLower(n.Table)}
	}
	return n
}

// Table is the definition of a table now; nil: the catalog does not know it.
func (c *Catalog) Table(database, name string) *Table { return c.tables[c.fold(Name{database, name})] }

// Tables are all tables, by database and name.
func (c *Catalog) Tables() []*Table {
	all := make([]*Table, 0, len(c.tables))
	for _, t := range c.tables {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *Table) int {
		return cmp.Or(strings.Compare(a.Database, b.Database), strings.Compare(a.Name, b.Name))
	})
	return all
}

// Put sets a table's definition, as a history kept it or the server told it. Columns
// without an ID get one; Key follows from Keys where there are any.
func (c *Catalog) Put(t *Table) {
	put := *t
	put.Columns = slices.Clone(t.Columns)
	for i := range put.Columns {
		c.last = max(c.last, put.Columns[i].ID)
	}
	c.number(&put)
	if len(put.Keys) > 0 {
		put.findKey()
	}
	c.tables[c.fold(Name{t.Database, t.Name})] = &put
}

// number gives the columns that have no ID one.
func (c *Catalog) number(t *Table) {
	for i := range t.Columns {
		if t.Columns[i].ID == 0 {
			c.last++
			t.Columns[i].ID = c.last
		}
	}
}

// SetCharset says the default charset of a database.
func (c *Catalog) SetCharset(database, charset string) {
	c.charsets[c.fold(Name{Database: database}).Database] = charsetName(charset)
}

// charset is the default of a database.
func (c *Catalog) charset(database string, s Session) string {
	return cmp.Or(c.charsets[c.fold(Name{Database: database}).Database], charsetName(s.Charset), "utf8mb4")
}

// Effect is what a statement did to a table of a catalog.
type Effect struct {
	Kind Kind
	// Name is the table's before the statement, To after a Rename.
	Name, To Name
	// Old and New are its definitions; Old is nil where there was none or it is not
	// known, New after a Drop. An Alter or Rename of an unknown table has neither.
	Old, New *Table
	// RowsRemoved says what the statement did to rows without any event for them, as
	// Change.RowsRemoved.
	RowsRemoved string
}

// Apply moves the catalog on by a statement, and says what it did to each table, in
// order. A statement that changes no table gives none. The error is a *SyntaxError, and
// the catalog is as before.
func (c *Catalog) Apply(statement string, s Session) ([]Effect, error) {
	changes, err := Parse(statement, s)
	if err != nil {
		return nil, err
	}
	var effects []Effect
	for i := range changes {
		effects = append(effects, c.apply(&changes[i], s)...)
	}
	return effects, nil
}

func (c *Catalog) apply(ch *Change, s Session) []Effect {
	at := c.fold(ch.Name)
	old := c.tables[at]
	effect := Effect{Kind: ch.Kind, Name: ch.Name, Old: old, RowsRemoved: ch.RowsRemoved}
	switch ch.Kind {
	case CreateDatabase, AlterDatabase:
		if ch.Charset != "" && (ch.Kind == AlterDatabase || !ch.IfNotExists || c.charsets[at.Database] == "") {
			c.charsets[at.Database] = ch.Charset
		} else if ch.Kind == CreateDatabase && !ch.IfNotExists {
			c.charsets[at.Database] = cmp.Or(charsetName(s.Charset), "utf8mb4")
		}
		return nil
	case DropDatabase:
		var effects []Effect
		for _, t := range c.Tables() {
			if n := (Name{t.Database, t.Name}); c.fold(n).Database == at.Database {
				effects = append(effects, Effect{Kind: Drop, Name: n, Old: t})
				delete(c.tables, c.fold(n))
			}
		}
		delete(c.charsets, at.Database)
		return effects
	case Create:
		if ch.IfNotExists && old != nil {
			return nil
		}
		effect.New = c.created(ch, s)
		c.tables[at] = effect.New
	case Alter:
		if old == nil {
			return []Effect{effect}
		}
		effect.New = c.altered(old, ch, s)
		c.tables[at] = effect.New
	case Rename:
		effect.To = ch.To
		if old == nil {
			delete(c.tables, c.fold(ch.To)) // what was there has another definition now, an unknown one
			return []Effect{effect}
		}
		renamed := *old
		renamed.Database, renamed.Name = ch.To.Database, ch.To.Table
		effect.New = &renamed
		delete(c.tables, at)
		c.tables[c.fold(ch.To)] = &renamed
	case Drop:
		if old == nil {
			return nil
		}
		delete(c.tables, at)
	case Truncate:
		effect.New = old
	}
	return []Effect{effect}
}

func (c *Catalog) created(ch *Change, s Session) *Table {
	t := &Table{Database: ch.Name.Database, Name: ch.Name.Table, Incomplete: ch.Incomplete}
	if ch.Like.Table != "" {
		if like := c.tables[c.fold(ch.Like)]; like != nil {
			*t = *like // the columns keep their identity
			t.Database, t.Name = ch.Name.Database, ch.Name.Table
		} else {
			t.Incomplete = true
		}
		return t
	}
	t.Charset = cmp.Or(ch.Charset, c.charset(ch.Name.Database, s))
	return c.altered(t, ch, s)
}
