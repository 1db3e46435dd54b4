//go:build cgo

package sql

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	duck "github.com/duckdb/duckdb-go-bindings"
)

// duckdb-go has no streaming results and decodes JSON and decimals its own way,
// so this package works with the C API below it.

// engine is a DuckDB in memory and a connection to it. It is used by one
// goroutine at a time.
type engine struct {
	db   duck.Database
	conn duck.Connection
}

// startSettings close every way out that a statement could take before it runs;
// the rest is set when the files are known.
var startSettings = map[string]string{
	"autoinstall_known_extensions": "false",
	"autoload_known_extensions":    "false",
	"allow_community_extensions":   "false",
	"allow_persistent_secrets":     "false",
	"errors_as_json":               "true",
}

func openEngine(settings map[string]string) (*engine, error) {
	var config duck.Config
	if duck.CreateConfig(&config) == duck.StateError {
		return nil, fmt.Errorf("start DuckDB: it has no memory for its settings")
	}
	defer duck.DestroyConfig(&config)
	for _, list := range []map[string]string{startSettings, settings} {
		for name, value := range list {
			if duck.SetConfig(config, name, value) == duck.StateError {
				return nil, fmt.Errorf("start DuckDB: it does not take %s = %s", name, value)
			}
		}
	}
	e := &engine{}
	var message string
	if duck.OpenExt(":memory:", &e.db, config, &message) == duck.StateError {
		return nil, fmt.Errorf("start DuckDB: %w", errorOf(message))
	}
	if duck.Connect(e.db, &e.conn) == duck.StateError {
		duck.Close(&e.db)
		return nil, fmt.Errorf("start DuckDB: no connection")
	}
	return e, nil
}

func (e *engine) close() {
	duck.Disconnect(&e.conn)
	duck.Close(&e.db)
}

// interrupting stops what runs when ctx ends, until the function that it returns
// is called. A single interrupt may come between two calls and be lost.
func (e *engine) interrupting(ctx context.Context) (release func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		for {
			duck.Interrupt(e.conn)
			select {
			case <-over:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	return func() {
		close(over)
		if !stop() {
			<-ended
		}
	}
}

// failure gives the error of a call: that of ctx where ctx has ended.
func failure(ctx context.Context, message string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return errorOf(message)
}

// exec runs statements of ours that give no rows.
func (e *engine) exec(ctx context.Context, statements string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer e.interrupting(ctx)()
	var result duck.Result
	state := duck.Query(e.conn, statements, &result)
	defer duck.DestroyResult(&result)
	if state == duck.StateError {
		return failure(ctx, duck.ResultError(&result))
	}
	return nil
}

// prepared is a statement that DuckDB has bound and planned.
type prepared struct {
	stmt duck.PreparedStatement
}

func (e *engine) prepare(ctx context.Context, statement string) (*prepared, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	defer e.interrupting(ctx)()
	p := &prepared{}
	if duck.Prepare(e.conn, statement, &p.stmt) == duck.StateError {
		err := failure(ctx, duck.PrepareError(p.stmt))
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *prepared) close() { duck.DestroyPrepare(&p.stmt) }

// texts runs a statement whose columns are all VARCHAR, with texts for its
// parameters, and gives its rows; a NULL is "".
func (e *engine) texts(ctx context.Context, statement string, args ...string) ([][]string, error) {
	p, err := e.prepare(ctx, statement)
	if err != nil {
		return nil, err
	}
	defer p.close()
	for i, arg := range args {
		duck.BindVarchar(p.stmt, duck.IdxT(i+1), arg)
	}
	s, err := e.stream(ctx, p)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var rows [][]string
	for row, err := range s.rows {
		if err != nil {
			return nil, err
		}
		texts := make([]string, len(row))
		for i := range row {
			texts[i] = row[i].S
		}
		rows = append(rows, texts)
	}
	return rows, nil
}

// setBits sets a variable to a bit string.
func (e *engine) setBits(ctx context.Context, variable string, bits []byte) error {
	p, err := e.prepare(ctx, "SET VARIABLE "+variable+" = $1")
	if err != nil {
		return err
	}
	defer p.close()
	return e.runWithBits(ctx, p, 1, bits)
}

// runWithBits runs a statement with a bit string for a parameter: whole bytes, the
// first bit the highest of the first.
func (e *engine) runWithBits(ctx context.Context, p *prepared, parameter int, bits []byte) error {
	bit := duck.NewBit(append([]byte{0}, bits...)) // how many bits of padding come first
	defer duck.DestroyBit(&bit)
	value := duck.CreateBit(bit)
	defer duck.DestroyValue(&value)
	var result duck.Result
	defer duck.DestroyResult(&result)
	if duck.BindValue(p.stmt, duck.IdxT(parameter), value) == duck.StateError {
		return failure(ctx, duck.PrepareError(p.stmt))
	}
	if duck.ExecutePrepared(p.stmt, &result) == duck.StateError {
		return failure(ctx, duck.ResultError(&result))
	}
	return nil
}

// duckError is an error of DuckDB: its kind (Binder, Parser, IO, …), what it
// says, and the byte of the statement that it means, -1 where it names none.
type duckError struct {
	kind, message string
	at            int
}

func (e *duckError) Error() string { return e.message }

// errorOf reads an error that DuckDB wrote as JSON; errors of the parser have a
// prefix before it, and some of the start have no JSON at all.
func errorOf(message string) *duckError {
	at := strings.IndexByte(message, '{')
	var parts struct {
		Type     string `json:"exception_type"`
		Message  string `json:"exception_message"`
		Position string `json:"position"`
	}
	if at < 0 || json.Unmarshal([]byte(message[at:]), &parts) != nil || parts.Message == "" {
		return &duckError{message: message, at: -1}
	}
	e := &duckError{kind: parts.Type, message: strings.TrimRight(parts.Message, "\n "), at: -1}
	if p, err := strconv.Atoi(parts.Position); err == nil {
		e.at = p
	}
	return e
}

// asError says of an error in running or binding a statement what the caller may
// know. rejected: nothing had been run.
func asError(statement string, err error, rejected bool) error {
	e, ok := err.(*duckError) //nolint:errorlint // errorOf's errors are never wrapped on the way here
	if !ok {
		return err
	}
	out := &Error{Message: e.message, Rejected: rejected}
	switch e.kind {
	case "Parser", "Binder", "Catalog", "Syntax", "Parameter Not Resolved", "Parameter Not Allowed":
		out.Rejected = true
	case "Out of Memory":
		out.Rejected = false
		out.Message += "\nraise --memory-limit, or ask for less at a time"
	case "IO", "Permission", "HTTP":
		out.Rejected = false
	}
	out.place(statement, e.at)
	return out
}

// quoted gives a text as an SQL literal; it must have no zero byte.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// unquoted gives the name of an identifier.
func unquoted(name string) string {
	if !strings.HasPrefix(name, `"`) {
		return name
	}
	return strings.ReplaceAll(name[1:len(name)-1], `""`, `"`)
}

// identifier gives a name as an SQL identifier.
func identifier(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
