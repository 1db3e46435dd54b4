package ddl

import "strings"

// Parse says what a statement does to which tables. It knows no table, so that
// the result is what the text alone tells; nil: it changes no table's definition.
// The error is a *SyntaxError.
func Parse(statement string, s Session) (changes []Change, err error) {
	tokens, bad := lex(statement, s)
	if bad != nil {
		if !mayDefine(statement) {
			return nil, nil
		}
		return nil, bad
	}
	p := &parser{statement: statement, session: s, tokens: tokens}
	defer func() {
		if r := recover(); r != nil {
			refused, ok := r.(*SyntaxError)
			if !ok {
				panic(r)
			}
			changes, err = nil, refused
		}
	}()
	p.statementStart()
	return p.changes, nil
}

// mayDefine reports whether a statement that cannot be cut into tokens begins like one that
// defines a table.
func mayDefine(statement string) bool {
	first, _, _ := strings.Cut(strings.TrimSpace(statement), " ")
	switch strings.ToUpper(first) {
	case "CREATE", "ALTER", "RENAME", "DROP", "TRUNCATE":
		return true
	}
	return strings.HasPrefix(first, "/*")
}

type parser struct {
	statement string
	session   Session
	tokens    []token
	i         int
	changes   []Change
}

func (p *parser) peek() token { return p.tokens[p.i] }

// ahead is the token n behind the next one.
func (p *parser) ahead(n int) token { return p.tokens[min(p.i+n, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.tokens[p.i]
	if t.kind != end {
		p.i++
	}
	return t
}

// take takes the next tokens if they are these keywords.
func (p *parser) take(words ...string) bool {
	for i, w := range words {
		if !p.ahead(i).is(w) {
			return false
		}
	}
	p.i += len(words)
	return true
}

// takeAny takes the next token if it is one of these keywords.
func (p *parser) takeAny(words ...string) bool {
	if p.peek().is(words...) {
		p.i++
		return true
	}
	return false
}

func (p *parser) takeSymbol(c string) bool {
	if p.peek().symbol(c) {
		p.i++
		return true
	}
	return false
}

// fail gives the statement up.
func (p *parser) fail(reason string) {
	panic(&SyntaxError{Statement: p.statement, Offset: p.peek().at, Reason: reason})
}

// identifier takes a name.
func (p *parser) identifier() string {
	t := p.peek()
	if t.kind == word || t.kind == name || t.kind == text && t.double {
		p.i++
		return t.text
	}
	p.fail("a name is missing")
	return ""
}

// columnName takes a column's name, with those of its table and database before it.
func (p *parser) columnName() string {
	n := p.identifier()
	for p.takeSymbol(".") {
		n = p.identifier()
	}
	return n
}

func (p *parser) tableName() Name {
	n := Name{Database: p.session.Database}
	if p.takeSymbol(".") { // ODBC's form
		n.Table = p.identifier()
		return n
	}
	n.Table = p.identifier()
	if p.takeSymbol(".") {
		n.Database, n.Table = n.Table, p.identifier()
	}
	return n
}

// skipParentheses takes what is in the parentheses that open next, and them.
func (p *parser) skipParentheses() {
	depth := 0
	for {
		switch t := p.peek(); {
		case t.kind == end:
			p.fail("a parenthesis is not closed")
		case t.symbol("("):
			depth++
		case t.symbol(")"):
			depth--
		}
		p.i++
		if depth == 0 {
			return
		}
	}
}

// skip takes a token, or all that is in parentheses.
func (p *parser) skip() {
	if p.peek().symbol("(") {
		p.skipParentheses()
	} else {
		p.next()
	}
}

// atEnd reports whether an element of a list ends here.
func (p *parser) atEnd() bool {
	t := p.peek()
	return t.kind == end || t.symbol(",") || t.symbol(")") || t.symbol(";")
}

// skipElement takes all up to the end of the element of a list.
func (p *parser) skipElement() {
	for !p.atEnd() {
		p.skip()
	}
}

// rest takes everything, and gives it as written.
func (p *parser) rest(from int) string {
	p.i = len(p.tokens) - 1
	return strings.TrimRight(p.statement[p.tokens[from].at:], " \t\r\n;")
}

func (p *parser) add(c Change) { p.changes = append(p.changes, c) }

func (p *parser) ifExists() bool    { return p.take("IF", "EXISTS") }
func (p *parser) ifNotExists() bool { return p.take("IF", "NOT", "EXISTS") }

// wait takes MariaDB's WAIT n and NOWAIT.
func (p *parser) wait() {
	if !p.takeAny("NOWAIT") && p.peek().is("WAIT") && p.ahead(1).kind == word && isNumber(p.ahead(1).text) {
		p.i += 2
	}
}

func (p *parser) statementStart() {
	for p.takeSymbol(";") {
	}
	if p.take("SET", "STATEMENT") { // MariaDB's SET STATEMENT variable = value FOR statement
		for p.peek().kind != end && !p.takeAny("FOR") {
			p.skip()
		}
	}
	switch {
	case p.take("CREATE"):
		p.create()
	case p.take("ALTER"):
		p.alter()
	case p.take("RENAME"):
		if p.takeAny("TABLE", "TABLES") {
			p.rename()
		}
	case p.take("DROP"):
		p.drop()
	case p.take("TRUNCATE"):
		p.takeAny("TABLE")
		p.add(Change{Kind: Truncate, Name: p.tableName()})
	}
}

func (p *parser) rename() {
	exists := p.ifExists()
	for {
		c := Change{Kind: Rename, Name: p.tableName(), IfExists: exists}
		p.wait()
		if !p.take("TO") {
			p.fail("TO is missing")
		}
		c.To = p.tableName()
		p.add(c)
		if !p.takeSymbol(",") {
			return
		}
	}
}

func (p *parser) drop() {
	switch {
	case p.takeAny("TABLE", "TABLES"):
		exists := p.ifExists()
		for {
			p.add(Change{Kind: Drop, Name: p.tableName(), IfExists: exists})
			if !p.takeSymbol(",") {
				return
			}
		}
	case p.takeAny("DATABASE", "SCHEMA"):
		exists := p.ifExists()
		p.add(Change{Kind: DropDatabase, Name: Name{Database: p.identifier()}, IfExists: exists})
	case p.takeAny("ONLINE", "OFFLINE"), true:
		if !p.take("INDEX") {
			return // temporary tables, views, users
		}
		exists := p.ifExists()
		c := Change{Kind: Alter}
		key := p.identifier()
		if !p.take("ON") {
			p.fail("ON is missing")
		}
		c.Name = p.tableName()
		c.Steps = []Step{{Act: DropKey, Key: Key{Name: key}, IfExists: exists}}
		p.add(c)
	}
}
