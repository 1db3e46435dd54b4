package write

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
)

// changeColumn is the column of change data files that says what happened to a row.
const changeColumn = "_change_type"

// The kinds of changes.
const (
	changeInsert    = "insert"
	changeDelete    = "delete"
	changePreimage  = "update_preimage"
	changePostimage = "update_postimage"
)

// fileSet writes rows into files: one at a time for each partition, which ends near the
// target size. A row group is encoded while the next one fills. It is used by one goroutine.
type fileSet struct {
	ctx     context.Context
	store   objstore.Store
	layout  *layout
	now     func() time.Time
	changes bool             // change data files: rows have changeColumn behind the cells of the table
	tracked []parquet.Column // columns for the numbers of rows that have moved; nil for none
	target  int64
	memory  int64

	parts   map[string]*part
	only    *part // of a table without partitions
	free    []*parquet.Encoder
	job     *job  // the row group that is being encoded, nil for none
	raw     int64 // bytes of rows that are not encoded, those of job among them
	encoded int64 // bytes of files that are not stored, and of their encoders
	uploads sync.WaitGroup
	places  chan struct{}
	stop    context.CancelCauseFunc

	keys []string // of what was stored, or may be
	adds []*action.Add
	cdc  []*action.CDC
	rows int64
}

// part is the file in the making of one partition.
type part struct {
	folder  string
	values  map[string]*string
	encoder *parquet.Encoder // nil until rows are encoded: it takes more room than some rows
	stream  *parquet.Stream
	key     string
	to      objstore.Writer    // the object in the making
	rows    [][][]schema.Value // batches of columns
	texts   schema.Texts
	raw     int64
	size    int64 // of stream
	held    int64 // of it, in memory
}

// job is a row group of a part on its way into the part's stream.
type job struct {
	part *part
	raw  int64
	done chan error // of one result
}

// fillRows are the rows of a batch that is filled row by row.
const fillRows = 2048

// encoderBytes is about what an encoder takes besides the file that it makes.
const encoderBytes = 48 << 10

// uploads is how many files are stored at one time, while the next one is encoded.
const uploads = 4

func newFileSet(ctx context.Context, store objstore.Store, l *layout, now func() time.Time, changes bool, target, memory int64) *fileSet {
	s := &fileSet{store: store, layout: l, now: now, changes: changes, target: target, memory: memory, parts: map[string]*part{}, places: make(chan struct{}, uploads)}
	s.ctx, s.stop = context.WithCancelCause(ctx)
	return s
}

// write adds a row of the table; kind is the change that it is, for change data alone.
// The row is copied.
func (s *fileSet) write(row []schema.Value, kind string) error {
	return s.writeNumbered(row, kind, numbers{})
}

// numbers are those of a row that was in the table before: NULL for new ones.
type numbers struct{ id, version schema.Value }

// writeNumbered is write of a row that keeps its numbers, where the set has columns for them.
func (s *fileSet) writeNumbered(row []schema.Value, kind string, n numbers) error {
	p := s.only
	if p == nil {
		p = s.partOf(row)
	}
	width := len(s.layout.data)
	if s.changes {
		width++
	}
	if s.tracked != nil {
		width += 2
	}
	last := len(p.rows) - 1
	if last < 0 || len(p.rows[last][0]) == cap(p.rows[last][0]) {
		// The first batch is small: there may be many partitions of few rows.
		size := 16
		if last >= 0 {
			size = min(2*cap(p.rows[last][0]), fillRows)
		}
		cells := make([]schema.Value, size*width)
		batch := make([][]schema.Value, width)
		for c := range batch {
			batch[c], cells = cells[:0:size], cells[size:]
		}
		p.rows = append(p.rows, batch)
		last++
	}
	batch := p.rows[last]
	size := int64(32 * width)
	for i, c := range s.layout.data {
		v := row[c]
		if v.S != "" {
			size += int64(len(v.S))
			v.S = p.texts.Keep(v.S)
		}
		batch[i] = append(batch[i], v)
	}
	at := len(s.layout.data)
	if s.changes {
		batch[at] = append(batch[at], schema.StringValue(kind))
		at++
	}
	if s.tracked != nil {
		batch[at], batch[at+1] = append(batch[at], n.id), append(batch[at+1], n.version)
	}
	s.rows++
	return s.filled(p, size)
}

// writeBatch adds rows by columns, in the order of the table's, to a table without
// partitions. They are kept.
func (s *fileSet) writeBatch(columns [][]schema.Value, rows int) error {
	if rows == 0 {
		return nil
	}
	p := s.only
	if p == nil {
		p = s.partOf(nil)
	}
	batch := make([][]schema.Value, len(s.layout.data))
	size := int64(32 * len(batch) * rows)
	for i, c := range s.layout.data {
		batch[i] = columns[c][:rows]
		switch schema.KindOf(s.layout.schema.Fields[c].Type) {
		case schema.String, schema.Binary, schema.Compound:
			for r := range batch[i] {
				size += int64(len(batch[i][r].S))
			}
		}
	}
	p.rows = append(p.rows, batch)
	s.rows += int64(rows)
	return s.filled(p, size)
}

// partOf gives the part that a row belongs to.
func (s *fileSet) partOf(row []schema.Value) *part {
	folder, values := "", map[string]*string{}
	if len(s.layout.partitions) > 0 {
		folder, values = s.layout.partitionOf(row)
	}
	p := s.parts[folder]
	if p == nil {
		p = &part{folder: folder, values: values}
		s.open(p)
	}
	return p
}

func (s *fileSet) open(p *part) {
	s.parts[p.folder] = p
	if len(s.layout.partitions) == 0 {
		s.only = p
	}
}

// filled counts bytes that a part got, and encodes and ends files where it is time.
func (s *fileSet) filled(p *part, size int64) error {
	p.raw += size
	s.raw += size
	// Encoded rows take a small part of the room. A row group is worth its while when a
	// file's worth of rows is there, or a good part of the memory full.
	if p.raw >= min(s.target, s.memory/4) || s.raw >= s.memory/2 {
		if err := s.encodeLargest(); err != nil {
			return err
		}
	}
	for s.encoded > s.memory/2 {
		if _, err := s.await(); err != nil {
			return err
		}
		p := s.largest(func(p *part) int64 { return p.held })
		if p == nil {
			break // what is left is being stored
		}
		if err := s.finish(p); err != nil {
			return err
		}
	}
	return nil
}

// encoder gives one that is free, or a new one.
func (s *fileSet) encoder() (*parquet.Encoder, error) {
	if n := len(s.free); n > 0 {
		e := s.free[n-1]
		s.free = s.free[:n-1]
		return e, nil
	}
	columns := s.layout.columns
	if s.changes {
		columns = append(slices.Clone(columns), parquet.Column{Name: changeColumn, Type: schema.Of(schema.StringType)})
	}
	if s.tracked != nil {
		columns = append(slices.Clone(columns), s.tracked...)
	}
	return parquet.NewEncoder(columns, parquet.EncoderOptions{})
}

// largest gives the largest part; nil where there is none.
func (s *fileSet) largest(size func(*part) int64) *part {
	parts := slices.Collect(maps.Values(s.parts))
	if len(parts) == 0 {
		return nil
	}
	return slices.MaxFunc(parts, func(a, b *part) int {
		return cmp.Or(cmp.Compare(size(a), size(b)), strings.Compare(b.folder, a.folder))
	})
}

// encodeLargest begins to encode the rows of the part that has most.
func (s *fileSet) encodeLargest() error {
	if err := s.settle(); err != nil {
		return err
	}
	return s.encode(s.largest(func(p *part) int64 { return p.raw }))
}

// settle waits for the row group that is being encoded, and ends its file where that is
// large enough: rows that came meanwhile begin the next one.
func (s *fileSet) settle() error {
	p, err := s.await()
	if err != nil || p == nil || p.size < s.target*9/10 {
		return err
	}
	next := &part{folder: p.folder, values: p.values, rows: p.rows, raw: p.raw}
	p.rows, p.raw = nil, 0
	if err := s.finish(p); err != nil || len(next.rows) == 0 {
		return err
	}
	s.open(next)
	return nil
}

// await waits for the row group that is being encoded, and gives its part; nil for none.
func (s *fileSet) await() (*part, error) {
	j := s.job
	if j == nil {
		return nil, nil
	}
	s.job = nil
	p := j.part
	switch err := <-j.done; {
	case errors.Is(err, parquet.ErrValue):
		return p, fmt.Errorf("%w: %w", ErrRow, err)
	case err != nil:
		return p, fmt.Errorf("write %s: %w", p.key, err)
	}
	s.raw -= j.raw
	p.size = p.stream.Size()
	held := min(p.size, objstore.PieceBytes) // the rest has gone to the storage
	s.encoded += held - p.held
	p.held = held
	return p, nil
}

// encode begins to encode the rows of a part, while nothing else is being encoded.
func (s *fileSet) encode(p *part) error {
	if p == nil || len(p.rows) == 0 {
		return nil
	}
	if p.encoder == nil {
		var err error
		if p.encoder, err = s.encoder(); err != nil {
			return err
		}
		p.key = p.folder + "part-" + uuid.NewString() + ".parquet"
		if s.changes {
			p.key = "_change_data/" + p.folder + "cdc-" + uuid.NewString() + ".parquet"
		}
		p.to = objstore.Create(s.ctx, s.store, p.key)
		p.stream = p.encoder.Stream(p.to)
		s.encoded += encoderBytes
	}
	j := &job{part: p, raw: p.raw, done: make(chan error, 1)}
	rows, stream := p.rows, p.stream
	p.rows, p.raw, p.texts = nil, 0, schema.Texts{}
	s.job = j
	go func() { j.done <- stream.AppendBatches(rows) }()
	return nil
}

// finish ends the file of a part and stores it.
func (s *fileSet) finish(p *part) error {
	if s.job != nil && (s.job.part == p || len(p.rows) > 0) {
		if _, err := s.await(); err != nil {
			return err
		}
	}
	if err := s.encode(p); err != nil {
		return err
	}
	if s.job != nil && s.job.part == p {
		if _, err := s.await(); err != nil {
			return err
		}
	}
	delete(s.parts, p.folder)
	if s.only == p {
		s.only = nil
	}
	s.encoded -= p.held + encoderBytes
	st, err := p.stream.Finish(nil)
	if err != nil {
		p.to.Abort()
		return fmt.Errorf("write %s: %w", p.key, err)
	}
	s.free = append(s.free, p.encoder)
	if s.changes {
		s.cdc = append(s.cdc, &action.CDC{Path: action.EncodePath(p.key), PartitionValues: p.values, Size: p.stream.Size()})
	} else {
		s.adds = append(s.adds, &action.Add{
			Path: action.EncodePath(p.key), PartitionValues: p.values, Size: p.stream.Size(),
			ModificationTime: s.now().UnixMilli(), DataChange: true, Stats: s.layout.encode(st),
		})
	}
	return s.commit(p.key, p.to)
}

// commit ends an object while the next file is encoded.
func (s *fileSet) commit(key string, to objstore.Writer) error {
	s.keys = append(s.keys, key)
	s.places <- struct{}{}
	if err := context.Cause(s.ctx); err != nil {
		<-s.places
		to.Abort()
		return err
	}
	s.uploads.Go(func() {
		defer func() { <-s.places }()
		if err := to.Commit(); err != nil {
			s.stop(fmt.Errorf("write %s: %w", key, err))
		}
	})
	return nil
}

// close ends the files that are open and waits until all are stored.
func (s *fileSet) close() error {
	fault := s.settle()
	if fault != nil {
		s.uploads.Wait()
		return fault
	}
	for _, folder := range slices.Sorted(maps.Keys(s.parts)) {
		if fault = s.finish(s.parts[folder]); fault != nil {
			break
		}
	}
	s.uploads.Wait()
	if err := context.Cause(s.ctx); err != nil {
		return err
	}
	return fault
}

// abandon gives up the files that are open, and waits for what is being stored.
func (s *fileSet) abandon() {
	s.stop(context.Canceled)
	if s.job != nil {
		<-s.job.done
		s.job = nil
	}
	for _, p := range s.parts {
		if p.to != nil {
			p.to.Abort()
		}
	}
	s.uploads.Wait()
}

// bytes is the size of the files.
func (s *fileSet) bytes() (n int64) {
	for _, a := range s.adds {
		n += a.Size
	}
	for _, c := range s.cdc {
		n += c.Size
	}
	return n
}
