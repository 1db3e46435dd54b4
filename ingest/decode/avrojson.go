package decode

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Arrays, maps and records of a column become JSON text, as Connect's JsonConverter
// writes them: bytes in base64, a map whose keys are no strings as pairs.

// maxNested bounds the text of one cell: names of fields, which take no bytes in
// the record, are written for every item.
const maxNested = 64 << 20

var errNestedText = errors.New("its JSON text is larger than 64 MiB")

// json gives the text of a value that the scanner has passed.
func (r *avroCells) json(t *avroType, i int) (string, error) {
	r.text = r.text[:0]
	if r.appendJSON(t, i, 1) < 0 {
		return "", r.err
	}
	text := r.arena.String(r.text)
	if cap(r.text) > 1<<20 {
		r.text = nil
	}
	return text, nil
}

func (r *avroCells) appendJSON(t *avroType, i, depth int) int {
	if len(r.text) > maxNested {
		return r.fail(i, errNestedText)
	}
	switch t.kind {
	case avroNull:
		r.text = append(r.text, "null"...)
		return i
	case avroUnion:
		branch, at := r.branch(t, i)
		if at < 0 {
			return at
		}
		return r.appendJSON(branch, at, depth)
	case avroBoolean:
		end := r.boolean(i)
		if end > 0 {
			r.text = strconv.AppendBool(r.text, r.b[i] == 1)
		}
		return end
	case avroInt, avroLong:
		n, end := r.long(i)
		r.text = strconv.AppendInt(r.text, n, 10)
		return end
	case avroFloat, avroDouble:
		f, end := r.float(t, i)
		r.appendFloat(t, f)
		return end
	case avroString, avroEnum:
		s, end := r.stringAt(t, i)
		r.appendString(s)
		return end
	case avroBytes, avroFixed:
		b, end := r.bytesAt(t, i)
		r.text = append(r.text, '"')
		r.text = base64.StdEncoding.AppendEncode(r.text, b)
		r.text = append(r.text, '"')
		return end
	case avroRecord:
		return r.appendRecord(t, i, depth)
	}
	return r.appendItems(t, i, depth)
}

// appendFloat writes what JSON has no number for as a string.
func (r *avroCells) appendFloat(t *avroType, f float64) {
	width := 64
	if t.kind == avroFloat {
		width = 32
	}
	switch {
	case math.IsNaN(f):
		r.text = append(r.text, `"NaN"`...)
	case math.IsInf(f, 0):
		r.text = append(r.text, `"Infinity"`...)
		if f < 0 {
			r.text = append(r.text[:len(r.text)-len(`"Infinity"`)], `"-Infinity"`...)
		}
	default:
		r.text = strconv.AppendFloat(r.text, f, 'g', -1, width)
	}
}

func (r *avroCells) appendString(s string) {
	r.text = append(r.text, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			r.text = append(r.text, '\\', c)
		case c >= ' ':
			r.text = append(r.text, c)
		case c == '\n':
			r.text = append(r.text, `\n`...)
		case c == '\r':
			r.text = append(r.text, `\r`...)
		case c == '\t':
			r.text = append(r.text, `\t`...)
		default:
			r.text = fmt.Appendf(r.text, `\u%04x`, c)
		}
	}
	r.text = append(r.text, '"')
}

func (r *avroCells) appendRecord(t *avroType, i, depth int) int {
	if depth >= maxDepth {
		return r.fail(i, errAvroDeep)
	}
	if !r.step(i, len(t.fields)+1) {
		return -1
	}
	open, closing := byte('{'), byte('}')
	if t.entry {
		open, closing = '[', ']'
	}
	r.text = append(r.text, open)
	for f := 0; f < len(t.fields) && i >= 0; f++ {
		if f > 0 {
			r.text = append(r.text, ',')
		}
		if !t.entry {
			r.appendString(t.fields[f].name)
			r.text = append(r.text, ':')
		}
		i = r.appendJSON(t.fields[f].typ, i, depth+1)
	}
	r.text = append(r.text, closing)
	return i
}

func (r *avroCells) appendItems(t *avroType, i, depth int) int {
	open, closing := byte('['), byte(']')
	if t.kind == avroMap {
		open, closing = '{', '}'
	}
	r.text = append(r.text, open)
	start := len(r.text)
	i = r.items(t, i, depth, func(key string, i int) int {
		if len(r.text) > start {
			r.text = append(r.text, ',')
		}
		if t.kind == avroMap {
			r.appendString(key)
			r.text = append(r.text, ':')
		}
		return r.appendJSON(t.item, i, depth+1)
	})
	r.text = append(r.text, closing)
	return i
}
