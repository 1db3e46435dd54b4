package variant

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/gscd-io/gscd/delta/schema"
)

// ErrCorrupt is wrapped by errors about bytes that are no variant.
var ErrCorrupt = errors.New("corrupt variant")

// MaxJSON is how many bytes of JSON a value gives at most.
const MaxJSON = 32 << 20

// maxDepth bounds the nesting of a value.
const maxDepth = 500

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
}

// Metadata is the dictionary of the names of fields.
type Metadata struct {
	offsets []byte
	names   []byte
	width   int
	size    int
}

// ParseMetadata reads a metadata column's value. It keeps raw.
func ParseMetadata(raw string) (m Metadata, err error) {
	b := []byte(raw)
	if len(b) == 0 || b[0]&0x0f != 1 {
		return m, corrupt("metadata of another version")
	}
	m.width = int(b[0]>>6) + 1
	rest := b[1:]
	if len(rest) < m.width {
		return m, corrupt("metadata is cut off")
	}
	m.size = int(unsigned(rest[:m.width]))
	rest = rest[m.width:]
	if uint64(m.size+1)*uint64(m.width) > uint64(len(rest)) {
		return m, corrupt("%d names in %d bytes", m.size, len(b))
	}
	m.offsets, m.names = rest[:(m.size+1)*m.width], rest[(m.size+1)*m.width:]
	return m, nil
}

func (m *Metadata) name(id uint64) (string, error) {
	if id >= uint64(m.size) {
		return "", corrupt("field %d of %d", id, m.size)
	}
	at := int(id) * m.width
	from, to := unsigned(m.offsets[at:at+m.width]), unsigned(m.offsets[at+m.width:at+2*m.width])
	if from > to || to > uint64(len(m.names)) {
		return "", corrupt("a field's name from %d to %d of %d", from, to, len(m.names))
	}
	return string(m.names[from:to]), nil
}

// unsigned reads a little-endian number of up to 8 bytes.
func unsigned(b []byte) (n uint64) {
	for i := range slices.Backward(b) {
		n = n<<8 | uint64(b[i])
	}
	return n
}

// AppendJSON appends a value as JSON.
func AppendJSON(dst []byte, m *Metadata, value string) ([]byte, error) {
	d := decoder{m: m, limit: len(dst) + MaxJSON}
	return d.value(dst, []byte(value), 0)
}

// Fields calls fn with each field of a value that is an object, by name and as
// JSON; isObject is false for any other value.
func Fields(m *Metadata, value string, fn func(name string, json []byte)) (isObject bool, err error) {
	b := []byte(value)
	if len(b) == 0 {
		return false, corrupt("a value without bytes")
	}
	if b[0]&3 != basicObject {
		return false, nil
	}
	d := decoder{m: m, limit: MaxJSON}
	total := 0
	return true, d.object(b, func(name string, field []byte) error {
		text, err := d.value(nil, field, 1)
		if err == nil {
			fn(name, text)
		}
		if total += len(text); total > MaxJSON {
			return corrupt("it gives more than %d bytes", MaxJSON)
		}
		return err
	})
}

const (
	basicPrimitive = iota
	basicShortString
	basicObject
	basicArray
)

type decoder struct {
	m     *Metadata
	limit int
}

// value appends the value that b begins with.
func (d *decoder) value(dst, b []byte, depth int) ([]byte, error) {
	if len(b) == 0 {
		return dst, corrupt("a value without bytes")
	}
	if depth > maxDepth {
		return dst, corrupt("nested deeper than %d", maxDepth)
	}
	if len(dst) > d.limit {
		return dst, corrupt("it gives more than %d bytes", MaxJSON)
	}
	switch b[0] & 3 {
	case basicShortString:
		n := int(b[0] >> 2)
		if n > len(b)-1 {
			return dst, corrupt("a text of %d bytes in %d", n, len(b)-1)
		}
		return appendString(dst, string(b[1:1+n])), nil
	case basicObject:
		dst = append(dst, '{')
		first := true
		err := d.object(b, func(name string, field []byte) (err error) {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(appendString(dst, name), ':')
			dst, err = d.value(dst, field, depth+1)
			return err
		})
		return append(dst, '}'), err
	case basicArray:
		dst = append(dst, '[')
		err := d.array(b, func(i int, element []byte) (err error) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst, err = d.value(dst, element, depth+1)
			return err
		})
		return append(dst, ']'), err
	}
	return d.primitive(dst, int(b[0]>>2), b[1:])
}

// parts splits what follows a header into n, ids and offsets of some width, and
// the values.
func parts(b []byte, large bool, idWidth, width int) (n int, ids, offsets, values []byte, err error) {
	count := 1
	if large {
		count = 4
	}
	if len(b) < count {
		return 0, nil, nil, nil, corrupt("a value is cut off")
	}
	size, rest := unsigned(b[:count]), b[count:]
	if size*uint64(idWidth)+(size+1)*uint64(width) > uint64(len(rest)) {
		return 0, nil, nil, nil, corrupt("%d parts in %d bytes", size, len(rest))
	}
	n = int(size)
	ids, rest = rest[:n*idWidth], rest[n*idWidth:]
	return n, ids, rest[:(n+1)*width], rest[(n+1)*width:], nil
}

func (d *decoder) object(b []byte, fn func(name string, field []byte) error) error {
	header := b[0] >> 2
	width, idWidth := int(header&3)+1, int(header>>2&3)+1
	n, ids, offsets, values, err := parts(b[1:], header>>4&1 == 1, idWidth, width)
	if err != nil {
		return err
	}
	for i := range n {
		name, err := d.m.name(unsigned(ids[i*idWidth : (i+1)*idWidth]))
		if err != nil {
			return err
		}
		at := unsigned(offsets[i*width : (i+1)*width])
		if at >= uint64(len(values)) {
			return corrupt("a field at %d of %d", at, len(values))
		}
		if err := fn(name, values[at:]); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) array(b []byte, fn func(i int, element []byte) error) error {
	header := b[0] >> 2
	width := int(header&3) + 1
	n, _, offsets, values, err := parts(b[1:], header>>2&1 == 1, 0, width)
	if err != nil {
		return err
	}
	for i := range n {
		at := unsigned(offsets[i*width : (i+1)*width])
		if at >= uint64(len(values)) {
			return corrupt("an element at %d of %d", at, len(values))
		}
		if err := fn(i, values[at:]); err != nil {
			return err
		}
	}
	return nil
}

// widths are the sizes of the primitive types, by their number.
var widths = [...]int{3: 1, 4: 2, 5: 4, 6: 8, 7: 8, 8: 5, 9: 9, 10: 17, 11: 4, 12: 8, 13: 8, 14: 4, 15: 4, 16: 4, 17: 8, 18: 8, 19: 8, 20: 16}

func (d *decoder) primitive(dst []byte, kind int, b []byte) ([]byte, error) {
	if kind >= len(widths) {
		return dst, corrupt("a value of the unknown type %d", kind)
	}
	n := widths[kind]
	if len(b) < n {
		return dst, corrupt("a value of type %d is cut off", kind)
	}
	b, rest := b[:n], b[n:]
	signed := func() int64 { return int64(unsigned(b)<<(64-8*n)) >> (64 - 8*n) }
	switch kind {
	case 0:
		return append(dst, "null"...), nil
	case 1:
		return append(dst, "true"...), nil
	case 2:
		return append(dst, "false"...), nil
	case 3, 4, 5, 6:
		return strconv.AppendInt(dst, signed(), 10), nil
	case 7:
		return appendFloat(dst, math.Float64frombits(unsigned(b)), 64), nil
	case 8, 9, 10:
		return appendDecimal(dst, b)
	case 11:
		return appendDate(dst, signed()), nil
	case 12, 13:
		return AppendCell(dst, schema.IntValue(signed()), schema.Of(schema.Timestamp+schema.Primitive(kind-12))), nil
	case 14:
		return appendFloat(dst, float64(math.Float32frombits(uint32(unsigned(b)))), 32), nil
	case 15, 16:
		size := unsigned(b)
		if size > uint64(len(rest)) {
			return dst, corrupt("a text of %d bytes in %d", size, len(rest))
		}
		if kind == 15 {
			return appendBinary(dst, string(rest[:size])), nil
		}
		return appendString(dst, string(rest[:size])), nil
	case 17:
		return appendTime(dst, time.UnixMicro(signed()), `"15:04:05.000000"`), nil
	case 18:
		return appendTime(dst, time.Unix(0, signed()), `"2006-01-02T15:04:05.000000000Z"`), nil
	case 19:
		return appendTime(dst, time.Unix(0, signed()), `"2006-01-02T15:04:05.000000000"`), nil
	}
	text := hex.EncodeToString(b) // a UUID
	return append(dst, `"`+text[:8]+"-"+text[8:12]+"-"+text[12:16]+"-"+text[16:20]+"-"+text[20:]+`"`...), nil
}

// appendDecimal reads a scale and the unscaled number.
func appendDecimal(dst, b []byte) ([]byte, error) {
	scale := b[0]
	if scale > 38 {
		return dst, corrupt("a decimal of scale %d", scale)
	}
	big16 := slices.Clone(b[1:])
	slices.Reverse(big16)
	n := new(big.Int).SetBytes(big16)
	if big16[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(big16))))
	}
	v, ok := schema.DecimalValue(n)
	if !ok {
		return dst, corrupt("a decimal of more than 38 digits")
	}
	return append(dst, v.DecimalText(scale)...), nil
}
