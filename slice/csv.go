package slice

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
)

// csvFile is a CSV file with a header: fields between commas, in quotes where they have
// commas, line ends or quotes, which are doubled. A field that is empty is NULL, "" is
// the empty text.
type csvFile struct {
	at Place
	o  FileOptions
}

func (f *csvFile) Name() string { return f.at.Name }

func (f *csvFile) Open(_ context.Context, columns *schema.Schema) (ingest.SliceRows, error) {
	var out ingest.SliceRows
	in, err := openText(f.at)
	if err != nil {
		return out, err
	}
	header := newCSVReader(in, f.o.Delimiter)
	err = header.read()
	in.Close()
	switch {
	case errors.Is(err, io.EOF) && len(header.fields) == 0:
		return out, incomplete(f.at.Name, "it is empty: not even a header is there")
	case err != nil && !errors.Is(err, io.EOF):
		return out, f.fault(header, err)
	}
	for _, field := range header.fields {
		name := string(field.text)
		column := schema.Field{Name: name, Type: schema.Of(schema.StringType), Nullable: true}
		if t, ok := f.o.Declared[name]; ok {
			column.Type = t
		}
		if columns != nil {
			if at := columns.IndexFold(name); at >= 0 {
				column.Type = columns.Fields[at].Type
			}
		}
		out.Columns = append(out.Columns, column)
	}
	out.Rows = func(yield func([]schema.Value, error) bool) {
		in, err := openText(f.at)
		if err != nil {
			yield(nil, err)
			return
		}
		defer in.Close()
		r := newCSVReader(in, f.o.Delimiter)
		if err := r.read(); err != nil && !errors.Is(err, io.EOF) {
			yield(nil, f.fault(r, err))
			return
		}
		row := make([]schema.Value, len(out.Columns))
		for n := int64(1); ; n++ {
			err := r.read()
			if errors.Is(err, io.EOF) && len(r.fields) == 0 {
				return
			}
			if err == nil || errors.Is(err, io.EOF) {
				err = f.typed(r, n, out.Columns, row, err != nil)
			} else {
				err = f.fault(r, err)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
	return out, nil
}

// typed makes cells of the fields of a row; last tells that no line end is behind it.
func (f *csvFile) typed(r *csvReader, n int64, columns []schema.Field, row []schema.Value, last bool) error {
	if last && !f.o.Unended {
		return incomplete(f.at.Name, "its last line, %d, has no line end, so it may be cut off; where it is whole, say --unended", r.line)
	}
	if len(r.fields) != len(columns) {
		if last {
			return incomplete(f.at.Name, "its last line, %d, has %d fields, and the header %d", r.line, len(r.fields), len(columns))
		}
		return fmt.Errorf("%w: %s, line %d: %d fields, and the header has %d", ingest.ErrSlice, f.at.Name, r.line, len(r.fields), len(columns))
	}
	for i := range r.fields {
		v, err := cellOfText(&r.fields[i], &columns[i])
		if err != nil {
			return fmt.Errorf("%w: %s, line %d (row %d): %w", ingest.ErrSlice, f.at.Name, r.line, n, err)
		}
		row[i] = v
	}
	return nil
}

func (f *csvFile) fault(r *csvReader, err error) error {
	switch {
	case errors.Is(err, errOpenQuote):
		return incomplete(f.at.Name, "the quote that begins in line %d has no end", r.line)
	case errors.Is(err, errQuote):
		return fmt.Errorf("%w: %s, line %d: %w", ingest.ErrSlice, f.at.Name, r.line, err)
	}
	return cutOff(f.at.Name, r.line, err)
}

// cellOfText types a field of a CSV file.
func cellOfText(field *csvField, column *schema.Field) (schema.Value, error) {
	if len(field.text) == 0 && !field.quoted {
		return schema.Value{}, nil
	}
	switch column.Type.Primitive {
	case schema.StringType:
		if !utf8.Valid(field.text) {
			return schema.Value{}, fmt.Errorf("the column %s has bytes that are no UTF-8", column.Name)
		}
		return schema.StringValue(string(field.text)), nil
	case schema.Long:
		if n, err := strconv.ParseInt(string(field.text), 10, 64); err == nil {
			return schema.IntValue(n), nil
		}
	case schema.Struct, schema.Array, schema.Map:
		return cellOfJSONText(string(field.text), column)
	}
	return expr.ParseValue(string(field.text), *column)
}

type csvField struct {
	text   []byte
	quoted bool
}

var (
	errOpenQuote = errors.New("a quote has no end")
	errQuote     = errors.New("a quote inside of a field must be doubled, and the field be in quotes")
)

// csvReader reads rows of a CSV file. Unlike encoding/csv it tells "" from nothing, and a
// last line with an end from one without.
type csvReader struct {
	in        *textFile
	delimiter byte
	fields    []csvField // of the row that was read; valid until the next
	line      int64      // in which it begins
	lines     int64      // read
	raw       []byte
}

func newCSVReader(in *textFile, delimiter byte) *csvReader {
	if delimiter == 0 {
		delimiter = ','
	}
	return &csvReader{in: in, delimiter: delimiter}
}

// nextLine gives a line with its end; at the end of the file the rest and io.EOF.
func (r *csvReader) nextLine() ([]byte, error) {
	line, err := r.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		long := append([]byte(nil), line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = r.in.ReadSlice('\n')
			long = append(long, line...)
		}
		line = long
	}
	if len(line) > 0 {
		r.lines++
	}
	return line, err
}

// read reads a row. io.EOF tells that no line end was behind it; without fields that there
// was none. Empty lines are passed over.
func (r *csvReader) read() error {
	r.fields = r.fields[:0]
	line, err := r.nextLine()
	for err == nil && len(strings.TrimRight(string(line), "\r\n")) == 0 {
		line, err = r.nextLine()
	}
	r.line = r.lines
	if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
		return err
	}
	r.raw = append(r.raw[:0], line...)
	for at := 0; ; {
		var field csvField
		var more bool
		if field, at, more, err = r.field(at, err); errors.Is(err, errOpenQuote) || errors.Is(err, errQuote) {
			return err
		}
		r.fields = append(r.fields, field)
		if !more {
			return err
		}
	}
}

// field reads the field that begins at a place of the line; ended is io.EOF where the
// line has no end.
func (r *csvReader) field(at int, ended error) (f csvField, next int, more bool, err error) {
	err = ended
	if at >= len(r.raw) || r.raw[at] != '"' {
		end := at
		for end < len(r.raw) && r.raw[end] != r.delimiter && r.raw[end] != '\n' {
			if r.raw[end] == '"' {
				return f, 0, false, errQuote
			}
			end++
		}
		more = end < len(r.raw) && r.raw[end] == r.delimiter
		f.text = r.raw[at:end]
		if !more {
			f.text = trimReturn(f.text)
		}
		return f, end + 1, more, err
	}
	f.quoted = true
	text := []byte{}
	for at++; ; at++ {
		if at == len(r.raw) { // the quoted text goes on in the next line
			if err != nil {
				return f, 0, false, errOpenQuote
			}
			var line []byte
			line, err = r.nextLine()
			if err != nil && !errors.Is(err, io.EOF) {
				return f, 0, false, err
			}
			if len(line) == 0 {
				return f, 0, false, errOpenQuote
			}
			r.raw = append(r.raw, line...)
		}
		if r.raw[at] != '"' {
			text = append(text, r.raw[at])
			continue
		}
		if at+1 < len(r.raw) && r.raw[at+1] == '"' {
			text = append(text, '"')
			at++
			continue
		}
		break
	}
	f.text = text
	at++
	switch rest := string(r.raw[at:]); {
	case rest == "" || rest == "\n" || rest == "\r\n" || rest == "\r":
		return f, len(r.raw), false, err
	case rest[0] == r.delimiter:
		return f, at + 1, true, err
	}
	return f, 0, false, errQuote
}

func trimReturn(text []byte) []byte {
	if n := len(text); n > 0 && text[n-1] == '\r' {
		return text[:n-1]
	}
	return text
}
