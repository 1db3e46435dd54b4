package decode

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

// avroCells is where the cells of one Avro value are read from and put. The
// scanner has passed the value before.
type avroCells struct {
	avroScanner
	arena       *change.Arena
	placeholder string
	text        []byte // of JSON, for reuse
}

// avroRow is how the rows of one record type are read.
type avroRow struct {
	typ   *avroType
	shape *shape
}

// row reads all cells; at has where each field begins.
func (r *avroCells) row(w *avroRow, at []int32) ([]schema.Value, error) {
	out := r.arena.Values(len(at))
	for i := range at {
		v, err := r.cell(&w.shape.codecs[i], w.typ.fields[i].typ, int(at[i]))
		if err != nil {
			return nil, w.shape.fault(i, err)
		}
		out[i] = v
	}
	return out, nil
}

// keys reads the cells of the configured key columns alone.
func (r *avroCells) keys(w *avroRow, at []int32) ([]schema.Value, error) {
	s := w.shape
	if s.keyCols == s.cols {
		return r.row(w, at)
	}
	out := r.arena.Values(len(s.keyAt))
	for i, field := range s.keyAt {
		v, err := r.cell(&s.codecs[field], w.typ.fields[field].typ, int(at[field]))
		if err != nil {
			return nil, s.fault(int(field), err)
		}
		out[i] = v
	}
	return out, nil
}

// cell reads one cell.
func (r *avroCells) cell(c *codec, t *avroType, i int) (v schema.Value, err error) {
	if t.kind == avroUnion {
		if t, i = r.branch(t, i); i < 0 {
			return v, r.err
		}
	}
	switch t.kind {
	case avroNull:
		return v, nil
	case avroInt, avroLong:
		n, end := r.long(i)
		if end < 0 {
			return v, r.err
		}
		v, err = r.ofInteger(c, n)
	case avroString, avroEnum:
		s, end := r.stringAt(t, i)
		if end < 0 {
			return v, r.err
		}
		if s == r.placeholder {
			return schema.Value{Kind: schema.Unavailable}, nil
		}
		v, err = r.ofString(c, s)
	case avroBytes, avroFixed:
		b, end := r.bytesAt(t, i)
		if end < 0 {
			return v, r.err
		}
		if t.kind == avroBytes && string(b) == r.placeholder {
			return schema.Value{Kind: schema.Unavailable}, nil
		}
		v, err = r.ofBytes(c, b)
	case avroBoolean:
		if r.boolean(i) < 0 {
			return v, r.err
		}
		v = schema.BoolValue(r.b[i] == 1)
		if c.enc != encBool && c.enc != encUntyped {
			err = wrongAvro(t.kind)
		}
	case avroFloat, avroDouble:
		f, end := r.float(t, i)
		if end < 0 {
			return v, r.err
		}
		v, err = r.ofFloat(c, t, f)
	default:
		v, err = r.nested(c, t, i)
	}
	if err == nil && c.fit.Primitive != schema.Unknown {
		return Fit(v, c.typ, c.fit)
	}
	return v, err
}

// wrongAvro is for a codec that no column of the kind is given.
func wrongAvro(k avroKind) error {
	return fmt.Errorf("a value of Avro type %s can't be read as the configured type", k)
}

func (r *avroCells) ofInteger(c *codec, n int64) (schema.Value, error) {
	switch c.enc {
	case encUntyped:
		return schema.IntValue(n), nil
	case encInt:
		return c.integer(n)
	case encUnsigned:
		return unwrapped(n, r.arena), nil
	case encTime:
		return c.timeOf(n)
	case encDays:
		return dateOf(n)
	case encDecimal, encLongDecimal:
		var room [20]byte
		return c.decimalText(view(strconv.AppendInt(room[:0], n, 10)), r.arena)
	}
	return schema.Value{}, wrongAvro(avroLong)
}

func (r *avroCells) ofString(c *codec, s string) (schema.Value, error) {
	switch c.enc {
	case encUntyped, encString:
		return schema.StringValue(s), nil
	case encTime:
		return c.timeText(s)
	case encDays:
		return dateText(s)
	case encBytes:
		b, err := decodeBase64(r.arena.Bytes(len(s)/4*3), []byte(s))
		if err != nil {
			return schema.Value{}, err
		}
		return r.padded(c, b)
	}
	return schema.Value{}, wrongAvro(avroString)
}

func (r *avroCells) ofBytes(c *codec, b []byte) (schema.Value, error) {
	switch c.enc {
	case encUntyped:
		return schema.BinaryValue(view(b)), nil
	case encBytes:
		return r.padded(c, b)
	case encBits:
		return c.bitsBytes(b, r.arena)
	case encDecimal, encLongDecimal:
		return c.decimalBytes(b, r.arena)
	}
	return schema.Value{}, wrongAvro(avroBytes)
}

// padded is a cell of bytes, with zeros up to the column's length.
func (r *avroCells) padded(c *codec, b []byte) (schema.Value, error) {
	switch {
	case c.length > 0 && len(b) > c.length:
		return schema.Value{}, errLarge
	case len(b) < c.length:
		room := r.arena.Bytes(c.length)
		clear(room[copy(room, b):])
		b = room
	}
	return schema.BinaryValue(view(b)), nil
}

func (r *avroCells) ofFloat(c *codec, t *avroType, f float64) (schema.Value, error) {
	single := t.kind == avroFloat
	switch c.enc {
	case encUntyped:
		if single {
			return schema.FloatValue(float32(f)), nil
		}
		return schema.DoubleValue(f), nil
	case encFloat:
		return schema.FloatValue(float32(f)), nil
	case encDouble:
		return schema.DoubleValue(f), nil
	case encDecimal, encLongDecimal:
		width := 64
		if single {
			width = 32
		}
		var room [32]byte
		return c.decimalText(view(strconv.AppendFloat(room[:0], f, 'e', -1, width)), r.arena)
	}
	return schema.Value{}, wrongAvro(t.kind)
}

// nested reads records, arrays and maps.
func (r *avroCells) nested(c *codec, t *avroType, i int) (schema.Value, error) {
	switch {
	case c.enc == encGeometry && t.kind == avroRecord:
		wkb, _ := r.member(t, i, "wkb")
		if wkb.typ == nil || wkb.typ.kind != avroBytes {
			return schema.Value{}, errWKB
		}
		b, end := r.bytesAt(wkb.typ, wkb.at)
		if end < 0 {
			return schema.Value{}, r.err
		}
		return schema.BinaryValue(view(b)), nil
	case c.enc == encVariable && t.kind == avroRecord:
		return r.variable(t, i)
	}
	text, err := r.json(t, i)
	return schema.StringValue(text), err
}

func (r *avroCells) variable(t *avroType, i int) (schema.Value, error) {
	scale, ok := r.member(t, i, "scale")
	value, also := r.member(t, i, "value")
	if !ok || !also || scale.typ.kind != avroInt || value.typ.kind != avroBytes {
		return schema.Value{}, errNotDecimal
	}
	n, _ := r.long(scale.at)
	b, end := r.bytesAt(value.typ, value.at)
	if end < 0 || n < 0 || n > math.MaxInt16 {
		return schema.Value{}, errNotDecimal
	}
	s, err := longDecimalBytes(b, math.MaxInt16, int(n))
	return schema.StringValue(s), err
}

// avroMember is where a field of a record is.
type avroMember struct {
	typ *avroType
	at  int
}

// member finds a field of a record by its name.
func (r *avroCells) member(t *avroType, i int, name string) (m avroMember, ok bool) {
	for f := 0; f < len(t.fields) && i >= 0; f++ {
		if t.fields[f].name == name {
			m.typ, m.at = t.fields[f].typ, i
			if m.typ.kind == avroUnion {
				m.typ, m.at = r.branch(m.typ, i)
			}
			return m, m.at >= 0
		}
		i = r.skip(t.fields[f].typ, i, 1)
	}
	return m, false
}

func (r *avroCells) stringAt(t *avroType, i int) (string, int) {
	if t.kind == avroEnum {
		return r.symbol(t, i)
	}
	from, to := r.span(i)
	if to < 0 {
		return "", to
	}
	return view(r.b[from:to]), to
}

func (r *avroCells) bytesAt(t *avroType, i int) ([]byte, int) {
	if t.kind == avroFixed {
		end := r.fixed(i, t.size)
		if end < 0 {
			return nil, end
		}
		return r.b[i:end], end
	}
	from, to := r.span(i)
	if to < 0 {
		return nil, to
	}
	return r.b[from:to], to
}

func (r *avroCells) float(t *avroType, i int) (float64, int) {
	if t.kind == avroFloat {
		end := r.fixed(i, 4)
		if end < 0 {
			return 0, end
		}
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(r.b[i:]))), end
	}
	end := r.fixed(i, 8)
	if end < 0 {
		return 0, end
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(r.b[i:])), end
}
