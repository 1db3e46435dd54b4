package parquet

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"

	"github.com/parquet-go/parquet-go/format"
)

func (c *chunkReader) decodeIndexes(body []byte) error {
	p := &c.page
	if !c.hasDic {
		return corrupt("indexes without a dictionary")
	}
	p.byIndex = true
	p.ids = slices.Grow(p.ids[:0], p.present)[:p.present]
	if p.present == 0 {
		return nil
	}
	if len(body) == 0 || body[0] > 32 {
		return corrupt("indexes without their width")
	}
	if err := decodeHybrid(p.ids, body[1:], uint(body[0])); err != nil {
		return err
	}
	for _, id := range p.ids {
		if uint32(id) >= uint32(c.dictSize) {
			return corrupt("index %d into a dictionary of %d", id, c.dictSize)
		}
	}
	return nil
}

func (c *chunkReader) decodeValues(v *values, body []byte, n int, encoding format.Encoding) (err error) {
	physical := c.leaf.physical
	switch {
	case encoding == format.Plain:
		return c.decodePlain(v, body, n)
	case encoding == format.RLE && physical == format.Boolean:
		if len(body) < 4 {
			return corrupt("booleans are cut off")
		}
		bools := make([]uint8, n)
		if err := decodeHybrid(bools, body[4:], 1); err != nil {
			return err
		}
		v.ints = v.ints[:0]
		for _, b := range bools {
			v.ints = append(v.ints, int64(b))
		}
		return nil
	case encoding == format.DeltaBinaryPacked && (physical == format.Int32 || physical == format.Int64):
		v.ints, _, err = decodeDelta(v.ints, body, n, physical == format.Int32)
		return err
	case encoding == format.DeltaLengthByteArray && physical == format.ByteArray:
		v.strs, err = decodeDeltaLength(v.strs, body, n)
		return err
	case encoding == format.DeltaByteArray && c.isStrings():
		if v.strs, err = decodeDeltaStrings(v.strs, body, n); err != nil || physical == format.ByteArray {
			return err
		}
		for _, s := range v.strs {
			if len(s) != c.leaf.width {
				return corrupt("a value of %d bytes, want %d", len(s), c.leaf.width)
			}
		}
		return nil
	case encoding == format.ByteStreamSplit && physical != format.Boolean && physical != format.ByteArray && physical != format.Int96:
		width := c.byteWidth()
		if len(body) != n*width {
			return corrupt("%d bytes for %d values of %d", len(body), n, width)
		}
		joined := make([]byte, len(body))
		for i := range n {
			for b := range width {
				joined[i*width+b] = body[b*n+i]
			}
		}
		return c.decodePlain(v, joined, n)
	}
	return corrupt("%s values encoded as %s", physical, encoding)
}

func (c *chunkReader) byteWidth() int {
	switch c.leaf.physical {
	case format.Int32, format.Float:
		return 4
	case format.Int64, format.Double:
		return 8
	case format.Int96:
		return 12
	}
	return c.leaf.width
}

// decodePlain decodes n values as they stand in body.
func (c *chunkReader) decodePlain(v *values, body []byte, n int) error {
	switch c.leaf.physical {
	case format.ByteArray:
		return plainStrings(v, body, n)
	case format.Boolean:
		if len(body) < (n+7)/8 {
			return corrupt("%d bytes for %d booleans", len(body), n)
		}
		v.ints = slices.Grow(v.ints[:0], n)[:n]
		for i := range v.ints {
			v.ints[i] = int64(body[i>>3] >> (i & 7) & 1)
		}
		return nil
	}
	width := c.byteWidth()
	if len(body) < n*width {
		return corrupt("%d bytes for %d values of %d", len(body), n, width)
	}
	if c.leaf.physical == format.FixedLenByteArray {
		v.strs = v.strs[:0]
		for i := range n {
			v.strs = append(v.strs, view(body[i*width:(i+1)*width]))
		}
		return nil
	}
	v.ints = slices.Grow(v.ints[:0], n)[:n]
	switch width {
	case 4:
		for i := range v.ints {
			v.ints[i] = int64(int32(binary.LittleEndian.Uint32(body[4*i:])))
		}
	case 8:
		for i := range v.ints {
			v.ints[i] = int64(binary.LittleEndian.Uint64(body[8*i:]))
		}
	case 12:
		for i := range v.ints {
			v.ints[i] = int96Micros(body[12*i:])
		}
	}
	return nil
}

func plainStrings(v *values, body []byte, n int) error {
	v.strs = slices.Grow(v.strs[:0], min(n, len(body)/4))
	for range n {
		if len(body) < 4 {
			return corrupt("strings are cut off")
		}
		size := int64(binary.LittleEndian.Uint32(body))
		if size > int64(len(body)-4) {
			return corrupt("a string of %d bytes in %d", size, len(body)-4)
		}
		v.strs = append(v.strs, view(body[4:4+size]))
		body = body[4+size:]
	}
	return nil
}

// int96Micros reads the old time stamp: nanoseconds of the day, Julian day.
// What does not fit saturates.
func int96Micros(b []byte) int64 {
	const julianEpoch, microsPerDay = 2440588, 86_400_000_000
	nanos := int64(binary.LittleEndian.Uint64(b))
	days := int64(int32(binary.LittleEndian.Uint32(b[8:]))) - julianEpoch
	micros := nanos / 1000
	if nanos%1000 < 0 {
		micros--
	}
	if limit := int64(math.MaxInt64/microsPerDay - 1); days > limit {
		return math.MaxInt64
	} else if days < -limit {
		return math.MinInt64
	}
	return saturatingAdd(days*microsPerDay, micros)
}

func saturatingAdd(a, b int64) int64 {
	sum := a + b
	if a > 0 && b > 0 && sum < 0 {
		return math.MaxInt64
	}
	if a < 0 && b < 0 && sum >= 0 {
		return math.MinInt64
	}
	return sum
}

// view makes a string of bytes without a copy; nobody writes to them again.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
