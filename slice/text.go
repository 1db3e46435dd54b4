package slice

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// textFile is a file of text, unpacked where its name ends with .gz or .zst.
type textFile struct {
	*bufio.Reader
	close []func() error
}

func openText(at Place) (*textFile, error) {
	f, err := at.open()
	if err != nil {
		return nil, err
	}
	t := &textFile{close: []func() error{f.Close}}
	in := io.Reader(f)
	switch lower := strings.ToLower(at.Path); {
	case strings.HasSuffix(lower, ".gz"):
		z, err := gzip.NewReader(bufio.NewReaderSize(f, 1<<18))
		if err != nil {
			f.Close()
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return nil, incomplete(at.Name, "it ends within its gzip header")
			}
			return nil, fmt.Errorf("%s is no gzip file: %w", at.Name, err)
		}
		in = z
	case strings.HasSuffix(lower, ".zst"):
		z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("%s: %w", at.Name, err)
		}
		t.close = append(t.close, func() error { z.Close(); return nil })
		in = z
	}
	t.Reader = bufio.NewReaderSize(in, 1<<18)
	if mark, err := t.Peek(3); err == nil && string(mark) == "\xef\xbb\xbf" {
		_, _ = t.Discard(3)
	}
	return t, nil
}

func (t *textFile) Close() error {
	var faults []error
	for i := len(t.close) - 1; i >= 0; i-- {
		faults = append(faults, t.close[i]())
	}
	return errors.Join(faults...)
}

// cutOff tells a packed file that ends too early from another fault of reading.
func cutOff(path string, line int64, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, zstd.ErrCRCMismatch) {
		return incomplete(path, "it is cut off in or behind line %d: %s", line, err)
	}
	return fmt.Errorf("read %s, line %d: %w", path, line, err)
}
