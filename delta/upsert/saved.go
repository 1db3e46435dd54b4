package upsert

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/schema"
)

// A saved index is a file on local disk that spares the reading of the key columns at
// the next start. It is never the truth: a file that differs in one bit, is of another
// table, key or format, or does not fit the log, is as good as none.
//
//	magic
//	length of the header, 8 bytes
//	header: JSON, savedHeader
//	deletion vectors of its files, one behind the other
//	SHA-256 of all that
//	512 sections, shards of integers and of others, each:
//	    number of keys, 8 bytes
//	    keys in order: 7 bytes of the hash, 8 more of others than integers, the Ref
//	    SHA-256 of the header's sum, the section's number, and its bytes
//
// It may be written while commits go on: a section tells how its shard was at some time
// since the header's version. That is enough, because all files added since are read,
// and rows that have ended since are told by the log.
//
// The digit at the end of savedMagic is the version of the format.
const savedMagic = "gscdidx1"

type savedHeader struct {
	Table   string      `json:"table"`
	Version int64       `json:"version"`
	Key     []string    `json:"key"`
	Hash    [2]uint64   `json:"hash"`
	Files   []savedFile `json:"files"`
}

type savedFile struct {
	ID     uint32                 `json:"id"`
	Path   string                 `json:"path"`
	Size   int64                  `json:"size"`
	Rows   int64                  `json:"rows"`
	Bare   bool                   `json:"bare,omitempty"`
	Vector *action.DeletionVector `json:"vector,omitempty"`
	// Dead is the length of the deletion vector behind the header.
	Dead int64 `json:"dead,omitempty"`
}

// errSaved is wrapped by what is wrong with a saved index.
var errSaved = errors.New("the saved index is of no use")

// keyForm tells what keys of the index are made of.
func (w *Writer) keyForm(s *schema.Schema) ([]string, error) {
	columns, _, err := w.keyColumns(s, &segment{add: &action.Add{}})
	if err != nil {
		return nil, err
	}
	var out []string
	for i, c := range columns {
		out = append(out, fmt.Sprintf("%s %s %d %s", w.o.Key[i], c.Name, c.FieldID, c.Type))
	}
	return append(out, "tags of "+strings.Join(w.o.TagColumns, " ")), nil
}

// Saving is an index that is being saved.
type Saving struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// Done is closed when it has ended.
func (s *Saving) Done() <-chan struct{} { return s.done }

// Wait gives nil once the file is there whole. Where ctx ends before it gives up.
func (s *Saving) Wait(ctx context.Context) error {
	select {
	case <-s.done:
	case <-ctx.Done():
		s.cancel()
		<-s.done
	}
	return s.err
}

// Save begins to write the index to a file, which takes the place of one that is there;
// snap is the version that the Writer stands at. It goes on beside the Writer's work:
// nothing but Applied and Follow waits, for a shard at a time.
func (w *Writer) Save(ctx context.Context, path string, snap *delta.Snapshot) (*Saving, error) {
	h := savedHeader{Table: snap.Metadata().ID, Version: snap.Version(), Hash: w.index.key}
	var err error
	if h.Key, err = w.keyForm(snap.Schema()); err != nil {
		return nil, err
	}
	var vectors []byte
	for id, s := range w.segments {
		f := savedFile{ID: id, Path: s.add.Path, Size: s.add.Size, Rows: s.rows, Bare: s.bare, Vector: s.add.DeletionVector}
		if s.dead != nil {
			dead := s.dead.Marshal()
			f.Dead = int64(len(dead))
			vectors = append(vectors, dead...)
		}
		h.Files = append(h.Files, f)
	}
	header, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("save the key index: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &Saving{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		defer cancel()
		defer func() {
			if p := recover(); p != nil {
				s.err = fmt.Errorf("save the key index: panic: %v", p)
			}
		}()
		if s.err = w.save(ctx, path, header, vectors); s.err != nil {
			s.err = fmt.Errorf("save the key index: %w", s.err)
		}
	}()
	return s, nil
}

func (w *Writer) save(ctx context.Context, path string, header, vectors []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	name := path + ".tmp"
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(name)
		}
	}()
	out := bufio.NewWriterSize(f, 1<<20)
	head := binary.LittleEndian.AppendUint64([]byte(savedMagic), uint64(len(header)))
	head = append(append(head, header...), vectors...)
	sum := sha256.Sum256(head)
	_, _ = out.Write(head) // Flush tells
	_, _ = out.Write(sum[:])
	var buf []byte
	for number := range 2 * 256 {
		if err := ctx.Err(); err != nil {
			return err
		}
		buf = w.section(buf[:0], number)
		of := sectionSum(sum, number, buf)
		_, _ = out.Write(buf)
		if _, err := out.Write(of[:]); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(name, path)
}

func sectionSum(header [sha256.Size]byte, number int, section []byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	_, _ = h.Write(header[:])
	_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(number)))
	_, _ = h.Write(section)
	h.Sum(sum[:0])
	return sum
}

// section appends the keys of a shard as a file has them.
func (w *Writer) section(buf []byte, number int) []byte {
	w.changing.Lock()
	defer w.changing.Unlock()
	t := &w.index.ints
	if number >= 256 {
		t = &w.index.hashes
	}
	h := &t.shards[number%256]
	buf = binary.LittleEndian.AppendUint64(buf, uint64(h.n))
	h.each(func(it item) bool {
		buf = binary.LittleEndian.AppendUint64(buf, it.hash)[:len(buf)+7]
		if t.second {
			buf = binary.LittleEndian.AppendUint64(buf, it.second)
		}
		buf = binary.LittleEndian.AppendUint64(buf, uint64(w.at(it.ref))) // where the row lies in the file
		return true
	})
	return buf
}

// openSaved makes the writer of a version from a saved index, and reads the files that
// have come since.
func openSaved(ctx context.Context, w *Writer, snap *delta.Snapshot, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.readSaved(bufio.NewReaderSize(f, 1<<20), info.Size(), snap); err != nil {
		return err
	}
	if err := w.Follow(ctx, snap); err != nil {
		return err
	}
	return w.checkRefs()
}

// readSaved fills the empty writer with what was saved. size is that of the file.
func (w *Writer) readSaved(in io.Reader, size int64, snap *delta.Snapshot) error {
	left := size
	read := func(n int64) ([]byte, error) {
		if n < 0 || n > left {
			return nil, fmt.Errorf("%w: it ends too early", errSaved)
		}
		left -= n
		b := make([]byte, n)
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, fmt.Errorf("%w: %w", errSaved, err)
		}
		return b, nil
	}
	head, err := read(int64(len(savedMagic)) + 8)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(head, []byte(savedMagic)) {
		return fmt.Errorf("%w: it begins with %q, this program's with %q: one of another release is made anew", errSaved, head[:len(savedMagic)], savedMagic)
	}
	raw, err := read(int64(min(binary.LittleEndian.Uint64(head[len(savedMagic):]), 1<<62)))
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, _ = sum.Write(head)
	_, _ = sum.Write(raw)
	var h savedHeader
	if err := json.Unmarshal(raw, &h); err != nil {
		return fmt.Errorf("%w: %w", errSaved, err)
	}
	dead := make([][]byte, len(h.Files))
	for i := range h.Files {
		if dead[i], err = read(h.Files[i].Dead); err != nil {
			return err
		}
		_, _ = sum.Write(dead[i])
	}
	want, err := read(sha256.Size)
	if err != nil {
		return err
	}
	if !bytes.Equal(sum.Sum(nil), want) {
		return fmt.Errorf("%w: its bytes are not those that were written", errSaved)
	}
	form, err := w.keyForm(snap.Schema())
	if err != nil {
		return err
	}
	switch {
	case h.Table != snap.Metadata().ID:
		return fmt.Errorf("%w: it is of table %q", errSaved, h.Table)
	case h.Version > snap.Version():
		return fmt.Errorf("%w: it is of version %d, the table is at %d", errSaved, h.Version, snap.Version())
	case strings.Join(h.Key, "\n") != strings.Join(form, "\n"):
		return fmt.Errorf("%w: its keys are %q", errSaved, h.Key)
	}
	for i, f := range h.Files {
		if err := w.takeSaved(&f, dead[i]); err != nil {
			return err
		}
	}
	w.index.Close()
	w.index = newIndex(0, h.Hash)
	var buf []byte
	for number := range 2 * 256 {
		if buf, err = w.readSection(in, &left, [sha256.Size]byte(want), number, buf); err != nil {
			return err
		}
	}
	if left != 0 {
		return fmt.Errorf("%w: there is more behind its end", errSaved)
	}
	return nil
}

// takeSaved registers a file as it was. Of one of another engine, whose rows have tags
// by what was known of their keys, the rows are read again.
func (w *Writer) takeSaved(f *savedFile, dead []byte) error {
	if f.ID == 0 || f.ID > MaxSegments || w.segments[f.ID] != nil || f.Rows < 0 || f.Rows > 1<<32-1 {
		return fmt.Errorf("%w: file %q has number %d and %d rows", errSaved, f.Path, f.ID, f.Rows)
	}
	key, err := action.Key(f.Path)
	if err != nil {
		return fmt.Errorf("%w: %w", errSaved, err)
	}
	s := &segment{id: f.ID, key: key, rows: f.Rows, bare: f.Bare, add: &action.Add{Path: f.Path, Size: f.Size, DeletionVector: f.Vector}}
	if s.bare {
		s.add.Size = -1
	}
	if len(dead) > 0 {
		if s.dead, err = dv.Unmarshal(dead); err != nil {
			return fmt.Errorf("%w: %w", errSaved, err)
		}
	} else if f.Vector != nil {
		return fmt.Errorf("%w: the deletion vector of %q is missing", errSaved, f.Path)
	}
	w.segments[s.id] = s
	w.last = max(w.last, s.id)
	return nil
}

// readSection fills a shard. Keys of files that came after the header are left out.
func (w *Writer) readSection(in io.Reader, left *int64, header [sha256.Size]byte, number int, buf []byte) ([]byte, error) {
	cut := fmt.Errorf("%w: it ends too early", errSaved)
	t, width := &w.index.ints, rawBytes[0]
	if number >= 256 {
		t, width = &w.index.hashes, rawBytes[1]
	}
	var count [8]byte
	if _, err := io.ReadFull(in, count[:]); err != nil {
		return buf, cut
	}
	n := binary.LittleEndian.Uint64(count[:])
	if n > uint64(*left)/uint64(width) {
		return buf, cut
	}
	size := 8 + int(n)*width
	if *left -= int64(size) + sha256.Size; *left < 0 {
		return buf, cut
	}
	if cap(buf) < size {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	copy(buf, count[:])
	if _, err := io.ReadFull(in, buf[8:]); err != nil {
		return buf, cut
	}
	var want [sha256.Size]byte
	if _, err := io.ReadFull(in, want[:]); err != nil {
		return buf, cut
	}
	if want != sectionSum(header, number, buf) {
		return buf, fmt.Errorf("%w: its bytes are not those that were written", errSaved)
	}
	if n == 0 {
		return buf, nil
	}
	var fault error
	last := uint64(0)
	items := func(yield func(item) bool) {
		for b := buf[8:]; len(b) > 0; b = b[width:] {
			it := item{hash: binary.LittleEndian.Uint64(b) & hashMask, ref: Ref(binary.LittleEndian.Uint64(b[width-8:]))}
			if t.second {
				it.second = binary.LittleEndian.Uint64(b[7:])
			}
			if it.hash < last || it.ref == 0 {
				fault = fmt.Errorf("%w: its keys are out of order", errSaved)
				return
			}
			last = it.hash
			if w.segments[it.ref.Segment()] != nil && !yield(it) {
				return
			}
		}
	}
	h := &t.shards[number%256]
	homes := homesFor(int(n), madeLoad)
	for spill, kept := spillFor(homes), keptFor(homes); ; kept, spill = 7, spill*2 {
		last = 0
		h.make(t.second, homes, spill, kept)
		if h.fill(items) || fault != nil {
			return buf, fault
		}
		h.free()
	}
}

// checkRefs checks that the index has each live row once, and nothing else.
func (w *Writer) checkRefs() (err error) {
	seen := make(map[uint32][]uint64, len(w.segments))
	for id, s := range w.segments {
		seen[id] = make([]uint64, (s.rows+63)/64)
	}
	lastID, rows, bits := uint32(0), int64(0), []uint64(nil)
	w.index.Refs(func(r Ref) bool {
		if id := r.Segment(); id != lastID || bits == nil {
			s := w.segments[id]
			if s == nil {
				err = fmt.Errorf("%w: a key is in file %d, which is not live", errSaved, id)
				return false
			}
			lastID, rows, bits = id, s.rows, seen[id]
		}
		row := int64(r.Row())
		if row >= rows || bits[row/64]>>(row%64)&1 != 0 {
			err = fmt.Errorf("%w: a key is in row %d of file %d", errSaved, row, lastID)
			return false
		}
		bits[row/64] |= 1 << (row % 64)
		return true
	})
	live := int64(0)
	for id, s := range w.segments {
		live += s.rows
		if s.dead == nil {
			continue
		}
		live -= s.dead.Cardinality()
		for row := range s.dead.Rows() {
			if int64(row) >= s.rows || seen[id][row/64]>>(row%64)&1 != 0 {
				return fmt.Errorf("%w: a key is in row %d of %s, which is deleted", errSaved, row, s.key)
			}
		}
	}
	if err == nil && live != int64(w.index.Len()) {
		err = fmt.Errorf("%w: it has %d keys, the files %d rows", errSaved, w.index.Len(), live)
	}
	return err
}

// openFast makes the writer of a version from the saved index. It gives nil where that
// is of no use, whatever is wrong with it.
func openFast(ctx context.Context, store objstore.Store, snap *delta.Snapshot, o Options) (*Writer, error) {
	if o.Saved == "" {
		return nil, nil
	}
	w := New(store, o)
	err := openSaved(ctx, w, snap, o.Saved)
	if err == nil {
		w.o.Was = nil
		if o.Progress != nil {
			o.Progress(0, len(w.segments))
			o.Progress(len(w.segments), len(w.segments))
		}
		return w, nil
	}
	w.index.Close()
	if ctx.Err() != nil {
		return nil, err
	}
	if o.SavedFault != nil && !errors.Is(err, os.ErrNotExist) {
		o.SavedFault(err)
	}
	return nil, nil
}
