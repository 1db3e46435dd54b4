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
// target size. It is used by one goroutine.
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
	free    []*parquet.Encoder
	raw     int64 // bytes of rows that are not encoded
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
	to      objstore.Writer // the object in the making
	rows    [][]schema.Value
	raw     int64
	size    int64 // of stream
	held    int64 // of it, in memory
}

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
	folder, values := "", map[string]*string(nil)
	if len(s.layout.partitions) > 0 {
		folder, values = s.layout.partitionOf(row)
	} else {
		values = map[string]*string{}
	}
	p := s.parts[folder]
	if p == nil {
		p = &part{folder: folder, values: values}
		s.parts[folder] = p
	}
	own := make([]schema.Value, len(s.layout.data), len(s.layout.data)+2)
	size := int64(32*len(own) + 24)
	for i, c := range s.layout.data {
		own[i] = row[c]
		own[i].S = strings.Clone(row[c].S)
		size += int64(len(row[c].S))
	}
	if s.changes {
		own = append(own, schema.StringValue(kind))
	}
	if s.tracked != nil {
		own = append(own, n.id, n.version)
		size += 64
	}
	p.rows = append(p.rows, own)
	p.raw += size
	s.raw += size
	s.rows++
	// Encoded rows take a small part of the room. A row group is worth its while when a
	// file's worth of rows is there, or a good part of the memory full.
	if p.raw >= min(s.target, s.memory/4) || s.raw >= s.memory/2 {
		if err := s.encodeLargest(); err != nil {
			return err
		}
	}
	for s.encoded > s.memory/2 {
		if err := s.finish(s.largest(func(p *part) int64 { return p.held })); err != nil {
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

func (s *fileSet) largest(size func(*part) int64) *part {
	parts := slices.Collect(maps.Values(s.parts))
	return slices.MaxFunc(parts, func(a, b *part) int {
		return cmp.Or(cmp.Compare(size(a), size(b)), strings.Compare(b.folder, a.folder))
	})
}

// encodeLargest encodes the rows of the part that has most, and ends its file where that
// is large enough.
func (s *fileSet) encodeLargest() error {
	p := s.largest(func(p *part) int64 { return p.raw })
	if err := s.encode(p); err != nil {
		return err
	}
	if p.size >= s.target*9/10 {
		return s.finish(p)
	}
	return nil
}

func (s *fileSet) encode(p *part) error {
	if len(p.rows) == 0 {
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
	switch err := p.stream.AppendGroup(p.rows); {
	case errors.Is(err, parquet.ErrValue):
		return fmt.Errorf("%w: %w", ErrRow, err)
	case err != nil:
		return fmt.Errorf("write %s: %w", p.key, err)
	}
	s.raw -= p.raw
	p.rows, p.raw, p.size = nil, 0, p.stream.Size()
	held := min(p.size, objstore.PieceBytes) // the rest has gone to the storage
	s.encoded += held - p.held
	p.held = held
	return nil
}

// finish ends the file of a part and stores it.
func (s *fileSet) finish(p *part) error {
	if err := s.encode(p); err != nil {
		return err
	}
	delete(s.parts, p.folder)
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
	var fault error
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
