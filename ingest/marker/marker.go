// Package marker remembers where keys were deleted: for the open label and the
// last two sealed ones, an older change or read that comes on another way must
// not bring a deleted row back.
//
// Nouns: Set (the markers in memory, by label), file (the markers of one or
// more commits, beside the log).
//
// Invariants:
//
//  1. A marker is written with the commit that deletes the row; a file is
//     complete before a commit names it, and never changed after.
//  2. A key that is live in the table has no marker that counts.
//  3. Markers of a label are known while it is open and for the two sealed
//     labels after it; then they are forgotten, in memory and in the progress.
package marker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/selfsum"
	"github.com/gscd-io/gscd/format"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/snapshotter"
)

// Folder is where marker files lie below a table's root.
const Folder = "_delta_log/_gscd/markers/"

// KeptLabels is how many sealed labels before the open one keep their markers.
const KeptLabels = 2

// ErrCorrupt is wrapped by errors about marker files that can't be read.
var ErrCorrupt = errors.New("marker file is corrupt")

// Set is the markers that are known, one a key. Not safe for concurrent use.
type Set struct {
	keys map[string]marked
	seen filter
	// log has the markers of label, the newest that there are files of, in the order of
	// these files: as many as the files have together. Those that count no longer are in it too.
	log   []logged
	label snapshotter.Label
	puts  int64
}

type marked struct {
	meta  snapshotter.Meta
	label snapshotter.Label
	put   int64
}

// logged is a marker in the log; it counts while put is that of its key.
type logged struct {
	key string
	put int64
}

// NewSet makes an empty set.
func NewSet() *Set { return &Set{keys: map[string]marked{}} }

// Get gives where a key was deleted, if that is known while open is the open label.
func (s *Set) Get(key string, open snapshotter.Label) (snapshotter.Meta, bool) {
	if !s.seen.mayHave(key) {
		return snapshotter.Meta{}, false
	}
	m, ok := s.keys[key]
	if !ok || m.label > open || m.label < open-KeptLabels {
		return snapshotter.Meta{}, false
	}
	return m.meta, true
}

// put remembers a delete made in a label; an older marker of the key goes. key is copied: it
// may lie in a batch's memory, which must not live as long.
func (s *Set) put(key string, label snapshotter.Label, m snapshotter.Meta) {
	if label != s.label {
		s.log, s.label = nil, label
	}
	key = strings.Clone(key)
	s.puts++
	s.keys[key] = marked{m, label, s.puts}
	s.log = append(s.log, logged{key, s.puts})
	if !s.seen.add(key) {
		s.seen = newFilter(2 * len(s.keys))
		for k := range s.keys {
			s.seen.add(k)
		}
	}
}

// Delete forgets a key: it is live again.
func (s *Set) Delete(key string) {
	if s.seen.mayHave(key) {
		delete(s.keys, key)
	}
}

// All gives every key with where it was deleted, in no order.
func (s *Set) All() iter.Seq2[string, snapshotter.Meta] {
	return func(yield func(string, snapshotter.Meta) bool) {
		for key, m := range s.keys {
			if !yield(key, m.meta) {
				return
			}
		}
	}
}

// Len is the number of markers.
func (s *Set) Len() int { return len(s.keys) }

// Prune forgets the markers that no longer count under the open label, and
// gives the files that still do.
func (s *Set) Prune(files []progress.MarkerFile, open snapshotter.Label) []progress.MarkerFile {
	maps.DeleteFunc(s.keys, func(_ string, m marked) bool { return m.label < open-KeptLabels })
	return slices.DeleteFunc(slices.Clone(files), func(f progress.MarkerFile) bool { return f.Label < open-KeptLabels })
}

// Added is a marker of the batch that is being written.
type Added struct {
	Key  string
	Meta snapshotter.Meta
}

// Plan is the markers of a commit, to be stored: the set may change meanwhile.
type Plan struct {
	files []progress.MarkerFile // those that stay
	label snapshotter.Label
	added []Added // the commit's own, behind those of files that become one with it
}

// Plan takes the markers of a commit in the open label, one a key, into the set, and says what
// the commit stores; files are those of the progress before it. added is the Plan's from here on.
func (s *Set) Plan(files []progress.MarkerFile, label snapshotter.Label, added []Added) Plan {
	for _, a := range added {
		s.put(a.Key, label, a.Meta)
	}
	p := Plan{files: files, label: label, added: added}
	from, n := mergedFrom(files, label, int64(len(added)))
	if len(added) == 0 || from == len(files) {
		return p
	}
	if n > int64(len(s.log)) {
		return p // files that the set does not know of: they are left alone
	}
	tail := s.log[int64(len(s.log))-n:]
	p.files, p.added = files[:from:from], make([]Added, 0, len(tail))
	counts := tail[:0]
	for _, l := range tail {
		if m, ok := s.keys[l.key]; ok && m.put == l.put {
			p.added = append(p.added, Added{l.key, m.meta})
			counts = append(counts, l)
		}
	}
	clear(tail[len(counts):])
	s.log = s.log[:len(s.log)-len(tail)+len(counts)]
	return p
}

// fan is how many files of about one size become one. A label's files have sizes that fall, the
// newest last, so a marker is written once more each time that its file grows fan times, and
// there are fewer than fan files of each size.
const fan = 4

// level is the size of a file, in powers of fan.
func level(count int64) int { return bits.Len64(uint64(count)) / 2 }

// mergedFrom gives the first of a label's newest files that become one with n markers more, and
// how many markers they are together: files smaller than what comes, and fan of its size.
func mergedFrom(files []progress.MarkerFile, label snapshotter.Label, n int64) (int, int64) {
	from := len(files)
	for {
		size, same := level(n), 0
		smaller, all := from, from
		fewer, sum := n, n
		for all > 0 && files[all-1].Label == label && level(files[all-1].Count) <= size {
			all--
			sum += files[all].Count
			if level(files[all].Count) == size {
				same++
			} else if same == 0 {
				smaller, fewer = all, sum
			}
		}
		switch {
		case same >= fan-1:
			from, n = all, sum
		case smaller < from:
			from, n = smaller, fewer
		default:
			return from, n
		}
	}
}

// Write stores the markers and gives the list of files for the progress of the commit.
func (p Plan) Write(ctx context.Context, store objstore.Store) ([]progress.MarkerFile, error) {
	if len(p.added) == 0 {
		return p.files, nil
	}
	data, err := encode(p.added)
	if err != nil {
		return nil, fmt.Errorf("encode delete markers: %w", err)
	}
	f := progress.MarkerFile{Key: Folder + uuid.NewString() + ".zst", Label: p.label, Count: int64(len(p.added)), Bytes: int64(len(data))}
	if err := store.Put(ctx, f.Key, data); err != nil {
		return nil, fmt.Errorf("write delete markers: %w", err)
	}
	return append(slices.Clone(p.files), f), nil
}

// Load reads the files of a progress into a new set. The error names the file.
func Load(ctx context.Context, store objstore.Store, files []progress.MarkerFile) (*Set, error) {
	s := NewSet()
	for _, f := range files {
		data, err := store.Get(ctx, f.Key)
		if err != nil {
			return nil, fmt.Errorf("read delete markers: %w", err)
		}
		added, err := decode(data, f.Count)
		if errors.Is(err, format.ErrNewer) {
			return nil, fmt.Errorf("%s: %w", f.Key, err)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, f.Key, err)
		}
		for _, a := range added {
			s.put(a.Key, f.Label, a.Meta)
		}
	}
	return s, nil
}

// A file may unpack to so many bytes a byte, and to freeBytes in any case: a damaged one says any
// size, and that is allocated at once.
const (
	maxRatio  = 1 << 12
	freeBytes = 16 << 20
)

// What a file begins with, before compression.
const (
	magicName = "gscd markers"
	version   = 1
)

var magic = fmt.Appendf(nil, "%s %d\n", magicName, version)

// encoder is one for all: its window alone takes megabytes.
var encoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
})

func encode(added []Added) ([]byte, error) {
	z, err := encoder()
	if err != nil {
		return nil, err
	}
	b := slices.Clone(magic)
	for _, a := range added {
		b = binary.AppendUvarint(b, uint64(len(a.Key)))
		b = append(b, a.Key...)
		m := a.Meta
		has := int64(0)
		if m.HasPosition {
			has = 1
		}
		for _, n := range [...]int64{int64(m.Partition), m.Offset, int64(m.Line), m.Position.File, m.Position.Pos, int64(m.Position.Row), has, int64(m.Rank), m.Time} {
			b = binary.AppendVarint(b, n)
		}
	}
	return selfsum.AppendFrame(z.EncodeAll(b, nil)), nil
}

func decode(data []byte, count int64) ([]Added, error) {
	if _, err := selfsum.Zstd.Check(data); err != nil {
		return nil, err
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(max(freeBytes, uint64(len(data))*maxRatio)))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	b, err := z.DecodeAll(data, nil)
	if err != nil {
		return nil, err
	}
	b, ok, err := format.CheckHead("the marker file", b, magicName, version)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errors.New("does not begin as one")
	}
	var out []Added
	for len(b) > 0 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return nil, io.ErrUnexpectedEOF
		}
		key := string(b[size : size+int(n)])
		b = b[size+int(n):]
		var v [9]int64
		for i := range v {
			x, size := binary.Varint(b)
			if size <= 0 {
				return nil, io.ErrUnexpectedEOF
			}
			v[i], b = x, b[size:]
		}
		out = append(out, Added{key, snapshotter.Meta{
			Partition: int32(v[0]), Offset: v[1], Line: int32(v[2]),
			Position:    change.Position{File: v[3], Pos: v[4], Row: int32(v[5])},
			HasPosition: v[6] == 1, Rank: snapshotter.Rank(v[7]), Time: v[8],
		}})
	}
	if int64(len(out)) != count {
		return nil, fmt.Errorf("%d markers, the progress says %d", len(out), count)
	}
	return out, nil
}
