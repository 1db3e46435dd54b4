// Package mysql reads the rows of a table of MySQL or MariaDB as a slice, in one
// consistent read.
//
// Invariants: the rows are those of one moment; a value comes with every digit, or the
// read ends with an error that names the column; no message has the password.
package mysql

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/gscd-io/gscd/capture/source"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
)

// Scheme begins an address: mysql://USER@HOST[:PORT]/DATABASE/TABLE.
const Scheme = "mysql://"

// ErrAddress is wrapped by errors about an address that can't be one.
var ErrAddress = errors.New("no address of a MySQL table")

// ErrNoTable: the database has no such table, or the user may not see it.
var ErrNoTable = errors.New("no such table")

// Table is where a slice's rows are. It implements slice.Source.
type Table struct {
	server          *source.Server
	database, table string
	at              *ingest.SourcePosition
}

// At gives where in the server's binlog the rows stood that were read last; nil where the
// server does not say it (MySQL), or writes no binlog.
func (t *Table) At() *ingest.SourcePosition { return t.at }

// Open reads an address; nothing is reached yet. The error wraps ErrAddress and does not
// show a password.
func Open(address string, o source.Options) (*Table, error) {
	u, err := url.Parse(address)
	if err != nil || !strings.HasPrefix(address, Scheme) {
		return nil, fmt.Errorf("%w: write %sUSER@HOST:PORT/DATABASE/TABLE", ErrAddress, Scheme)
	}
	if _, has := u.User.Password(); has {
		return nil, fmt.Errorf("%w: it has a password, which would be seen: leave it out, and set GSCD_MYSQL_PASSWORD or GSCD_MYSQL_PASSWORD_FILE", ErrAddress)
	}
	database, table, ok := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if !ok || database == "" || table == "" || strings.Contains(table, "/") {
		return nil, fmt.Errorf("%w: write %sUSER@HOST:PORT/DATABASE/TABLE", ErrAddress, Scheme)
	}
	u.Path, u.RawPath = "", ""
	server, err := source.Open(u.String(), o)
	if errors.Is(err, source.ErrAddress) {
		return nil, fmt.Errorf("%w: write %sUSER@HOST:PORT/DATABASE/TABLE", ErrAddress, Scheme)
	}
	return &Table{server: server, database: database, table: table}, err
}

// Name is the address.
func (t *Table) Name() string { return t.server.Name() + "/" + t.database + "/" + t.table }

// Open asks for the columns; the rows are read in a transaction of their own.
func (t *Table) Open(ctx context.Context, _ *schema.Schema) (ingest.SliceRows, error) {
	var out ingest.SliceRows
	c, err := t.server.Connect(ctx)
	if err != nil {
		return out, err
	}
	columns, err := t.columns(ctx, c)
	c.Close()
	if err != nil {
		return out, fmt.Errorf("%s: %w", t.Name(), err)
	}
	for _, col := range columns {
		out.Columns = append(out.Columns, schema.Field{Name: col.name, Type: col.typ, Nullable: true})
	}
	out.Rows = func(yield func([]schema.Value, error) bool) {
		if err := t.rows(ctx, columns, yield); err != nil && !errors.Is(err, errEnough) {
			yield(nil, fmt.Errorf("read %s: %w", t.Name(), err))
		}
	}
	return out, nil
}

var errEnough = errors.New("no more rows are wanted")

// columns reads the table's columns in their order.
func (t *Table) columns(ctx context.Context, c *source.Session) (list []column, err error) {
	query := fmt.Sprintf("SELECT column_name, column_type FROM information_schema.columns WHERE table_schema = '%s' AND table_name = '%s' ORDER BY ordinal_position",
		mysql.Escape(t.database), mysql.Escape(t.table))
	err = c.Select(ctx, query, func(row []mysql.FieldValue) error {
		col, err := columnOf(string(row[0].AsString()), string(row[1].AsString()))
		list = append(list, col)
		return err
	})
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%w, or the user may not read it", ErrNoTable)
	}
	return list, err
}

// rows reads the table in one consistent read.
func (t *Table) rows(ctx context.Context, columns []column, yield func([]schema.Value, error) bool) error {
	c, err := t.server.Connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, statement := range []string{
		"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
		"START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
	} {
		if err := c.Exec(statement); err != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
	if t.at, err = position(c); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	selected := make([]string, len(columns))
	for i, col := range columns {
		selected[i] = col.selected()
	}
	cells := make([]schema.Value, len(columns))
	n := 0
	return c.Select(ctx, "SELECT "+strings.Join(selected, ", ")+" FROM "+quoted(t.database)+"."+quoted(t.table), func(row []mysql.FieldValue) error {
		n++
		for i := range columns {
			var err error
			if cells[i], err = columns[i].cell(&row[i]); err != nil {
				return fmt.Errorf("%w: row %d: %w", ingest.ErrSlice, n, err)
			}
		}
		if !yield(cells, nil) {
			return errEnough
		}
		return nil
	})
}

// quoted makes a name of an identifier.
func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
