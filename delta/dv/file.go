package dv

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/google/uuid"
	"github.com/gscd-io/gscd/delta/objstore"
)

// formatVersion is the first byte of a file of deletion vectors.
const formatVersion = 1

// blockExtra is what a block has around the serialized form: size and checksum.
const blockExtra = 8

// Packer makes one file of many deletion vectors. The zero Packer is ready.
type Packer struct{ buf []byte }

// Append adds a vector and gives offset, sizeInBytes and cardinality for its
// descriptor. The error says that the file would pass 2 GiB: begin another.
func (p *Packer) Append(b *Bitmap) (offset, size int32, cardinality int64, err error) {
	if len(p.buf) == 0 {
		p.buf = append(p.buf, formatVersion)
	}
	packed := b.packed()
	n := serializedSize(packed)
	if int64(len(p.buf))+n+blockExtra > math.MaxInt32 {
		return 0, 0, 0, fmt.Errorf("a file of deletion vectors of %d bytes has no room for %d more, begin another", len(p.buf), n)
	}
	at := len(p.buf)
	p.buf = binary.BigEndian.AppendUint32(p.buf, uint32(n))
	p.buf = appendSerialized(p.buf, packed)
	p.buf = binary.BigEndian.AppendUint32(p.buf, crc32.ChecksumIEEE(p.buf[at+4:]))
	return int32(at), int32(n), b.Cardinality(), nil
}

// Len gives the size of the file so far, in bytes.
func (p *Packer) Len() int { return len(p.buf) }

// Bytes gives the file so far; empty where nothing was added. It is shared
// with the packer until Reset.
func (p *Packer) Bytes() []byte { return p.buf }

// Reset begins a new file in memory of its own.
func (p *Packer) Reset() { p.buf = nil }

// Read reads the vector at an offset of a file of deletion vectors; offset
// and size are the descriptor's. The error wraps ErrCorrupt.
func Read(file []byte, offset, size int32) (*Bitmap, error) {
	if len(file) == 0 || file[0] != formatVersion {
		return nil, corrupt("it is no file of deletion vectors of version %d", formatVersion)
	}
	if offset < 1 || size < 0 || int64(offset)+int64(size)+blockExtra > int64(len(file)) {
		return nil, corrupt("%d bytes at %d of a file of %d", size, offset, len(file))
	}
	return ReadBlock(file[offset:], size)
}

// BlockSize gives how many bytes of the file, from the descriptor's offset,
// ReadBlock needs for a vector of a size.
func BlockSize(size int32) int64 { return int64(size) + blockExtra }

// ReadBlock reads one vector of a size from bytes that begin with its block,
// for stores that read ranges. The error wraps ErrCorrupt.
func ReadBlock(block []byte, size int32) (*Bitmap, error) {
	if size < 0 || int64(len(block)) < BlockSize(size) {
		return nil, corrupt("it is cut off: %d bytes, its descriptor says %d", len(block), size)
	}
	if n := binary.BigEndian.Uint32(block); n != uint32(size) {
		return nil, corrupt("a block of %d bytes, its descriptor says %d", n, size)
	}
	data := block[4 : 4+size]
	if crc32.ChecksumIEEE(data) != binary.BigEndian.Uint32(block[4+size:]) {
		return nil, corrupt("its checksum differs")
	}
	return Unmarshal(data)
}

// FileName gives the name of a file of deletion vectors.
func FileName(id uuid.UUID) string { return "deletion_vector_" + id.String() + ".bin" }

// PathOfID gives pathOrInlineDv of storage type u for a file without a prefix.
func PathOfID(id uuid.UUID) string { return EncodeZ85(id[:]) }

// KeyOfPath gives the key, below the table's root, of the file that
// pathOrInlineDv of storage type u names: "prefix/deletion_vector_id.bin".
// The error wraps ErrCorrupt, also where the prefix would leave the table.
func KeyOfPath(pathOrInlineDV string) (string, error) {
	const idLength = 20 // characters of 16 bytes
	if len(pathOrInlineDV) < idLength {
		return "", corrupt("its path %q is shorter than an id", pathOrInlineDV)
	}
	cut := len(pathOrInlineDV) - idLength
	raw, err := DecodeZ85(pathOrInlineDV[cut:])
	if err != nil {
		return "", fmt.Errorf("path %q: %w", pathOrInlineDV, err)
	}
	key, prefix := FileName(uuid.UUID(raw)), pathOrInlineDV[:cut]
	if prefix != "" {
		key = prefix + "/" + key
	}
	if err := objstore.CheckKey(key); err != nil {
		return "", corrupt("its path %q: %v", pathOrInlineDV, err)
	}
	return key, nil
}

// Inline reads a vector of storage type i. size is the descriptor's
// sizeInBytes: the text may stand for up to three bytes of padding more.
func Inline(text string, size int32) (*Bitmap, error) {
	raw, err := DecodeZ85(text)
	if err != nil {
		return nil, err
	}
	if size < 0 || int64(size) > int64(len(raw)) || len(raw)-int(size) > 3 {
		return nil, corrupt("%d bytes inline, its descriptor says %d", len(raw), size)
	}
	return Unmarshal(raw[:size])
}

// CheckFile looks at every byte of a file of deletion vectors, whichever of them are in
// use. The error wraps ErrCorrupt.
func CheckFile(file []byte) error {
	if len(file) == 0 || file[0] != formatVersion {
		return corrupt("it is no file of deletion vectors of version %d", formatVersion)
	}
	for at := 1; at < len(file); {
		if len(file)-at < blockExtra {
			return corrupt("%d bytes behind the last vector", len(file)-at)
		}
		size := binary.BigEndian.Uint32(file[at:])
		if int64(size) > int64(len(file)-at)-blockExtra {
			return corrupt("a vector of %d bytes at %d of a file of %d", size, at, len(file))
		}
		if _, err := ReadBlock(file[at:], int32(size)); err != nil {
			return err
		}
		at += int(BlockSize(int32(size)))
	}
	return nil
}
