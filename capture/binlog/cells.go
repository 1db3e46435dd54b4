package binlog

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/gscd-io/gscd/capture/event"
	"github.com/gscd-io/gscd/ddl"
)

// column reads the cells of one column.
type column struct {
	typ      byte
	length   int // as mappedColumn's
	scale    int
	unsigned bool
	wide     bool // two bytes tell a string's length
	// text converts characters; nil: bytes, padded with zeros to pad.
	text   *charset
	pad    int
	labels []string
	native nativeType
}

func (col *column) isJSON() bool { return col.typ == mysql.MYSQL_TYPE_JSON }

// init finds how a column's cells are read. Of what the log tells itself, that counts.
func (col *column) init(m *mappedColumn, t *ddl.Table, def *ddl.Column) error {
	if m.unreadable != nil {
		return m.unreadable
	}
	name := typeName(def.Type)
	*col = column{typ: m.typ, length: m.length, scale: m.scale}
	col.unsigned = m.unsigned
	if !m.signKnown {
		col.unsigned = strings.Contains(def.Type, "unsigned") || strings.Contains(def.Type, "zerofill")
	}
	switch m.typ {
	case mysql.MYSQL_TYPE_STRING, mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_BLOB:
		col.wide = m.length > 255
		cs := charsetName(m.collation)
		if cs == "" {
			cs = def.Charset
		}
		switch name {
		case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector":
			cs = "binary"
		case "uuid", "inet6", "inet4":
			col.native = nativeTypes[name]
			return nil
		case "json": // MariaDB's, a longtext
			if cs == "" || cs == "binary" {
				cs = "utf8mb4"
			}
		default:
			if cs == "" {
				cs = t.Charset
			}
			if cs == "" {
				cs = "utf8mb4"
			}
		}
		if cs == "binary" {
			if m.typ == mysql.MYSQL_TYPE_STRING {
				col.pad = m.length
			}
			return nil
		}
		if col.text = charsetOf(cs); col.text == nil {
			return fmt.Errorf("character set %q %w", cs, ErrUnsupported)
		}
	case mysql.MYSQL_TYPE_ENUM, mysql.MYSQL_TYPE_SET:
		if col.labels = m.labelsText(); m.labels == nil {
			col.labels = labelsOf(def.Type)
		}
		if n := m.length; n < 1 || m.typ == mysql.MYSQL_TYPE_ENUM && n > 2 || n > 8 {
			return corrupt("labels of %d bytes", n)
		}
	}
	return nil
}

// labelsOf takes the labels from "enum('a','b')"; nil of another type.
func labelsOf(text string) (labels []string) {
	if name := typeName(text); name != "enum" && name != "set" {
		return nil
	}
	_, rest, _ := strings.Cut(text, "(")
	labels = []string{}
	for {
		open := strings.IndexByte(rest, '\'')
		if open < 0 {
			return labels
		}
		rest = rest[open+1:]
		var label strings.Builder
		for {
			end := strings.IndexByte(rest, '\'')
			if end < 0 {
				return labels
			}
			label.WriteString(rest[:end])
			rest = rest[end+1:]
			if !strings.HasPrefix(rest, "'") {
				break
			}
			label.WriteByte('\'')
			rest = rest[1:]
		}
		labels = append(labels, label.String())
	}
}

// cell reads one cell and tells how many bytes it has. Its bytes point into data, or
// into the slot's room.
func (col *column) cell(data []byte, out *event.Cell, s *slot) (n int, err error) {
	*out = event.Cell{}
	fixed := fixedSize[col.typ]
	if len(data) < fixed {
		return 0, errShort
	}
	switch col.typ {
	case mysql.MYSQL_TYPE_TINY:
		col.integer(out, uint64(data[0]), 8)
	case mysql.MYSQL_TYPE_SHORT:
		col.integer(out, uint64(binary.LittleEndian.Uint16(data)), 16)
	case mysql.MYSQL_TYPE_INT24:
		col.integer(out, littleEndian(data[:3]), 24)
	case mysql.MYSQL_TYPE_LONG:
		col.integer(out, uint64(binary.LittleEndian.Uint32(data)), 32)
	case mysql.MYSQL_TYPE_LONGLONG:
		col.integer(out, binary.LittleEndian.Uint64(data), 64)
	case mysql.MYSQL_TYPE_YEAR:
		out.Kind = event.Int
		if data[0] != 0 {
			out.Number = 1900 + uint64(data[0])
		}
	case mysql.MYSQL_TYPE_FLOAT:
		out.Kind, out.Float = event.Float, float64(math.Float32frombits(binary.LittleEndian.Uint32(data)))
	case mysql.MYSQL_TYPE_DOUBLE:
		out.Kind, out.Float = event.Double, math.Float64frombits(binary.LittleEndian.Uint64(data))
	case mysql.MYSQL_TYPE_NULL:
		out.Kind = event.Null
	case mysql.MYSQL_TYPE_NEWDECIMAL:
		return s.decimal(data, col.length, col.scale, out)
	case mysql.MYSQL_TYPE_BIT:
		n = (col.length + 7) / 8
		if len(data) < n {
			return 0, errShort
		}
		out.Kind, out.Number = event.Uint, bigEndian(data[:n])
		return n, nil
	case mysql.MYSQL_TYPE_ENUM, mysql.MYSQL_TYPE_SET:
		if len(data) < col.length {
			return 0, errShort
		}
		return col.length, col.label(littleEndian(data[:col.length]), out, s)
	case mysql.MYSQL_TYPE_STRING, mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_VARCHAR:
		size := 1
		if col.wide {
			size = 2
		}
		return col.bytes(data, size, out, s)
	case mysql.MYSQL_TYPE_BLOB:
		return col.bytes(data, col.length, out, s)
	case mysql.MYSQL_TYPE_GEOMETRY, mysql.MYSQL_TYPE_VECTOR:
		b, n, err := prefixed(data, col.length)
		out.Kind, out.Bytes = event.Bytes, b
		return n, err
	case mysql.MYSQL_TYPE_JSON:
		b, n, err := prefixed(data, col.length)
		if err != nil {
			return 0, err
		}
		return n, s.json(b, out)
	default:
		return s.temporal(col, data, out)
	}
	return fixed, nil
}

// fixedSize is the bytes of the types that have always as many.
var fixedSize = [256]int{
	mysql.MYSQL_TYPE_TINY: 1, mysql.MYSQL_TYPE_SHORT: 2, mysql.MYSQL_TYPE_INT24: 3, mysql.MYSQL_TYPE_LONG: 4, mysql.MYSQL_TYPE_LONGLONG: 8,
	mysql.MYSQL_TYPE_YEAR: 1, mysql.MYSQL_TYPE_FLOAT: 4, mysql.MYSQL_TYPE_DOUBLE: 8,
	mysql.MYSQL_TYPE_DATE: 3, mysql.MYSQL_TYPE_NEWDATE: 3, mysql.MYSQL_TYPE_TIME: 3, mysql.MYSQL_TYPE_DATETIME: 8, mysql.MYSQL_TYPE_TIMESTAMP: 4,
}

// integer makes a number of bits, signed or not.
func (col *column) integer(out *event.Cell, n uint64, bits int) {
	if col.unsigned {
		out.Kind, out.Number = event.Uint, n
		return
	}
	out.Kind, out.Number = event.Int, uint64(int64(n<<(64-bits))>>(64-bits))
}

// prefixed takes bytes behind their length of size bytes.
func prefixed(data []byte, size int) (b []byte, n int, err error) {
	if len(data) < size {
		return nil, 0, errShort
	}
	length := littleEndian(data[:size])
	if length > uint64(len(data)-size) {
		return nil, 0, errShort
	}
	n = size + int(length)
	return data[size:n:n], n, nil
}

// bytes reads characters or bytes.
func (col *column) bytes(data []byte, size int, out *event.Cell, s *slot) (int, error) {
	b, n, err := prefixed(data, size)
	if err != nil {
		return 0, err
	}
	switch {
	case col.native != nil:
		out.Kind = event.Text
		out.Bytes, err = s.keep(func(dst []byte) ([]byte, error) { return col.native(dst, b) })
	case col.text != nil:
		out.Kind = event.Text
		if col.text.fits(b) {
			out.Bytes = b
		} else {
			out.Bytes, err = s.keep(func(dst []byte) ([]byte, error) { return col.text.convert(dst, b) })
		}
	case len(b) < col.pad:
		out.Kind = event.Bytes
		out.Bytes, _ = s.keep(func(dst []byte) ([]byte, error) {
			dst = append(dst, b...)
			return append(dst, make([]byte, col.pad-len(b))...), nil
		})
	default:
		out.Kind, out.Bytes = event.Bytes, b
	}
	return n, err
}

// keep gives what an append has put behind the slot's bytes.
func (s *slot) keep(appendTo func([]byte) ([]byte, error)) ([]byte, error) {
	at := len(s.scratch)
	out, err := appendTo(s.scratch)
	if err != nil {
		return nil, err
	}
	s.scratch = out
	return out[at:len(out):len(out)], nil
}

// label gives the labels that a number stands for.
func (col *column) label(n uint64, out *event.Cell, s *slot) error {
	if col.labels == nil {
		out.Kind, out.Number = event.Uint, n
		return nil
	}
	out.Kind = event.Text
	if col.typ == mysql.MYSQL_TYPE_ENUM {
		switch {
		case n == 0: // what the server puts where a value was not valid
		case n > uint64(len(col.labels)):
			return corrupt("label %d of %d", n, len(col.labels))
		default:
			out.Bytes = []byte(col.labels[n-1])
		}
		return nil
	}
	if len(col.labels) < 64 && n>>len(col.labels) != 0 {
		return corrupt("labels %b of %d", n, len(col.labels))
	}
	var err error
	out.Bytes, err = s.keep(func(dst []byte) ([]byte, error) {
		at := len(dst)
		for i, label := range col.labels {
			if n>>i&1 == 1 {
				if len(dst) > at {
					dst = append(dst, ',')
				}
				dst = append(dst, label...)
			}
		}
		return dst, nil
	})
	return err
}
