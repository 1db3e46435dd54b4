package sql

import (
	"context"
	"errors"
	"iter"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/savepoint"
)

// What a caller may decide on, beside *Error, the errors of savepoint's Resolve
// and those of query about files.
var (
	// ErrNotBuilt: this program was built without cgo, and so without DuckDB.
	ErrNotBuilt = errors.New("this gscd was built without DuckDB (CGO_ENABLED=0), which answers SQL: " +
		"use one that was built with cgo and a C compiler; --where, --columns, --order-by and --limit work without it")
	// ErrTempLimit: more is to be fetched of files than Options.TempLimit.
	ErrTempLimit = errors.New("more to fetch than the limit for temporary files")
)

// The defaults of Options.
const (
	DefaultMemoryLimit = 2 << 30
	DefaultTempLimit   = 20 << 30
)

// Options says what a statement may see and use.
type Options struct {
	// Tables may be named by the statement. Only those that it names are opened.
	Tables []Table
	// Views may be named by the statement, and by the views behind them. Only those that
	// it names are looked into; all are parsed.
	Views []View
	// Sealed makes it an error, savepoint.ErrNotSealed, to read anything but sealed
	// days.
	Sealed bool
	// MemoryLimit bounds what DuckDB holds, in bytes; it goes to disk beyond it.
	// 0: DefaultMemoryLimit.
	MemoryLimit int64
	// TempLimit bounds each of the two things on disk, in bytes: what DuckDB puts
	// there, and the excerpts of files of stores that are not local. 0: DefaultTempLimit.
	TempLimit int64
	// TempDir is where both go; "": that of the system. A folder is made in it.
	TempDir string
	// Threads is how many DuckDB works with; 0: the number of processors.
	Threads int
	// Notice takes what there is to know about the answer; nil drops it.
	Notice func(text string)
}

// Table is what a name stands for.
type Table struct {
	// Names in SQL, upper and lower case being one. The first table that has a
	// name gets it.
	Names []string
	// Open is called at most once.
	Open func(ctx context.Context) (*Source, error)
}

// Source is an open table.
type Source struct {
	// Name is for messages.
	Name   string
	Store  objstore.Store
	Table  *delta.Table
	Newest *delta.Snapshot
	// Labels is nil for a table that gscd did not write: it has no dt.
	Labels *savepoint.Map
	// Fixed, where it is not nil, is the version that the statement sees, and
	// FixedLabel its dt.
	Fixed      *delta.Snapshot
	FixedLabel string
}

// Stats says what was opened for an answer.
type Stats struct {
	// Days are the labels that the statement can see, over all tables.
	Days int
	// Files are the data files given to DuckDB, each counted once, and Bytes their
	// sizes; of them Fetched bytes were fetched from stores that are not local.
	Files          int
	Bytes, Fetched int64
}

// Rows is an answer on its way. It must be closed.
type Rows struct {
	columns []schema.Field
	stats   Stats
	plan    bool
	each    func(yield func([]schema.Value, error) bool)
	close   func()
}

// Columns gives the columns of the answer. Names that come twice get a number:
// id, id_1.
func (r *Rows) Columns() []schema.Field { return r.columns }

// Stats says what was opened.
func (r *Rows) Stats() Stats { return r.stats }

// IsPlan tells the answer of an EXPLAIN: one column, a line of the plan a row.
func (r *Rows) IsPlan() bool { return r.plan }

// All gives the rows, once, while they are made. A row is valid until the next
// one. An error comes last: what came before it is not the whole.
func (r *Rows) All() iter.Seq2[[]schema.Value, error] { return r.each }

// Close ends the statement and removes what it left on disk. It may be called twice.
func (r *Rows) Close() { r.close() }
