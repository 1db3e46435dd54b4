package dv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// ErrCorrupt is wrapped by every error about bytes that are no deletion vector.
var ErrCorrupt = errors.New("corrupt deletion vector")

const magic = 1681511377

// headerBytes are the magic, the count of buckets and the key of the first.
const headerBytes = 4 + 8 + 4

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
}

// Marshal gives the serialized form.
func (b *Bitmap) Marshal() []byte {
	packed := b.packed()
	return appendSerialized(make([]byte, 0, serializedSize(packed)), packed)
}

// packed gives the set in its smallest form: runs where rows stand in a row. A
// copy, so that who only reads the bitmap meanwhile is not disturbed.
func (b *Bitmap) packed() *roaring.Bitmap {
	set := b.set.Clone()
	set.RunOptimize()
	return set
}

func serializedSize(set *roaring.Bitmap) int64 {
	if set.IsEmpty() {
		return headerBytes - 4
	}
	return headerBytes + int64(set.GetSerializedSizeInBytes())
}

func appendSerialized(dst []byte, set *roaring.Bitmap) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, magic)
	if set.IsEmpty() {
		return binary.LittleEndian.AppendUint64(dst, 0)
	}
	dst = binary.LittleEndian.AppendUint64(dst, 1)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	buf := bytes.NewBuffer(dst)
	if _, err := set.WriteTo(buf); err != nil {
		panic("dv: " + err.Error()) // a buffer takes all
	}
	return buf.Bytes()
}

// Unmarshal reads the serialized form. The error wraps ErrCorrupt; rows from
// 2^32 are refused so too. data is not kept.
func Unmarshal(data []byte) (*Bitmap, error) {
	if len(data) < headerBytes-4 || binary.LittleEndian.Uint32(data) != magic {
		return nil, corrupt("it does not begin with the magic number")
	}
	buckets := binary.LittleEndian.Uint64(data[4:])
	data = data[12:]
	if buckets > uint64(len(data))/8 {
		return nil, corrupt("%d buckets in %d bytes", buckets, len(data))
	}
	b := New()
	for i := range buckets {
		if len(data) < 4 {
			return nil, corrupt("a bucket is cut off")
		}
		if key := binary.LittleEndian.Uint32(data); key != 0 || i > 0 {
			return nil, corrupt("rows of bucket %d: files of 2^32 rows and more are not read", key)
		}
		n, adjacent, err := walk(data[4:])
		if err != nil {
			return nil, err
		}
		if err := b.read(data[4 : 4+n]); err != nil {
			return nil, err
		}
		if adjacent { // the library takes runs to have gaps between them
			b.set = roaring.BitmapOf(b.set.ToArray()...)
		}
		data = data[4+n:]
	}
	// Trino reserves some bytes more than it fills.
	if rest := bytes.TrimLeft(data, "\x00"); len(rest) > 0 {
		return nil, corrupt("%d bytes follow it", len(data))
	}
	return b, nil
}

func (b *Bitmap) read(data []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = corrupt("%v", p)
		}
	}()
	if _, err := b.set.ReadFrom(bytes.NewReader(data)); err != nil {
		return corrupt("%v", err)
	}
	return nil
}

// Cookies and limits of the 32-bit roaring form.
const (
	cookieNoRuns    = 12346
	cookieRuns      = 12347
	noOffsetsBelow  = 4
	maxArray        = 4096
	bitmapContainer = 8192
)

var errCutOff = corrupt("a bitmap is cut off")

// walk checks a 32-bit roaring bitmap and gives its length. The library reads
// containers as they are: out of order or with a wrong count they would give
// wrong answers later. adjacent tells that two runs touch.
func walk(data []byte) (length int, adjacent bool, err error) {
	at := 0
	take := func(n int) []byte {
		if n > len(data)-at {
			return nil
		}
		at += n
		return data[at-n : at]
	}
	head := take(4)
	if head == nil {
		return 0, false, errCutOff
	}
	cookie := binary.LittleEndian.Uint32(head)
	var count int
	var isRun []byte
	switch {
	case cookie == cookieNoRuns:
		n := take(4)
		if n == nil {
			return 0, false, errCutOff
		}
		if c := binary.LittleEndian.Uint32(n); c > 1<<16 {
			return 0, false, corrupt("%d containers", c)
		}
		count = int(binary.LittleEndian.Uint32(n))
	case cookie&0xffff == cookieRuns:
		count = int(cookie>>16) + 1
		if isRun = take((count + 7) / 8); isRun == nil {
			return 0, false, errCutOff
		}
	default:
		return 0, false, corrupt("cookie %d", cookie)
	}
	keys := take(4 * count)
	if keys == nil && count > 0 {
		return 0, false, errCutOff
	}
	if isRun == nil || count >= noOffsetsBelow {
		if take(4*count) == nil && count > 0 {
			return 0, false, errCutOff
		}
	}
	last := -1
	for i := range count {
		key, n := int(binary.LittleEndian.Uint16(keys[4*i:])), int(binary.LittleEndian.Uint16(keys[4*i+2:]))+1
		if key <= last {
			return 0, false, corrupt("containers are out of order")
		}
		last = key
		var ok bool
		switch {
		case isRun != nil && isRun[i/8]>>(i%8)&1 == 1:
			head := take(2)
			if head == nil {
				return 0, false, errCutOff
			}
			var touches bool
			ok, touches = soundRuns(take(4 * int(binary.LittleEndian.Uint16(head))))
			adjacent = adjacent || touches
		case n > maxArray:
			ok = soundBits(take(bitmapContainer), n)
		default:
			ok = soundArray(take(2 * n))
		}
		if !ok {
			return 0, false, corrupt("container %d of %d is not sound", i, count)
		}
	}
	return at, adjacent, nil
}

func soundArray(b []byte) bool {
	last := -1
	for ; len(b) > 0; b = b[2:] {
		v := int(binary.LittleEndian.Uint16(b))
		if v <= last {
			return false
		}
		last = v
	}
	return last >= 0
}

func soundBits(b []byte, want int) bool {
	n := 0
	for chunk := range slices.Chunk(b, 8) {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(chunk))
	}
	return n == want
}

func soundRuns(b []byte) (ok, adjacent bool) {
	end := -1 // the first value after the last run
	for ; len(b) > 0; b = b[4:] {
		start, length := int(binary.LittleEndian.Uint16(b)), int(binary.LittleEndian.Uint16(b[2:]))
		if start < end || start+length > 0xffff {
			return false, false
		}
		adjacent = adjacent || start == end
		end = start + length + 1
	}
	return end >= 0, adjacent
}
