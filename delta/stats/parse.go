package stats

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/valyala/fastjson"
)

// ErrStats is wrapped by errors about text that is no add.stats.
var ErrStats = errors.New("not the statistics of a file")

// Bounds is what is known of a column's values in a file or row group.
type Bounds struct {
	// Min and Max are NULL where they are not known, each by itself. No value
	// that is not NULL lies outside them; they may be wider than the values.
	Min, Max schema.Value
	// NullCount is -1 where it is not known.
	NullCount int64
}

// Unknown is the bounds of a column that nothing is known of.
var Unknown = Bounds{NullCount: -1}

// FileStatistics is a parsed add.stats.
type FileStatistics struct {
	// NumRecords counts the physical rows, deleted ones included; -1 where it
	// is not known.
	NumRecords int64
	// Tight tells that the bounds and counts are those of the rows that are
	// left. Where it is not set rows may have been deleted since.
	Tight bool

	columns map[string]Bounds // by pathKey
}

// Bounds gives what is known of a column by its logical name, or of a field inside of
// structs by its name behind theirs, never narrower than the truth. What has no
// statistics is Unknown.
func (f *FileStatistics) Bounds(path ...string) Bounds {
	if b, ok := f.columns[pathKey(path)]; ok {
		return b
	}
	return Unknown
}

// pathKey makes one text of a path.
func pathKey(path []string) string {
	if len(path) == 1 {
		return path[0]
	}
	return strings.Join(path, "\x00")
}

var parsers fastjson.ParserPool

// Parse reads add.stats for the columns of a schema, and the fields in its structs. The
// empty text tells nothing. A bound that is no value of its
// column is left out; text that is no JSON object gives an error that wraps
// ErrStats. Nothing in the result shares memory with text.
func Parse(text string, s *schema.Schema) (*FileStatistics, error) {
	f := &FileStatistics{NumRecords: -1, Tight: true}
	if text == "" {
		return f, nil
	}
	p := parsers.Get()
	defer parsers.Put(p)
	root, err := p.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrStats, err)
	}
	if root.Type() != fastjson.TypeObject {
		return nil, fmt.Errorf("%w: it is a %s", ErrStats, root.Type())
	}
	if n, ok := count(root.Get("numRecords")); ok {
		f.NumRecords = n
	}
	if t := root.Get("tightBounds"); t != nil {
		f.Tight = t.Type() != fastjson.TypeFalse
	}
	low, high, nulls := root.Get("minValues"), root.Get("maxValues"), root.Get("nullCount")
	f.columns = make(map[string]Bounds, len(s.Fields))
	f.read(s.Fields, "", low, high, nulls)
	return f, nil
}

// read takes over what is known of fields, whose structs have made prefix.
func (f *FileStatistics) read(fields []schema.Field, prefix string, low, high, nulls *fastjson.Value) {
	for i := range fields {
		field := &fields[i]
		name := field.Stored()
		low, high, nulls := low.Get(name), high.Get(name), nulls.Get(name)
		switch {
		case field.Type.IsLeaf():
			b := f.bounds(field.Type, low, high, nulls)
			if field.Type.Primitive == schema.DoubleType && wasFloat(field) {
				b.Min, b.Max = nextFloat(b.Min, math.Inf(-1)), nextFloat(b.Max, math.Inf(1))
			}
			f.columns[prefix+field.Name] = b
		case field.Type.Primitive == schema.Struct && (low != nil || high != nil || nulls != nil):
			f.read(field.Type.Nested.Fields, prefix+field.Name+"\x00", low, high, nulls)
		}
	}
}

// bounds puts a column's three values together.
func (f *FileStatistics) bounds(t schema.Type, low, high, nulls *fastjson.Value) Bounds {
	b := Unknown
	if n, ok := count(nulls); ok && (f.NumRecords < 0 || n <= f.NumRecords) && (f.Tight || n == 0 || n == f.NumRecords) {
		b.NullCount = n
	}
	b.Min, b.Max = parseBound(low, t, false), parseBound(high, t, true)
	if !b.Min.IsNull() && !b.Max.IsNull() && schema.Compare(b.Min, b.Max) > 0 {
		b.Min, b.Max = schema.Value{}, schema.Value{} // a writer that orders otherwise
	}
	return b
}

// wasFloat tells whether older files hold a double column as floats. Their bounds are
// the shortest text of a float, which is not that of the double it is read as.
func wasFloat(f *schema.Field) bool {
	return bytes.Contains(f.Metadata["delta.typeChanges"], []byte(`"float"`))
}

// nextFloat gives the float beyond a bound.
func nextFloat(v schema.Value, to float64) schema.Value {
	if v.IsNull() {
		return v
	}
	return schema.DoubleValue(float64(math.Nextafter32(float32(v.Float64()), float32(to))))
}

func count(v *fastjson.Value) (int64, bool) {
	if v == nil || v.Type() != fastjson.TypeNumber {
		return 0, false
	}
	n, err := v.Int64()
	return n, err == nil && n >= 0
}

// scalar gives the text of a JSON string or number.
func scalar(v *fastjson.Value) (text string, isString, ok bool) {
	if v == nil {
		return "", false, false
	}
	switch v.Type() {
	case fastjson.TypeString:
		s, err := v.StringBytes()
		return strings.Clone(string(s)), true, err == nil
	case fastjson.TypeNumber:
		return string(v.MarshalTo(nil)), false, true
	}
	return "", false, false
}
