package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/gscd-io/gscd/delta/schema"
)

// ErrValue is wrapped by errors about a Go value that no record can hold.
var ErrValue = errors.New("no printable value")

// Item is one entry of a record: a stable name (the JSON key, the column of
// table and csv) and its value.
type Item struct {
	Name  string
	Value any
}

// Record is what a command reports, in the order to print it in.
//
// Values are nil, bool, integers, floats, string, time.Time (printed as RFC
// 3339 UTC; the zero time as null), time.Duration (as text), json.Number,
// json.RawMessage, Cell, fmt.Stringer, a Record (an object), and slices of
// strings, integers, Records or any of these ([]any). Slices print as JSON
// arrays, in table joined by ", ", in csv as JSON text.
type Record []Item

// Cell is a cell of a table inside a record.
type Cell struct {
	Type  schema.Type
	Value schema.Value
}

// RecordWriter prints records one by one.
type RecordWriter struct {
	names []string
	sink  sink
	buf   []byte
}

// NewRecordWriter makes a RecordWriter for a format ("" as Resolve decides) and
// the names of the records' values.
func NewRecordWriter(format string, w io.Writer, names []string) (*RecordWriter, error) {
	return newRecordWriter(format, w, names, TerminalOf(w))
}

func newRecordWriter(format string, w io.Writer, names []string, terminal Terminal) (*RecordWriter, error) {
	format, err := Resolve(format, w)
	if err != nil {
		return nil, err
	}
	return &RecordWriter{names: names, sink: newSink(format, w, names, nil, terminal)}, nil
}

// Write prints one record: a value for each name. The error wraps ErrValue
// where a value is of a type that Record does not name; nothing is printed then.
func (r *RecordWriter) Write(values ...any) error {
	if len(values) != len(r.names) {
		return fmt.Errorf("print record: %d values for %d names", len(values), len(r.names))
	}
	type span struct {
		start int
		null  bool
	}
	r.buf = r.buf[:0]
	spans := make([]span, 0, len(values)+1)
	for i, v := range values {
		start, null := len(r.buf), isNil(v)
		spans = append(spans, span{start, null})
		var err error
		switch {
		case null:
		case r.sink.wantsJSON():
			r.buf, err = appendAnyJSON(r.buf, v)
		default:
			_, table := r.sink.(*tableSink)
			r.buf, err = appendAnyText(r.buf, v, table)
		}
		if err != nil {
			return fmt.Errorf("print %s: %w", r.names[i], err)
		}
	}
	spans = append(spans, span{start: len(r.buf)})
	if err := r.sink.begin(); err != nil {
		return err
	}
	for i := range values {
		if spans[i].null {
			r.sink.null()
		} else {
			r.sink.cell(r.buf[spans[i].start:spans[i+1].start])
		}
	}
	return r.sink.end()
}

// WriteRecord prints one record, whose names must be those of the writer in order.
func (r *RecordWriter) WriteRecord(record Record) error {
	if len(record) != len(r.names) {
		return fmt.Errorf("print record: %d values for %d names", len(record), len(r.names))
	}
	values := make([]any, len(record))
	for i, item := range record {
		if item.Name != r.names[i] {
			return fmt.Errorf("print record: %q stands where %q is expected", item.Name, r.names[i])
		}
		values[i] = item.Value
	}
	return r.Write(values...)
}

// Close finishes the output; see Writer.
func (r *RecordWriter) Close() error { return r.sink.close() }

// WriteRecords prints records that all have the names of the first one. No
// records: an empty array in json, nothing in the other formats; a command whose
// table or csv shall have its header even then uses NewRecordWriter.
func WriteRecords(format string, w io.Writer, records []Record) error {
	format, err := Resolve(format, w)
	if err != nil {
		return err
	}
	if len(records) == 0 && format != JSON {
		return nil
	}
	var names []string
	if len(records) > 0 {
		for _, item := range records[0] {
			names = append(names, item.Name)
		}
	}
	out, err := NewRecordWriter(format, w, names)
	if err != nil {
		return err
	}
	for i, record := range records {
		if err := out.WriteRecord(record); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
	}
	return out.Close()
}

// WriteObject prints one record on its own: an object in json and jsonl, a
// line for each item (name and value) in table and csv.
func WriteObject(format string, w io.Writer, record Record) error {
	format, err := Resolve(format, w)
	if err != nil {
		return err
	}
	if format == JSON || format == JSONL {
		line, err := appendAnyJSON(nil, record)
		if err != nil {
			return err
		}
		_, err = w.Write(append(line, '\n'))
		return err
	}
	out, err := NewRecordWriter(format, w, []string{"name", "value"})
	if err != nil {
		return err
	}
	for _, item := range record {
		if err := out.Write(item.Name, item.Value); err != nil {
			return fmt.Errorf("%s: %w", item.Name, err)
		}
	}
	return out.Close()
}

func isNil(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case time.Time:
		return v.IsZero()
	case Cell:
		return v.Value.IsNull()
	case json.RawMessage:
		return len(v) == 0
	}
	return false
}

// scalar appends a value that has no parts. text says what JSON quotes;
// ok is false for values with parts and unknown ones.
func scalar(dst []byte, v any) (out []byte, text, ok bool) {
	switch v := v.(type) {
	case bool:
		return strconv.AppendBool(dst, v), false, true
	case int:
		return strconv.AppendInt(dst, int64(v), 10), false, true
	case int32:
		return strconv.AppendInt(dst, int64(v), 10), false, true
	case int64:
		return strconv.AppendInt(dst, v, 10), false, true
	case uint32:
		return strconv.AppendUint(dst, uint64(v), 10), false, true
	case uint64:
		return strconv.AppendUint(dst, v, 10), false, true
	case json.Number:
		return append(dst, v...), false, true
	case string:
		return append(dst, v...), true, true
	case time.Time:
		return v.UTC().AppendFormat(dst, time.RFC3339Nano), true, true
	case time.Duration:
		return append(dst, v.String()...), true, true
	case fmt.Stringer:
		return append(dst, v.String()...), true, true
	}
	return dst, false, false
}

// parts gives the elements of a slice that a record may hold.
func parts(v any) ([]any, bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case []string:
		return boxed(v), true
	case []int:
		return boxed(v), true
	case []int64:
		return boxed(v), true
	case []Record:
		return boxed(v), true
	}
	return nil, false
}

func boxed[T any](values []T) []any {
	out := make([]any, len(values))
	for i, v := range values {
		out[i] = v
	}
	return out
}

func appendAnyJSON(dst []byte, v any) ([]byte, error) {
	if isNil(v) {
		return append(dst, "null"...), nil
	}
	switch v := v.(type) {
	case float64:
		return AppendJSON(dst, schema.Of(schema.DoubleType), schema.DoubleValue(v)), nil
	case float32:
		return AppendJSON(dst, schema.Of(schema.FloatType), schema.FloatValue(v)), nil
	case Cell:
		return AppendJSON(dst, v.Type, v.Value), nil
	case json.RawMessage:
		if !json.Valid(v) {
			return dst, fmt.Errorf("%w: %.40q is not JSON", ErrValue, string(v))
		}
		return append(dst, v...), nil
	case Record:
		dst = append(dst, '{')
		for i, item := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(AppendJSONString(dst, item.Name), ':')
			var err error
			if dst, err = appendAnyJSON(dst, item.Value); err != nil {
				return dst, fmt.Errorf("%s: %w", item.Name, err)
			}
		}
		return append(dst, '}'), nil
	}
	if list, ok := parts(v); ok {
		dst = append(dst, '[')
		for i, element := range list {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = appendAnyJSON(dst, element); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	}
	start := len(dst)
	dst, isText, ok := scalar(dst, v)
	if !ok {
		return dst, fmt.Errorf("%w: %T", ErrValue, v)
	}
	if isText {
		s := string(dst[start:])
		return AppendJSONString(dst[:start], s), nil
	}
	return dst, nil
}

// appendAnyText appends a value for table and csv; joined prints lists as
// "a, b" instead of as JSON.
func appendAnyText(dst []byte, v any, joined bool) ([]byte, error) {
	switch v := v.(type) {
	case float64:
		return AppendText(dst, schema.Of(schema.DoubleType), schema.DoubleValue(v)), nil
	case float32:
		return AppendText(dst, schema.Of(schema.FloatType), schema.FloatValue(v)), nil
	case Cell:
		return AppendText(dst, v.Type, v.Value), nil
	}
	if list, ok := parts(v); ok && joined {
		for i, element := range list {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			var err error
			if dst, err = appendAnyText(dst, element, joined); err != nil {
				return dst, err
			}
		}
		return dst, nil
	}
	if out, _, ok := scalar(dst, v); ok {
		return out, nil
	}
	return appendAnyJSON(dst, v)
}
