package variant

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/gscd-io/gscd/delta/schema"
)

// AppendCell appends a cell of a leaf type as JSON.
func AppendCell(dst []byte, v schema.Value, t schema.Type) []byte {
	switch v.Kind {
	case schema.Bool:
		return strconv.AppendBool(dst, v.I != 0)
	case schema.Float:
		return appendFloat(dst, float64(v.Float32()), 32)
	case schema.Double:
		return appendFloat(dst, v.Float64(), 64)
	case schema.Dec:
		return append(dst, v.DecimalText(t.Scale)...)
	case schema.String:
		return appendString(dst, v.S)
	case schema.Binary:
		return appendBinary(dst, v.S)
	case schema.Int:
		switch t.Primitive {
		case schema.Date:
			return appendDate(dst, v.I)
		case schema.Timestamp:
			return appendTime(dst, time.UnixMicro(v.I), `"2006-01-02T15:04:05.000000Z"`)
		case schema.TimestampNTZ:
			return appendTime(dst, time.UnixMicro(v.I), `"2006-01-02T15:04:05.000000"`)
		}
		return strconv.AppendInt(dst, v.I, 10)
	}
	return append(dst, "null"...)
}

func appendString(dst []byte, s string) []byte {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if e.Encode(s) != nil {
		return append(dst, "null"...)
	}
	return append(dst, text.Bytes()[:text.Len()-1]...) // without the line break
}

func appendBinary(dst []byte, s string) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, []byte(s))
	return append(dst, '"')
}

func appendDate(dst []byte, days int64) []byte {
	return appendTime(dst, time.Unix(days*86400, 0), `"2006-01-02"`)
}

func appendTime(dst []byte, t time.Time, form string) []byte { return t.UTC().AppendFormat(dst, form) }

func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	var text []byte
	var err error
	if bits == 32 {
		text, err = json.Marshal(float32(f))
	} else {
		text, err = json.Marshal(f)
	}
	if err != nil {
		return append(dst, "null"...)
	}
	return append(dst, text...)
}
