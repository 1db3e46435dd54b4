package upsert

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/google/uuid"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
)

// ErrMoved: what a Move is of has left the table, or rows of it came back.
var ErrMoved = errors.New("other writers have moved the rows")

// Move writes the rows of some files of one folder as one file, in the order in which
// they are given. Plan it with PlanMove, Run it beside anything else, Put it into a
// transaction: rows that died meanwhile are deleted in the new file too.
type Move struct {
	store   objstore.Store
	columns []parquet.Column // as they are written
	reads   []parquet.Column // as they are asked for
	fields  []schema.Field   // the table's
	encoder *parquet.Encoder
	inputs  []*moving
	o       MoveOptions
	now     func() time.Time
	to      placed
}

// moving is a file as it was when the Move was planned.
type moving struct {
	segment *segment
	add     *action.Add
	dead    *dv.Bitmap // nil: none
	spans   map[uint32]span

	first uint32 // of its rows in the new file
	kept  *rank  // rows that are in the new file; nil: all
	to    map[uint32]span
}

// placed is the new file; add is nil where no row is left.
type placed struct {
	add    *action.Add
	rows   int64
	copied int64
	dead   *dv.Bitmap
	inputs []*moving
}

// MoveOptions say how the rows of files are written anew.
type MoveOptions struct {
	// Footer goes into the new file.
	Footer map[string]string
	// Carry takes row groups over as they are, with their dead rows, where the file was
	// written as the new one would be; but for those of fewer than FewRows rows and FewBytes
	// bytes, which cost more in the footer than they hold. Without it dead rows are dropped.
	Carry             bool
	FewRows, FewBytes int64
}

const (
	// copyRows is the size from which a row group without a dead row is taken over as it is
	// where others are decoded.
	copyRows = 20_000
	// heldBytes bounds what is decoded at once, groupBytes the row group that is made of it.
	heldBytes  = 8 << 20
	groupBytes = 64 << 20
)

// PlanMove plans to write files anew. Those without hidden columns can't be moved.
func (w *Writer) PlanMove(ids []uint32, s *schema.Schema, partitionBy []string, o MoveOptions) (*Move, error) {
	m := &Move{store: w.store, o: o, now: w.now}
	for _, f := range s.Fields {
		if !slices.Contains(partitionBy, f.Name) {
			m.columns = append(m.columns, columnOf(&f))
			m.reads = append(m.reads, parquet.ColumnOf(&f))
			m.fields = append(m.fields, schema.Field{Name: f.Stored(), Type: f.Type})
		}
	}
	bounded := make([]string, len(m.columns)) // as in encodeFile
	for i, c := range m.columns {
		bounded[i] = c.Name
	}
	m.columns = append(m.columns, w.o.Hidden...)
	m.reads = append(m.reads, w.o.Hidden...)
	var err error
	if m.encoder, err = parquet.NewEncoder(m.columns, parquet.EncoderOptions{StatsColumns: bounded, DeltaColumns: namesOf(w.o.Hidden), TryDelta: true, Goroutines: 1, RowGroupBytes: groupBytes}); err != nil {
		return nil, err
	}
	for _, id := range ids {
		seg := w.segments[id]
		if seg == nil || seg.bare {
			return nil, fmt.Errorf("%w: segment %d is not live, or has no hidden columns", ErrInconsistent, id)
		}
		in := &moving{segment: seg, add: seg.add, spans: map[uint32]span{}, to: map[uint32]span{}}
		if seg.dead != nil {
			in.dead = seg.dead.Clone()
		}
		if !seg.foreign {
			in.spans[id] = span{rows: seg.rows}
		}
		for _, id := range seg.spans {
			in.spans[id] = *w.moved[id]
		}
		m.inputs = append(m.inputs, in)
	}
	return m, nil
}

// Run reads the files and stores the new one. It uses nothing of the Writer. rest, where
// it is not nil, is called after each part of the work with the time that it took; its
// error ends the work. What a Move has stored that is never put is left to a vacuum.
func (m *Move) Run(ctx context.Context, rest func(busy time.Duration) error) (err error) {
	began := m.now()
	pause := func() error {
		if rest == nil {
			return ctx.Err()
		}
		err := rest(m.now().Sub(began))
		began = m.now()
		return err
	}
	key := folderOf(m.inputs[0].segment.key) + "part-" + uuid.NewString() + ".parquet"
	to := objstore.Create(ctx, m.store, key)
	defer to.Abort()
	out := m.encoder.Stream(to)
	for _, in := range m.inputs {
		if out.Rows() > 1<<32-1-in.segment.rows {
			return fmt.Errorf("the files to join have more rows than a file may have")
		}
		in.first = uint32(out.Rows())
		if err := m.write(ctx, in, out, pause); err != nil {
			return err
		}
		for id, s := range in.spans {
			if moved, nothing := s.moved(in.kept, in.first); !nothing {
				in.to[id] = moved
			}
		}
	}
	m.to.inputs, m.to.rows = m.inputs, out.Rows()
	if out.Rows() == 0 {
		return nil
	}
	st, err := out.Finish(m.o.Footer)
	if err == nil {
		err = to.Commit()
	}
	if err != nil {
		return fmt.Errorf("write data file: %w", err)
	}
	st.Columns = st.Columns[:len(m.fields)]
	values := m.inputs[0].add.PartitionValues
	if values == nil {
		values = map[string]*string{}
	}
	m.to.add = &action.Add{
		Path: action.EncodePath(key), PartitionValues: values, Size: out.Size(), ModificationTime: m.now().UnixMilli(),
		Stats: stats.Encode(stats.Indexed(nil, stats.Leaves(m.fields)), st, nil),
	}
	return nil
}

// write writes the rows of a file.
func (m *Move) write(ctx context.Context, in *moving, out *parquet.Stream, pause func() error) error {
	f, err := openFile(ctx, m.store, in.segment.key, in.add.Size)
	if err != nil {
		return err
	}
	if f.NumRows() != in.segment.rows {
		return fmt.Errorf("%w: %s has %d rows, the log says %d", ErrInconsistent, in.segment.key, f.NumRows(), in.segment.rows)
	}
	copyable := out.CanCopy(f)
	var decoded []parquet.RowRange // with dead rows
	start := int64(0)
	for group := range f.NumRowGroups() {
		n := f.RowGroupRows(group)
		dead := int64(0)
		if in.dead != nil {
			dead = in.dead.CountRange(start, start+n)
		}
		stored, plain := f.RowGroupBytes(group)
		switch {
		case copyable && (m.o.Carry && (n >= m.o.FewRows || stored >= m.o.FewBytes) || dead == 0 && n >= copyRows):
			if err := out.CopyGroup(f, group); err != nil {
				return fmt.Errorf("read %s: %w", in.segment.key, err)
			}
			m.to.copied += n
			if err := pause(); err != nil {
				return err
			}
		case n > 0:
			if err := m.decode(ctx, in, f, start, start+n, plain, out, pause); err != nil {
				return err
			}
			if dead > 0 {
				decoded = append(decoded, parquet.RowRange{From: start, To: start + n})
			}
		}
		start += n
	}
	if len(decoded) == 0 {
		return nil
	}
	in.kept = newRank(in.segment.rows)
	in.kept.fill()
	for row := range in.dead.Rows() {
		for len(decoded) > 0 && int64(row) >= decoded[0].To {
			decoded = decoded[1:]
		}
		if len(decoded) > 0 && int64(row) >= decoded[0].From {
			in.kept.clear(row)
		}
	}
	in.kept.done()
	return nil
}

// decode writes the live ones of some rows of a file, which take plain bytes.
func (m *Move) decode(ctx context.Context, in *moving, f *parquet.File, from, to, plain int64, out *parquet.Stream, pause func() error) error {
	width := len(m.reads)
	// A row holds what is in it, and its cells: of many columns without values those are more.
	row := max(plain/max(to-from, 1), 1) + int64(width)*int64(unsafe.Sizeof(schema.Value{}))
	batchRows := int(min(max(heldBytes/row, 1), 4096))
	var cells []schema.Value
	rows := make([][]schema.Value, 0, batchRows)
	seen := int64(0)
	for b, err := range f.Scan(ctx, m.reads, parquet.ScanOptions{BatchRows: batchRows, From: from, To: to}) {
		if err != nil {
			return fmt.Errorf("read %s: %w", in.segment.key, err)
		}
		if cells == nil {
			cells = make([]schema.Value, batchRows*width)
		}
		rows = rows[:0]
		for i := range b.Rows {
			if in.dead != nil && in.dead.Contains(uint32(b.FirstRow+int64(i))) {
				continue
			}
			row := cells[len(rows)*width : (len(rows)+1)*width : (len(rows)+1)*width]
			for c := range width {
				row[c] = b.Columns[c][i]
			}
			rows = append(rows, row)
		}
		seen += int64(b.Rows)
		if err := out.Append(rows); err != nil {
			return fmt.Errorf("write a data file: %w", err)
		}
		if err := pause(); err != nil {
			return err
		}
	}
	if seen != to-from {
		return fmt.Errorf("%w: %s gave %d rows of %d", ErrInconsistent, in.segment.key, seen, to-from)
	}
	return nil
}

// Moved says what a Move did.
type Moved struct {
	// Files became one of Bytes with Rows, Dead of them deleted; Copied rows were not decoded.
	Files              int
	Rows, Dead, Copied int64
	BytesRead, Bytes   int64
}

// Put puts a Move that was Run into a transaction, as a change of layout alone (dataChange
// false). The error wraps ErrMoved where it is of no use any more. Nothing of the Writer
// changes before Applied.
func (w *Writer) Put(ctx context.Context, m *Move, tx *delta.Transaction) (*Written, Moved, error) {
	did := Moved{Files: len(m.inputs), Rows: m.to.rows, Copied: m.to.copied}
	out := &Written{}
	dead := dv.New()
	for _, in := range m.inputs {
		seg := w.segments[in.segment.id]
		if seg != in.segment || seg.add.Path != in.add.Path {
			return nil, did, fmt.Errorf("%w: %s has left the table", ErrMoved, in.segment.key)
		}
		if err := in.carryDead(seg.dead, dead); err != nil {
			return nil, did, err
		}
		did.BytesRead += seg.add.Size
	}
	now := w.now()
	for _, in := range m.inputs {
		tx.Remove(delta.RemoveOf(in.segment.add, now, false))
		out.replaced = append(out.replaced, segmentChange{id: in.segment.id})
	}
	if did.Dead = dead.Cardinality(); did.Dead == m.to.rows {
		return out, did, nil
	}
	to := m.to
	add := *to.add
	if did.Bytes = add.Size; did.Dead > 0 {
		var err error
		if add.Stats, err = loosen(add.Stats, to.rows); err != nil {
			return nil, did, fmt.Errorf("statistics of %s: %w", add.Path, err)
		}
		var pack dv.Packer
		id := uuid.New()
		offset, size, cardinality, err := pack.Append(dead)
		if err != nil {
			return nil, did, fmt.Errorf("deletion vector of %s: %w", add.Path, err)
		}
		if err := w.store.Put(ctx, dv.FileName(id), pack.Bytes()); err != nil {
			return nil, did, fmt.Errorf("write deletion vectors: %w", err)
		}
		out.packs = append(out.packs, dv.PathOfID(id))
		add.DeletionVector = &action.DeletionVector{
			StorageType: "u", PathOrInlineDV: dv.PathOfID(id), Offset: &offset, SizeInBytes: size, Cardinality: cardinality,
		}
		to.dead = dead
	}
	to.add = &add
	tx.Add(&add)
	out.placed = &to
	return out, did, nil
}

// carryDead marks in the new file the rows of this one that are dead now.
func (in *moving) carryDead(now, out *dv.Bitmap) error {
	if in.dead != nil {
		back := in.dead.Clone()
		if now != nil {
			back.AndNot(now)
		}
		if !back.IsEmpty() {
			return fmt.Errorf("%w: deleted rows of %s are back", ErrMoved, in.segment.key)
		}
	}
	if now == nil {
		return nil
	}
	if in.kept == nil {
		return out.OrShifted(now, int64(in.first))
	}
	var rows []uint32
	for row := range now.Rows() {
		if in.kept.has(row) {
			rows = append(rows, in.first+in.kept.below(row))
		}
	}
	out.AddMany(rows)
	return nil
}

// place makes the new file live, and points the segments at it whose rows it has.
func (w *Writer) place(p *placed) error {
	s, err := w.newSegment(p.add, p.rows, p.dead)
	if err != nil {
		return err
	}
	s.foreign = true
	if w.moved == nil {
		w.moved = map[uint32]*span{}
	}
	for _, in := range p.inputs {
		for id, to := range in.to {
			to.of = s
			w.moved[id] = &to
			s.spans = append(s.spans, id)
		}
	}
	return nil
}
