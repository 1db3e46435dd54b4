package layout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
)

// output is a file that was written and is not part of the table yet.
type output struct {
	add   *action.Add
	key   string
	at    time.Time // of the storing
	stats parquet.FileStats
	trail *trail
}

// writer makes the outputs of a bin: rows go in, files are stored as they are full.
type writer struct {
	x       *optimizer
	bin     *bin
	columns []parquet.Column
	reads   []parquet.Column // the same, as they are asked for: older files may lack ids
	leaves  []stats.Leaf     // those with statistics
	cube    *cube            // of a clustered table
	encoder *parquet.Encoder
	footer  map[string]string
	target  int64

	stream  *parquet.Stream
	key     string          // of the object in the making
	to      objstore.Writer // it; nil where there is none
	trail   *trail
	outputs []*output
}

// maxFileRows keeps the number of rows within what deletion vectors can name.
const maxFileRows = 1 << 31

// newWriter makes the writer of a bin. extra are the columns beside the schema's.
func (x *optimizer) newWriter(b *bin, extra []parquet.Column, footer map[string]string, target int64) (*writer, error) {
	w := &writer{x: x, bin: b, footer: footer, target: target}
	var fields []schema.Field
	for i := range x.fields {
		if f := &x.fields[i]; !x.isPartition[f.Name] && f.Type.Primitive != schema.Void { // that is in no file
			fields = append(fields, *f)
			w.columns = append(w.columns, columnOf(f))
			w.reads = append(w.reads, parquet.ColumnOf(f))
		}
	}
	w.cube = x.o.newCube()
	leaves := stats.Leaves(fields)
	w.leaves = stats.Indexed(x.base.Metadata().Configuration, leaves)
	for _, l := range leaves { // those that rows lie by have statistics whatever their place
		at, found := slices.BinarySearchFunc(w.leaves, l, func(a, b stats.Leaf) int { return slices.Compare(a.Place, b.Place) })
		if !found && len(l.Path) == 1 && x.isOrder[l.Path[0]] {
			w.leaves = slices.Insert(w.leaves, at, l)
		}
	}
	bounded := make([]string, len(w.columns)) // see package upsert: no bounds of columns that the table has not
	for i, c := range w.columns {
		bounded[i] = c.Name
	}
	w.columns = append(w.columns, extra...)
	w.reads = append(w.reads, extra...)
	if x.tracking != nil { // last: number finds them there
		w.columns = append(w.columns, x.tracking.Columns()...)
		w.reads = append(w.reads, x.tracking.Columns()...)
	}
	var err error
	w.encoder, err = parquet.NewEncoder(w.columns, parquet.EncoderOptions{RowGroupBytes: x.groupBytes(), StatsColumns: bounded})
	return w, err
}

// columnOf is parquet.ColumnOf for writing: under column mapping of any mode columns
// have their ids in files.
func columnOf(f *schema.Field) parquet.Column {
	c := parquet.ColumnOf(f)
	if c.FieldID == 0 && f.FileName != "" {
		c.FieldID = f.MappedID()
	}
	return c
}

// groupBytes keeps the row group that is held within the memory, where that is enough for
// one worth its while.
func (x *optimizer) groupBytes() int64 {
	return min(max(x.o.MemoryLimit/2, 4<<20), 128<<20)
}

func (w *writer) begin(ctx context.Context) {
	if w.stream == nil {
		w.key = w.bin.partition.folder + "part-" + uuid.NewString() + ".parquet"
		w.to = objstore.Create(ctx, w.x.table.Store(), w.key)
		w.stream = w.encoder.Stream(w.to)
		w.trail = &trail{dir: w.x.o.TempDir}
	}
}

// append adds rows; note tells the trail where they came from.
func (w *writer) append(ctx context.Context, rows [][]schema.Value, note func(*trail) error) error {
	w.begin(ctx)
	if err := w.stream.Append(rows); err != nil {
		return fmt.Errorf("write a data file: %w", err)
	}
	if err := note(w.trail); err != nil {
		return err
	}
	return w.endIfFull()
}

// number gives rows of an input, decoded with w.reads, the numbers that they keep.
func (w *writer) number(in *input, rows [][]schema.Value, places []int64) error {
	if w.x.tracking == nil {
		return nil
	}
	for i, row := range rows {
		last := len(row) - 1
		if err := w.x.tracking.Fill(in.add, places[i], &row[last-1], &row[last]); err != nil {
			return err
		}
	}
	return nil
}

// copyGroup adds a row group as it is; its first row is at start of the input.
func (w *writer) copyGroup(ctx context.Context, number int, in *input, group int, start int64) error {
	w.begin(ctx)
	if err := w.stream.CopyGroup(in.file, group); err != nil {
		return fmt.Errorf("read %s: %w", in.add.Path, err)
	}
	n := in.file.RowGroupRows(group)
	w.x.report.RowsCopied += n
	if err := w.trail.addRun(number, start, start+n); err != nil {
		return err
	}
	return w.endIfFull()
}

// canCopy tells whether row groups of an input can be taken over as they are.
func (w *writer) canCopy(ctx context.Context, in *input) bool {
	w.begin(ctx)
	return w.x.tracking == nil && w.stream.CanCopy(in.file)
}

func (w *writer) endIfFull() error {
	if w.stream.Size() < w.target && w.stream.Rows() < maxFileRows {
		return nil
	}
	return w.end()
}

// end stores the file.
func (w *writer) end() error {
	if w.stream == nil || w.stream.Rows() == 0 {
		return nil
	}
	st, err := w.stream.Finish(w.footer)
	if err == nil {
		err = w.to.Commit()
	}
	if err != nil {
		return fmt.Errorf("write data file: %w", err)
	}
	out := &output{key: w.key, at: w.x.table.Now(), stats: st, trail: w.trail, add: &action.Add{
		Path: action.EncodePath(w.key), PartitionValues: w.bin.partition.values, Size: w.stream.Size(),
		ModificationTime: w.x.table.Now().UnixMilli(),
	}}
	out.add.Stats = w.encodeStats(out, nil)
	w.cube.mark(out.add)
	w.stream, w.to, w.trail = nil, nil, nil
	w.outputs = append(w.outputs, out)
	w.x.report.Rows += st.NumRows
	return nil
}

func (w *writer) encodeStats(out *output, tight *bool) string {
	return stats.Encode(w.leaves, out.stats, tight)
}

// soon is how long an output is believed to be there: far less than the grace period of
// any vacuum, to which a file that no version names yet is garbage.
const soon = 10 * time.Minute

// present tells whether the outputs are still there.
func (w *writer) present(ctx context.Context) (bool, error) {
	now := w.x.table.Now()
	for _, out := range w.outputs {
		if now.Sub(out.at) < soon {
			continue
		}
		switch _, err := w.x.table.Store().Head(ctx, out.key); {
		case errors.Is(err, objstore.ErrNotExist):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("look for what was written: %w", err)
		}
	}
	return true, nil
}

// close lets go of what the outputs hold.
func (w *writer) close() {
	if w.to != nil {
		w.to.Abort()
	}
	if w.trail != nil {
		w.trail.close()
	}
	for _, out := range w.outputs {
		out.trail.close()
	}
}

// pause waits before another attempt.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
