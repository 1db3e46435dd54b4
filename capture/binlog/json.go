package binlog

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/gscd-io/gscd/capture/event"
)

// The types of MySQL's binary JSON.
const (
	jsonSmallObject = iota
	jsonLargeObject
	jsonSmallArray
	jsonLargeArray
	jsonLiteral
	jsonInt16
	jsonUint16
	jsonInt32
	jsonUint32
	jsonInt64
	jsonUint64
	jsonDouble
	jsonString
	jsonOpaque = 15
)

// jsonDepth is the most that the server allows.
const jsonDepth = 100

// json writes a binary JSON document as the server prints it. An empty one, which
// INSERT IGNORE can make, is null.
func (s *slot) json(b []byte, out *event.Cell) error {
	if len(b) == 0 {
		out.Kind, out.Bytes = event.Text, []byte("null")
		return nil
	}
	text, err := s.keep(func(dst []byte) ([]byte, error) { return s.jsonValue(dst, b[0], b[1:], 0) })
	out.Kind, out.Bytes = event.Text, text
	return err
}

var errJSON = corrupt("binary JSON")

// jsonValue appends a value whose bytes begin b.
func (s *slot) jsonValue(dst []byte, kind byte, b []byte, depth int) ([]byte, error) {
	if depth > jsonDepth {
		return dst, errJSON
	}
	size := 0
	switch kind {
	case jsonInt16, jsonUint16:
		size = 2
	case jsonInt32, jsonUint32:
		size = 4
	case jsonInt64, jsonUint64, jsonDouble:
		size = 8
	case jsonLiteral:
		size = 1
	}
	if len(b) < size {
		return dst, errJSON
	}
	switch kind {
	case jsonSmallObject, jsonLargeObject, jsonSmallArray, jsonLargeArray:
		return s.jsonContainer(dst, kind, b, depth)
	case jsonLiteral:
		switch b[0] {
		case 0:
			return append(dst, "null"...), nil
		case 1:
			return append(dst, "true"...), nil
		case 2:
			return append(dst, "false"...), nil
		}
		return dst, errJSON
	case jsonInt16:
		return strconv.AppendInt(dst, int64(int16(binary.LittleEndian.Uint16(b))), 10), nil
	case jsonUint16:
		return strconv.AppendUint(dst, uint64(binary.LittleEndian.Uint16(b)), 10), nil
	case jsonInt32:
		return strconv.AppendInt(dst, int64(int32(binary.LittleEndian.Uint32(b))), 10), nil
	case jsonUint32:
		return strconv.AppendUint(dst, uint64(binary.LittleEndian.Uint32(b)), 10), nil
	case jsonInt64:
		return strconv.AppendInt(dst, int64(binary.LittleEndian.Uint64(b)), 10), nil
	case jsonUint64:
		return strconv.AppendUint(dst, binary.LittleEndian.Uint64(b), 10), nil
	case jsonDouble:
		return appendJSONDouble(dst, math.Float64frombits(binary.LittleEndian.Uint64(b))), nil
	case jsonString:
		text, _, ok := jsonLength(b)
		if !ok {
			return dst, errJSON
		}
		return appendJSONString(dst, text), nil
	case jsonOpaque:
		return s.jsonOpaque(dst, b)
	}
	return dst, errJSON
}

// jsonLength takes bytes behind their length, of which each byte has seven bits.
func jsonLength(b []byte) (text, rest []byte, ok bool) {
	length := uint64(0)
	for i := range min(len(b), 5) {
		length |= uint64(b[i]&0x7f) << (7 * i)
		if b[i]&0x80 == 0 {
			b = b[i+1:]
			if length > uint64(len(b)) {
				return nil, nil, false
			}
			return b[:length], b[length:], true
		}
	}
	return nil, nil, false
}

// jsonContainer appends an object or array: count and size, then where the keys are,
// then types and places of the values; small ones stand there themselves.
func (s *slot) jsonContainer(dst []byte, kind byte, b []byte, depth int) ([]byte, error) {
	width := 2
	if kind == jsonLargeObject || kind == jsonLargeArray {
		width = 4
	}
	object := kind == jsonSmallObject || kind == jsonLargeObject
	if len(b) < 2*width {
		return dst, errJSON
	}
	count := littleEndian(b[:width])
	size := littleEndian(b[width : 2*width])
	if size > uint64(len(b)) || count > size {
		return dst, errJSON
	}
	b = b[:size]
	keys := uint64(2 * width)
	values := keys
	if object {
		values += count * uint64(width+2)
	}
	if values+count*uint64(width+1) > size {
		return dst, errJSON
	}
	open, shut := byte('['), byte(']')
	if object {
		open, shut = '{', '}'
	}
	dst = append(dst, open)
	for i := range count {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		if object {
			at := keys + i*uint64(width+2)
			from := littleEndian(b[at : at+uint64(width)])
			length := uint64(binary.LittleEndian.Uint16(b[at+uint64(width):]))
			if from+length > size {
				return dst, errJSON
			}
			dst = appendJSONString(dst, b[from:from+length])
			dst = append(dst, ": "...)
		}
		at := values + i*uint64(width+1)
		kind, place := b[at], b[at+1:at+1+uint64(width)]
		value := place
		switch {
		case kind == jsonLiteral, kind == jsonInt16, kind == jsonUint16, width == 4 && (kind == jsonInt32 || kind == jsonUint32):
		default:
			from := littleEndian(place)
			if from >= size || from < values {
				return dst, errJSON
			}
			value = b[from:]
		}
		var err error
		if dst, err = s.jsonValue(dst, kind, value, depth+1); err != nil {
			return dst, err
		}
		if len(dst) > maxEvent {
			return dst, errJSON
		}
	}
	return append(dst, shut), nil
}

// jsonOpaque appends a value of another type of the server.
func (s *slot) jsonOpaque(dst, b []byte) ([]byte, error) {
	if len(b) < 1 {
		return dst, errJSON
	}
	kind := b[0]
	value, _, ok := jsonLength(b[1:])
	if !ok {
		return dst, errJSON
	}
	switch kind {
	case mysql.MYSQL_TYPE_NEWDECIMAL:
		if len(value) < 2 || value[0] > 65 || value[1] > value[0] {
			return dst, errJSON
		}
		var own slot
		var out event.Cell
		if _, err := own.decimal(value[2:], int(value[0]), int(value[1]), &out); err != nil {
			return dst, errJSON
		}
		return append(dst, out.Bytes...), nil
	case mysql.MYSQL_TYPE_DATE, mysql.MYSQL_TYPE_DATETIME, mysql.MYSQL_TYPE_TIMESTAMP, mysql.MYSQL_TYPE_TIME:
		if len(value) < 8 {
			return dst, errJSON
		}
		v := int64(binary.LittleEndian.Uint64(value))
		dst = append(dst, '"')
		if v < 0 {
			if v = -v; kind == mysql.MYSQL_TYPE_TIME {
				dst = append(dst, '-')
			}
		}
		micros, whole := v&(1<<24-1), uint64(v>>24)
		if kind == mysql.MYSQL_TYPE_TIME {
			dst = appendClock(dst, whole>>12&1023, whole>>6&63, whole&63)
			return append(appendFraction(dst, micros, 6), '"'), nil
		}
		month := whole >> 22
		dst = appendDate(dst, month/13, month%13, whole>>17&31)
		if kind != mysql.MYSQL_TYPE_DATE {
			dst = appendClock(append(dst, ' '), whole>>12&31, whole>>6&63, whole&63)
			dst = appendFraction(dst, micros, 6)
		}
		return append(dst, '"'), nil
	}
	dst = append(dst, `"base64:type`...)
	dst = append(strconv.AppendUint(dst, uint64(kind), 10), ':')
	return append(base64.StdEncoding.AppendEncode(dst, value), '"'), nil
}

func appendJSONString(dst, s []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= ' ':
			dst = append(dst, c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c == '\b':
			dst = append(dst, '\\', 'b')
		case c == '\f':
			dst = append(dst, '\\', 'f')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(dst, '"')
}

// appendJSONDouble writes a double as MySQL does: the shortest digits, with an exponent
// from 1e15 and below 1e-15 on; a whole number keeps a .0 that tells it from an integer.
func appendJSONDouble(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...) // the server stores none
	}
	var room [32]byte
	text := strconv.AppendFloat(room[:0], f, 'e', -1, 64)
	exponent := 0
	if i := lastIndex(text, 'e'); i >= 0 {
		exponent, _ = strconv.Atoi(string(text[i+1:]))
		text = text[:i]
	}
	if f == 0 || exponent >= -15 && exponent < 15 {
		text = strconv.AppendFloat(room[:0], f, 'f', -1, 64)
		dst = append(dst, text...)
		if lastIndex(text, '.') < 0 {
			dst = append(dst, ".0"...)
		}
		return dst
	}
	dst = append(append(dst, text...), 'e')
	return strconv.AppendInt(dst, int64(exponent), 10)
}

func lastIndex(b []byte, c byte) int {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] == c {
			return i
		}
	}
	return -1
}

// change applies a change of a JSON column to what the column had before.
func (col *column) change(data []byte, before, out *event.Cell, s *slot) (int, error) {
	b, n, err := prefixed(data, col.length)
	if err != nil {
		return 0, err
	}
	return n, s.jsonChange(b, before, out)
}
