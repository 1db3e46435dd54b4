package decode

import (
	"time"

	"github.com/gscd-io/gscd/delta/schema"
)

// encoding says how a record writes a column's cells.
type encoding uint8

const (
	// encUntyped: nothing tells the type; the JSON kind decides.
	encUntyped encoding = iota
	encBool
	// encInt: an integer between lo and hi.
	encInt
	// encUnsigned: BIGINT UNSIGNED; a negative integer has wrapped around.
	encUnsigned
	encFloat
	encDouble
	// encDecimal: a number, base64 of the unscaled integer, or text.
	encDecimal
	// encLongDecimal: a decimal of more than 38 digits, whose cell is text.
	encLongDecimal
	// encString: a string and nothing else.
	encString
	// encText: a string column of the configuration; other JSON is taken as its text.
	encText
	// encBytes: base64.
	encBytes
	// encBits: base64 of little-endian bits, or a number.
	encBits
	// encDays: days since 1970, or text.
	encDays
	// encTime: an integer of the codec's unit, or text; the type tells which text.
	encTime
	// encGeometry: an object with the WKB in base64.
	encGeometry
	// encVariable: VariableScaleDecimal, an object of scale and value.
	encVariable
	// encLatin1: bytes as the characters of ISO 8859-1.
	encLatin1
	// encGeometryLatin1: the same of MySQL's geometry: the SRID, then the WKB.
	encGeometryLatin1
	// encText64: text in base64.
	encText64
	// encGoBytes: bytes, escaped as in a string of Go.
	encGoBytes
	// encGeometryBytes: base64 of MySQL's geometry: the SRID, then the WKB.
	encGeometryBytes
	// encEnumIndex: the number of a label, from 1 on, or the label itself.
	encEnumIndex
	// encSetBits: the bits of labels as a number, or the labels themselves.
	encSetBits
	// encJSON: any JSON, kept as its compact text.
	encJSON
	// encHex: bytes in hexadecimal, behind 0x or bare.
	encHex
	// encHexBits: the bits of a number, as bytes in hexadecimal; or the number.
	encHexBits
	// encLabels: the labels of a set, an array of strings; or their text.
	encLabels
)

// codec reads the cells of one column. It is a value without state.
type codec struct {
	enc encoding
	// typ is the type of the cells read; fit, where known, the type that the
	// configuration wants instead.
	typ, fit schema.Type
	// lo and hi bound encInt.
	lo, hi int64
	// precision and scale are those of a decimal, up to 65 digits.
	precision, scale int
	// base64 tells that strings of a decimal are base64, not text.
	base64 bool
	// loose lets a boolean be 0 or 1, and 0 or 1 be a boolean.
	loose bool
	// quoted tells that numbers come as strings.
	quoted bool
	// labels are those of an enum or set whose cells are numbers.
	labels *[]string
	// zone is that of a timestamp's text without one; nil: such a text is an error.
	zone *time.Location
	// length is the number of bits, or of bytes to pad to; 0 where unknown.
	length int
	unit   unit
}

// result is the type of the cells that reading gives.
func (c *codec) result() schema.Type {
	if c.fit.Primitive != schema.Unknown {
		return c.fit
	}
	return c.typ
}
