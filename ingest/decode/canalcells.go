package decode

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gscd-io/gscd/delta/schema"
)

// canalCodec gives the encoding of a MySQL type as Canal writes it: every cell is a
// string. What it does not name with its length, as TiCDC does, stays text.
func canalCodec(mysqlType string, timezone *Canal) codec {
	text := codec{enc: encText, typ: schema.Of(schema.StringType)}
	t, err := splitType(mysqlType)
	if err != nil {
		return text
	}
	switch t.name {
	case "boolean": // MySQL's, not Delta's
		t.name = "tinyint"
	case "decimal", "numeric", "dec", "fixed":
		if len(t.args) == 0 {
			return text
		}
	}
	c, err := t.codec()
	if err != nil {
		return text
	}
	return c.asCanal(t.name, mysqlType, timezone)
}

// asCanal changes an encoding to the one that Canal has.
func (c codec) asCanal(name, mysqlType string, o *Canal) codec {
	switch c.enc {
	case encInt, encUnsigned, encFloat, encDouble, encBits, encBool:
		c.quoted = true
	case encBytes:
		c.enc = encLatin1
	case encGeometry:
		c.enc = encGeometryLatin1
	case encDecimal, encLongDecimal:
		c.base64 = false
	case encTime:
		if c.typ.Primitive == schema.Timestamp {
			c.zone = o.Timezone
		}
	}
	if labels := labelsOf(mysqlType); labels != nil {
		c.labels = &labels
		if c.enc = encEnumIndex; name == "set" {
			c.enc = encSetBits
		}
	}
	return c
}

// labelsOf gives the labels of "enum('a','b')" or "set(…)", nil of another type.
func labelsOf(mysqlType string) (labels []string) {
	open := strings.IndexByte(mysqlType, '(')
	if open < 0 {
		return nil
	}
	if name := strings.ToLower(strings.TrimSpace(mysqlType[:open])); name != "enum" && name != "set" {
		return nil
	}
	rest := mysqlType[open+1:]
	for {
		rest = strings.TrimLeft(rest, ", ")
		if !strings.HasPrefix(rest, "'") {
			return labels
		}
		var label strings.Builder
		i := 1
		for ; i < len(rest); i++ {
			if rest[i] != '\'' {
				label.WriteByte(rest[i])
			} else if i+1 < len(rest) && rest[i+1] == '\'' {
				label.WriteByte('\'')
				i++
			} else {
				break
			}
		}
		if i >= len(rest) {
			return labels
		}
		labels = append(labels, label.String())
		rest = rest[i+1:]
	}
}

// quotedNumber makes the token of a string that spells a number one of a number.
func quotedNumber(b []byte, t token) token {
	if t.start == t.end || b[t.start] != '-' && b[t.start]-'0' > 9 {
		return t
	}
	s := scanner{b: b[:t.end]}
	if n, end := s.number(int(t.start)); end == int(t.end) {
		return n
	}
	return t
}

var (
	errLatin1   = errors.New("a character that is no byte")
	errGeometry = errors.New("too short for a geometry")
	errLabel    = errors.New("no label of the column's type")
)

// latin1 gives the bytes that the characters stand for, with zeros up to pad bytes.
func (r *cells) latin1(t token, pad int) (schema.Value, error) {
	if t.kind != kindString {
		return schema.Value{}, wrongKind(t.kind, "a string of bytes")
	}
	s, err := text(r.b, t, r.arena)
	if err != nil {
		return schema.Value{}, err
	}
	out := r.arena.Bytes(max(utf8.RuneCountInString(s), pad))
	n := 0
	for _, c := range s {
		if c > 0xff {
			return schema.Value{}, fmt.Errorf("%w: %q", errLatin1, c)
		}
		out[n] = byte(c)
		n++
	}
	clear(out[n:])
	if pad > 0 && n > pad {
		return schema.Value{}, errLarge
	}
	return schema.BinaryValue(view(out)), nil
}

// geometryLatin1 gives the WKB behind the SRID.
func (r *cells) geometryLatin1(t token) (schema.Value, error) {
	v, err := r.latin1(t, 0)
	if err == nil && len(v.S) < 4+5 {
		err = errGeometry
	}
	if err != nil {
		return schema.Value{}, err
	}
	return schema.BinaryValue(v.S[4:]), nil
}

// numberedLabels gives the labels that a number stands for: one by its place, or
// several by bits. Text that is a label, or labels and commas, stands for itself.
func (r *cells) numberedLabels(c *codec, t token) (schema.Value, error) {
	labels := *c.labels
	if t.kind != kindString && t.kind != kindNumber {
		return schema.Value{}, wrongKind(t.kind, "a label")
	}
	s := view(r.raw(t))
	if t.kind == kindString {
		var err error
		if s, err = text(r.b, t, r.arena); err != nil {
			return schema.Value{}, err
		}
	}
	n, err := strconv.ParseUint(s, 10, 64)
	switch {
	case err == nil && c.enc == encEnumIndex:
		switch {
		case n == 0: // what MySQL puts where a value was not valid
			return schema.StringValue(""), nil
		case n <= uint64(len(labels)):
			return schema.StringValue(labels[n-1]), nil
		}
	case err == nil:
		if len(labels) >= 64 || n>>len(labels) == 0 {
			var set []string
			for i, label := range labels {
				if n>>i&1 == 1 {
					set = append(set, label)
				}
			}
			return schema.StringValue(strings.Join(set, ",")), nil
		}
	case s == "" || slices.Contains(labels, s):
		return schema.StringValue(s), nil
	case c.enc == encSetBits:
		for label := range strings.SplitSeq(s, ",") {
			if !slices.Contains(labels, label) {
				return schema.Value{}, fmt.Errorf("%w: %.40q", errLabel, label)
			}
		}
		return schema.StringValue(s), nil
	}
	return schema.Value{}, fmt.Errorf("%w: %.40q", errLabel, s)
}
