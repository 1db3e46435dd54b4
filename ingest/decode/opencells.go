package decode

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gscd-io/gscd/delta/schema"
)

// The flags of a column that matter.
const (
	openBinary   = 1 << 0
	openHandle   = 1 << 1
	openUnsigned = 1 << 7
)

// openTypes are TiDB's type codes by the name that MySQL has for the type. What is
// not listed is kept as its text.
var openTypes = map[int64]string{
	1: "tinyint", 2: "smallint", 3: "int", 4: "float", 5: "double", 7: "timestamp", 8: "bigint", 9: "mediumint",
	10: "date", 11: "time", 12: "datetime", 13: "year", 14: "date", 16: "bit(63)",
}

// isString and isBlob tell the types whose values are characters from those whose
// values are base64.
func (c openColumn) isString() bool { return c.typ == 15 || c.typ == 253 || c.typ == 254 }
func (c openColumn) isBlob() bool   { return c.typ >= 249 && c.typ <= 252 }

// codec gives the encoding of a column: of its type, or of what the configuration
// says, as the open protocol writes it.
func (c openColumn) codec(name string, o *Options) codec {
	for configured, spec := range o.Columns {
		if strings.EqualFold(configured, name) {
			own := o.columns[strings.ToLower(name)].asCanal(spec.sqlName(), spec.text, &o.Canal)
			if own.enc == encLatin1 {
				own.enc = encBytes
			}
			return c.text(own)
		}
	}
	binary := c.flags&openBinary != 0
	switch {
	case (c.isString() || c.isBlob()) && binary:
		return c.text(codec{enc: encBytes, typ: schema.Of(schema.BinaryType)})
	case c.isString(), c.isBlob():
		return c.text(codec{enc: encText, typ: schema.Of(schema.StringType)})
	}
	mysqlType := openTypes[c.typ]
	if c.flags&openUnsigned != 0 && c.typ != 4 && c.typ != 5 && c.typ != 13 && c.typ != 16 {
		mysqlType += " unsigned"
	}
	spec, err := parseColumnType(mysqlType)
	if err != nil {
		return codec{enc: encText, typ: schema.Of(schema.StringType)}
	}
	return c.text(spec.codec.asCanal(mysqlType, mysqlType, &o.Canal))
}

// text changes an encoding of characters to the one that the column's type has.
func (c openColumn) text(out codec) codec {
	base64 := c.isBlob() || c.isString() && !c.flagged // which old releases write
	switch {
	case out.enc == encText && base64:
		out.enc = encText64
	case out.enc == encBytes && c.isString() && c.flagged && c.flags&openBinary != 0:
		out.enc = encGoBytes
	}
	return out
}

var errGoBytes = errors.New("not bytes as TiCDC escapes them")

// goBytes gives the bytes of a text in which those that don't print are escaped as
// in a string of Go, with zeros up to pad bytes.
func (r *cells) goBytes(t token, pad int) (schema.Value, error) {
	if t.kind != kindString {
		return schema.Value{}, wrongKind(t.kind, "a string of bytes")
	}
	s, err := text(r.b, t, r.arena)
	if err != nil {
		return schema.Value{}, err
	}
	out := r.arena.Bytes(max(len(s), pad))
	n := 0
	for len(s) > 0 {
		c, multibyte, rest, err := strconv.UnquoteChar(s, '"')
		switch {
		case err != nil:
			return schema.Value{}, errGoBytes
		case c < utf8.RuneSelf || !multibyte:
			out[n] = byte(c)
			n++
		default:
			n += utf8.EncodeRune(out[n:], c) // no escape is shorter than its character
		}
		s = rest
	}
	clear(out[n:max(n, pad)])
	if pad > 0 && n > pad {
		return schema.Value{}, errLarge
	}
	return schema.BinaryValue(view(out[:max(n, pad)])), nil
}

var errText64 = errors.New("its bytes are not UTF-8: is the column binary?")

// text64 gives the text that base64 stands for.
func (r *cells) text64(t token) (schema.Value, error) {
	if t.kind != kindString {
		return schema.Value{}, wrongKind(t.kind, "base64")
	}
	b, err := r.base64(t, 0)
	if err == nil && !utf8.Valid(b) {
		err = errText64
	}
	if err != nil {
		return schema.Value{}, err
	}
	return schema.StringValue(view(b)), nil
}
