package binlog

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gscd-io/gscd/capture/event"
	"github.com/gscd-io/gscd/ddl"
)

// query is a statement of the log, as UTF-8.
type query struct {
	database string
	text     string
	session  ddl.Session
}

// readQuery takes a QUERY event apart.
func readQuery(body []byte, compressed bool) (query, error) {
	c := cursor{b: body}
	c.take(8) // thread, seconds
	database := c.uint(1)
	c.uint(2) // error
	vars := c.take(c.uint(2))
	q := query{database: string(c.take(database))}
	c.uint(1)
	if c.err != nil {
		return q, corrupt("a statement: %v", c.err)
	}
	text := c.b
	if compressed {
		var err error
		if text, err = inflate(text); err != nil {
			return q, err
		}
	}
	client := q.statusOf(vars)
	q.session.Database = q.database
	if client == nil {
		q.text = string(text)
		return q, nil
	}
	utf8, err := client.convert(nil, text)
	if err != nil { // a literal in another character set: it does not matter to definitions
		utf8 = []byte(strings.ToValidUTF8(string(text), "\uFFFD"))
	}
	q.text = string(utf8)
	return q, nil
}

// statusOf reads the session's settings; it gives the client's character set, nil
// where the text is UTF-8.
func (q *query) statusOf(vars []byte) *charset {
	c := cursor{b: vars}
	for len(c.b) > 0 && c.err == nil {
		switch c.uint(1) {
		case 0: // flags
			c.take(4)
		case 1:
			q.session.SQLMode = c.uint(8)
		case 2: // catalog, and a zero behind it
			c.take(c.uint(1) + 1)
		case 3: // auto_increment
			c.take(4)
		case 4:
			client := c.uint(2)
			c.take(2)
			q.session.Charset = charsetName(c.uint(2))
			if name := charsetName(client); name != "" && name != "binary" {
				return charsetOf(name)
			}
			return nil
		case 5, 6: // time zone; catalog
			c.take(c.uint(1))
		default:
			return nil
		}
	}
	return nil
}

// query acts on a statement. It reports that the transaction ends.
func (r *Reader) query(q query) (end bool, err error) {
	words := leading(q.text, 4)
	first, second := word(words, 0), word(words, 1)
	statement := r.tx.statement
	r.tx.statement = false
	switch first {
	case "BEGIN":
		return false, r.begun()
	case "START":
		if second == "TRANSACTION" {
			return false, r.begun()
		}
		return false, nil // a replica's, a group's
	case "COMMIT":
		return true, nil
	case "ROLLBACK":
		return r.rollback(words)
	case "SAVEPOINT":
		if r.tx.savepoints == nil {
			r.tx.savepoints = map[string]int{}
		}
		r.tx.savepoints[second] = r.tx.given
		return false, nil
	case "RELEASE":
		return false, nil
	case "XA":
		return r.xa(second, q.text)
	case "INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "WITH", "CALL":
		if target, ok := changedBy(q); ok && !r.wanted(target.Database, target.Table) {
			return !r.tx.open, nil
		}
		return false, fmt.Errorf("%w: %.200q", ErrStatementFormat, q.text)
	}
	if statement && first != "CREATE" {
		return false, fmt.Errorf("%w: %.200q", ErrStatementFormat, q.text)
	}
	if err := r.define(q); err != nil {
		return false, err
	}
	return !r.tx.open, nil
}

func (r *Reader) begun() error {
	if !r.tx.open {
		r.tx.open, r.tx.alone = true, false
		if r.tx.gtid.text == "" && r.tx.time == 0 {
			r.tx.begin = r.begin
		}
	}
	return nil
}

// rollback ends a transaction that had changed tables without transactions, or undoes
// it up to a savepoint. Rows that were given can't be taken back.
func (r *Reader) rollback(words []string) (end bool, err error) {
	if word(words, 1) != "TO" {
		if r.tx.given > 0 {
			return false, ErrRolledBack
		}
		return true, nil
	}
	name := word(words, 2)
	if name == "SAVEPOINT" {
		name = word(words, 3)
	}
	if given, ok := r.tx.savepoints[name]; !ok && r.tx.given > 0 || ok && given < r.tx.given {
		return false, ErrRolledBack
	}
	return false, nil
}

// define moves the catalog on by a statement, and queues what it says of wanted tables.
func (r *Reader) define(q query) error {
	q.session.MariaDB = r.mariadb
	effects, err := r.catalog.Apply(q.text, q.session)
	var syntax *ddl.SyntaxError
	if errors.As(err, &syntax) {
		// What the log itself says of columns still holds; without that, tableMap stops.
		r.unread = fmt.Errorf("a statement before it was not understood: %w", err)
		clear(r.shapes)
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range effects {
		r.forget(e)
	}
	for _, o := range ddl.Outcomes(effects) {
		if !r.wanted(o.Name.Database, o.Name.Table) {
			continue
		}
		if o.Old == nil && o.New != nil && o.New.Incomplete {
			return fmt.Errorf("%w: %.200q", ErrStatementFormat, q.text)
		}
		ev := &event.Event{Op: event.Schema, Source: r.source(), Table: o.New, Old: o.Old, Statement: q.text, RowsRemoved: o.RowsRemoved}
		switch {
		case o.Truncated:
			ev.Op = event.Truncate
			if ev.Old = nil; ev.Table == nil {
				ev.Table = &ddl.Table{Database: o.Name.Database, Name: o.Name.Table}
			}
		case !o.Known, o.Old == nil && o.New == nil:
			continue // of a table that nobody has defined
		}
		ev.Source.Row = r.row
		r.row++
		r.queue = append(r.queue, ev)
	}
	return nil
}

// forget drops what was found of a table's rows.
func (r *Reader) forget(e ddl.Effect) {
	delete(r.shapes, e.Name.Database+"\x00"+e.Name.Table)
	for _, t := range []*ddl.Table{e.Old, e.New} {
		if t != nil {
			delete(r.shapes, t.Database+"\x00"+t.Name)
		}
	}
}

func (r *Reader) wanted(database, table string) bool {
	return r.o.Wanted == nil || r.o.Wanted(database, table)
}
