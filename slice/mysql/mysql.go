// Package mysql reads the rows of a table of MySQL or MariaDB as a slice, in one
// consistent read.
//
// Invariants: the rows are those of one moment; a value comes with every digit, or the
// read ends with an error that names the column; no message has the password.
package mysql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
)

// Scheme begins an address: mysql://USER@HOST[:PORT]/DATABASE/TABLE.
const Scheme = "mysql://"

// ErrAddress is wrapped by errors about an address that can't be one.
var ErrAddress = errors.New("no address of a MySQL table")

// ErrNoTable: the database has no such table, or the user may not see it.
var ErrNoTable = errors.New("no such table")

// Options say how a server is reached.
type Options struct {
	// Password of the user that the address names.
	Password string
	// TLS encrypts the connection; CAFile (PEM) names the authorities of the server's
	// certificate, "" those of the system. SkipVerify takes any certificate.
	TLS, SkipVerify bool
	CAFile          string
}

// Table is where a slice's rows are. It implements slice.Source.
type Table struct {
	host, user, database, table string
	o                           Options
	tls                         *tls.Config
	at                          *ingest.SourcePosition
}

// At gives where in the server's binlog the rows stood that were read last; nil where the
// server does not say it (MySQL without a lock), or writes no binlog.
func (t *Table) At() *ingest.SourcePosition { return t.at }

// Open reads an address; nothing is reached yet. The error wraps ErrAddress and does not
// show a password.
func Open(address string, o Options) (*Table, error) {
	u, err := url.Parse(address)
	if err != nil || !strings.HasPrefix(address, Scheme) {
		return nil, fmt.Errorf("%w: write %sUSER@HOST:PORT/DATABASE/TABLE", ErrAddress, Scheme)
	}
	if _, has := u.User.Password(); has {
		return nil, fmt.Errorf("%w: it has a password, which would be seen: leave it out, and set GSCD_MYSQL_PASSWORD or GSCD_MYSQL_PASSWORD_FILE", ErrAddress)
	}
	database, table, ok := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if !ok || database == "" || table == "" || strings.Contains(table, "/") || u.User.Username() == "" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%w: write %sUSER@HOST:PORT/DATABASE/TABLE", ErrAddress, Scheme)
	}
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	t := &Table{host: net.JoinHostPort(u.Hostname(), port), user: u.User.Username(), database: database, table: table, o: o}
	if o.TLS || o.SkipVerify || o.CAFile != "" {
		t.tls = &tls.Config{ServerName: u.Hostname(), InsecureSkipVerify: o.SkipVerify, MinVersion: tls.VersionTLS12}
		if o.CAFile != "" {
			pem, err := os.ReadFile(o.CAFile)
			if err != nil {
				return nil, err
			}
			t.tls.RootCAs = x509.NewCertPool()
			if !t.tls.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("%s has no certificate", o.CAFile)
			}
		}
	}
	return t, nil
}

// Name is the address.
func (t *Table) Name() string {
	return Scheme + t.user + "@" + t.host + "/" + t.database + "/" + t.table
}

func (t *Table) connect(ctx context.Context) (*client.Conn, error) {
	c, err := client.ConnectWithContext(ctx, t.host, t.user, t.o.Password, "", 10*time.Second, func(c *client.Conn) error {
		if t.tls != nil {
			c.SetTLSConfig(t.tls)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", t.Name(), err)
	}
	return c, nil
}

// Open asks for the columns; the rows are read in a transaction of their own.
func (t *Table) Open(ctx context.Context, _ *schema.Schema) (ingest.SliceRows, error) {
	var out ingest.SliceRows
	c, err := t.connect(ctx)
	if err != nil {
		return out, err
	}
	columns, err := t.columns(c)
	_ = c.Close()
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
func (t *Table) columns(c *client.Conn) (list []column, err error) {
	query := fmt.Sprintf("SELECT column_name, column_type FROM information_schema.columns WHERE table_schema = '%s' AND table_name = '%s' ORDER BY ordinal_position",
		mysql.Escape(t.database), mysql.Escape(t.table))
	var result mysql.Result
	err = c.ExecuteSelectStreaming(query, &result, func(row []mysql.FieldValue) error {
		col, err := columnOf(string(row[0].AsString()), string(row[1].AsString()))
		list = append(list, col)
		return err
	}, nil)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%w, or %s may not read it", ErrNoTable, t.user)
	}
	return list, err
}

// rows reads the table in one consistent read.
func (t *Table) rows(ctx context.Context, columns []column, yield func([]schema.Value, error) bool) error {
	c, err := t.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	for _, statement := range []string{
		"SET SESSION time_zone = '+00:00'",
		"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
		"START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
	} {
		if _, err := c.Execute(statement); err != nil {
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
	query := "SELECT " + strings.Join(selected, ", ") + " FROM " + quoted(t.database) + "." + quoted(t.table)
	cells := make([]schema.Value, len(columns))
	n := 0
	var result mysql.Result
	err = c.ExecuteSelectStreaming(query, &result, func(row []mysql.FieldValue) error {
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
	}, nil)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// quoted makes a name of an identifier.
func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
