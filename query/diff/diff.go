package diff

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/rowkey"
	"github.com/gscd-io/gscd/savepoint"
)

// Options say what is compared. The zero Options compare all columns by the table's key.
type Options struct {
	// Key are the names of the columns that tell rows apart; nil takes those of the
	// property gscd.key. Without any the rows are a multiset, which has no updates.
	Key []string
	// Columns are the names of those to give and compare besides the key, by the names of
	// either version; nil takes all.
	Columns []string
	// Only leaves the keys with these cells: of all columns of the key or some.
	Only []rowkey.Cell
	// Where leaves the changes whose old or new row passes a filter on any columns.
	Where string
	// Parallelism is how many files are read at once; 0: the number of processors, at
	// most 8.
	Parallelism int
	// MemoryLimit bounds the rows that are sorted in memory, in bytes; more go to TempDir
	// ("": the system's folder). 0: 256 MiB.
	MemoryLimit int64
	TempDir     string
}

// Kind is what happened to a key.
type Kind uint8

// The kinds.
const (
	Inserted Kind = iota
	Updated
	Deleted
)

// String gives the kind as commands print it.
func (k Kind) String() string { return [...]string{"inserted", "updated", "deleted"}[k] }

// Change is what happened to one key. It belongs to whoever receives it.
type Change struct {
	Kind Kind
	// Old and New are the row before and after, by Diff.Columns; nil where there is none.
	Old, New []schema.Value
	// Changed are the places in Diff.Columns of what an update changed, rising.
	Changed []int
}

// Row is the row after the change, of a delete the one before.
func (c *Change) Row() []schema.Value {
	if c.New == nil {
		return c.Old
	}
	return c.New
}

// Diff compares two versions of a table. It may be used any number of times.
type Diff struct {
	store   objstore.Store
	from    *delta.Snapshot
	to      *delta.Snapshot
	o       Options
	columns []Column // to give, then those that the filter needs too
	given   int
	gone    []string
	key     []int // places in columns
	where   *expr.Predicate
	wide    []int // places in columns of the schema of where
	parts   []part
	readers [2]*scan.Reader
	places  [2][]int // of a reader's columns in columns

	files, rows atomic.Int64
}

// New plans to compare two versions of the table in store, either of which may be the
// later. It reads nothing but the log. The error wraps ErrColumn, ErrKey, ErrTypes,
// rowkey.ErrKey, or is an *expr.SyntaxError in Options.Where.
func New(store objstore.Store, from, to *delta.Snapshot, o Options) (*Diff, error) {
	if o.Parallelism <= 0 {
		o.Parallelism = min(runtime.GOMAXPROCS(0), 8)
	}
	d := &Diff{store: store, from: from, to: to, o: o}
	var shared bool
	d.parts, shared = partsOf(from, to)
	all, err := columnsOf(from, to, shared)
	if err != nil {
		return nil, err
	}
	if err := d.choose(all); err != nil {
		return nil, err
	}
	return d, d.plan()
}

// KeyOf gives the columns of the key by the table's own property; nil where it has none,
// as a table in mode append, whose rows are told apart by hidden columns.
func KeyOf(s *delta.Snapshot) []string {
	text, ok := s.Property(savepoint.PropertyKey)
	var names []string
	if !ok || json.Unmarshal([]byte(text), &names) != nil {
		return nil
	}
	if slices.ContainsFunc(names, func(name string) bool { return s.Schema().IndexFold(name) < 0 }) {
		return nil
	}
	return names
}

// choose takes the columns of the key, those asked for, and those of the filter.
func (d *Diff) choose(all []Column) error {
	names := d.o.Key
	if names == nil {
		if names = KeyOf(d.to); names == nil {
			names = KeyOf(d.from)
		}
	}
	var key []int
	for _, name := range names {
		i := place(all, name)
		if i < 0 || all[i].From == "" || all[i].To == "" {
			return fmt.Errorf("%w: versions %d and %d don't both have a column %s; the table has %s", ErrKey, d.from.Version(), d.to.Version(), name, namesOf(all))
		}
		if !all[i].Type.IsLeaf() {
			return fmt.Errorf("%w: column %s is %s", ErrKey, name, all[i].Type)
		}
		if slices.Contains(key, i) {
			return fmt.Errorf("%w: column %s is named twice", ErrKey, name)
		}
		all[i].Key = true
		key = append(key, i)
	}
	give := make([]bool, len(all))
	for i := range all {
		give[i] = d.o.Columns == nil || all[i].Key
		if all[i].Gone {
			d.gone = append(d.gone, all[i].Name)
		}
	}
	for _, name := range d.o.Columns {
		i := place(all, name)
		if i < 0 {
			return fmt.Errorf("%w: %q; the versions have %s", ErrColumn, name, namesOf(all))
		}
		give[i] = true
	}
	fields := make([]schema.Field, len(all))
	for i, c := range all {
		fields[i] = c.Field
	}
	whole, err := schema.New(fields...)
	if err != nil {
		return err
	}
	d.wide = slices.Repeat([]int{-1}, len(all))
	take := func(i int) {
		d.wide[i] = len(d.columns)
		d.columns = append(d.columns, all[i])
	}
	for i := range all {
		if give[i] {
			take(i)
		}
	}
	d.given = len(d.columns)
	if d.o.Where != "" {
		if d.where, err = expr.Parse(d.o.Where, whole); err != nil {
			return err
		}
		for _, i := range d.where.Columns() {
			if !give[i] {
				take(i)
			}
		}
	}
	for _, i := range key {
		d.key = append(d.key, d.wide[i])
	}
	return nil
}

// plan makes the readers of either side and leaves out the files that can't have a key
// that is asked for.
func (d *Diff) plan() error {
	for which, s := range []*delta.Snapshot{d.from, d.to} {
		var fields []schema.Field
		for i, c := range d.columns {
			f, has := c.from, c.From != ""
			if side(which) == after {
				f, has = c.to, c.To != ""
			}
			if has {
				fields, d.places[which] = append(fields, f), append(d.places[which], i)
			}
		}
		var only *expr.Predicate
		if len(d.o.Only) > 0 {
			for _, cell := range d.o.Only {
				if i := place(d.columns, cell.Column); i < 0 || !d.columns[i].Key {
					return fmt.Errorf("%w: column %s is not of the key", rowkey.ErrKey, cell.Column)
				}
			}
			named, err := schema.New(fields...)
			if err == nil {
				only, err = rowkey.Predicate(d.o.Only, named)
			}
			if err != nil {
				return err
			}
		}
		var err error
		if d.readers[which], err = scan.NewReader(d.store, s, fields, only); err != nil {
			return err
		}
	}
	kept := d.parts[:0]
	for _, p := range d.parts {
		skip, err := d.readers[p.side].CanSkip(p.add)
		if err != nil {
			return d.readError(p.side, err)
		}
		if !skip {
			kept = append(kept, p)
		}
	}
	d.parts = kept
	return nil
}

func (d *Diff) readError(which side, err error) error {
	if which == before {
		return &ReadError{d.from.Version(), err}
	}
	return &ReadError{d.to.Version(), err}
}

// Columns are those of the rows: of the version To in its order, then those that only
// From has.
func (d *Diff) Columns() []Column { return d.columns[:d.given] }

// Gone names the columns that the later version dropped, which are not compared.
func (d *Diff) Gone() []string { return d.gone }

// HasKey tells that rows are told apart by a key; without one there are no updates.
func (d *Diff) HasKey() bool { return len(d.key) > 0 }

// Files counts the files that a comparison opens, each once a version: those with rows
// that one version has and the other has not.
func (d *Diff) Files() int { return len(d.parts) }

// RowsRead counts the rows that comparisons have read so far.
func (d *Diff) RowsRead() int64 { return d.rows.Load() }

// Changes gives what happened to each key, in the order of the key. The error, which
// comes last, is a *DuplicateKeyError, a *ReadError, or that of ctx or of the temporary
// files.
func (d *Diff) Changes(ctx context.Context) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		sorter := scan.NewSorter(1+len(d.columns), d.compare, d.o.MemoryLimit, d.o.TempDir)
		defer sorter.Close()
		if err := d.read(ctx, sorter); err != nil {
			yield(nil, err)
			return
		}
		m := merger{d: d, yield: yield}
		n := 0
		for row, err := range sorter.Sorted {
			if n++; err == nil && n%4096 == 0 {
				err = ctx.Err()
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !m.take(row) {
				return
			}
		}
		m.end()
	}
}

// read puts the rows of all parts into the sorter: which side has them, then the cells.
func (d *Diff) read(ctx context.Context, sorter *scan.Sorter) error {
	var mu sync.Mutex
	row := make([]schema.Value, 1+len(d.columns))
	return objstore.InParallel(ctx, len(d.parts), d.o.Parallelism, func(ctx context.Context, i int) error {
		p := d.parts[i]
		rows, err := p.rows(ctx, d.store)
		if err != nil {
			return d.readError(p.side, err)
		}
		if rows != nil && rows.IsEmpty() {
			return nil
		}
		var full error // of the sorter, which is no error in reading
		err = d.readers[p.side].Read(ctx, p.add, rows, func(b *scan.Batch) error {
			d.rows.Add(int64(b.Rows))
			mu.Lock()
			defer mu.Unlock()
			for r := range b.Rows {
				clear(row)
				row[0] = schema.IntValue(int64(p.side))
				for c, place := range d.places[p.side] {
					row[1+place] = b.Columns[c][r]
				}
				if full = sorter.Add(row); full != nil {
					return full
				}
			}
			return nil
		})
		if err == nil || full != nil {
			return full
		}
		return d.readError(p.side, err)
	})
}

// compare orders rows of the sorter by the key; without one by all cells.
func (d *Diff) compare(a, b []schema.Value) int {
	if !d.HasKey() {
		for c := range d.columns {
			if d.columns[c].Gone {
				continue
			}
			if order := compareCells(a[1+c], b[1+c]); order != 0 {
				return order
			}
		}
		return 0
	}
	for _, c := range d.key {
		if order := compareCells(a[1+c], b[1+c]); order != 0 {
			return order
		}
	}
	return 0
}
