package ingest

import (
	"fmt"
	"iter"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
)

// SliceRows are the rows of a slice, once through: a cell for each of Columns. A row is
// valid until the next one. An error ends them.
type SliceRows struct {
	Columns []schema.Field
	Rows    iter.Seq2[[]schema.Value, error]
}

// fitted are the rows of a slice as a table takes them.
type fitted struct {
	columns []string // of the table, in the order of the cells
	added   []schema.Field
	rows    iter.Seq2[[]schema.Value, error]
}

// fitSlice finds the columns of a slice in a table, of which to is nil where it is yet to
// be made; declared are the types of columns that it gets. The error wraps ErrSlice and
// names every column that does not fit.
func fitSlice(to *schema.Schema, declared map[string]schema.Type, key []string, missingAsNull bool, in SliceRows) (*fitted, error) {
	out := &fitted{}
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	taken := map[string]bool{}
	var from []int
	var convert []conversion
	var fields []schema.Field
	for i, f := range in.Columns {
		name := f.Name
		if folded := strings.ToLower(name); taken[folded] {
			fault("the column %s is there twice", name)
			continue
		} else {
			taken[folded] = true
		}
		target := schema.Field{Name: name, Type: f.Type, Nullable: true}
		at := -1
		if to != nil {
			at = to.IndexFold(name)
		}
		switch {
		case at >= 0:
			target = to.Fields[at]
		case f.Type.Primitive == schema.Void || f.Type.Primitive == schema.Unknown:
			continue // a column exists from its first value on
		default:
			if t, ok := declared[name]; ok {
				target.Type = t
			}
			if err := checkColumn(target); err != nil {
				fault("%s", err)
				continue
			}
			out.added = append(out.added, target)
		}
		c := conversionOf(f.Type, target.Type)
		if c == nil {
			fault("the column %s is %s in the table, and %s in the slice", target.Name, target.Type, f.Type)
			continue
		}
		out.columns = append(out.columns, target.Name)
		from, convert, fields = append(from, i), append(convert, c), append(fields, target)
	}
	for _, name := range key {
		if !taken[strings.ToLower(name)] {
			fault("the key column %s is missing", name)
		}
	}
	if to != nil && !missingAsNull {
		var missing []string
		for _, f := range to.Fields {
			if !taken[strings.ToLower(f.Name)] && !slices.Contains(key, f.Name) {
				missing = append(missing, f.Name)
			}
		}
		if len(missing) > 0 {
			fault("the table has columns that the slice lacks: %s (--missing-columns null takes them as NULL in every row)", strings.Join(missing, ", "))
		}
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrSlice, strings.Join(faults, "; "))
	}
	out.rows = func(yield func([]schema.Value, error) bool) {
		row := make([]schema.Value, len(from))
		n := 0
		for cells, err := range in.Rows {
			if err != nil {
				yield(nil, err)
				return
			}
			n++
			for i, at := range from {
				if row[i] = cells[at]; row[i].IsNull() {
					continue
				}
				var ok bool
				if row[i], ok = convert[i](cells[at]); !ok {
					yield(nil, fmt.Errorf("%w: row %d: the column %s is %s and can't hold %s", ErrSlice, n, fields[i].Name, fields[i].Type,
						schema.AppendText(nil, in.Columns[at].Type, cells[at])))
					return
				}
			}
			if !yield(row, nil) {
				return
			}
		}
	}
	return out, nil
}

// conversion makes a value of another type of a value that is not NULL, where nothing of it is lost.
type conversion func(schema.Value) (schema.Value, bool)

func same(v schema.Value) (schema.Value, bool) { return v, true }

// conversionOf gives the conversion between two types, nil where they are of two sorts.
func conversionOf(from, to schema.Type) conversion {
	if from.Primitive == schema.Void || from.Primitive == schema.Unknown || from.String() == to.String() {
		return same
	}
	low, high, integer := integerRange(to.Primitive)
	_, _, ofInteger := integerRange(from.Primitive)
	switch {
	case ofInteger && integer:
		return func(v schema.Value) (schema.Value, bool) { return v, v.I >= low && v.I <= high }
	case ofInteger && to.Primitive == schema.DecimalType:
		return rescale(0, to)
	case from.Primitive == schema.DecimalType && to.Primitive == schema.DecimalType:
		return rescale(from.Scale, to)
	case from.Primitive == schema.DecimalType && integer:
		whole := rescale(from.Scale, schema.Decimal(38, 0))
		return func(v schema.Value) (schema.Value, bool) {
			v, ok := whole(v)
			return schema.IntValue(v.I), ok && v.S == "" && v.I >= low && v.I <= high
		}
	case ofInteger && to.Primitive == schema.DoubleType:
		return func(v schema.Value) (schema.Value, bool) {
			f := float64(v.I)
			return schema.DoubleValue(f), math.Abs(f) <= 1<<53
		}
	case from.Primitive == schema.FloatType && to.Primitive == schema.DoubleType:
		return func(v schema.Value) (schema.Value, bool) { return schema.DoubleValue(float64(v.Float32())), true }
	case from.Primitive == schema.DoubleType && to.Primitive == schema.FloatType:
		return func(v schema.Value) (schema.Value, bool) {
			f := v.Float64()
			return schema.FloatValue(float32(f)), f != f || float64(float32(f)) == f
		}
	}
	return nil
}

func integerRange(p schema.Primitive) (low, high int64, ok bool) {
	switch p {
	case schema.Byte:
		return math.MinInt8, math.MaxInt8, true
	case schema.Short:
		return math.MinInt16, math.MaxInt16, true
	case schema.Integer:
		return math.MinInt32, math.MaxInt32, true
	case schema.Long:
		return math.MinInt64, math.MaxInt64, true
	}
	return 0, 0, false
}

// rescale makes a decimal of a number of another scale.
func rescale(scale uint8, to schema.Type) conversion {
	ten := big.NewInt(10)
	limit := new(big.Int).Exp(ten, big.NewInt(int64(to.Precision)), nil)
	up := new(big.Int).Exp(ten, big.NewInt(int64(to.Scale)-int64(scale)), nil)
	down := new(big.Int).Exp(ten, big.NewInt(int64(scale)-int64(to.Scale)), nil)
	return func(v schema.Value) (schema.Value, bool) {
		n := v.Unscaled()
		if to.Scale >= scale {
			n.Mul(n, up)
		} else {
			rest := new(big.Int)
			if n.QuoRem(n, down, rest); rest.Sign() != 0 {
				return schema.Value{}, false
			}
		}
		if n.CmpAbs(limit) >= 0 {
			return schema.Value{}, false
		}
		return schema.DecimalValue(n)
	}
}
