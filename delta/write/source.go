package write

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
)

// Source gives the rows of an operation, once through. The zero Source has none.
//
// Its cells belong to the columns that it names, in that order; without names, to all
// columns of the table that are not generated. A column that is not named gets its
// default, else NULL.
type Source struct {
	columns []string
	rows    func(fields []schema.Field) iter.Seq2[[]schema.Value, error]
	batches iter.Seq2[*scan.Batch, error] // the same, where rows come so
}

// Rows makes a Source of rows of cells. A row is read before the next one is asked for,
// and not kept; an error ends the operation.
func Rows(rows iter.Seq2[[]schema.Value, error], columns ...string) Source {
	return Source{columns: columns, rows: func([]schema.Field) iter.Seq2[[]schema.Value, error] { return rows }}
}

// Batches makes a Source of batches of columns, as a Scan gives them: with
// Batches(rows.Batches(ctx)) rows of one table go to another. A batch belongs to the
// operation. Where nothing is to be computed, or checked row by row, and the table has no
// partitions, its columns go into the files as they are.
func Batches(batches iter.Seq2[*scan.Batch, error], columns ...string) Source {
	return Source{columns, func([]schema.Field) iter.Seq2[[]schema.Value, error] {
		return func(yield func([]schema.Value, error) bool) {
			var row []schema.Value
			for batch, err := range batches {
				if err == nil {
					err = checkBatch(batch, len(batch.Columns))
				}
				if err != nil {
					yield(nil, err)
					return
				}
				row = slices.Grow(row[:0], len(batch.Columns))[:len(batch.Columns)]
				for r := range batch.Rows {
					for c := range batch.Columns {
						row[c] = batch.Columns[c][r]
					}
					if !yield(row, nil) {
						return
					}
				}
			}
		}
	}, batches}
}

// checkBatch checks the form of a batch.
func checkBatch(b *scan.Batch, columns int) error {
	if len(b.Columns) != columns {
		return fmt.Errorf("%w: a batch of %d columns for %d columns", ErrRow, len(b.Columns), columns)
	}
	for _, column := range b.Columns {
		if len(column) < b.Rows {
			return fmt.Errorf("%w: a batch of %d rows with a column of %d", ErrRow, b.Rows, len(column))
		}
	}
	return nil
}

// Values makes a Source of Go values, typed by the table: nil, bool, integers, floats,
// string, []byte, time.Time (also of dates), decimals as text ("12.50"), schema.Value,
// []any of arrays, map[string]any of structs and of maps with keys of text. A number that a
// column can't hold exactly is an error.
func Values(rows [][]any, columns ...string) Source {
	return Source{columns: columns, rows: func(fields []schema.Field) iter.Seq2[[]schema.Value, error] {
		return func(yield func([]schema.Value, error) bool) {
			row := make([]schema.Value, len(fields))
			for i, values := range rows {
				if len(values) != len(fields) {
					yield(nil, fmt.Errorf("%w: row %d has %d values for %d columns", ErrRow, i, len(values), len(fields)))
					return
				}
				for c, v := range values {
					var err error
					if row[c], err = valueOf(v, &fields[c]); err != nil {
						yield(nil, fmt.Errorf("row %d: %w", i, err))
						return
					}
				}
				if !yield(row, nil) {
					return
				}
			}
		}
	}}
}

// valueOf types a Go value by a column.
func valueOf(value any, f *schema.Field) (schema.Value, error) {
	mismatch := func() (schema.Value, error) {
		return schema.Value{}, fmt.Errorf("%w: column %q is %s and can't hold %v (%T)", ErrRow, f.Name, f.Type, value, value)
	}
	kind := schema.KindOf(f.Type)
	whole := func(i int64) (schema.Value, error) {
		switch kind {
		case schema.Int:
			if p := f.Type.Primitive; p <= schema.Long {
				return schema.IntValue(i), nil
			}
		case schema.Dec:
			v, err := expr.ParseValue(fmt.Sprint(i), *f)
			if err != nil {
				return mismatch()
			}
			return v, nil
		case schema.Float:
			if x := float32(i); int64(x) == i {
				return schema.FloatValue(x), nil
			}
		case schema.Double:
			if x := float64(i); int64(x) == i {
				return schema.DoubleValue(x), nil
			}
		}
		return mismatch()
	}
	switch v := value.(type) {
	case nil:
		return schema.Value{}, nil
	case schema.Value:
		return v, nil
	case bool:
		if kind == schema.Bool {
			return schema.BoolValue(v), nil
		}
	case int:
		return whole(int64(v))
	case int8:
		return whole(int64(v))
	case int16:
		return whole(int64(v))
	case int32:
		return whole(int64(v))
	case int64:
		return whole(v)
	case uint8:
		return whole(int64(v))
	case uint16:
		return whole(int64(v))
	case uint32:
		return whole(int64(v))
	case uint64:
		if v <= math.MaxInt64 {
			return whole(int64(v))
		}
	case float32:
		switch kind {
		case schema.Float:
			return schema.FloatValue(v), nil
		case schema.Double:
			return schema.DoubleValue(float64(v)), nil
		}
	case float64:
		switch kind {
		case schema.Float:
			if x := float32(v); float64(x) == v || math.IsNaN(v) {
				return schema.FloatValue(x), nil
			}
		case schema.Double:
			return schema.DoubleValue(v), nil
		}
	case []byte:
		if kind == schema.Binary {
			return schema.BinaryValue(string(v)), nil
		}
	case string:
		switch kind {
		case schema.String:
			return schema.StringValue(v), nil
		case schema.Binary, schema.Compound, schema.Null:
			return mismatch()
		}
		cell, err := expr.ParseValue(v, *f)
		if err != nil {
			return schema.Value{}, fmt.Errorf("%w: %w", ErrRow, err)
		}
		return cell, nil
	case []any:
		if f.Type.Primitive == schema.Array {
			return compoundOf(v, func(int) *schema.Field { return inside(f, f.Type.Nested.Element) })
		}
	case map[string]any:
		return mapOf(v, f)
	case time.Time:
		switch f.Type.Primitive {
		case schema.Timestamp:
			return schema.IntValue(v.UnixMicro()), nil
		case schema.TimestampNTZ: // what its clock shows
			return schema.IntValue(time.Date(v.Year(), v.Month(), v.Day(), v.Hour(), v.Minute(), v.Second(), v.Nanosecond(), time.UTC).UnixMicro()), nil
		case schema.Date:
			return schema.IntValue(time.Date(v.Year(), v.Month(), v.Day(), 0, 0, 0, 0, time.UTC).Unix() / 86400), nil
		}
	}
	return mismatch()
}

// inside is a part of a column as a column, for messages.
func inside(f *schema.Field, t schema.Type) *schema.Field {
	return &schema.Field{Name: f.Name, Type: t}
}

func compoundOf(values []any, field func(i int) *schema.Field) (schema.Value, error) {
	parts := make([]schema.Value, len(values))
	for i, v := range values {
		var err error
		if parts[i], err = valueOf(v, field(i)); err != nil {
			return schema.Value{}, err
		}
	}
	return schema.CompoundValue(parts...), nil
}

// mapOf types a struct by the names of its fields, or a map with keys of text.
func mapOf(values map[string]any, f *schema.Field) (schema.Value, error) {
	if f.Type.Primitive == schema.Map && f.Type.Nested.Key.Primitive == schema.StringType {
		var list []any
		for _, key := range slices.Sorted(maps.Keys(values)) {
			list = append(list, key, values[key])
		}
		return compoundOf(list, func(i int) *schema.Field {
			return inside(f, []schema.Type{f.Type.Nested.Key, f.Type.Nested.Element}[i%2])
		})
	}
	if f.Type.Primitive != schema.Struct {
		return schema.Value{}, fmt.Errorf("%w: column %q is %s and can't hold %v", ErrRow, f.Name, f.Type, values)
	}
	list := make([]any, len(f.Type.Nested.Fields))
	left := len(values)
	for i := range list {
		if v, ok := values[f.Type.Nested.Fields[i].Name]; ok {
			list[i] = v
			left--
		}
	}
	if left > 0 {
		return schema.Value{}, fmt.Errorf("%w: column %q is %s, which lacks a field of %q", ErrRow, f.Name, f.Type, slices.Sorted(maps.Keys(values)))
	}
	return compoundOf(list, func(i int) *schema.Field { return &f.Type.Nested.Fields[i] })
}

// feeder turns the rows of a Source into rows of a table.
type feeder struct {
	layout *layout
	rules  *rules
	at     []int // place in the table of each column of the source
	given  []bool
	row    []schema.Value
}

// newFeeder finds the columns of a source in a table. The error wraps ErrColumn.
func newFeeder(s Source, l *layout, r *rules) (*feeder, error) {
	f := &feeder{layout: l, rules: r, given: make([]bool, len(l.schema.Fields)), row: make([]schema.Value, len(l.schema.Fields))}
	if s.columns == nil {
		for i := range l.schema.Fields {
			if !r.generates(i) {
				f.at = append(f.at, i)
				f.given[i] = true
			}
		}
		return f, nil
	}
	for _, name := range s.columns {
		i := l.schema.IndexFold(name)
		if i < 0 {
			return nil, fmt.Errorf("%w: %q; the table has %q", ErrColumn, name, l.schema.Names())
		}
		if f.given[i] {
			return nil, fmt.Errorf("%w: %q is named twice", ErrColumn, name)
		}
		f.at = append(f.at, i)
		f.given[i] = true
	}
	return f, nil
}

// fields are the columns of the source, in its order.
func (f *feeder) fields() []schema.Field {
	fields := make([]schema.Field, len(f.at))
	for i, at := range f.at {
		fields[i] = f.layout.schema.Fields[at]
	}
	return fields
}

// all gives the rows of the source as rows of the table, defaults filled in. A row is
// valid until the next.
func (f *feeder) all(s Source) iter.Seq2[[]schema.Value, error] {
	return func(yield func([]schema.Value, error) bool) {
		if s.rows == nil {
			return
		}
		n := 0
		for cells, err := range s.rows(f.fields()) {
			if err == nil && len(cells) != len(f.at) {
				err = fmt.Errorf("%w: row %d has %d cells for %d columns", ErrRow, n, len(cells), len(f.at))
			}
			if err != nil {
				yield(nil, err)
				return
			}
			clear(f.row)
			for i, at := range f.at {
				f.row[at] = cells[i]
			}
			if err := f.rules.fill(f.row, f.given); err != nil {
				yield(nil, fmt.Errorf("row %d: %w", n, err))
				return
			}
			n++
			if !yield(f.row, nil) {
				return
			}
		}
	}
}

// byColumns reports whether the columns of a source go into files as they are: the table
// has no partitions, and only NOT NULL is to be checked.
func (f *feeder) byColumns(s Source) bool {
	return s.batches != nil && len(f.layout.partitions) == 0 && f.rules.plain() && !slices.Contains(f.given, false)
}

// batchesOf gives the rows of the source by columns, in the table's order, checked.
func (f *feeder) batchesOf(s Source) iter.Seq2[*scan.Batch, error] {
	return func(yield func(*scan.Batch, error) bool) {
		n := 0
		for batch, err := range s.batches {
			if err == nil {
				err = checkBatch(batch, len(f.at))
			}
			if err != nil {
				yield(nil, err)
				return
			}
			own := &scan.Batch{Rows: batch.Rows, Columns: make([][]schema.Value, len(f.at))}
			for i, at := range f.at {
				own.Columns[at] = batch.Columns[i][:batch.Rows]
			}
			if row, err := f.rules.checkColumns(own.Columns, own.Rows, f.layout.data); err != nil {
				yield(nil, fmt.Errorf("row %d: %w", n+row, err))
				return
			}
			n += batch.Rows
			if !yield(own, nil) {
				return
			}
		}
	}
}
