package upsert

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
)

// What callers decide on.
var (
	// ErrDuplicateKey: a key is live twice in the table.
	ErrDuplicateKey = errors.New("a key is live twice")
	// ErrInconsistent: log, files and index disagree.
	ErrInconsistent = errors.New("log and data files disagree")
)

// Options say what rows look like.
type Options struct {
	// Key names the key columns, of the table or hidden ones. One that the table
	// does not have yet is NULL.
	Key []string
	// Hidden columns are written behind the table's own and are not in its schema.
	Hidden []parquet.Column
	// TagColumns names the hidden columns of which Tag makes a row's tag, when
	// the index is built from files; a file may lack them.
	TagColumns []string
	Tag        func(cells []schema.Value) uint16
	// Inherit, where it is set, makes the tag of a row that comes in another file:
	// tag is what Tag says of it, was what its key had in Was, or in the file that
	// Follow has seen go. Was may be nil.
	Inherit func(tag, was uint16) uint16
	Was     *Index
	// Fill, where it is set, sets the hidden cells of a row that is written anew and
	// has none, because another writer dropped them. path and tag are the row's.
	Fill func(path string, tag uint16, hidden []schema.Value)
	// CopyOnWrite rewrites files instead of writing deletion vectors.
	CopyOnWrite bool
	// Saved, where it is set, names a file that Save may have written: Open begins with
	// it, and reads only what has changed since. SavedFault is told, where it is set,
	// why one that is there was not used.
	Saved      string
	SavedFault func(error)
	// Progress, where it is set, is told how many of the files are in the index
	// while Open builds it: at least at its begin, with 0, and at its end.
	Progress func(files, of int)
}

// Writer is the index and the live files of one table at one version. Until Applied or
// Follow is called, which are its owner's alone, it may be read by several goroutines
// at once: Index().Get and Len, ReadRows, Footer, Rows, Path, Files and Write.
type Writer struct {
	store    objstore.Store
	o        Options
	index    *Index
	segments map[uint32]*segment
	moved    map[uint32]*span // segments whose rows lie in another file
	last     uint32
	openedMu sync.Mutex // guards opened, and file of every segment
	opened   []*segment
	encoders encoders
	changing sync.Mutex // of index and segments, while the index is saved
	now      func() time.Time
}

// New makes the writer of a table without files.
func New(store objstore.Store, o Options) *Writer {
	return &Writer{store: store, o: o, index: NewIndex(0), segments: map[uint32]*segment{}, now: time.Now}
}

// Open makes the writer of a version and builds its index from the key columns
// of the live files. The error wraps ErrDuplicateKey, ErrInconsistent, or says
// which file can't be read.
func Open(ctx context.Context, store objstore.Store, snap *delta.Snapshot, o Options) (*Writer, error) {
	if w, err := openFast(ctx, store, snap, o); w != nil || err != nil {
		return w, err
	}
	w := New(store, o)
	w.index = NewIndex(rowsAbout(snap))
	if err := w.build(ctx, snap.Schema(), snap.Files()); err != nil {
		w.index.Close()
		return nil, fmt.Errorf("build the key index: %w", err)
	}
	w.o.Was = nil // it is large, and has done its service
	return w, nil
}

// rowsAbout is the number of rows as far as the log tells, to make room for.
func rowsAbout(snap *delta.Snapshot) (n int64) {
	for _, add := range snap.Files() {
		if rows, known := stats.NumRecords(add.Stats); known {
			// What the log says may be wrong: a row has at least some bits in its file.
			n += min(rows, add.Size*64)
		}
	}
	return n
}

// Index gives the key index. It must not be changed.
func (w *Writer) Index() *Index { return w.index }

// Rows gives the physical rows of a segment and how many of them are deleted.
func (w *Writer) Rows(id uint32) (rows, dead int64) {
	s := w.segmentOf(id)
	if s == nil {
		return 0, 0
	}
	if s.dead != nil {
		dead = s.dead.Cardinality()
	}
	return s.rows, dead
}

// Footer gives the entries that a segment's file was written with.
func (w *Writer) Footer(ctx context.Context, id uint32) map[string]string {
	s := w.segmentOf(id)
	if s == nil {
		return nil
	}
	f, err := w.open(ctx, s)
	if err != nil {
		return nil // whoever needs the rows gets the error
	}
	return f.KeyValue()
}

// index1 puts the live rows of one file into the index. Rows that are gone make room
// for them.
func (w *Writer) index1(ctx context.Context, columnsOf *schema.Schema, add *action.Add, gone func(Ref) bool) error {
	s, err := w.newSegment(add, -1, nil)
	if err != nil {
		return err
	}
	if err := w.openSegment(ctx, s); err != nil {
		return err
	}
	return w.scanKeys(ctx, columnsOf, s, true, func(row uint32, key rowKey) error {
		ref := makeRef(s.id, row, w.inherit(key, gone))
		if old := w.index.put(key, ref); old != 0 && !gone(old) {
			return w.liveTwice(ctx, columnsOf, duplicate{old, ref})
		}
		return nil
	})
}

// rowKey is the key of a row and what its own cells say of its tag. It is good until
// the next row.
type rowKey struct {
	isInt bool // the key is one integer
	value int64
	bytes []byte // as AppendEncoded has it; nil for an integer where tags are not inherited
	tag   uint16
}

// scanKeys calls fn with the keys of the live rows of a segment that is open;
// following: the index may have former rows of them.
func (w *Writer) scanKeys(ctx context.Context, columnsOf *schema.Schema, s *segment, following bool, fn func(row uint32, key rowKey) error) error {
	columns, fixed, err := w.keyColumns(columnsOf, s)
	if err != nil {
		return err
	}
	nkeys := len(columns)
	columns = w.withTagColumns(columns)
	f, err := w.keptOpen(ctx, s)
	if err != nil {
		return err
	}
	var buf []byte
	cells := make([]schema.Value, nkeys)
	tagged := make([]schema.Value, len(columns)-nkeys) // the cells that tag is of
	tag := w.tag(tagged)
	inherits := w.o.Inherit != nil && (following || w.o.Was != nil)
	for b, err := range f.Scan(ctx, columns, parquet.ScanOptions{}) {
		if err != nil {
			return fmt.Errorf("read %s: %w", s.key, err)
		}
		for i := range b.Rows {
			row := uint32(b.FirstRow + int64(i))
			if s.dead != nil && s.dead.Contains(row) {
				continue
			}
			for c := range tagged { // most rows have the tag of the one before
				if now := &b.Columns[nkeys+c][i]; *now != tagged[c] {
					for c := range tagged {
						tagged[c] = b.Columns[nkeys+c][i]
					}
					tag = w.tag(tagged)
					break
				}
			}
			if first := &b.Columns[0][i]; nkeys == 1 && first.Kind == schema.Int && fixed[0] == nil && !inherits {
				if err := fn(row, rowKey{true, first.I, nil, tag}); err != nil {
					return err
				}
				continue
			}
			for c := range nkeys {
				cells[c] = b.Columns[c][i]
			}
			buf = buf[:0]
			for c := range nkeys {
				if fixed[c] != nil {
					cells[c] = *fixed[c]
				}
				buf = cells[c].AppendEncoded(buf)
			}
			key := rowKey{nkeys == 1 && cells[0].Kind == schema.Int, cells[0].I, buf, tag}
			if err := fn(row, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// withTagColumns gives key columns and those that a tag is made of.
func (w *Writer) withTagColumns(columns []parquet.Column) []parquet.Column {
	for _, name := range w.o.TagColumns {
		for _, h := range w.o.Hidden {
			if h.Name == name {
				columns = append(columns, h)
			}
		}
	}
	return columns
}

// keptOpen gives the file of a segment that was opened, anew where many others were since.
func (w *Writer) keptOpen(ctx context.Context, s *segment) (*parquet.File, error) {
	w.openedMu.Lock()
	f := s.file
	w.openedMu.Unlock()
	if f != nil {
		return f, nil
	}
	return openFile(ctx, w.store, s.key, s.add.Size)
}

// hidden gives the place of a hidden column, -1 where there is none.
func (w *Writer) hidden(name string) int {
	return slices.IndexFunc(w.o.Hidden, func(c parquet.Column) bool { return c.Name == name })
}

func (w *Writer) tag(cells []schema.Value) uint16 {
	if w.o.Tag == nil {
		return 0
	}
	return w.o.Tag(cells)
}

// inherit gives the tag of a row whose key may have had another row before; gone is
// nil where the index has none of such.
func (w *Writer) inherit(key rowKey, gone func(Ref) bool) uint16 {
	if w.o.Inherit == nil || gone == nil && w.o.Was == nil {
		return key.tag
	}
	was := Ref(0)
	if gone != nil {
		was = w.index.Get(string(key.bytes))
	}
	if was == 0 && w.o.Was != nil {
		was = w.o.Was.Get(string(key.bytes))
	}
	if was == 0 {
		return key.tag
	}
	return w.o.Inherit(key.tag, was.Tag())
}

func keyText(columns []parquet.Column, cells []schema.Value) string {
	var b strings.Builder
	for i, c := range columns {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s=%v", c.Name, schema.DecodeKeyCell(string(cells[i].AppendEncoded(nil)), c.Type))
	}
	return b.String()
}

// keyColumns gives the key columns to read from a file; fixed has the values
// of those that are partition columns.
func (w *Writer) keyColumns(s *schema.Schema, seg *segment) ([]parquet.Column, []*schema.Value, error) {
	columns := make([]parquet.Column, len(w.o.Key))
	fixed := make([]*schema.Value, len(w.o.Key))
	for i, name := range w.o.Key {
		columns[i] = parquet.Column{Name: name, Type: schema.Of(schema.Long)}
		if at := s.Index(name); at >= 0 {
			columns[i] = parquet.ColumnOf(&s.Fields[at])
		} else if at := w.hidden(name); at >= 0 {
			columns[i].Type = w.o.Hidden[at].Type
		}
		if text, ok := seg.add.PartitionValues[columns[i].Name]; ok {
			v, err := action.ParsePartitionValue(text, columns[i].Type)
			if err != nil {
				return nil, nil, fmt.Errorf("partition value of %s: %w", seg.key, err)
			}
			fixed[i] = &v
		}
	}
	return columns, fixed, nil
}

// Batch is what one commit changes, one entry a key.
type Batch struct {
	Schema      *schema.Schema
	PartitionBy []string
	// Rows are the new rows: the cells of Schema, then those of Hidden. Keys
	// and Tags belong to them.
	Rows [][]schema.Value
	Keys []string
	Tags []uint16
	// Replaced are the live rows that end, because their key is in Rows or in
	// Removed. Removed are keys that leave the table.
	Replaced []Ref
	Removed  []string
	// Killed are further rows that end, whose keys nobody has named.
	Killed map[uint32]*dv.Bitmap
	// Footer is written into each new file.
	Footer map[string]string
	// ChangeData writes change data files too, where any row ends.
	ChangeData bool
}

// Written is what Write put into a transaction, to be Applied when it is committed.
type Written struct {
	removed  []string
	killed   map[uint32]*dv.Bitmap
	replaced []segmentChange
	added    []addedFile
	placed   *placed // by a Move
	packs    []string
	changes  []*action.CDC
}

// Objects names what was stored and may be removed by the log: paths of data files,
// and pathOrInlineDv of packs of deletion vectors.
func (w *Written) Objects() []string {
	return append(w.Files(), w.packs...)
}

// Files gives the paths of the data files that were stored.
func (w *Written) Files() (paths []string) {
	for _, a := range w.added {
		paths = append(paths, a.add.Path)
	}
	if w.placed != nil {
		paths = append(paths, w.placed.add.Path)
	}
	return paths
}

type segmentChange struct {
	id   uint32
	add  *action.Add // nil: the file is gone
	dead *dv.Bitmap
}

type addedFile struct {
	add  *action.Add
	rows int64
	keys []string
	tags []uint16
}

// Write stores the batch's files and puts the actions that make them part of
// the table into tx. Nothing of the Writer changes.
func (w *Writer) Write(ctx context.Context, b *Batch, tx *delta.Transaction) (*Written, error) {
	out := &Written{removed: b.Removed, killed: b.Killed}
	ended, err := w.ended(b)
	if err != nil {
		return nil, err
	}
	// Deletion vectors are stored while the new rows are encoded, and rows that end read
	// for the change data; where files are rewritten, these are read by one at a time.
	var storing sync.WaitGroup
	var faults [len(vectorClasses) + 2]error
	panicked := ""
	if b.ChangeData {
		store := func() {
			defer func() {
				if p := recover(); p != nil {
					panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
				}
			}()
			out.changes, faults[len(vectorClasses)+1] = w.changeData(ctx, b)
		}
		if w.o.CopyOnWrite {
			store()
		} else {
			storing.Go(store)
		}
	}
	if w.o.CopyOnWrite {
		err = w.rewrite(ctx, b, ended, tx, out)
	} else {
		err = w.mark(ended, tx, out, func(pack int, key string, data []byte) {
			storing.Go(func() {
				if err := w.store.Put(ctx, key, data); err != nil {
					faults[pack] = fmt.Errorf("write deletion vectors: %w", err)
				}
			})
		})
	}
	if err == nil {
		err = w.writeNew(ctx, b, tx, out)
	}
	storing.Wait()
	if panicked != "" {
		panic(panicked) // on the caller's goroutine, which may know what to do
	}
	if fault := errors.Join(faults[:]...); fault != nil {
		return nil, errors.Join(fault, err)
	}
	for _, c := range out.changes {
		tx.AddCDC(c)
	}
	return out, err
}

// ended collects the rows that end, by segment.
func (w *Writer) ended(b *Batch) (map[uint32]*dv.Bitmap, error) {
	rows := map[uint32][]uint32{}
	for _, r := range b.Replaced {
		r = w.at(r)
		rows[r.Segment()] = append(rows[r.Segment()], r.Row())
	}
	out := make(map[uint32]*dv.Bitmap, len(rows)+len(b.Killed))
	for id, list := range rows {
		bitmap := dv.New()
		bitmap.AddMany(list)
		out[id] = bitmap
	}
	for id, killed := range b.Killed {
		if s := w.moved[id]; s != nil {
			there := dv.New()
			for row := range killed.Rows() {
				there.Add(s.at(row))
			}
			id, killed = s.of.id, there
		}
		if out[id] == nil {
			out[id] = killed.Clone()
		} else {
			out[id].Or(killed)
		}
	}
	for id := range out {
		if w.segments[id] == nil {
			return nil, fmt.Errorf("%w: the index points at segment %d, which is not live", ErrInconsistent, id)
		}
	}
	return out, nil
}

// vectorClasses are the numbers of dead rows from which a deletion vector goes
// into the next pack. Vectors of one size are packed together: a large file is
// touched by every batch, so its old vector dies with its pack, while a small
// one lives longer, may be pinned for years, and would keep a shared pack whole.
var vectorClasses = [...]int64{512, 16_384}

func vectorClass(dead int64) int {
	class := 0
	for _, from := range vectorClasses {
		if dead >= from {
			class++
		}
	}
	return class
}

// vectorPack is one .bin file in the making.
type vectorPack struct {
	dv.Packer
	id uuid.UUID
}

// mark gives every touched file a new deletion vector, packed in at most three
// .bin files; a file without a live row left goes.
func (w *Writer) mark(ended map[uint32]*dv.Bitmap, tx *delta.Transaction, out *Written, put func(pack int, key string, data []byte)) error {
	var packs [len(vectorClasses) + 1]vectorPack
	for i := range packs {
		packs[i].id = uuid.New()
	}
	now := w.now()
	var vectors []*action.Add
	for _, segID := range sortedIDs(ended) {
		s, dead := w.segments[segID], ended[segID]
		if s.dead != nil {
			dead.Or(s.dead)
		}
		tx.Remove(delta.RemoveOf(s.add, now, true))
		if dead.Cardinality() >= s.rows {
			out.replaced = append(out.replaced, segmentChange{id: segID})
			continue
		}
		pack := &packs[vectorClass(dead.Cardinality())]
		offset, size, cardinality, err := pack.Append(dead)
		if err != nil {
			return fmt.Errorf("deletion vector of %s: %w", s.key, err)
		}
		add := *s.add
		add.DataChange = true
		add.DeletionVector = &action.DeletionVector{
			StorageType: "u", PathOrInlineDV: dv.PathOfID(pack.id), Offset: &offset, SizeInBytes: size, Cardinality: cardinality,
		}
		if add.Stats, err = loosen(s.add.Stats, s.rows); err != nil {
			return fmt.Errorf("statistics of %s: %w", s.key, err)
		}
		vectors = append(vectors, &add)
		out.replaced = append(out.replaced, segmentChange{segID, &add, dead})
	}
	for i := range packs {
		if packs[i].Len() == 0 {
			continue
		}
		put(i, dv.FileName(packs[i].id), packs[i].Bytes())
		out.packs = append(out.packs, dv.PathOfID(packs[i].id))
	}
	for _, add := range vectors {
		tx.Add(add)
	}
	return nil
}

// Applied moves the index and the files to the version that the transaction
// has become.
func (w *Writer) Applied(out *Written) error {
	w.changing.Lock()
	defer w.changing.Unlock()
	if len(out.killed) > 0 {
		w.index.DeleteRefs(func(r Ref) bool {
			killed := out.killed[r.Segment()]
			return killed != nil && killed.Contains(r.Row())
		})
	}
	w.index.DeleteMany(out.removed)
	for _, c := range out.replaced {
		if c.add == nil {
			w.drop(w.segments[c.id])
			continue
		}
		s := w.segments[c.id]
		s.add, s.dead = c.add, c.dead
	}
	if out.placed != nil {
		if err := w.place(out.placed); err != nil {
			return err
		}
	}
	for _, a := range out.added {
		s, err := w.newSegment(a.add, a.rows, nil)
		if err != nil {
			return err
		}
		w.index.PutMany(a.keys, func(i int) Ref { return makeRef(s.id, uint32(i), a.tags[i]) })
	}
	return nil
}
