package binlog

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"

	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/klauspost/compress/zstd"
)

// payload gives the events of a compressed transaction one by one.
type payload struct {
	in  io.Reader
	dec *zstd.Decoder
}

// maxWindow bounds the memory of the decompressor: the server's levels stay below it.
const maxWindow = 128 << 20

func openPayload(body []byte) (*payload, error) {
	c := cursor{b: body}
	compression := uint64(replication.ZSTD)
	for c.err == nil {
		field := c.length()
		if field == replication.OTW_PAYLOAD_HEADER_END_MARK {
			break
		}
		value := cursor{b: c.text()}
		if field == replication.OTW_PAYLOAD_COMPRESSION_TYPE_FIELD {
			compression = value.length()
		}
	}
	if c.err != nil {
		return nil, corrupt("a compressed transaction: %v", c.err)
	}
	switch compression {
	case replication.NONE:
		return &payload{in: bytes.NewReader(c.b)}, nil
	case replication.ZSTD:
		dec, err := zstd.NewReader(bytes.NewReader(c.b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, corrupt("a compressed transaction: %v", err)
		}
		return &payload{in: dec, dec: dec}, nil
	}
	return nil, fmt.Errorf("compression type %d %w", compression, ErrUnsupported)
}

func (p *payload) next() ([]byte, error) {
	raw, err := readEvent(p.in)
	if err != nil && err != io.EOF {
		return nil, corrupt("a compressed transaction: %v", err)
	}
	return raw, err
}

func (p *payload) close() {
	if p.dec != nil {
		p.dec.Close()
	}
}

// inflate decompresses what MariaDB has compressed (log_bin_compress): a byte with the
// number of bytes of the length, big-endian, that follow it; then zlib.
func inflate(b []byte) ([]byte, error) {
	c := cursor{b: b}
	n := bigEndian(c.take(c.uint(1) & 7))
	if c.err != nil || n > maxEvent {
		return nil, corrupt("a compressed event of %d bytes", n)
	}
	z, err := zlib.NewReader(bytes.NewReader(c.b))
	if err != nil {
		return nil, corrupt("a compressed event: %v", err)
	}
	defer z.Close()
	var out bytes.Buffer
	if m, err := io.Copy(&out, io.LimitReader(z, int64(n))); err != nil || uint64(m) != n {
		return nil, corrupt("a compressed event has %d bytes, not %d: %v", m, n, err)
	}
	return out.Bytes(), nil
}
