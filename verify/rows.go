package verify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/rowhash"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/spill"
)

// columnHash is how many bytes tell whether a column is the same on both sides: which
// rows differ is told by the whole hash, these name columns for people.
const columnHash = 8

// record is what is kept of a row.
type record struct {
	sum     rowhash.Sum
	columns string // columnHash bytes each, in order of the names
	key     string // its cells, as spill has them
	width   int
}

// comparison is one run.
type comparison struct {
	o      Options
	names  []string // of the columns that are compared
	sorted [2]*scan.Sorter
	// types are those that the columns have once they are made alike, places where they
	// are in the rows of a side, -1 for nowhere.
	types  [2][]schema.Type
	places [2][]int
	keys   [2][]int // places of the key
	seed   maphash.Seed
	result *Result
}

func newComparison(left, right Side, o Options) (*comparison, error) {
	c := &comparison{o: o, seed: maphash.MakeSeed(), result: &Result{ByKind: map[Kind]int64{}}}
	find := func(side Side, name string) int {
		return slices.IndexFunc(side.Columns, func(f schema.Field) bool { return f.Name == name })
	}
	for i, side := range []Side{left, right} {
		for _, name := range o.Key {
			place := find(side, name)
			if place < 0 {
				return nil, fmt.Errorf("%w: %s has no column %q", ErrKey, side.Name, name)
			}
			c.keys[i] = append(c.keys[i], place)
		}
		for _, f := range side.Columns {
			if !slices.Contains(c.names, f.Name) && (o.Columns == nil || slices.Contains(o.Columns, f.Name) || slices.Contains(o.Key, f.Name)) {
				c.names = append(c.names, f.Name)
			}
		}
	}
	for _, name := range o.Columns {
		if !slices.Contains(c.names, name) {
			return nil, fmt.Errorf("%w: neither side has a column %q", ErrKey, name)
		}
	}
	for _, name := range c.names {
		a, b := find(left, name), find(right, name)
		c.places[0], c.places[1] = append(c.places[0], a), append(c.places[1], b)
		var types [2]schema.Type
		switch {
		case a < 0:
			types[1] = right.Columns[b].Type
			c.note("only %s has the column %s", right.Name, name)
		case b < 0:
			types[0] = left.Columns[a].Type
			c.note("only %s has the column %s", left.Name, name)
		default:
			types = [2]schema.Type{left.Columns[a].Type, right.Columns[b].Type}
			if family(types[0]) != family(types[1]) {
				c.note("the column %s is %s in %s and %s in %s: no two values of it are equal", name, types[0], left.Name, types[1], right.Name)
			}
		}
		for i := range types {
			c.types[i] = append(c.types[i], types[i])
		}
	}
	for i := range c.sorted {
		c.sorted[i] = scan.NewSorter(4, func(a, b []schema.Value) int {
			return cmp.Or(strings.Compare(a[0].S, b[0].S), strings.Compare(a[1].S, b[1].S))
		}, o.Memory, o.TempDir)
	}
	return c, nil
}

func (c *comparison) note(format string, args ...any) {
	c.result.Notes = append(c.result.Notes, fmt.Sprintf(format, args...))
}

func (c *comparison) close() {
	for _, s := range c.sorted {
		_ = s.Close()
	}
}

// family is what types have in common whose values may be equal.
func family(t schema.Type) string {
	switch t.Primitive {
	case schema.Boolean, schema.Byte, schema.Short, schema.Integer, schema.Long, schema.DecimalType, schema.FloatType, schema.DoubleType:
		return "number"
	case schema.Timestamp, schema.TimestampNTZ, schema.Date:
		return "time"
	}
	if t.Nested != nil {
		return fmt.Sprint(t.Primitive)
	}
	return t.String()
}

// alike changes a cell, and its type, to what the other side's can be equal to.
func alike(v schema.Value, t, other schema.Type) (schema.Value, schema.Type) {
	switch {
	case v.IsNull():
	case t.Primitive == schema.Boolean && other.Primitive != schema.Boolean && family(other) == "number":
		return schema.IntValue(v.I), schema.Of(schema.Long)
	case other.Primitive == schema.Timestamp && t.Primitive == schema.TimestampNTZ:
		v.Kind = schema.KindOf(other)
		return v, other
	}
	return v, t
}

// take sorts the rows of a side in.
func (c *comparison) take(ctx context.Context, side int, s Side) error {
	fields := make([]schema.Field, len(c.names))
	row := make([]schema.Value, len(c.names))
	var form, key, shown, columns []byte
	n := 0
	for cells, err := range s.Rows {
		if err != nil {
			return err
		}
		if n++; n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		columns, form = columns[:0], form[:0]
		for i, place := range c.places[side] {
			row[i], fields[i].Type = schema.Value{}, c.types[side][i]
			if place >= 0 {
				row[i], fields[i].Type = alike(cells[place], c.types[side][i], c.types[1-side][i])
			}
			at := len(form)
			form = rowhash.AppendValue(form, fields[i].Type, row[i])
			columns = binary.BigEndian.AppendUint64(columns, maphash.Bytes(c.seed, form[at:]))
		}
		sum := sha256.Sum256(form)
		key, shown = key[:0], shown[:0]
		var keyCells []schema.Value
		for i, place := range c.keys[side] {
			name := slices.Index(c.names, c.o.Key[i])
			key = rowhash.AppendOrdered(key, fields[name].Type, row[name])
			keyCells = append(keyCells, cells[place])
		}
		if len(c.o.Key) == 0 {
			key = append(key, sum[:]...)
		}
		shown = spill.AppendCells(shown, keyCells)
		err := c.sorted[side].Add([]schema.Value{
			schema.BinaryValue(string(key)), schema.BinaryValue(string(sum[:])), schema.BinaryValue(string(columns)), schema.BinaryValue(string(shown)),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// groups gives the rows of a side by key.
func (c *comparison) groups(side int) iter.Seq2[group, error] {
	return func(yield func(group, error) bool) {
		var g group
		for cells, err := range c.sorted[side].Sorted {
			if err != nil {
				yield(group{}, err)
				return
			}
			r := record{columns: cells[2].S, key: cells[3].S}
			copy(r.sum[:], cells[1].S)
			if len(g.rows) > 0 && g.key == cells[0].S {
				g.rows = append(g.rows, r)
				continue
			}
			if len(g.rows) > 0 && !yield(g, nil) {
				return
			}
			g = group{cells[0].S, []record{r}}
		}
		if len(g.rows) > 0 {
			yield(g, nil)
		}
	}
}

// keyOf gives the cells of a row's key.
func (c *comparison) keyOf(r record) ([]schema.Value, error) {
	if len(c.o.Key) == 0 {
		return nil, nil
	}
	cells := make([]schema.Value, len(c.o.Key))
	return cells, spill.ReadCells([]byte(r.key), cells)
}
