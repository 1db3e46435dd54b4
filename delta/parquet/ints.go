package parquet

import (
	"fmt"

	"github.com/parquet-go/parquet-go/format"
)

// Int64s reads a column of integers, dates, timestamps (in microseconds) or
// decimals of up to 18 digits (unscaled) page by page, the fast way to build
// an index of keys. fn gets the position
// of the first row in the file, a value for each row, and which rows are NULL:
// nil where none is; the value of a NULL row is 0. Both slices are valid
// during the call only. An error of fn ends the reading and is returned as it is.
//
// A column that the file does not have gives no calls. Errors wrap ErrCorrupt,
// ErrUnsupported, ErrColumnType or ErrNestedColumn.
func (f *File) Int64s(column string, fn func(firstRow int64, values []int64, nulls []bool) error) error {
	n := f.root.child(column)
	if n == nil {
		return nil
	}
	if !n.leaf || n.repetition == format.Repeated {
		return fmt.Errorf("%w: %q", ErrNestedColumn, column)
	}
	signed := n.physical == format.Int32 || n.physical == format.Int96 || n.physical == format.Int64 && !n.isUnsigned()
	if !signed {
		return fmt.Errorf("%w: %q is %s, want integers", ErrColumnType, column, n)
	}
	r := intReader{node: n}
	first := int64(0)
	for g := range f.meta.RowGroups {
		data, err := f.chunks(g, []boundColumn{{node: n}}, nil)
		if err != nil {
			return err
		}
		chunk := f.chunk(g, n, data)
		r.dict = nil
		for row := first; ; {
			more, err := chunk.next()
			if err == nil && more {
				err = r.page(chunk)
			}
			if err != nil {
				return fmt.Errorf("row group %d: column %q: %w", g, column, err)
			}
			if !more {
				break
			}
			if err := fn(row, r.values, r.nulls); err != nil {
				return err
			}
			row += int64(len(r.values))
		}
		first += f.meta.RowGroups[g].NumRows
	}
	return nil
}

type intReader struct {
	node   *node
	dict   []int64
	dense  []int64 // buffers
	full   []int64
	flags  []bool
	values []int64
	nulls  []bool
}

// page decodes a page into values and nulls.
func (r *intReader) page(c *chunkReader) error {
	if err := c.decode(); err != nil {
		return err
	}
	p := &c.page
	present := p.ints
	if p.byIndex {
		if r.dict == nil {
			r.dict = append(make([]int64, 0, len(c.dict.ints)), c.dict.ints...)
			r.convert(r.dict)
		}
		r.dense = grow(r.dense, p.present)
		for i, id := range p.ids {
			r.dense[i] = r.dict[id]
		}
		present = r.dense
	} else {
		r.convert(present)
	}
	if p.present == p.n {
		r.values, r.nulls = present, nil
		return nil
	}
	r.full, r.flags = grow(r.full, p.n), grow(r.flags, p.n)
	next := 0
	for i, d := range p.def {
		r.flags[i] = d != r.node.maxDef
		r.full[i] = 0
		if !r.flags[i] {
			r.full[i] = present[next]
			next++
		}
	}
	r.values, r.nulls = r.full, r.flags
	return nil
}

// convert turns a page's numbers into the column's.
func (r *intReader) convert(values []int64) {
	if perSecond, _, ok := r.node.timestampUnit(); ok && perSecond != 1e6 {
		for i, v := range values {
			values[i] = toMicros(v, perSecond)
		}
	} else if r.node.physical == format.Int32 && r.node.isUnsigned() {
		for i, v := range values {
			values[i] = int64(uint32(v))
		}
	}
}

func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
