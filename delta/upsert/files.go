package upsert

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
)

func sortedIDs(m map[uint32]*dv.Bitmap) []uint32 { return slices.Sorted(maps.Keys(m)) }

// part is the rows of one partition.
type part struct {
	values map[string]*string
	folder string
	rows   [][]schema.Value
	keys   []string
	tags   []uint16
}

// uploads is how many files of a batch are stored at one time, while the next one is
// encoded: on an object store each costs the wait for an answer.
const uploads = 4

// writeNew writes the new rows, one file a partition.
func (w *Writer) writeNew(ctx context.Context, b *Batch, tx *delta.Transaction, out *Written) error {
	if len(b.Rows) == 0 {
		return nil
	}
	parts, err := split(b)
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var storing sync.WaitGroup
	places := make(chan struct{}, uploads)
	for _, p := range parts {
		f, err := w.encodeFile(b.Schema, b.PartitionBy, p, b.Footer)
		if err != nil {
			fail(err)
			break
		}
		places <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		storing.Go(func() {
			defer func() { <-places }()
			if err := w.store.Put(ctx, f.key, f.data); err != nil {
				fail(fmt.Errorf("write data file: %w", err))
			}
		})
		tx.Add(f.add)
		out.added = append(out.added, addedFile{f.add, int64(len(p.rows)), p.keys, p.tags})
	}
	storing.Wait()
	return context.Cause(ctx)
}

func split(b *Batch) ([]*part, error) {
	if len(b.PartitionBy) == 0 {
		return []*part{{rows: b.Rows, keys: b.Keys, tags: b.Tags}}, nil
	}
	at := make([]int, len(b.PartitionBy))
	for i, name := range b.PartitionBy {
		if at[i] = b.Schema.Index(name); at[i] < 0 {
			return nil, fmt.Errorf("partition column %q is not in the table", name)
		}
	}
	byFolder := map[string]*part{}
	for i, row := range b.Rows {
		var folder strings.Builder
		values := make(map[string]*string, len(at))
		for _, c := range at {
			text := action.FormatPartitionValue(row[c], b.Schema.Fields[c].Type)
			stored := b.Schema.Fields[c].Stored()
			values[stored] = text
			folder.WriteString(action.PartitionFolder(stored, text))
			folder.WriteByte('/')
		}
		p := byFolder[folder.String()]
		if p == nil {
			p = &part{values: values, folder: folder.String()}
			byFolder[p.folder] = p
		}
		p.rows = append(p.rows, row)
		p.keys = append(p.keys, b.Keys[i])
		p.tags = append(p.tags, b.Tags[i])
	}
	var parts []*part
	for _, folder := range slices.Sorted(maps.Keys(byFolder)) {
		parts = append(parts, byFolder[folder])
	}
	return parts, nil
}

// writeFile stores the rows of a partition as one data file.
func (w *Writer) writeFile(ctx context.Context, s *schema.Schema, partitionBy []string, p *part, footer map[string]string) (*action.Add, error) {
	f, err := w.encodeFile(s, partitionBy, p, footer)
	if err != nil {
		return nil, err
	}
	if err := w.store.Put(ctx, f.key, f.data); err != nil {
		return nil, fmt.Errorf("write data file: %w", err)
	}
	return f.add, nil
}

// encodedFile is a data file that is not stored yet.
type encodedFile struct {
	key  string
	data []byte
	add  *action.Add
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

// encodeFile makes the data file of the rows of a partition.
func (w *Writer) encodeFile(s *schema.Schema, partitionBy []string, p *part, footer map[string]string) (*encodedFile, error) {
	var columns []parquet.Column
	var keep []int
	for i, f := range s.Fields {
		if !slices.Contains(partitionBy, f.Name) {
			columns = append(columns, columnOf(&f))
			keep = append(keep, i)
		}
	}
	visible := len(columns)
	for i, h := range w.o.Hidden {
		columns = append(columns, h)
		keep = append(keep, len(s.Fields)+i)
	}
	rows := p.rows
	if len(keep) != len(s.Fields)+len(w.o.Hidden) {
		rows = make([][]schema.Value, len(p.rows))
		for i, row := range p.rows {
			rows[i] = make([]schema.Value, len(keep))
			for c, from := range keep {
				rows[i][c] = row[from]
			}
		}
	}
	encoder, err := w.encoders.take(columns, visible)
	if err != nil {
		return nil, err
	}
	data, st, err := encoder.EncodeWith(rows, footer)
	if err != nil {
		return nil, fmt.Errorf("encode a data file: %w", err)
	}
	w.encoders.give(encoder, len(data))
	key := p.folder + "part-" + uuid.NewString() + ".parquet"
	fields := make([]schema.Field, visible)
	for i, c := range columns[:visible] {
		fields[i] = schema.Field{Name: c.Name, Type: c.Type}
	}
	st.Columns = st.Columns[:visible]
	values := p.values
	if values == nil {
		values = map[string]*string{}
	}
	return &encodedFile{key, data, &action.Add{
		Path: action.EncodePath(key), PartitionValues: values, Size: int64(len(data)),
		ModificationTime: w.now().UnixMilli(), DataChange: true, Stats: stats.Encode(stats.Indexed(nil, stats.Leaves(fields)), st, nil),
	}}, nil
}

// rewrite writes what is left of every touched file as a new one, in place of
// a deletion vector.
func (w *Writer) rewrite(ctx context.Context, b *Batch, ended map[uint32]*dv.Bitmap, tx *delta.Transaction, out *Written) error {
	now := w.now()
	for _, id := range sortedIDs(ended) {
		s, dead := w.segments[id], ended[id]
		if s.dead != nil {
			dead.Or(s.dead)
		}
		tx.Remove(delta.RemoveOf(s.add, now, true))
		out.replaced = append(out.replaced, segmentChange{id: id})
		if dead.Cardinality() >= s.rows {
			continue
		}
		p, err := w.survivors(ctx, b.Schema, s, dead)
		if err != nil {
			return err
		}
		f, err := w.open(ctx, s)
		if err != nil {
			return err
		}
		add, err := w.writeFile(ctx, b.Schema, b.PartitionBy, p, f.KeyValue())
		if err != nil {
			return err
		}
		tx.Add(add)
		out.added = append(out.added, addedFile{add, int64(len(p.rows)), p.keys, p.tags})
	}
	return nil
}

// folderOf is the part of a key up to its last slash.
func folderOf(key string) string { return key[:strings.LastIndexByte(key, '/')+1] }

// survivors reads the rows of a file that stay.
func (w *Writer) survivors(ctx context.Context, s *schema.Schema, seg *segment, dead *dv.Bitmap) (*part, error) {
	p := &part{values: seg.add.PartitionValues, folder: folderOf(seg.key)}
	var columns []parquet.Column
	for _, f := range s.Fields {
		columns = append(columns, parquet.ColumnOf(&f))
	}
	columns = append(columns, w.o.Hidden...)
	keyAt := make([]int, len(w.o.Key))
	for i, name := range w.o.Key {
		keyAt[i] = s.Index(name)
		if at := w.hidden(name); at >= 0 {
			keyAt[i] = len(s.Fields) + at
		}
	}
	f, err := w.open(ctx, seg)
	if err != nil {
		return nil, err
	}
	var buf []byte
	for b, err := range f.Scan(ctx, columns, parquet.ScanOptions{}) {
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", seg.key, err)
		}
		batch := make([][]schema.Value, 0, b.Rows)
		for i := range b.Rows {
			if dead.Contains(uint32(b.FirstRow + int64(i))) {
				continue
			}
			row := make([]schema.Value, len(columns))
			for c := range columns {
				row[c] = b.Columns[c][i]
				row[c].S = strings.Clone(row[c].S)
			}
			batch = append(batch, row)
		}
		if err := w.fillPartition(seg, columns, batch); err != nil {
			return nil, err
		}
		for _, row := range batch {
			buf = buf[:0]
			for _, at := range keyAt {
				v := schema.Value{}
				if at >= 0 {
					v = row[at]
				}
				buf = v.AppendEncoded(buf)
			}
			key := string(buf)
			tag := w.index.Get(key).Tag()
			if hidden := row[len(s.Fields):]; w.o.Fill != nil && len(hidden) > 0 && hidden[0].IsNull() {
				w.o.Fill(seg.add.Path, tag, hidden)
			}
			p.rows = append(p.rows, row)
			p.keys = append(p.keys, key)
			p.tags = append(p.tags, tag)
		}
	}
	return p, nil
}
