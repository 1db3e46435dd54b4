package drift

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"

	"github.com/gscd-io/gscd/delta/selfsum"
	"github.com/gscd-io/gscd/format"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/snapshotter"
)

// Folder is where held files lie below a table's root.
const Folder = "_delta_log/_gscd/held/"

// ErrCorrupt is wrapped by errors about held files that can't be read.
var ErrCorrupt = errors.New("held file is corrupt")

// File is a held file as a commit's progress names it.
type File struct {
	Key string `json:"key"`
	// Group is the number of the commit that wrote it; larger is later.
	Group int64 `json:"group"`
	// Label is that of the entries; ignored where Load is set.
	Label snapshotter.Label `json:"label"`
	Load  *LoadID           `json:"load,omitempty"`
	// Count entries are in the file, the first Applied of them are applied.
	Count   int64 `json:"count"`
	Applied int64 `json:"applied,omitempty"`
	Bytes   int64 `json:"bytes"`
}

// LoadID names a load: its line, by number, and its position.
type LoadID struct {
	Line     int32           `json:"line"`
	Position change.Position `json:"position"`
}

// Entry is one held record and how it was judged.
type Entry struct {
	Record *change.Record
	Kind   snapshotter.Kind
	Meta   snapshotter.Meta
	// Label is the label that it waits for, where Load is nil.
	Label snapshotter.Label
	Load  *LoadID
	// Sequence is its place among everything taken by the commit's batch.
	Sequence int64
}

// magic begins every held file, before compression.
const (
	magicName = "gscd held"
	version   = 1
)

var magic = fmt.Appendf(nil, "%s %d\n", magicName, version)

// maxEntry bounds what a length in a file may claim.
const maxEntry = 256 << 20

// maxWindow bounds what the header of a packed file may claim; ours claim 4 MiB.
const maxWindow = 64 << 20

func encode(entries []*Entry) ([]byte, error) {
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(magic); err != nil {
		return nil, err
	}
	var body, head []byte
	for _, e := range entries {
		body = appendEntry(body[:0], e)
		head = binary.AppendUvarint(head[:0], uint64(len(body)))
		if _, err := z.Write(head); err != nil {
			return nil, err
		}
		if _, err := z.Write(body); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return selfsum.AppendFrame(out.Bytes()), nil
}

func appendEntry(b []byte, e *Entry) []byte {
	m, r := &e.Meta, e.Record
	for _, n := range [...]int64{
		e.Sequence, int64(e.Kind), int64(e.Label), int64(m.Partition), m.Offset, int64(m.Line),
		m.Position.File, m.Position.Pos, int64(m.Position.Row), flag(m.HasPosition), int64(m.Rank), m.Time,
		int64(r.Partition), r.Timestamp,
	} {
		b = binary.AppendVarint(b, n)
	}
	b = appendBytes(b, []byte(r.Topic))
	b = appendBytes(b, r.Key)
	b = appendBytes(b, r.Value)
	b = binary.AppendUvarint(b, uint64(len(r.Headers)))
	for _, h := range r.Headers {
		b = appendBytes(b, []byte(h.Key))
		b = appendBytes(b, h.Value)
	}
	if r.Row != 0 {
		b = binary.AppendVarint(b, int64(r.Row))
	}
	return b
}

func flag(set bool) int64 {
	if set {
		return 1
	}
	return 0
}

// appendBytes writes nil as length 0 and others as length+1, so that an empty
// value stays apart from none.
func appendBytes(b, p []byte) []byte {
	if p == nil {
		return binary.AppendUvarint(b, 0)
	}
	return append(binary.AppendUvarint(b, uint64(len(p))+1), p...)
}

// scanner reads the entries of one file.
type scanner struct {
	file File
	z    *zstd.Decoder
	r    *byteReader
	seen int64
}

// byteReader gives a decoder the two interfaces that varints and blocks need.
type byteReader struct {
	io.Reader
	one [1]byte
}

func (b *byteReader) ReadByte() (byte, error) {
	_, err := io.ReadFull(b.Reader, b.one[:])
	return b.one[0], err
}

func newScanner(file File, data []byte) (*scanner, error) {
	if _, err := selfsum.Zstd.Check(data); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, file.Key, err)
	}
	z, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(512<<20), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, file.Key, err)
	}
	s := &scanner{file: file, z: z, r: &byteReader{Reader: z}}
	got := make([]byte, len(magic))
	_, err = io.ReadFull(s.r, got)
	if _, _, newer := format.CheckHead("held file "+file.Key, got, magicName, version); newer != nil {
		z.Close()
		return nil, newer
	}
	if err != nil || !bytes.Equal(got, magic) {
		z.Close()
		return nil, fmt.Errorf("%w: %s does not begin as one", ErrCorrupt, file.Key)
	}
	return s, nil
}

// next gives the next entry, nil behind the last.
func (s *scanner) next() (*Entry, error) {
	if s.seen == s.file.Count {
		return nil, nil
	}
	n, err := binary.ReadUvarint(s.r)
	if err != nil || n > maxEntry {
		return nil, fmt.Errorf("%w: %s ends behind entry %d of %d", ErrCorrupt, s.file.Key, s.seen, s.file.Count)
	}
	// Read in steps, so that a length that lies costs no memory.
	var body bytes.Buffer
	if _, err := io.CopyN(&body, s.r, int64(n)); err != nil {
		return nil, fmt.Errorf("%w: %s: entry %d is cut off: %w", ErrCorrupt, s.file.Key, s.seen, err)
	}
	e, err := parseEntry(body.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%w: %s: entry %d: %w", ErrCorrupt, s.file.Key, s.seen, err)
	}
	e.Load = s.file.Load
	s.seen++
	return e, nil
}

func (s *scanner) close() { s.z.Close() }

var errShort = errors.New("cut off")

func parseEntry(b []byte) (*Entry, error) {
	var n [14]int64
	for i := range n {
		v, size := binary.Varint(b)
		if size <= 0 {
			return nil, errShort
		}
		n[i], b = v, b[size:]
	}
	e := &Entry{Sequence: n[0], Kind: snapshotter.Kind(n[1]), Label: snapshotter.Label(n[2])}
	e.Meta = snapshotter.Meta{
		Partition: int32(n[3]), Offset: n[4], Line: int32(n[5]),
		Position:    change.Position{File: n[6], Pos: n[7], Row: int32(n[8])},
		HasPosition: n[9] == 1, Rank: snapshotter.Rank(n[10]), Time: n[11],
	}
	r := &change.Record{Partition: int32(n[12]), Offset: n[4], Timestamp: n[13]}
	var topic []byte
	for _, p := range []*[]byte{&topic, &r.Key, &r.Value} {
		var err error
		if *p, b, err = takeBytes(b); err != nil {
			return nil, err
		}
	}
	r.Topic = string(topic)
	headers, size := binary.Uvarint(b)
	if size <= 0 || headers > uint64(len(b)) {
		return nil, errShort
	}
	b = b[size:]
	for range headers {
		var key, value []byte
		var err error
		if key, b, err = takeBytes(b); err != nil {
			return nil, err
		}
		if value, b, err = takeBytes(b); err != nil {
			return nil, err
		}
		r.Headers = append(r.Headers, change.Header{Key: string(key), Value: value})
	}
	if len(b) > 0 { // a further row of a record of several
		row, size := binary.Varint(b)
		if size <= 0 || row < 0 || row > math.MaxInt32 {
			return nil, errShort
		}
		r.Row = int32(row)
	}
	e.Record, r.Stored = r, true
	return e, nil
}

func takeBytes(b []byte) (p, rest []byte, err error) {
	n, size := binary.Uvarint(b)
	if size <= 0 {
		return nil, nil, errShort
	}
	b = b[size:]
	if n == 0 {
		return nil, b, nil
	}
	if n-1 > uint64(len(b)) {
		return nil, nil, errShort
	}
	return b[: n-1 : n-1], b[n-1:], nil
}
