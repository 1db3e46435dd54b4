package binlog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-mysql-org/go-mysql/replication"
)

// Log gives the events of a log one by one, raw: header, body and checksum. At its
// end it gives io.EOF. The bytes are the caller's.
//
// A replication.BinlogSyncer in raw mode is one: GetEvent's RawData. Each file
// begins with a ROTATE event that names it, as a server sends it.
type Log interface {
	Next(ctx context.Context) ([]byte, error)
}

const (
	headerSize = replication.EventHeaderSize
	// maxEvent bounds an event: max_allowed_packet is at most 1 GiB.
	maxEvent = 1<<30 + 1<<16
)

// Files is a Log of binlog files, read in the order given, plain or gzip. Close it.
type Files struct {
	names []string
	next  int // of names

	file  *os.File
	in    io.Reader
	name  string // the log file's name
	at    uint64
	ended bool   // the file has said that it ends
	after string // the file that it says comes behind it
}

// OpenFiles prepares to read files; they are opened one by one.
func OpenFiles(names ...string) *Files { return &Files{names: names} }

// Close closes the file that is open.
func (f *Files) Close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}

var magic = []byte{0xfe, 'b', 'i', 'n'}

// open opens the next file and gives the event that names it.
func (f *Files) open() ([]byte, error) {
	path := f.names[f.next]
	f.next++
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	f.file, f.name, f.at, f.ended = file, filepath.Base(path), 4, false
	in := bufio.NewReaderSize(file, 1<<16)
	f.in = in
	if head, err := in.Peek(2); err == nil && head[0] == 0x1f && head[1] == 0x8b {
		f.name = strings.TrimSuffix(f.name, ".gz")
		if f.in, err = gzip.NewReader(in); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(f.in, head); err != nil || !bytes.Equal(head, magic) {
		return nil, fmt.Errorf("%s: %w", path, corrupt("no binlog file: it does not begin with fe 62 69 6e"))
	}
	if f.after != "" && f.after != f.name {
		return nil, fmt.Errorf("%w: %s should come next, %s was given", ErrGap, f.after, path)
	}
	f.after = ""
	return rotateTo(f.name), nil
}

// rotateTo makes the event that a server sends before those of a file.
func rotateTo(name string) []byte {
	raw := make([]byte, headerSize+8, headerSize+8+len(name))
	raw[4] = byte(replication.ROTATE_EVENT)
	binary.LittleEndian.PutUint32(raw[9:], uint32(headerSize+8+len(name)))
	binary.LittleEndian.PutUint16(raw[17:], replication.LOG_EVENT_ARTIFICIAL_F)
	binary.LittleEndian.PutUint64(raw[headerSize:], 4)
	return append(raw, name...)
}

// Next implements Log.
func (f *Files) Next(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if f.file == nil {
		if f.next == len(f.names) {
			return nil, io.EOF
		}
		return f.open()
	}
	raw, err := readEvent(f.in)
	switch {
	case err == io.EOF:
		if err := f.Close(); err != nil {
			return nil, err
		}
		return f.Next(ctx)
	case err != nil:
		return nil, &Error{File: f.name, Pos: f.at, Err: err}
	}
	f.at += uint64(len(raw))
	if replication.EventType(raw[4]) == replication.ROTATE_EVENT && len(raw) > headerSize+8 {
		// The name may have a checksum behind it.
		f.after = nextName(raw)
	}
	return raw, nil
}

// nextName is the name that a ROTATE event of a file gives.
func nextName(raw []byte) string {
	name := raw[headerSize+8:]
	if n := len(name) - checksumSize; n > 0 && checksumFits(raw) {
		name = name[:n]
	}
	return string(name)
}

// readEvent reads one event. The memory that it takes follows the bytes that are
// there, not the length that is declared.
func readEvent(in io.Reader) ([]byte, error) {
	head := make([]byte, headerSize, 512)
	if n, err := io.ReadFull(in, head); err != nil {
		if err == io.EOF {
			return nil, err
		}
		return nil, readFault(err, "the header of an event has %d bytes, not %d", n, headerSize)
	}
	size := int64(binary.LittleEndian.Uint32(head[9:]))
	switch {
	case size < headerSize:
		return nil, corrupt("an event of %d bytes", size)
	case size > maxEvent:
		return nil, corrupt("an event of %d bytes: there are none over 1 GiB", size)
	case size <= 1<<20:
		raw := append(make([]byte, 0, size), head...)[:size]
		if n, err := io.ReadFull(in, raw[headerSize:]); err != nil {
			return nil, readFault(err, "an event has %d bytes, not %d", headerSize+n, size)
		}
		return raw, nil
	}
	buf := bytes.NewBuffer(head)
	if n, err := io.CopyN(buf, in, size-headerSize); err != nil {
		return nil, readFault(err, "an event has %d bytes, not %d", headerSize+n, size)
	}
	return buf.Bytes(), nil
}

func readFault(err error, format string, args ...any) error {
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %s", ErrCut, fmt.Sprintf(format, args...))
	}
	return err
}
