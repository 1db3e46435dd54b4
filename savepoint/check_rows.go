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
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/progress"
)

// partKey is a data file under one deletion vector.
type partKey = action.FileKey

// part is the rows of a data file under one deletion vector: savepoints share
// most of them, so each is read once.
type part struct {
	add     *action.Add
	columns []parquet.Column
	rows    int64  // live ones
	file    string // the key of what can't be read, where err is set
	err     error
}

// keepParts notes what the rows of a version are made of.
func (c *checker) keepParts(s *delta.Snapshot) {
	var columns []parquet.Column
	for _, f := range s.Schema().Fields {
		if !slices.Contains(s.Metadata().PartitionColumns, f.Name) {
			columns = append(columns, parquet.ColumnOf(&f))
		}
	}
	var parts []*part
	for _, add := range s.Files() {
		p := c.parts[add.Key()]
		if p == nil {
			p = &part{add: add, columns: columns}
			c.parts[add.Key()] = p
		}
		parts = append(parts, p)
	}
	c.rows[s.Version()] = parts
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
	columns := withHidden(p.columns, file)
	seen := int64(0)
	for batch, err := range file.Scan(ctx, columns, parquet.ScanOptions{}) {
		if err != nil {
			return live, err
		}
		seen += int64(batch.Rows)
		for i := range batch.Rows {
			if dead == nil || !dead.Contains(uint32(batch.FirstRow+int64(i))) {
				live++
			}
		}
	}
	if seen != file.NumRows() && len(columns) > 0 {
		return live, fmt.Errorf("%w: it gave %d rows of %d", delta.ErrCorrupt, seen, file.NumRows())
	}
	return live, nil
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
