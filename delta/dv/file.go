package dv

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"strings"

	"github.com/google/uuid"
)

// fileVersion is the first byte of a .bin file.
const fileVersion = 1

// Packer puts the vectors of a commit into one file.
type Packer struct{ out []byte }

// Append adds a vector. offset and size are those of its descriptor: where the
// length field stands, and the bytes of the serialized form.
func (p *Packer) Append(b *Bitmap) (offset, size int32, cardinality int64, err error) {
	if len(p.out) == 0 {
		p.out = append(p.out, fileVersion)
	}
	data, err := b.Marshal()
	if err != nil {
		return 0, 0, 0, err
	}
	if len(p.out)+len(data)+8 > math.MaxInt32 {
		return 0, 0, 0, fmt.Errorf("the deletion vectors of one commit need more than 2 GiB")
	}
	offset = int32(len(p.out))
	p.out = binary.BigEndian.AppendUint32(p.out, uint32(len(data)))
	p.out = append(p.out, data...)
	p.out = binary.BigEndian.AppendUint32(p.out, crc32.ChecksumIEEE(data))
	return offset, int32(len(data)), b.Cardinality(), nil
}

// Bytes gives the file. It is the Packer's own memory.
func (p *Packer) Bytes() []byte { return p.out }

// Len is the size of the file so far.
func (p *Packer) Len() int { return len(p.out) }

// Read takes one vector out of a file's bytes. size is the descriptor's
// sizeInBytes; it and the CRC are checked. The error wraps ErrCorrupt.
func Read(file []byte, offset, size int32) (*Bitmap, error) {
	if len(file) == 0 || file[0] != fileVersion {
		return nil, fmt.Errorf("%w: the file is of no known version", ErrCorrupt)
	}
	if offset < 1 || int64(offset)+4 > int64(len(file)) {
		return nil, fmt.Errorf("%w: offset %d in a file of %d bytes", ErrCorrupt, offset, len(file))
	}
	return ReadBlock(file[offset:], size)
}

// ReadBlock takes a vector out of a stretch that begins at its length field:
// what a range read of size+8 bytes at the descriptor's offset gives.
func ReadBlock(block []byte, size int32) (*Bitmap, error) {
	if len(block) < 4 {
		return nil, fmt.Errorf("%w: cut off in front of its length", ErrCorrupt)
	}
	if n := binary.BigEndian.Uint32(block); int64(n) != int64(size) {
		return nil, fmt.Errorf("%w: it is %d bytes long, its descriptor says %d", ErrCorrupt, n, size)
	}
	if size < 0 || int64(len(block)) < int64(size)+8 {
		return nil, fmt.Errorf("%w: %d bytes announced, %d there", ErrCorrupt, size, len(block)-4)
	}
	data := block[4 : 4+size]
	if sum := binary.BigEndian.Uint32(block[4+size:]); sum != crc32.ChecksumIEEE(data) {
		return nil, fmt.Errorf("%w: its checksum is wrong", ErrCorrupt)
	}
	return Unmarshal(data)
}

// FileName is the name of the .bin file of an id, below the table's root.
func FileName(id uuid.UUID) string { return "deletion_vector_" + id.String() + ".bin" }

// PathOfID gives pathOrInlineDv of storage type u for a file without a prefix.
func PathOfID(id uuid.UUID) string { return EncodeZ85(id[:]) }

// KeyOfPath gives the key of the file that pathOrInlineDv of storage type u
// names: PREFIX/deletion_vector_ID.bin. The error wraps ErrCorrupt.
func KeyOfPath(pathOrInlineDV string) (string, error) {
	if len(pathOrInlineDV) < 20 {
		return "", fmt.Errorf("%w: path %q is shorter than an id", ErrCorrupt, pathOrInlineDV)
	}
	prefix, text := pathOrInlineDV[:len(pathOrInlineDV)-20], pathOrInlineDV[len(pathOrInlineDV)-20:]
	raw, err := DecodeZ85(text)
	if err != nil {
		return "", err
	}
	id, err := uuid.FromBytes(raw)
	if err != nil {
		return "", fmt.Errorf("%w: path %q: %w", ErrCorrupt, pathOrInlineDV, err)
	}
	if strings.Contains(prefix, "..") || strings.HasPrefix(prefix, "/") {
		return "", fmt.Errorf("%w: path %q leaves the table", ErrCorrupt, pathOrInlineDV)
	}
	if prefix != "" {
		return prefix + "/" + FileName(id), nil
	}
	return FileName(id), nil
}

// Inline reads a vector of storage type i. size is the descriptor's
// sizeInBytes: the text may stand for a few padding bytes more.
func Inline(text string, size int32) (*Bitmap, error) {
	raw, err := DecodeZ85(text)
	if err != nil {
		return nil, err
	}
	if size < 0 || int(size) > len(raw) {
		return nil, fmt.Errorf("%w: %d bytes announced, %d there", ErrCorrupt, size, len(raw))
	}
	return Unmarshal(raw[:size])
}
