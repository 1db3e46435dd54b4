package selfsum

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// ErrDiffers is wrapped where an object's bytes are not those that its sum is of.
var ErrDiffers = errors.New("its bytes are not those that were written")

// Size is how many bytes a sum takes.
const Size = 2 * sha256.Size

// Zeros stand in an object while its sum is computed.
const Zeros = "0000000000000000000000000000000000000000000000000000000000000000"

// Form is a kind of object: the bytes that stand before the sum.
type Form struct {
	before string
	line   bool // in the first line alone
}

// ParquetKey is the key of the sum among a footer's entries.
const ParquetKey = "gscd.sha256"

// Member is the member of a commitInfo that holds the sum, the last one in it.
const Member = "sha256"

// frame begins a skippable frame of zstd, which decoders pass over: magic number 0x184D2A5C,
// 75 bytes, and what it is.
const frame = "\x5c\x2a\x4d\x18\x4b\x00\x00\x00" + ParquetKey

var (
	// Parquet files have the sum in their footer, as the value of ParquetKey in the
	// compact protocol of Thrift.
	Parquet = Form{before: ParquetKey + "\x18\x40"}
	// Commit files have it in their first line, the commitInfo.
	Commit = Form{before: `,"` + Member + `":"`, line: true}
	// Zstd files have it in a frame at their end.
	Zstd = Form{before: frame}
)

// AppendFrame appends a sum to a zstd file that is whole.
func AppendFrame(data []byte) []byte {
	data = append(append(data, frame...), Zeros...)
	Zstd.Set(data)
	return data
}

// Set puts the sum of an object in the place of the zeros in it. It tells whether there
// is such a place.
func (f Form) Set(data []byte) bool {
	at := f.place(data)
	if at < 0 || string(data[at:at+Size]) != Zeros {
		return false
	}
	sum := sha256.Sum256(data)
	hex.Encode(data[at:], sum[:])
	return true
}

// Place gives where the zeros stand in the end of an object, for who computes the sum
// while the object is written; -1 where they don't.
func (f Form) Place(tail []byte) int { return f.place(tail) }

// Check compares an object with its sum. has is false where it has none.
func (f Form) Check(data []byte) (has bool, err error) {
	at, err := f.find(data)
	if at < 0 || err != nil {
		return err != nil, err
	}
	h := sha256.New()
	h.Write(data[:at])
	h.Write([]byte(Zeros))
	h.Write(data[at+Size:])
	return true, compare(data[at:at+Size], h.Sum(nil))
}

// tailSize is how much of an object's end is looked through for its sum: what follows the
// sum in a Parquet file grows with the columns, by three bytes each.
const tailSize = 256 << 10

// CheckReader is Check of an object of a size that is read piece by piece. err may be the
// reader's. Forms whose sum is in the first line are not for it.
func (f Form) CheckReader(r io.ReaderAt, size int64) (has bool, err error) {
	tail := make([]byte, min(size, tailSize))
	from := size - int64(len(tail))
	if n, err := r.ReadAt(tail, from); n < len(tail) {
		return false, err
	}
	at, err := f.find(tail)
	if at < 0 || err != nil {
		return err != nil, err
	}
	h := sha256.New()
	if _, err := io.CopyBuffer(h, io.NewSectionReader(r, 0, from), make([]byte, 1<<20)); err != nil {
		return true, err
	}
	h.Write(tail[:at])
	h.Write([]byte(Zeros))
	h.Write(tail[at+Size:])
	return true, compare(tail[at:at+Size], h.Sum(nil))
}

func compare(stands, is []byte) error {
	if got := hex.EncodeToString(is); got != string(stands) {
		return fmt.Errorf("%w: their SHA-256 is %.12s…, it says %.12q…", ErrDiffers, got, stands)
	}
	return nil
}

// place gives where the sum stands, -1 for nowhere.
func (f Form) place(data []byte) int {
	at := bytes.LastIndex(f.within(data), []byte(f.before))
	if at < 0 || at+len(f.before)+Size > len(data) {
		return -1
	}
	return at + len(f.before)
}

func (f Form) within(data []byte) []byte {
	if f.line {
		if end := bytes.IndexByte(data, '\n'); end >= 0 {
			return data[:end]
		}
	}
	return data
}

// find is place that tells bytes before the sum which are other ones: a single one of
// them would make the sum unseen.
func (f Form) find(data []byte) (int, error) {
	if at := f.place(data); at >= 0 {
		return at, nil
	}
	in := f.within(data)
	for at := len(in) - len(f.before) - Size; at >= 0; at-- {
		if almost(in[at:], f.before) {
			return -1, fmt.Errorf("%w: the mark of its SHA-256 reads %q", ErrDiffers, in[at:at+len(f.before)])
		}
	}
	return -1, nil
}

// almost tells bytes that begin with others but for one.
func almost(data []byte, want string) bool {
	other := 0
	for i := range len(want) {
		if data[i] != want[i] {
			if other++; other > 1 {
				return false
			}
		}
	}
	return true
}
