package ddl

import "strings"

func (p *parser) create() {
	p.take("OR", "REPLACE")
	switch {
	case p.takeAny("DATABASE", "SCHEMA"):
		c := Change{Kind: CreateDatabase, IfNotExists: p.ifNotExists()}
		c.Name.Database = p.identifier()
		c.Charset = p.databaseCharset()
		p.add(c)
	case p.takeAny("TABLE"):
		p.createTable()
	default:
		p.takeAny("ONLINE", "OFFLINE")
		unique := p.takeAny("UNIQUE")
		if !p.take("INDEX") {
			return // temporary tables, views, indexes for text or places, users
		}
		p.ifNotExists()
		s := Step{Act: AddKey, Key: Key{Unique: unique, Name: p.identifier()}}
		for p.peek().kind != end && !p.peek().is("ON") {
			p.next() // USING BTREE
		}
		if !p.take("ON") {
			p.fail("ON is missing")
		}
		c := Change{Kind: Alter, Name: p.tableName()}
		s.Key.Columns = p.keyColumns(nil)
		c.Steps = []Step{s}
		p.add(c)
	}
}

// databaseCharset reads the options of a database.
func (p *parser) databaseCharset() string {
	var o options
	for p.peek().kind != end {
		if !p.option(&o) {
			p.skip()
		}
	}
	return o.charset
}

// options are those of a table or database that matter here.
type options struct {
	charset   string
	versioned bool
}

// option takes one that names a charset or versions the table.
func (p *parser) option(o *options) bool {
	from := p.i
	p.takeAny("DEFAULT")
	switch {
	case p.take("CHARACTER", "SET"), p.take("CHAR", "SET"), p.takeAny("CHARSET"):
		p.takeSymbol("=")
		o.charset = charsetName(p.next().text)
		return true
	case p.takeAny("COLLATE"):
		p.takeSymbol("=")
		if c := charsetOf(p.next().text); c != "" {
			o.charset = c
		}
		return true
	case p.take("WITH", "SYSTEM", "VERSIONING"):
		o.versioned = true
		return true
	}
	p.i = from
	return false
}

func (p *parser) createTable() {
	c := Change{Kind: Create, IfNotExists: p.ifNotExists()}
	c.Name = p.tableName()
	if p.take("LIKE") {
		c.Like = p.tableName()
		p.add(c)
		return
	}
	if p.peek().symbol("(") && p.ahead(1).is("LIKE") {
		p.i += 2
		c.Like = p.tableName()
		p.add(c)
		return
	}
	if p.peek().symbol("(") && !p.ahead(1).is("SELECT", "WITH", "VALUES") && !p.ahead(1).symbol("(") {
		p.next()
		c.Steps = p.elements()
	}
	var o options
	for p.peek().kind != end {
		switch {
		case p.option(&o):
		case p.peek().symbol("(") && p.ahead(1).is("SELECT", "WITH", "VALUES"), p.peek().is("SELECT", "VALUES"), p.peek().is("AS") && p.ahead(1).is("SELECT", "WITH", "VALUES", "TABLE"),
			p.peek().is("WITH") && p.ahead(1).kind != end && !p.ahead(1).is("PARSER"), p.peek().is("AS") && p.ahead(1).symbol("("):
			c.Incomplete = true
			p.i = len(p.tokens) - 1
		default:
			p.skip()
		}
	}
	c.Charset = o.charset
	if o.versioned {
		c.Steps = append(c.Steps, Step{Act: AddVersioning})
	}
	if c.Steps == nil && !c.Incomplete {
		p.fail("a table without columns")
	}
	p.add(c)
}

// elements reads the columns and keys of a table up to the closing parenthesis.
func (p *parser) elements() []Step {
	var steps []Step
	periods := map[string][]string{}
	for {
		switch {
		case p.key(&steps, periods):
		case p.period(periods):
		default:
			s := Step{Act: AddColumn, IfNotExists: p.ifNotExists()}
			p.column(&s, &steps)
		}
		p.skipElement()
		if p.takeSymbol(",") {
			continue
		}
		if !p.takeSymbol(")") {
			p.fail("a comma or the closing parenthesis is missing")
		}
		return steps
	}
}

// period takes MariaDB's PERIOD FOR name (start, end).
func (p *parser) period(periods map[string][]string) bool {
	if !p.peek().is("PERIOD") || !p.ahead(1).is("FOR") {
		return false
	}
	p.i += 2
	p.ifNotExists()
	n := strings.ToLower(p.identifier())
	p.takeSymbol("(")
	start := p.identifier()
	p.takeSymbol(",")
	periods[n] = []string{p.identifier(), start} // a key holds the end before the start
	p.takeSymbol(")")
	return true
}

// key takes a key or a constraint; false: it is a column.
func (p *parser) key(steps *[]Step, periods map[string][]string) bool {
	from := p.i
	s := Step{Act: AddKey}
	if p.takeAny("CONSTRAINT") {
		if !p.peek().is("PRIMARY", "UNIQUE", "FOREIGN", "CHECK") {
			p.ifNotExists()
			s.Key.Name = p.identifier()
		}
	}
	switch {
	case p.take("PRIMARY", "KEY"):
		s.Key.Name, s.Key.Unique = primaryName, true
		for p.peek().kind != end && !p.peek().symbol("(") {
			p.next()
		}
	case p.takeAny("UNIQUE"):
		s.Key.Unique = true
		p.takeAny("INDEX", "KEY")
		p.keyName(&s.Key)
	case p.takeAny("INDEX", "KEY"):
		p.keyName(&s.Key)
	case p.takeAny("FULLTEXT", "SPATIAL"), p.peek().is("VECTOR") && p.ahead(1).is("INDEX", "KEY") && p.takeAny("VECTOR"):
		p.takeAny("INDEX", "KEY")
		p.keyName(&s.Key)
	case p.takeAny("FOREIGN"), p.peek().is("CHECK") && p.ahead(1).symbol("("):
		p.skipElement()
		return true
	default:
		if p.i != from {
			p.fail("a constraint of an unknown kind")
		}
		return false
	}
	s.Key.Columns = p.keyColumns(periods)
	*steps = append(*steps, s)
	return true
}

// keyName takes what stands between KEY and its columns.
func (p *parser) keyName(k *Key) {
	p.ifNotExists()
	if !p.peek().symbol("(") && !(p.peek().is("USING", "TYPE") && !p.ahead(1).symbol("(")) {
		k.Name = p.identifier()
	}
	for p.peek().kind != end && !p.peek().symbol("(") {
		p.next() // USING BTREE
	}
}

// keyColumns takes the columns of a key. One over an expression has no columns.
func (p *parser) keyColumns(periods map[string][]string) []string {
	if !p.takeSymbol("(") {
		p.fail("the columns of a key are missing")
	}
	var columns []string
	expression := false
	for {
		if p.peek().symbol("(") {
			expression = true
		} else {
			n := p.columnName()
			switch {
			case !p.take("WITHOUT", "OVERLAPS"):
				columns = append(columns, n)
			case periods[strings.ToLower(n)] != nil:
				columns = append(columns, periods[strings.ToLower(n)]...)
			default:
				expression = true
			}
		}
		p.skipElement()
		if p.takeSymbol(",") {
			continue
		}
		if !p.takeSymbol(")") {
			p.fail("a key is not closed")
		}
		if expression {
			return nil
		}
		return columns
	}
}

// column takes a column's name and definition, its place, and the keys that it makes.
func (p *parser) column(s *Step, steps *[]Step) {
	s.Definition.Name = p.columnName()
	p.definition(s, steps)
}

// definition takes what follows a column's name.
func (p *parser) definition(s *Step, steps *[]Step) {
	s.Definition.Nullable = true
	s.written = p.typeOf()
	if s.written.serial {
		s.Definition.Nullable = false
	}
	unique, primary := s.written.serial, false
	for !p.atEnd() {
		switch {
		case p.take("NOT", "NULL"):
			s.Definition.Nullable = false
		case p.takeAny("NULL"):
			s.Definition.Nullable = true
		case p.takeAny("DEFAULT"):
			p.value()
		case p.take("ON", "UPDATE"):
			p.value()
		case p.takeAny("REFERENCES"):
			p.references()
		case p.take("GENERATED", "ALWAYS", "AS", "ROW"):
			p.takeAny("START", "END")
			s.Definition.Generated = true
			s.Definition.Nullable = false
		case p.takeAny("AS"):
			s.Definition.Generated = true
			p.skip()
		case p.takeAny("UNIQUE"):
			p.takeAny("KEY")
			unique = true
		case p.takeAny("PRIMARY"):
			p.takeAny("KEY")
			primary = true
		case p.takeAny("KEY"):
			primary = true
		case p.takeAny("INVISIBLE"):
			s.Definition.Invisible = true
		case p.takeAny("COMMENT"), p.takeAny("COLUMN_FORMAT"), p.takeAny("STORAGE"):
			p.takeSymbol("=")
			p.next()
		case p.takeAny("FIRST"):
			s.First = true
		case p.takeAny("AFTER"):
			s.After = p.columnName()
		case p.charset(&s.written):
		default:
			p.skip()
		}
	}
	s.Definition.Type, s.Definition.Charset = s.written.print("", p.session)
	*steps = append(*steps, *s)
	if primary {
		*steps = append(*steps, Step{Act: AddKey, Key: Key{Name: primaryName, Unique: true, Columns: []string{s.Definition.Name}}})
	}
	if unique {
		*steps = append(*steps, Step{Act: AddKey, Key: Key{Unique: true, Columns: []string{s.Definition.Name}}})
	}
}

// value takes the value of DEFAULT and ON UPDATE, so that its NULL is not the column's.
func (p *parser) value() {
	for p.takeSymbol("-") || p.takeSymbol("+") {
	}
	switch {
	case p.take("NEXT", "VALUE", "FOR"):
		p.tableName()
		return
	case p.takeAny("CASE"):
		for depth := 1; depth > 0 && p.peek().kind != end; {
			switch {
			case p.takeAny("CASE"):
				depth++
			case p.takeAny("END"):
				depth--
			default:
				p.skip()
			}
		}
		return
	}
	first := p.peek()
	p.skip()
	for p.takeSymbol(".") {
		p.next()
	}
	if first.kind == word && p.peek().symbol("(") {
		p.skipParentheses()
	}
	if first.kind == word && p.peek().kind == text {
		p.next() // _utf8'x', b'1', DATE '2022-07-16'
	}
}

func (p *parser) references() {
	p.tableName()
	if p.peek().symbol("(") {
		p.skipParentheses()
	}
	for {
		switch {
		case p.takeAny("MATCH"):
			p.next()
		case p.peek().is("ON") && p.ahead(1).is("DELETE", "UPDATE"):
			p.i += 2
			if !p.take("SET", "NULL") && !p.take("SET", "DEFAULT") && !p.take("NO", "ACTION") {
				p.next()
			}
		default:
			return
		}
	}
}
