//go:build cgo

package sql

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unsafe"

	duck "github.com/duckdb/duckdb-go-bindings"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/output"
)

// vector is a column of a chunk as DuckDB laid it out. Its pointers are valid as
// long as the chunk.
type vector struct {
	data  unsafe.Pointer
	valid unsafe.Pointer // a bit a row, nil where all are
	parts []vector       // of lists, structs, maps, arrays and unions
}

func vectorOf(v duck.Vector, c *column) vector {
	out := vector{data: duck.VectorGetData(v), valid: duck.VectorGetValidity(v)}
	switch c.kind {
	case duck.TypeList, duck.TypeMap:
		out.parts = []vector{vectorOf(duck.ListVectorGetChild(v), &c.parts[0])}
	case duck.TypeArray:
		out.parts = []vector{vectorOf(duck.ArrayVectorGetChild(v), &c.parts[0])}
	case duck.TypeStruct, duck.TypeUnion:
		for i := range c.parts {
			out.parts = append(out.parts, vectorOf(duck.StructVectorGetChild(v, duck.IdxT(i)), &c.parts[i]))
		}
	}
	return out
}

func (v *vector) isNull(row int) bool {
	return v.valid != nil && *(*uint64)(unsafe.Add(v.valid, row/64*8))&(1<<(row%64)) == 0
}

// at gives the cell of a row of a vector whose cells are T.
func at[T any](v *vector, row int) T {
	var cell T
	return *(*T)(unsafe.Add(v.data, uintptr(row)*unsafe.Sizeof(cell)))
}

// hugeint is how DuckDB lays out 128 bits.
type hugeint struct {
	low  uint64
	high int64
}

type interval struct {
	months, days int32
	micros       int64
}

type listEntry struct{ offset, length uint64 }

// text gives a copy of a string or blob: its length, then up to 12 bytes, or a
// prefix and a pointer.
func (v *vector) text(row int) string {
	const size, inline = 16, 12
	cell := unsafe.Add(v.data, row*size)
	length := int(*(*uint32)(cell))
	bytes := unsafe.Add(cell, 4)
	if length > inline {
		bytes = *(*unsafe.Pointer)(unsafe.Add(cell, 8))
	}
	return strings.Clone(unsafe.String((*byte)(bytes), length))
}

// column is how the cells of a column, or of a part of it, become values.
type column struct {
	kind  duck.Type
	width duck.Type // the integer that a decimal or enum is kept in
	scale uint8
	json  bool     // a VARCHAR that holds JSON
	words []string // of an enum; the names of the parts of a struct or union
	size  int      // of an array
	parts []column
	// cells is what the values are printed as.
	cells schema.Type
}

// decimalOf128 is the type of whole numbers beyond 64 bits.
var decimalOf128 = schema.Decimal(38, 0)

// leafTypes are the types that say everything by themselves.
var leafTypes = map[duck.Type]schema.Type{
	duck.TypeSQLNull: schema.Of(schema.StringType), duck.TypeBoolean: schema.Of(schema.Boolean),
	duck.TypeTinyInt: schema.Of(schema.Byte), duck.TypeSmallInt: schema.Of(schema.Short),
	duck.TypeInteger: schema.Of(schema.Integer), duck.TypeBigInt: schema.Of(schema.Long),
	duck.TypeUTinyInt: schema.Of(schema.Short), duck.TypeUSmallInt: schema.Of(schema.Integer),
	duck.TypeUInteger: schema.Of(schema.Long), duck.TypeUBigInt: schema.Decimal(20, 0),
	duck.TypeHugeInt: decimalOf128, duck.TypeUHugeInt: decimalOf128, duck.TypeBigNum: decimalOf128,
	duck.TypeFloat: schema.Of(schema.FloatType), duck.TypeDouble: schema.Of(schema.DoubleType),
	duck.TypeBlob: schema.Of(schema.BinaryType), duck.TypeDate: schema.Of(schema.Date),
	duck.TypeTimestamp: schema.Of(schema.TimestampNTZ), duck.TypeTimestampS: schema.Of(schema.TimestampNTZ),
	duck.TypeTimestampMS: schema.Of(schema.TimestampNTZ), duck.TypeTimestampTZ: schema.Of(schema.Timestamp),
	duck.TypeTimestampNS: schema.Of(schema.StringType), // nanoseconds are more than a timestamp holds
	duck.TypeTime:        schema.Of(schema.StringType), duck.TypeTimeNS: schema.Of(schema.StringType),
	duck.TypeTimeTZ: schema.Of(schema.StringType), duck.TypeInterval: schema.Of(schema.StringType),
	duck.TypeUUID: schema.Of(schema.StringType), duck.TypeBit: schema.Of(schema.StringType),
}

// columnOf reads a type of DuckDB, and frees it.
func columnOf(t duck.LogicalType) (column, error) {
	defer duck.DestroyLogicalType(&t)
	c := column{kind: duck.GetTypeId(t)}
	part := func(t duck.LogicalType) error {
		p, err := columnOf(t)
		c.parts = append(c.parts, p)
		return err
	}
	if cells, ok := leafTypes[c.kind]; ok {
		c.cells = cells
		return c, nil
	}
	var err error
	switch c.kind {
	case duck.TypeVarchar:
		c.cells = schema.Of(schema.StringType)
		if c.json = duck.LogicalTypeGetAlias(t) == "JSON"; c.json {
			c.cells = schema.Type{Primitive: schema.Struct, Nested: &schema.Nested{}}
		}
	case duck.TypeDecimal:
		c.scale, c.width = duck.DecimalScale(t), duck.DecimalInternalType(t)
		c.cells = schema.Decimal(duck.DecimalWidth(t), c.scale)
	case duck.TypeEnum:
		c.width, c.cells = duck.EnumInternalType(t), schema.Of(schema.StringType)
		for i := range duck.EnumDictionarySize(t) {
			c.words = append(c.words, duck.EnumDictionaryValue(t, duck.IdxT(i)))
		}
	case duck.TypeList:
		c.cells = schema.Type{Primitive: schema.Array, Nested: &schema.Nested{}}
		err = part(duck.ListTypeChildType(t))
	case duck.TypeArray:
		c.cells = schema.Type{Primitive: schema.Array, Nested: &schema.Nested{}}
		c.size = int(duck.ArrayTypeArraySize(t))
		err = part(duck.ArrayTypeChildType(t))
	case duck.TypeMap: // a list of structs of key and value
		c.cells = schema.Type{Primitive: schema.Map, Nested: &schema.Nested{}}
		entry := column{kind: duck.TypeStruct, words: []string{"key", "value"}}
		for _, t := range []duck.LogicalType{duck.MapTypeKeyType(t), duck.MapTypeValueType(t)} {
			p, fault := columnOf(t)
			if fault != nil && err == nil {
				err = fault
			}
			entry.parts = append(entry.parts, p)
		}
		c.parts = []column{entry}
	case duck.TypeStruct:
		c.cells = schema.Type{Primitive: schema.Struct, Nested: &schema.Nested{}}
		for i := range duck.StructTypeChildCount(t) {
			c.words = append(c.words, duck.StructTypeChildName(t, i))
			if fault := part(duck.StructTypeChildType(t, i)); fault != nil && err == nil {
				err = fault
			}
		}
	case duck.TypeUnion: // a struct whose first part is the number of the member
		c.cells = schema.Type{Primitive: schema.Struct, Nested: &schema.Nested{}}
		c.words, c.parts = []string{""}, []column{{kind: duck.TypeUTinyInt, cells: leafTypes[duck.TypeUTinyInt]}}
		for i := range duck.UnionTypeMemberCount(t) {
			c.words = append(c.words, duck.UnionTypeMemberName(t, i))
			if fault := part(duck.UnionTypeMemberType(t, i)); fault != nil && err == nil {
				err = fault
			}
		}
	default:
		return c, fmt.Errorf("its type can't be printed: cast it to VARCHAR or JSON")
	}
	return c, err
}

// value gives the cell of a row; it owns all it holds.
func (c *column) value(v *vector, row int) schema.Value {
	if v.isNull(row) {
		return schema.Value{}
	}
	switch c.kind {
	case duck.TypeBoolean:
		return schema.BoolValue(at[uint8](v, row) != 0)
	case duck.TypeTinyInt:
		return schema.IntValue(int64(at[int8](v, row)))
	case duck.TypeSmallInt:
		return schema.IntValue(int64(at[int16](v, row)))
	case duck.TypeInteger:
		return schema.IntValue(int64(at[int32](v, row)))
	case duck.TypeBigInt:
		return schema.IntValue(at[int64](v, row))
	case duck.TypeUTinyInt:
		return schema.IntValue(int64(at[uint8](v, row)))
	case duck.TypeUSmallInt:
		return schema.IntValue(int64(at[uint16](v, row)))
	case duck.TypeUInteger:
		return schema.IntValue(int64(at[uint32](v, row)))
	case duck.TypeUBigInt:
		return decimal(hugeint{low: at[uint64](v, row)})
	case duck.TypeHugeInt:
		return decimal(at[hugeint](v, row))
	case duck.TypeUHugeInt:
		h := at[hugeint](v, row)
		n := new(big.Int).SetUint64(uint64(h.high))
		return numberText(n.Or(n.Lsh(n, 64), new(big.Int).SetUint64(h.low)).String())
	case duck.TypeBigNum:
		return numberText(bigNumber(v.text(row)))
	case duck.TypeDecimal:
		switch c.width {
		case duck.TypeSmallInt:
			return schema.Value{Kind: schema.Dec, I: int64(at[int16](v, row))}
		case duck.TypeInteger:
			return schema.Value{Kind: schema.Dec, I: int64(at[int32](v, row))}
		case duck.TypeBigInt:
			return schema.Value{Kind: schema.Dec, I: at[int64](v, row)}
		}
		return decimal(at[hugeint](v, row))
	case duck.TypeFloat:
		return schema.FloatValue(at[float32](v, row))
	case duck.TypeDouble:
		return schema.DoubleValue(at[float64](v, row))
	case duck.TypeVarchar:
		if c.json {
			return jsonText(v.text(row))
		}
		return schema.StringValue(v.text(row))
	case duck.TypeBlob:
		return schema.BinaryValue(v.text(row))
	case duck.TypeEnum:
		return schema.StringValue(c.words[c.word(v, row)])
	case duck.TypeBit:
		return schema.StringValue(bits(v.text(row)))
	case duck.TypeUUID:
		return schema.StringValue(uuidText(at[hugeint](v, row)))
	case duck.TypeInterval:
		return schema.StringValue(intervalText(at[interval](v, row)))
	case duck.TypeTime:
		return schema.StringValue(clock(at[int64](v, row), 6))
	case duck.TypeTimeNS:
		return schema.StringValue(clock(at[int64](v, row), 9))
	case duck.TypeTimeTZ:
		return schema.StringValue(clockWithZone(at[uint64](v, row)))
	case duck.TypeDate, duck.TypeTimestamp, duck.TypeTimestampTZ, duck.TypeTimestampS, duck.TypeTimestampMS, duck.TypeTimestampNS:
		return c.instant(v, row)
	case duck.TypeSQLNull:
		return schema.Value{}
	}
	return schema.StringValue(string(c.appendNested(nil, v, row)))
}

func (c *column) word(v *vector, row int) int {
	switch c.width {
	case duck.TypeUTinyInt:
		return int(at[uint8](v, row))
	case duck.TypeUSmallInt:
		return int(at[uint16](v, row))
	}
	return int(at[uint32](v, row))
}

// decimal gives a whole number of 128 bits, in 64 where it fits.
func decimal(h hugeint) schema.Value {
	if h.high == int64(h.low)>>63 {
		return schema.Value{Kind: schema.Dec, I: int64(h.low)}
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(h.high))
	binary.BigEndian.PutUint64(b[8:], h.low)
	return schema.Value{Kind: schema.Dec, S: string(b[:])}
}

// numberText gives a whole number that 128 bits with a sign may not hold.
func numberText(digits string) schema.Value { return schema.Value{Kind: schema.Number, S: digits} }

// bigNumber reads a BIGNUM: three bytes of length, whose highest bit says that
// the number is not negative, and its digits to the base 256; all bits of a
// negative one are turned.
func bigNumber(raw string) string {
	if len(raw) < 4 {
		return "0"
	}
	digits := []byte(raw[3:])
	if raw[0]&0x80 != 0 {
		return new(big.Int).SetBytes(digits).String()
	}
	for i := range digits {
		digits[i] = ^digits[i]
	}
	n := new(big.Int).SetBytes(digits)
	return n.Neg(n).String()
}

// jsonText gives JSON on one line; a text that is none becomes a JSON string.
func jsonText(text string) schema.Value {
	var out bytes.Buffer
	if json.Compact(&out, []byte(text)) != nil {
		return schema.StringValue(string(output.AppendJSONString(nil, text)))
	}
	return schema.StringValue(out.String())
}

// bits gives a bit string: a byte says how many of the first byte's bits are padding.
func bits(raw string) string {
	var b strings.Builder
	for i := 1; i < len(raw); i++ {
		fmt.Fprintf(&b, "%08b", raw[i])
	}
	if raw == "" || b.Len() < int(raw[0]) {
		return ""
	}
	return b.String()[raw[0]:]
}

func uuidText(h hugeint) string {
	high := uint64(h.high) ^ 1<<63 // so that UUIDs sort as numbers do
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", high>>32, high>>16&0xffff, high&0xffff, h.low>>48, h.low&0xffffffffffff)
}

// infinities of dates and of timestamps.
const (
	endOfDates = math.MaxInt32
	endOfTimes = math.MaxInt64
)

// instant gives a date or a timestamp; one that is infinite or finer or further
// off than a cell holds is text.
func (c *column) instant(v *vector, row int) schema.Value {
	if c.kind == duck.TypeDate {
		days := at[int32](v, row)
		switch days {
		case endOfDates:
			return schema.StringValue("infinity")
		case -endOfDates:
			return schema.StringValue("-infinity")
		}
		return schema.IntValue(int64(days))
	}
	n := at[int64](v, row)
	switch n {
	case endOfTimes:
		return schema.StringValue("infinity")
	case -endOfTimes:
		return schema.StringValue("-infinity")
	}
	scale := int64(1)
	switch c.kind {
	case duck.TypeTimestampS:
		scale = 1e6
	case duck.TypeTimestampMS:
		scale = 1e3
	case duck.TypeTimestampNS:
		return schema.StringValue(time.Unix(0, n).UTC().Format("2006-01-02T15:04:05.000000000"))
	}
	if n > math.MaxInt64/scale || n < math.MinInt64/scale {
		return schema.StringValue(time.Unix(n/(1e6/scale), 0).UTC().Format("2006-01-02T15:04:05"))
	}
	return schema.IntValue(n * scale)
}

// clock gives a time of day, of units of which a second has ten to the digits.
func clock(n int64, digits int) string {
	second := int64(1)
	for range digits {
		second *= 10
	}
	s := n / second
	return fmt.Sprintf("%02d:%02d:%02d.%0*d", s/3600, s/60%60, s%60, digits, n%second)
}

// clockWithZone reads a TIMETZ: 40 bits of microseconds, 24 of an offset in
// seconds that counts down from the most easterly.
func clockWithZone(n uint64) string {
	const most = 16*3600 - 1
	offset := most - int64(n&0xffffff)
	sign := byte('+')
	if offset < 0 {
		sign, offset = '-', -offset
	}
	zone := fmt.Sprintf("%c%02d:%02d", sign, offset/3600, offset/60%60)
	if offset%60 != 0 {
		zone += fmt.Sprintf(":%02d", offset%60)
	}
	return clock(int64(n>>24), 6) + zone
}

// intervalText spells an interval as DuckDB does.
func intervalText(i interval) string {
	var parts []string
	add := func(n int32, unit string) {
		if n == 0 {
			return
		}
		if n != 1 && n != -1 {
			unit += "s"
		}
		parts = append(parts, strconv.Itoa(int(n))+" "+unit)
	}
	add(i.months/12, "year")
	add(i.months%12, "month")
	add(i.days, "day")
	if i.micros != 0 || len(parts) == 0 {
		sign, micros := "", i.micros
		if micros < 0 {
			sign, micros = "-", -micros
		}
		text := clock(micros, 6)
		parts = append(parts, sign+strings.TrimSuffix(strings.TrimRight(text, "0"), "."))
		if strings.HasSuffix(text, ".000000") {
			parts[len(parts)-1] = sign + strings.TrimSuffix(text, ".000000")
		}
	}
	return strings.Join(parts, " ")
}

// appendNested appends a cell that has parts as JSON.
func (c *column) appendNested(dst []byte, v *vector, row int) []byte {
	if v.isNull(row) {
		return append(dst, "null"...)
	}
	switch c.kind {
	case duck.TypeList:
		e := at[listEntry](v, row)
		return c.appendArray(dst, &v.parts[0], int(e.offset), int(e.length))
	case duck.TypeArray:
		return c.appendArray(dst, &v.parts[0], row*c.size, c.size)
	case duck.TypeMap:
		e := at[listEntry](v, row)
		entry, entries := &c.parts[0], &v.parts[0]
		dst = append(dst, '{')
		for i := int(e.offset); i < int(e.offset+e.length); i++ {
			if i > int(e.offset) {
				dst = append(dst, ',')
			}
			key := &entry.parts[0]
			name := output.AppendText(nil, key.cells, key.value(&entries.parts[0], i))
			dst = append(output.AppendJSONString(dst, string(name)), ':')
			dst = entry.parts[1].appendNested(dst, &entries.parts[1], i)
		}
		return append(dst, '}')
	case duck.TypeStruct:
		dst = append(dst, '{')
		for i := range c.parts {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(output.AppendJSONString(dst, c.words[i]), ':')
			dst = c.parts[i].appendNested(dst, &v.parts[i], row)
		}
		return append(dst, '}')
	case duck.TypeUnion:
		member := int(at[uint8](&v.parts[0], row)) + 1
		return c.parts[member].appendNested(dst, &v.parts[member], row)
	}
	return output.AppendJSON(dst, c.cells, c.value(v, row))
}

func (c *column) appendArray(dst []byte, elements *vector, from, length int) []byte {
	dst = append(dst, '[')
	for i := from; i < from+length; i++ {
		if i > from {
			dst = append(dst, ',')
		}
		dst = c.parts[0].appendNested(dst, elements, i)
	}
	return append(dst, ']')
}
