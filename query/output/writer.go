package output

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
)

// The formats, as --format takes them.
const (
	Table = "table"
	JSON  = "json"
	JSONL = "jsonl"
	CSV   = "csv"
)

// ErrFormat is wrapped by errors about a format that there is not.
var ErrFormat = errors.New("unknown output format")

// Formats gives the names that NewWriter takes.
func Formats() []string { return []string{Table, JSON, JSONL, CSV} }

// Resolve gives the format to use for --format: the one asked for, and for ""
// table where w is a terminal, jsonl elsewhere. The error wraps ErrFormat.
func Resolve(format string, w io.Writer) (string, error) {
	switch format {
	case "":
		if TerminalOf(w).Width > 0 {
			return Table, nil
		}
		return JSONL, nil
	case Table, JSON, JSONL, CSV:
		return format, nil
	}
	return "", fmt.Errorf("%w %q: use one of %s", ErrFormat, format, strings.Join(Formats(), ", "))
}

// Writer prints the rows of a table.
type Writer interface {
	// Write prints one row: a cell for each column in order. The row is not kept.
	Write(row []schema.Value) error
	// Close finishes the output and flushes it; the io.Writer below stays open.
	// After an error in reading, leave it out (invariant 5).
	Close() error
}

// NewWriter makes a Writer for a format ("" as Resolve decides). Rows are
// buffered; an error of w comes out of a later Write or of Close.
func NewWriter(format string, w io.Writer, columns []schema.Field) (Writer, error) {
	return newWriter(format, w, columns, TerminalOf(w))
}

func newWriter(format string, w io.Writer, columns []schema.Field, terminal Terminal) (Writer, error) {
	format, err := Resolve(format, w)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(columns))
	rightAligned := make([]bool, len(columns))
	for i, c := range columns {
		names[i] = c.Name
		rightAligned[i] = isNumber(c.Type)
	}
	return &rowWriter{columns: columns, sink: newSink(format, w, names, rightAligned, terminal)}, nil
}

func isNumber(t schema.Type) bool {
	return t.Primitive >= schema.Byte && t.Primitive <= schema.DecimalType
}

// rowWriter turns typed cells into what the sinks take.
type rowWriter struct {
	columns []schema.Field
	sink    sink
	cell    []byte
}

func (r *rowWriter) Write(row []schema.Value) error {
	if len(row) != len(r.columns) {
		return fmt.Errorf("print row: %d cells for %d columns", len(row), len(r.columns))
	}
	if err := r.sink.begin(); err != nil {
		return err
	}
	for i := range row {
		v := &row[i]
		switch {
		case v.IsNull() || v.Kind == schema.Unavailable:
			r.sink.null()
		case r.sink.wantsJSON():
			r.cell = AppendJSON(r.cell[:0], r.columns[i].Type, *v)
			r.sink.cell(r.cell)
		default:
			r.cell = AppendText(r.cell[:0], r.columns[i].Type, *v)
			r.sink.cell(r.cell)
		}
	}
	return r.sink.end()
}

func (r *rowWriter) Close() error { return r.sink.close() }

// sink is a format: it gets rows cell by cell, as JSON or as plain text,
// whichever it asks for.
type sink interface {
	wantsJSON() bool
	begin() error
	cell(data []byte)
	null()
	end() error
	close() error
}

func newSink(format string, w io.Writer, names []string, rightAligned []bool, terminal Terminal) sink {
	switch format {
	case JSON:
		return newJSONSink(w, names, true)
	case CSV:
		return newCSVSink(w, names)
	case Table:
		return newTableSink(w, names, rightAligned, terminal)
	}
	return newJSONSink(w, names, false)
}

// bufferSize is the output buffer of the streaming formats, in bytes.
const bufferSize = 64 << 10

// jsonSink prints an object a line; with array as one JSON array.
type jsonSink struct {
	out   *bufio.Writer
	keys  [][]byte // `"name":`, with the comma or brace that stands before it
	array bool
	rows  int64
	next  int
}

func newJSONSink(w io.Writer, names []string, array bool) *jsonSink {
	s := &jsonSink{out: bufio.NewWriterSize(w, bufferSize), array: array}
	for i, name := range names {
		key := []byte{','}
		if i == 0 {
			key[0] = '{'
		}
		s.keys = append(s.keys, append(AppendJSONString(key, name), ':'))
	}
	return s
}

func (s *jsonSink) wantsJSON() bool { return true }

func (s *jsonSink) begin() error {
	s.next = 0
	var err error
	if s.array {
		if s.rows == 0 {
			_, err = s.out.WriteString("[\n")
		} else {
			_, err = s.out.WriteString(",\n")
		}
	}
	s.rows++
	return err
}

// Errors of cell and null stick to the bufio.Writer and come out of end.
func (s *jsonSink) cell(data []byte) {
	_, _ = s.out.Write(s.keys[s.next])
	_, _ = s.out.Write(data)
	s.next++
}

func (s *jsonSink) null() { s.cell([]byte("null")) }

func (s *jsonSink) end() error {
	if len(s.keys) == 0 {
		_ = s.out.WriteByte('{')
	}
	err := s.out.WriteByte('}')
	if !s.array {
		err = s.out.WriteByte('\n')
	}
	return err
}

func (s *jsonSink) close() error {
	if s.array {
		tail := "\n]\n"
		if s.rows == 0 {
			tail = "[]\n"
		}
		_, _ = s.out.WriteString(tail)
	}
	return s.out.Flush()
}

// csvSink prints RFC 4180 lines ended by a newline, with a header line. A NULL
// is nothing, an empty text "". (A row of one column that is NULL is an empty
// line, which some readers of CSV skip; the other formats have no such gap.)
type csvSink struct {
	out    *bufio.Writer
	header []string
	next   int
}

func newCSVSink(w io.Writer, names []string) *csvSink {
	return &csvSink{out: bufio.NewWriterSize(w, bufferSize), header: names}
}

func (s *csvSink) wantsJSON() bool { return false }

func (s *csvSink) begin() error {
	var err error
	if s.header != nil {
		for i, name := range s.header {
			s.next = i
			s.cell([]byte(name))
		}
		s.header = nil
		err = s.out.WriteByte('\n')
	}
	s.next = 0
	return err
}

func (s *csvSink) cell(data []byte) {
	s.null()
	if !needsQuotes(data) {
		_, _ = s.out.Write(data)
		return
	}
	_ = s.out.WriteByte('"')
	for _, c := range data {
		if c == '"' {
			_ = s.out.WriteByte('"')
		}
		_ = s.out.WriteByte(c)
	}
	_ = s.out.WriteByte('"')
}

func (s *csvSink) null() {
	if s.next > 0 {
		_ = s.out.WriteByte(',')
	}
	s.next++
}

func (s *csvSink) end() error { return s.out.WriteByte('\n') }

func (s *csvSink) close() error {
	if err := s.begin(); err != nil { // the header of a table without rows
		return err
	}
	return s.out.Flush()
}

// needsQuotes says whether a text must be quoted in CSV: for what RFC 4180
// names, and for blanks at its ends, which many readers trim.
func needsQuotes(data []byte) bool {
	if len(data) == 0 {
		return true
	}
	if isBlank(data[0]) || isBlank(data[len(data)-1]) {
		return true
	}
	for _, c := range data {
		if c == ',' || c == '"' || c == '\n' || c == '\r' {
			return true
		}
	}
	return false
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }
