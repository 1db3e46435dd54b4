package recording

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/gscd-io/gscd/ingest/change"
)

// file is one file of the recording in plain form.
type file struct {
	name string // as given, for messages
	f    *os.File
	temp string // path of a temporary file still to be removed, empty for none
	// otherEnds tells that some line ends with something else than its value.
	otherEnds bool
}

func (f *file) close() error {
	err := f.f.Close()
	if f.temp != "" {
		err = errors.Join(err, os.Remove(f.temp))
	}
	return err
}

// openFile opens name; what is compressed (by its first bytes, not its name)
// or can't be read at any place (a pipe) is unpacked into a temporary file.
func openFile(name, tempDir string) (*file, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder, name the files in it", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	in := bufio.NewReaderSize(f, 256<<10)
	unpacked, err := unpack(in)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("unpack %s: %w", name, err), f.Close())
	}
	if unpacked == nil && info.Mode().IsRegular() {
		return &file{name: name, f: f}, nil
	}
	defer f.Close()
	if unpacked == nil {
		unpacked = io.NopCloser(in)
	}
	defer unpacked.Close()
	temp, err := os.CreateTemp(tempDir, "gscd-recording-*.jsonl")
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", name, err)
	}
	out := &file{name: name, f: temp, temp: temp.Name()}
	// Where the system lets an open file be removed, a crash leaves nothing behind.
	if os.Remove(out.temp) == nil {
		out.temp = ""
	}
	bound := max(unpackedFree, info.Size()*unpackedRatio)
	if !info.Mode().IsRegular() {
		bound = math.MaxInt64 - 1 // of a pipe the size is not known
	}
	n, err := io.Copy(temp, io.LimitReader(unpacked, bound+1))
	if err == nil && n > bound {
		err = fmt.Errorf("%w: it grows to more than %d bytes, %d times its size: no recording does; unpack it by hand if it is one", ErrBomb, bound, unpackedRatio)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("unpack %s: %w", name, err), out.close())
	}
	return out, nil
}

// ErrBomb is wrapped where a compressed file would fill the disk.
var ErrBomb = errors.New("the compressed file is not plausible")

// A compressed file may grow to so many times its size, and to so many bytes in any case.
const unpackedRatio = 500

var unpackedFree int64 = 256 << 20

// maxWindow is what zstd may look back; its strongest usual level needs 128 MiB.
const maxWindow = 128 << 20

// unpack gives nil for what is not compressed. Several gzip members or zstd
// frames in a row are one stream.
func unpack(in *bufio.Reader) (io.ReadCloser, error) {
	magic, err := in.Peek(4)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(in)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		d, err := zstd.NewReader(in, zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return nil, nil
}

// indexer reads the files once from the front and makes the index.
type indexer struct {
	topic  []byte          // of lines that name none
	wanted map[string]bool // nil: every topic
	parts  map[string]map[int32]*partition
	files  []*file
	maxTs  int64
}

func (x *indexer) read(n int) error {
	in := bufio.NewReaderSize(x.files[n].f, 256<<10)
	var long []byte
	var pos int64
	for number := int64(1); ; number++ {
		b, err := in.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			long = append(long[:0], b...)
			for err == bufio.ErrBufferFull {
				b, err = in.ReadSlice('\n')
				long = append(long, b...)
			}
			b = long
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("read %s: %w", x.files[n].name, err)
		}
		if len(bytes.TrimSpace(b)) > 0 {
			if err := x.line(n, number, pos, b); err != nil {
				return fmt.Errorf("%s line %d: %w", x.files[n].name, number, err)
			}
		}
		if err == io.EOF {
			return nil
		}
		pos += int64(len(b))
	}
}

func (x *indexer) line(n int, number, pos int64, b []byte) error {
	var l line
	if err := l.parse(b, false, false); err != nil {
		return err
	}
	if err := l.check(); err != nil {
		return err
	}
	x.files[n].otherEnds = x.files[n].otherEnds || !l.valueEnds
	if l.topic == nil {
		if len(x.topic) == 0 {
			return errors.New(`the line has no "topic": name the topic that the recording is of`)
		}
		l.topic = x.topic
	}
	if x.wanted != nil && !x.wanted[string(l.topic)] {
		return nil
	}
	byNumber := x.parts[string(l.topic)]
	if byNumber == nil {
		byNumber = make(map[int32]*partition)
		x.parts[string(l.topic)] = byNumber
	}
	p := byNumber[l.partition]
	if p == nil {
		p = &partition{id: change.PartitionID{Topic: string(l.topic), Partition: l.partition}}
		byNumber[l.partition] = p
	} else if l.offset < p.index.end() {
		return fmt.Errorf("topic %s partition %d: offset %d comes behind offset %d (%s line %d): offsets must rise; give the files in their order, without overlap",
			p.id.Topic, p.id.Partition, l.offset, p.index.last.offset, x.files[p.index.last.file].name, p.lastLine)
	}
	p.index.add(lineRef{file: n, pos: pos, length: len(b), offset: l.offset})
	p.lastLine = number
	x.maxTs = max(x.maxTs, l.ts)
	return nil
}

// sorted gives the partitions by topic and number.
func (x *indexer) sorted() []*partition {
	var out []*partition
	for _, topic := range slices.Sorted(maps.Keys(x.parts)) {
		for _, number := range slices.Sorted(maps.Keys(x.parts[topic])) {
			out = append(out, x.parts[topic][number])
		}
	}
	return out
}
