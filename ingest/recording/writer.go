package recording

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/gscd-io/gscd/ingest/change"
)

// Form is one of the two ways a line is written.
type Form uint8

// The forms: Readable has key and value as JSON, Kcat has key and payload as
// strings and is what `kcat -J` prints.
const (
	Readable Form = iota
	Kcat
)

// Writer writes records as the lines of a recording, such that Open gives the
// same bytes back, whatever they are. Not safe for concurrent use.
type Writer struct {
	out  *bufio.Writer
	form Form
	buf  []byte
}

// NewWriter makes a writer to w, which the caller closes after Flush.
func NewWriter(w io.Writer, form Form) *Writer {
	return &Writer{out: bufio.NewWriterSize(w, 256<<10), form: form}
}

// Flush writes what is buffered.
func (w *Writer) Flush() error { return w.out.Flush() }

// Write appends one record as a line. It does not look at the order of the
// offsets. A record that was cut (Oversize) is refused.
func (w *Writer) Write(r *change.Record) error {
	if r.Oversize > 0 {
		return fmt.Errorf("topic %s partition %d offset %d: of %d bytes only the first MiB was read: raise max_record to record it",
			r.Topic, r.Partition, r.Offset, r.Oversize)
	}
	b := append(w.buf[:0], `{"topic":`...)
	b = appendString(b, []byte(r.Topic))
	b = append(b, `,"partition":`...)
	b = strconv.AppendInt(b, int64(r.Partition), 10)
	b = append(b, `,"offset":`...)
	b = strconv.AppendInt(b, r.Offset, 10)
	switch {
	case w.form == Kcat && r.Timestamp < 0:
		b = append(b, `,"tstype":"unknown"`...)
	case w.form == Kcat:
		b = append(b, `,"tstype":"create"`...)
	}
	if r.Timestamp >= 0 {
		b = append(b, `,"ts":`...)
		b = strconv.AppendInt(b, r.Timestamp, 10)
	}
	b = appendHeaders(b, r.Headers)
	if w.form == Kcat {
		b = appendText(append(b, ','), "key", "key_b64", r.Key)
		b = appendText(append(b, ','), "payload", "payload_b64", r.Value)
	} else {
		b = appendJSON(append(b, ','), "key", "raw_key", "key_b64", r.Key)
		b = appendJSON(append(b, ','), "value", "raw_value", "value_b64", r.Value)
	}
	b = append(b, '}', '\n')
	w.buf = b
	_, err := w.out.Write(b)
	return err
}

func appendHeaders(b []byte, headers []change.Header) []byte {
	if len(headers) == 0 {
		return b
	}
	plain := true
	for _, h := range headers {
		plain = plain && utf8.ValidString(h.Key) && utf8.Valid(h.Value)
	}
	appendItem, name := appendString, `,"headers":`
	if !plain {
		appendItem, name = appendBase64, `,"headers_b64":`
	}
	b = append(b, name...)
	for i, h := range headers {
		sep := byte(',')
		if i == 0 {
			sep = '['
		}
		b = appendItem(append(b, sep), []byte(h.Key))
		b = append(b, ',')
		if h.Value == nil {
			b = append(b, "null"...)
		} else {
			b = appendItem(b, h.Value)
		}
	}
	return append(b, ']')
}

// appendText writes bytes as a string member, or as base64 where they are no UTF-8.
func appendText(b []byte, name, name64 string, v []byte) []byte {
	switch {
	case v == nil:
		return append(appendName(b, name), "null"...)
	case utf8.Valid(v):
		return appendString(appendName(b, name), v)
	}
	return appendBase64(appendName(b, name64), v)
}

// appendJSON writes bytes that are JSON as they stand. JSON over several lines,
// with space around it, or the text null would not come back as it was, so
// those are written like bytes that are no JSON.
func appendJSON(b []byte, name, raw, name64 string, v []byte) []byte {
	if v == nil {
		return append(appendName(b, name), "null"...)
	}
	if utf8.Valid(v) && validJSON(v) && v[0] != 'n' && bytes.IndexByte(v, '\n') < 0 && depth(v) < maxDepth {
		return append(appendName(b, name), v...)
	}
	return appendText(b, raw, name64, v)
}

// depth bounds from above how deep v is nested: one level more than v alone
// may have would make the line too deep.
func depth(v []byte) int { return bytes.Count(v, []byte("{")) + bytes.Count(v, []byte("[")) }

func appendName(b []byte, name string) []byte {
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

func appendBase64(b, v []byte) []byte {
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, v)
	return append(b, '"')
}

// appendString writes v as a JSON string: only what must be escaped is.
func appendString(b, v []byte) []byte {
	b = append(b, '"')
	for i := 0; i < len(v); {
		end := plainRun(v, i)
		b = append(b, v[i:end]...)
		if i = end; i == len(v) {
			break
		}
		switch c := v[i]; c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		}
		i++
	}
	return append(b, '"')
}
