package output

import (
	"fmt"
	"io"
	"strings"

	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
)

// Parquet is the format of NewParquetWriter. It is for files, and no record has it.
const Parquet = "parquet"

// parquetBatch is how many rows are handed over at once.
const parquetBatch = 1024

type parquetWriter struct {
	texts []*schema.Type // of the columns that are written as JSON text; nil for the others
	file  *parquet.Stream
	batch [][]schema.Value
	used  int
}

// NewParquetWriter makes a Writer of a Parquet file with the types of the columns. A row
// group is held until it ends. Columns whose type has no form in Parquet, such as
// variants and what parts of unknown types are in, are written as JSON text.
func NewParquetWriter(w io.Writer, columns []schema.Field) (Writer, error) {
	texts := make([]*schema.Type, len(columns))
	list := make([]parquet.Column, len(columns))
	for i, c := range columns {
		list[i] = parquet.Column{Name: c.Name, Type: c.Type}
		if !storable(c.Type) {
			texts[i] = &columns[i].Type
			list[i].Type = schema.Of(schema.StringType)
		}
	}
	e, err := parquet.NewEncoder(list, parquet.EncoderOptions{RowGroupRows: 128 << 10})
	if err != nil {
		return nil, err
	}
	return &parquetWriter{texts: texts, file: e.Stream(w)}, nil
}

// storable tells whether every part of a type has a form in Parquet.
func storable(t schema.Type) bool {
	if t.IsLeaf() {
		_, err := parquet.NewEncoder([]parquet.Column{{Name: "c", Type: t}}, parquet.EncoderOptions{})
		return err == nil
	}
	if t.Nested == nil {
		return false
	}
	for _, f := range t.Nested.Fields {
		if !storable(f.Type) {
			return false
		}
	}
	switch t.Primitive {
	case schema.Array:
		return storable(t.Nested.Element)
	case schema.Map:
		return storable(t.Nested.Key) && storable(t.Nested.Element)
	}
	return t.Primitive == schema.Struct
}

func (p *parquetWriter) Write(row []schema.Value) error {
	if p.used == len(p.batch) {
		p.batch = append(p.batch, nil)
	}
	own := append(p.batch[p.used][:0], row...)
	for i := range own {
		if t := p.texts[i]; t != nil && !own[i].IsNull() {
			own[i] = schema.StringValue(string(AppendJSON(nil, *t, own[i])))
			continue
		}
		own[i].S = strings.Clone(own[i].S) // the row is valid until the next one
	}
	p.batch[p.used] = own
	if p.used++; p.used < parquetBatch {
		return nil
	}
	return p.flush()
}

func (p *parquetWriter) flush() error {
	err := p.file.Append(p.batch[:p.used])
	p.used = 0
	if err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	return nil
}

func (p *parquetWriter) Close() error {
	if err := p.flush(); err != nil {
		return err
	}
	_, err := p.file.Finish(nil)
	return err
}
