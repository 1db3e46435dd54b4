package upsert

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/schema"
)

// builder collects the keys of many rows, shard by shard, and makes an index of them
// when all are there: then a shard is in the cache of a core while it is filled. What
// is collected takes no more memory than the index, and goes as that comes.
type builder struct {
	x      *Index
	shards [2][256]struct {
		sync.Mutex
		memory
		n int
	}
}

// rawBytes is what an item takes while it is collected: 7 bytes of the hash, the
// second word where there is one, the Ref.
var rawBytes = [2]int{15, 23}

func (b *builder) table(kind int) *table {
	if kind == 0 {
		return &b.x.ints
	}
	return &b.x.hashes
}

// add appends items to a shard. It may be called by several goroutines.
func (b *builder) add(kind int, number uint64, items []item) {
	h, width := &b.shards[kind][number], rawBytes[kind]
	h.Lock()
	defer h.Unlock()
	if need := (h.n + len(items)) * width; need > len(h.bytes) {
		room := b.table(kind).room
		// The shards of so many keys differ by the root of their number.
		room += room/32 + 64
		bigger := newMemory(max(need, room*width, len(h.bytes)/8*9))
		copy(bigger.bytes, h.bytes[:h.n*width])
		h.free()
		h.memory = bigger
	}
	at := h.n * width
	for i := range items {
		it, to := &items[i], h.bytes[at:at+width]
		binary.LittleEndian.PutUint64(to, it.hash)
		if kind == 1 {
			binary.LittleEndian.PutUint64(to[7:], it.second)
		}
		binary.LittleEndian.PutUint64(to[width-8:], uint64(it.ref))
		at += width
	}
	h.n += len(items)
}

// duplicate is a key that has two Refs, the lower one first.
type duplicate [2]Ref

// filler makes shards of what a builder has collected. starts is used for one after the
// other.
type filler struct {
	b      *builder
	starts []uint32
}

// fill makes one shard of the index. It calls found with keys that came twice; the index
// may have both of them then.
func (f *filler) fill(kind, number int, found func(duplicate)) {
	raw, t, width := &f.b.shards[kind][number], f.b.table(kind), rawBytes[kind]
	if raw.n == 0 {
		return
	}
	defer raw.free()
	h := &t.shards[number]
	homes := homesFor(raw.n, madeLoad)
	h.make(t.second, homes, spillFor(homes), keptFor(homes))
	items := raw.bytes[:raw.n*width]
	if !f.place(h, items, width) { // hashes crowd: one by one, as put makes room
		for ; len(items) > 0; items = items[width:] {
			it := itemOf(items[:width])
			if old := h.put(t, it); old != 0 {
				found(duplicate{min(old, it.ref), max(old, it.ref)})
			}
		}
		return
	}
	for ; len(items) > 0; items = items[width:] {
		it := itemOf(items[:width])
		home := h.home(it.hash)
		at := int(f.starts[home])
		f.starts[home]++
		// Those of one home stand in the order of their hashes. Most homes have one or two.
		off := at * h.width
		for ; off > 0 && h.ref(off-h.width) != 0; off -= h.width {
			before := h.near(off-h.width, it.hash)
			if before < it.hash { // of another home too
				break
			}
			if before == it.hash && (!t.second || binary.LittleEndian.Uint64(h.bytes[off-h.width+h.kept:]) == it.second) {
				old := h.ref(off - h.width)
				found(duplicate{min(old, it.ref), max(old, it.ref)})
			}
		}
		if end := at * h.width; off < end {
			copy(h.bytes[off+h.width:end+h.width], h.bytes[off:end])
		}
		h.write(off, it)
	}
	h.n = raw.n
}

// place says in starts where the first item of each home stands: at home, or behind those of
// the homes before. It reports false where one finds no place within the rules.
func (f *filler) place(h *shard, items []byte, width int) bool {
	if cap(f.starts) < h.homes {
		f.starts = make([]uint32, h.homes+h.homes/16)
	}
	f.starts = f.starts[:h.homes]
	clear(f.starts)
	for ; len(items) > 0; items = items[width:] {
		f.starts[h.home(binary.LittleEndian.Uint64(items)&hashMask)]++
	}
	next := 0
	for home, n := range f.starts {
		at := max(next, home)
		f.starts[home] = uint32(at)
		if next = at + int(n); n > 0 && (next > h.all || h.kept < 7 && next-1-home > maxFar) {
			return false
		}
	}
	return true
}

// itemOf reads what builder.add wrote.
func itemOf(b []byte) item {
	it := item{hash: binary.LittleEndian.Uint64(b) & hashMask, ref: Ref(binary.LittleEndian.Uint64(b[len(b)-8:]))}
	if len(b) == rawBytes[1] {
		it.second = binary.LittleEndian.Uint64(b[7:])
	}
	return it
}

// readers is how many files are read at one time: on an object store a read waits
// for answers.
func readers(files int) int { return min(files, max(4, runtime.GOMAXPROCS(0))) }

// build fills the empty index with the live rows of files.
func (w *Writer) build(ctx context.Context, s *schema.Schema, files []*action.Add) error {
	b := &builder{x: w.index}
	defer func() { // what is left after an error
		for kind := range b.shards {
			for i := range b.shards[kind] {
				b.shards[kind][i].free()
			}
		}
	}()
	segments := make([]*segment, len(files))
	for i, add := range files {
		var err error
		if segments[i], err = w.newSegment(add, -1, nil); err != nil {
			return err
		}
	}
	var told sync.Mutex
	done := 0
	tell := func(n int) {
		told.Lock()
		defer told.Unlock()
		if done += n; w.o.Progress != nil {
			w.o.Progress(done, len(files))
		}
	}
	tell(0)
	whole := ctx // of the files, which stay open
	err := parallel(ctx, readers(len(files)), len(files), func() func(context.Context, int) error {
		st := &stage{b: b}
		return func(ctx context.Context, i int) error {
			seg := segments[i]
			if err := w.openSegment(whole, seg); err != nil {
				return err
			}
			done, err := w.stageInts(ctx, s, seg, st)
			if !done && err == nil {
				err = w.stageKeys(ctx, s, seg, st)
			}
			st.flush()
			if err == nil {
				tell(1)
			}
			return err
		}
	})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var twice duplicate
	err = parallel(ctx, runtime.GOMAXPROCS(0), 2*256, func() func(context.Context, int) error {
		f := &filler{b: b}
		return func(_ context.Context, i int) error {
			f.fill(i/256, i%256, func(d duplicate) {
				mu.Lock()
				defer mu.Unlock()
				if twice == (duplicate{}) || d[1] < twice[1] {
					twice = d
				}
			})
			return nil
		}
	})
	if err == nil && twice != (duplicate{}) {
		err = w.liveTwice(ctx, s, twice)
	}
	return err
}

// parallel calls what begin gives with the numbers below n, on some goroutines, until
// one fails. A panic of one of them becomes the caller's.
func parallel(ctx context.Context, goroutines, n int, begin func() func(context.Context, int) error) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var next atomic.Int64
	var panicked atomic.Value
	var all sync.WaitGroup
	for range min(goroutines, n) {
		all.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					panicked.Store(fmt.Sprintf("%v\n%s", p, debug.Stack()))
					fail(errors.New("another reader has panicked"))
				}
			}()
			work := begin()
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := work(ctx, i); err != nil {
					fail(err)
				}
			}
		})
	}
	all.Wait()
	if p := panicked.Load(); p != nil {
		panic(p) // on the caller's goroutine, which may know what to do
	}
	return context.Cause(ctx)
}

// liveTwice is the error of a key that two live rows have.
func (w *Writer) liveTwice(ctx context.Context, s *schema.Schema, d duplicate) error {
	d[0], d[1] = w.at(d[0]), w.at(d[1])
	one, other := w.segments[d[0].Segment()], w.segments[d[1].Segment()]
	columns, fixed, err := w.keyColumns(s, other)
	if err != nil {
		return err
	}
	f, err := w.open(ctx, other)
	if err != nil {
		return err
	}
	rows, err := f.Rows(ctx, columns, []int64{int64(d[1].Row())})
	if err != nil {
		return fmt.Errorf("read %s: %w", other.key, err)
	}
	for c := range columns {
		if fixed[c] != nil {
			rows[0][c] = *fixed[c]
		}
	}
	return fmt.Errorf("%w: key %s, in %s row %d and in %s row %d: delete one of the rows", ErrDuplicateKey,
		keyText(columns, rows[0]), one.key, d[0].Row(), other.key, d[1].Row())
}

// openSegment reads the deletion vector and the footer of a segment that was just
// registered. It may be called for several segments at once. The file is read under ctx as
// long as it is kept open.
func (w *Writer) openSegment(ctx context.Context, s *segment) (err error) {
	if s.dead, err = delta.ReadDeletionVector(ctx, w.store, s.add); err != nil {
		return err
	}
	f, err := openFile(ctx, w.store, s.key, s.add.Size)
	if err != nil {
		return err
	}
	if s.rows = f.NumRows(); s.rows > 1<<32-1 {
		return fmt.Errorf("%w: %s has %d rows, more than a file may have", ErrInconsistent, s.key, s.rows)
	}
	s.bare = true
	for _, c := range f.Columns() {
		s.bare = s.bare && w.hidden(c.Name) < 0
	}
	w.remember(s, f)
	return nil
}
