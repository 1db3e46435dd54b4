package savepoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/rowhash"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/progress"
)

// partKey is a data file under one deletion vector.
type partKey = action.FileKey

// part is the rows of a data file under one deletion vector: savepoints share
// most of them, so each is read once.
type part struct {
	add  *action.Add
	rows int64 // live ones
	// names tells by which of schemas a version reads it: after a column was renamed or
	// dropped the same cells are another row. contents are the rows by each of them.
	names    map[int64]int
	schemas  []*columnSet
	contents []Content
	file     string // the key of what can't be read, where err is set
	err      error
}

// keepParts notes what the rows of a version are made of.
func (c *checker) keepParts(s *delta.Snapshot) {
	var parts []*part
	columns := c.columnSet(s)
	for _, add := range s.Files() {
		p := c.parts[add.Key()]
		if p == nil {
			p = &part{add: add, names: map[int64]int{}}
			c.parts[add.Key()] = p
		}
		i := slices.Index(p.schemas, columns)
		if i < 0 {
			i = len(p.schemas)
			p.schemas = append(p.schemas, columns)
		}
		p.names[s.Version()] = i
		parts = append(parts, p)
	}
	c.rows[s.Version()] = parts
}

// columnSet is the columns that some versions have.
type columnSet struct {
	text       string
	fields     []schema.Field
	partitions []string
}

// columnSet gives that of a version: one for all that have the same columns.
func (c *checker) columnSet(s *delta.Snapshot) *columnSet {
	m := s.Metadata()
	for _, known := range c.columns {
		if known.text == m.SchemaString && slices.Equal(known.partitions, m.PartitionColumns) {
			return known
		}
	}
	set := &columnSet{m.SchemaString, s.Schema().Fields, m.PartitionColumns}
	c.columns = append(c.columns, set)
	return set
}

// fileReaders is how many data files are decoded at a time.
const fileReaders = 4

// checkRows reads every row of every savepoint and of the newest version, and
// compares their number with the evidence.
func (c *checker) checkRows(ctx context.Context) error {
	if !c.Deep {
		return nil
	}
	if err := c.readParts(ctx); err != nil {
		return err
	}
	for _, p := range c.pins {
		for _, ev := range c.evidenceOf(p) {
			if parts, opened := c.rows[p.Version]; opened {
				c.compareRows(parts, faultOf(p, "rows", SeverityError, ""), ev.Rows, "the evidence of its seal")
			}
			break // the labels of one version have the same rows
		}
	}
	txn, ok := c.newest.Txn(progress.AppID)
	if ok && txn.Version == c.newest.Version() && c.progress[txn.Version] != nil {
		f := Fault{Check: "rows", Severity: SeverityError, Version: c.newest.Version()}
		c.compareRows(c.rows[c.newest.Version()], f, c.progress[txn.Version].Rows, "its progress")
	}
	return nil
}

func (c *checker) compareRows(parts []*part, f Fault, want int64, source string) {
	got := int64(0)
	for _, p := range parts {
		if p.err != nil {
			return // reported with its file
		}
		got += p.rows
	}
	if got != want {
		f.Message = fmt.Sprintf("it has %d rows, %s says %d", got, source, want)
		f.Repair = "none is known: report it, with the table's log"
		c.fault(f)
	}
}

// readParts reads every part once and reports the files that can't be read.
func (c *checker) readParts(ctx context.Context) error {
	var list []*part
	for _, p := range c.parts {
		list = append(list, p)
	}
	var counted atomic.Int64
	work := make(chan *part)
	var wg sync.WaitGroup
	for range min(fileReaders, len(list)) {
		wg.Go(func() {
			for p := range work {
				p.rows, p.err = p.count(ctx, c.store)
				tell(c.Progress, "reading rows of files", int(counted.Add(1)), len(list))
			}
		})
	}
	for _, p := range list {
		work <- p
	}
	close(work)
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, p := range list {
		c.report.Rows += p.rows
		if p.err == nil {
			continue
		}
		n := c.needs[p.file]
		if n == nil || n.bad {
			continue // a fault already
		}
		if !isBadFile(p.err) {
			return p.err
		}
		n.bad = true
		c.fileFault(p.file, "rows", n, p.err.Error())
	}
	return nil
}

// isBadFile tells a file that can't be read from a store that can't.
func isBadFile(err error) bool {
	for _, known := range []error{parquet.ErrCorrupt, parquet.ErrUnsupported, parquet.ErrColumnType, io.ErrUnexpectedEOF} {
		if errors.Is(err, known) {
			return true
		}
	}
	return isDamage(err)
}

// count decodes every cell of a part and counts the live rows.
func (p *part) count(ctx context.Context, store objstore.Store) (live int64, err error) {
	if p.add.DeletionVector != nil {
		if p.file, _, err = delta.VectorKey(p.add.DeletionVector); err != nil {
			return 0, err
		}
	}
	dead, err := delta.ReadDeletionVector(ctx, store, p.add)
	if err != nil {
		return 0, err
	}
	if p.file, err = action.Key(p.add.Path); err != nil {
		return 0, err
	}
	file, err := parquet.Open(objstore.NewReaderAt(ctx, store, p.file, p.add.Size), p.add.Size)
	if err != nil {
		return 0, err
	}
	var hashed []*rowReader // of the schemas that make other rows of the file
	p.contents = make([]Content, len(p.schemas))
	same := make([]int, len(p.schemas))
	for i, s := range p.schemas {
		r, err := newRowReader(s, p.add, file)
		if err != nil {
			return 0, err
		}
		if same[i] = slices.IndexFunc(hashed, func(o *rowReader) bool { return o.form == r.form }); same[i] < 0 {
			same[i] = len(hashed)
			hashed = append(hashed, r)
		}
	}
	for i, r := range hashed {
		live = 0
		columns := r.columns
		if i == 0 {
			columns = withHidden(columns, file)
		}
		seen := int64(0)
		for batch, err := range file.Scan(ctx, columns, parquet.ScanOptions{}) {
			if err != nil {
				return live, err
			}
			seen += int64(batch.Rows)
			for i := range batch.Rows {
				if dead == nil || !dead.Contains(uint32(batch.FirstRow+int64(i))) {
					live++
					r.take(batch, i)
				}
			}
		}
		if seen != file.NumRows() && len(columns) > 0 {
			return live, fmt.Errorf("%w: it gave %d rows of %d", delta.ErrCorrupt, seen, file.NumRows())
		}
	}
	for i := range p.contents {
		p.contents[i] = hashed[same[i]].content
	}
	return live, nil
}

// rowReader hashes the rows of a file by the columns of a version.
type rowReader struct {
	columns []parquet.Column // those in files
	places  []int            // of them among the fields
	row     []schema.Value   // partition values are in it
	hasher  *rowhash.Hasher
	content Content
	// form tells one from another that makes other rows of the file: columns that it does
	// not have, and types, make none.
	form string
}

func newRowReader(s *columnSet, add *action.Add, file *parquet.File) (*rowReader, error) {
	fields := s.fields
	r := &rowReader{row: make([]schema.Value, len(fields)), hasher: rowhash.New(fields, nil)}
	for i, f := range fields {
		if slices.Contains(s.partitions, f.Name) {
			v, err := scan.PartitionValue(add, f)
			if err != nil {
				return nil, err
			}
			r.row[i] = v
			r.form += fmt.Sprintf("%q partition\n", f.Name)
			continue
		}
		column := parquet.ColumnOf(&f)
		r.columns, r.places = append(r.columns, column), append(r.places, i)
		if _, there := file.Find(column); there {
			r.form += fmt.Sprintf("%q %q %d\n", f.Name, column.Name, column.FieldID)
			if f.Type.Nested != nil {
				r.form += s.text
			}
		}
	}
	return r, nil
}

// take adds a row of a batch.
func (r *rowReader) take(b *parquet.Batch, row int) {
	for c, place := range r.places {
		r.row[place] = b.Columns[c][row]
	}
	r.content.row(r.hasher.Sum(r.row))
}

// hiddenPrefix begins the names of columns that are in files and in no schema.
const hiddenPrefix = "__gscd_"

// withHidden adds the hidden columns of the file: an ingester that starts reads them.
func withHidden(columns []parquet.Column, file *parquet.File) []parquet.Column {
	all := slices.Clone(columns)
	for _, c := range file.Columns() {
		if c.Nested || !strings.HasPrefix(c.Name, hiddenPrefix) {
			continue
		}
		t := schema.Long
		switch {
		case strings.HasPrefix(c.Physical, "BOOLEAN"):
			t = schema.Boolean
		case strings.HasPrefix(c.Physical, "INT32"):
			t = schema.Integer
		case strings.Contains(c.Physical, "TIMESTAMP"):
			t = schema.Timestamp
		}
		all = append(all, parquet.Column{Name: c.Name, Type: schema.Of(t)})
	}
	return all
}
