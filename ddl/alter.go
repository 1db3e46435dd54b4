package ddl

func (p *parser) alter() {
	p.takeAny("ONLINE", "OFFLINE")
	p.takeAny("IGNORE")
	switch {
	case p.takeAny("DATABASE", "SCHEMA"):
		c := Change{Kind: AlterDatabase, Name: Name{Database: p.session.Database}}
		t := p.peek()
		option := t.is("DEFAULT", "CHARSET", "COLLATE", "COMMENT") || t.is("CHARACTER") && p.ahead(1).is("SET") ||
			t.is("READ", "UPGRADE") || t.is("ENCRYPTION")
		if !option {
			c.Name.Database = p.identifier()
		}
		c.Charset = p.databaseCharset()
		p.add(c)
	case p.takeAny("TABLE"):
		p.alterTable()
	}
}

func (p *parser) alterTable() {
	c := Change{Kind: Alter, IfExists: p.ifExists()}
	c.Name = p.tableName()
	p.wait()
	var to *Name
	for p.peek().kind != end {
		from := p.i
		if p.takeSymbol(",") || p.takeSymbol(";") {
			continue
		}
		switch {
		case p.takeAny("ADD"):
			p.alterAdd(&c)
		case p.takeAny("DROP"):
			p.alterDrop(&c, from)
		case p.takeAny("CHANGE", "MODIFY"):
			change := p.tokens[from].is("CHANGE")
			p.takeAny("COLUMN")
			s := Step{Act: ChangeColumn, IfExists: p.ifExists()}
			s.Column = p.columnName()
			s.Definition.Name = s.Column
			if change {
				s.Definition.Name = p.columnName()
			}
			p.definition(&s, &c.Steps)
		case p.takeAny("ALTER"):
			p.alterColumn(&c)
		case p.takeAny("RENAME"):
			to = p.alterRename(&c, to)
		case p.takeAny("CONVERT"):
			p.alterConvert(&c, from)
		case p.takeAny("TRUNCATE", "EXCHANGE", "IMPORT", "DISCARD"):
			if p.peek().is("PARTITION", "TABLESPACE") {
				c.RowsRemoved = p.rest(from)
			}
		case p.peek().is("REORGANIZE", "COALESCE", "REBUILD", "PARTITION", "OPTIMIZE", "ANALYZE", "CHECK", "REPAIR", "REMOVE") && !p.ahead(1).symbol("="):
			p.rest(from) // names of partitions, and commas between them
		default:
			var o options
			for !p.atEnd() {
				if !p.option(&o) {
					p.skip()
				}
			}
			if p.peek().symbol(")") {
				p.fail("a parenthesis too many")
			}
			if o.charset != "" {
				c.Charset = o.charset
			}
		}
	}
	if to == nil || c.Steps != nil || c.Charset != "" || c.RowsRemoved != "" {
		p.add(c)
	}
	if to != nil {
		p.add(Change{Kind: Rename, Name: c.Name, To: *to})
	}
}

func (p *parser) alterAdd(c *Change) {
	periods := map[string][]string{}
	switch {
	case p.take("SYSTEM", "VERSIONING"):
		c.Steps = append(c.Steps, Step{Act: AddVersioning})
	case p.peek().is("PARTITION") && (p.ahead(1).is("PARTITIONS", "IF", "NO_WRITE_TO_BINLOG", "LOCAL") || p.ahead(1).symbol("(") || p.ahead(1).kind == end):
		p.rest(p.i)
	case p.period(periods), p.key(&c.Steps, periods):
		p.skipElement()
	default:
		p.takeAny("COLUMN")
		s := Step{Act: AddColumn, IfNotExists: p.ifNotExists()}
		if p.takeSymbol("(") {
			c.Steps = append(c.Steps, p.elements()...)
			return
		}
		p.column(&s, &c.Steps)
	}
}

func (p *parser) alterDrop(c *Change, from int) {
	switch {
	case p.take("PRIMARY", "KEY"):
		c.Steps = append(c.Steps, Step{Act: DropKey, Key: Key{Name: primaryName}})
	case p.takeAny("INDEX", "KEY"):
		s := Step{Act: DropKey, IfExists: p.ifExists()}
		s.Key.Name = p.identifier()
		c.Steps = append(c.Steps, s)
	case p.takeAny("CONSTRAINT"):
		p.ifExists()
		c.Steps = append(c.Steps, Step{Act: DropKey, IfExists: true, Key: Key{Name: p.identifier()}}) // a check has none
	case p.take("SYSTEM", "VERSIONING"):
		c.Steps = append(c.Steps, Step{Act: DropVersioning})
	case p.take("FOREIGN", "KEY"), p.peek().is("CHECK"), p.take("PERIOD", "FOR"):
		p.skipElement()
	case p.takeAny("PARTITION"):
		c.RowsRemoved = p.rest(from)
	default:
		p.takeAny("COLUMN")
		s := Step{Act: DropColumn, IfExists: p.ifExists()}
		s.Column = p.columnName()
		c.Steps = append(c.Steps, s)
	}
	if c.RowsRemoved == "" {
		p.skipElement() // RESTRICT, CASCADE
	}
}

func (p *parser) alterColumn(c *Change) {
	if p.peek().is("INDEX", "KEY", "CHECK", "CONSTRAINT") {
		p.skipElement()
		return
	}
	p.takeAny("COLUMN")
	exists := p.ifExists()
	column := p.columnName()
	switch {
	case p.take("SET", "INVISIBLE"):
		c.Steps = append(c.Steps, Step{Act: ShowColumn, Column: column, IfExists: exists, Definition: Column{Invisible: true}})
	case p.take("SET", "VISIBLE"):
		c.Steps = append(c.Steps, Step{Act: ShowColumn, Column: column, IfExists: exists})
	}
	p.skipElement()
}

func (p *parser) alterRename(c *Change, to *Name) *Name {
	switch {
	case p.take("COLUMN"):
		s := Step{Act: RenameColumn, IfExists: p.ifExists()}
		s.Column = p.columnName()
		if !p.take("TO") {
			p.fail("TO is missing")
		}
		s.Definition.Name = p.columnName()
		c.Steps = append(c.Steps, s)
		return to
	case p.peek().is("INDEX", "KEY"):
		p.next()
		s := Step{Act: RenameKey, IfExists: p.ifExists()}
		s.Key.Name = p.identifier()
		if !p.take("TO") {
			p.fail("TO is missing")
		}
		s.To = p.identifier()
		c.Steps = append(c.Steps, s)
		return to
	}
	if !p.takeAny("TO", "AS") {
		p.takeSymbol("=")
	}
	n := p.tableName()
	return &n
}

func (p *parser) alterConvert(c *Change, from int) {
	switch {
	case p.takeAny("PARTITION"), p.takeAny("TABLE"): // CONVERT PARTITION p TO TABLE t, and back
		c.RowsRemoved = p.rest(from)
		return
	case !p.take("TO"):
		p.fail("TO is missing")
	}
	var o options
	if p.take("CHARACTER", "SET", "DEFAULT") || p.take("CHARSET", "DEFAULT") {
		o.charset = ""
	}
	for !p.atEnd() {
		if !p.option(&o) {
			p.skip()
		}
	}
	c.Steps = append(c.Steps, Step{Act: Convert, Charset: o.charset})
}
