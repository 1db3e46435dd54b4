package layout

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gscd-io/gscd/delta/dv"
)

// trail says where the rows of an output came from, in their order: runs of rows of
// an input. What is long lies in a temporary file.
type trail struct {
	dir  string
	buf  []byte
	file *os.File
	rows int64

	input    int
	from, to int64 // the run that is still growing; from == to: none
}

// trailBuffer is how many bytes of a trail stay in memory.
const trailBuffer = 1 << 20

// add notes the next row of the output.
func (t *trail) add(input int, row int64) error { return t.addRun(input, row, row+1) }

// addRun notes the next rows of the output, to not included.
func (t *trail) addRun(input int, from, to int64) error {
	t.rows += to - from
	if t.from < t.to && t.input == input && t.to == from {
		t.to = to
		return nil
	}
	if err := t.flush(); err != nil {
		return err
	}
	t.input, t.from, t.to = input, from, to
	return nil
}

// flush ends the run.
func (t *trail) flush() error {
	if t.from == t.to {
		return nil
	}
	t.buf = binary.AppendUvarint(t.buf, uint64(t.input))
	t.buf = binary.AppendUvarint(t.buf, uint64(t.from))
	t.buf = binary.AppendUvarint(t.buf, uint64(t.to-t.from))
	t.from = t.to
	if len(t.buf) < trailBuffer {
		return nil
	}
	if t.file == nil {
		file, err := os.CreateTemp(t.dir, "gscd-trail-")
		if err != nil {
			return fmt.Errorf("keep where rows came from: %w", err)
		}
		t.file = file
	}
	if _, err := t.file.Write(t.buf); err != nil {
		return fmt.Errorf("keep where rows came from: %w", err)
	}
	t.buf = t.buf[:0]
	return nil
}

// dead gives the rows of the output whose rows of the inputs are in dead, which has a
// bitmap, or nil, for each input.
func (t *trail) dead(dead []*dv.Bitmap) (*dv.Bitmap, error) {
	if err := t.flush(); err != nil {
		return nil, err
	}
	in := bufio.NewReader(&trailReader{t: t})
	out := dv.New()
	row := int64(0)
	for {
		input, err := binary.ReadUvarint(in)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		from, err1 := binary.ReadUvarint(in)
		n, err2 := binary.ReadUvarint(in)
		if err := errors.Join(err, err1, err2); err != nil {
			return nil, fmt.Errorf("read where rows came from: %w", err)
		}
		if input >= uint64(len(dead)) {
			return nil, fmt.Errorf("read where rows came from: input %d of %d", input, len(dead))
		}
		if d := dead[input]; d != nil && d.CountRange(int64(from), int64(from+n)) > 0 {
			for i := range n {
				if d.Contains(uint32(from + i)) {
					out.Add(uint32(row + int64(i)))
				}
			}
		}
		row += int64(n)
	}
}

// trailReader reads the file, then the buffer.
type trailReader struct {
	t  *trail
	at int64
}

func (r *trailReader) Read(p []byte) (int, error) {
	if r.t.file != nil {
		n, err := r.t.file.ReadAt(p, r.at)
		if n > 0 {
			r.at += int64(n)
			return n, nil
		}
		if !errors.Is(err, io.EOF) {
			return 0, err
		}
	}
	size := int64(0)
	if r.t.file != nil {
		info, err := r.t.file.Stat()
		if err != nil {
			return 0, err
		}
		size = info.Size()
	}
	rest := r.t.buf[min(r.at-size, int64(len(r.t.buf))):]
	if len(rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, rest)
	r.at += int64(n)
	return n, nil
}

// close removes the file.
func (t *trail) close() {
	if t.file != nil {
		_ = t.file.Close()
		_ = os.Remove(t.file.Name())
		t.file = nil
	}
}
