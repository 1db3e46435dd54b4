package parquet

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// Codec names a compression of pages that this package writes.
type Codec uint8

// The codecs. The zero Codec is zstd at its fastest level, which costs what
// snappy costs and writes an eighth less.
const (
	Zstd Codec = iota
	Snappy
	Uncompressed
)

func (c Codec) format() format.CompressionCodec {
	switch c {
	case Snappy:
		return format.Snappy
	case Uncompressed:
		return format.Uncompressed
	}
	return format.Zstd
}

var (
	zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithEncoderCRC(false), zstd.WithZeroFrames(true))
		if err != nil {
			panic("parquet: " + err.Error()) // the options are constants
		}
		return e
	})
	zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
		// The cap limit bounds the output by the buffer that it is given.
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			panic("parquet: " + err.Error())
		}
		return d
	})
)

// compress appends the compressed form of src to dst.
func (c Codec) compress(dst, src []byte) []byte {
	switch c {
	case Snappy:
		at := len(dst)
		dst = append(dst, make([]byte, s2.MaxEncodedLen(len(src)))...)
		return dst[:at+len(s2.EncodeSnappy(dst[at:], src))]
	case Uncompressed:
		return append(dst, src...)
	}
	return zstdEncoder().EncodeAll(src, dst)
}

// decompress fills dst, whose length is what the page header declares.
func decompress(codec format.CompressionCodec, dst, src []byte) error {
	var out []byte
	var err error
	switch codec {
	case format.Uncompressed:
		out = src
		copy(dst, src)
	case format.Zstd:
		out, err = zstdDecoder().DecodeAll(src, dst[:0])
	case format.Snappy:
		var n int
		if n, err = s2.DecodedLen(src); err == nil && n != len(dst) {
			return corrupt("a page of %d bytes decompresses to %d", len(dst), n)
		}
		if err == nil {
			out, err = s2.Decode(dst, src)
		}
	case format.Gzip:
		z, err := gzip.NewReader(bytes.NewReader(src))
		if err != nil {
			return corrupt("decompress a page: %v", err)
		}
		return readExactly(dst, z)
	case format.Brotli:
		return readExactly(dst, brotli.NewReader(bytes.NewReader(src)))
	case format.Lz4Raw:
		var n int
		n, err = lz4.UncompressBlock(src, dst)
		out = dst[:max(n, 0)]
	default:
		return fmt.Errorf("%w: compression %s", ErrUnsupported, codec)
	}
	if err != nil {
		return corrupt("decompress a page: %v", err)
	}
	if len(out) != len(dst) {
		return corrupt("a page of %d bytes decompresses to %d", len(dst), len(out))
	}
	if len(out) > 0 && &out[0] != &dst[0] && codec != format.Uncompressed {
		copy(dst, out)
	}
	return nil
}

func readExactly(dst []byte, r io.Reader) error {
	if _, err := io.ReadFull(r, dst); err != nil {
		return corrupt("decompress a page: %v", err)
	}
	var more [1]byte
	if n, _ := r.Read(more[:]); n > 0 {
		return corrupt("a page is longer than its %d bytes", len(dst))
	}
	return nil
}
