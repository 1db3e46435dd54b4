package report

import (
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
)

// fromStatistics sets the cells of a label from what the log says of its files.
func (p *Profile) fromStatistics(label int, d *described, fields []schema.Field) {
	sums := make([]columnSum, len(fields))
	for i := range sums {
		sums[i] = columnSum{known: true, ranged: true, exact: true}
	}
	partition := map[string]bool{}
	for _, name := range d.snapshot.Metadata().PartitionColumns {
		partition[name] = true
	}
	for _, add := range d.snapshot.Files() {
		parsed, err := stats.Parse(add.Stats, d.snapshot.Schema())
		if err != nil {
			parsed = nil
		}
		for i, f := range fields {
			if partition[f.Name] {
				sums[i].known, sums[i].ranged = false, false
				continue
			}
			sums[i].add(parsed, f, add)
		}
	}
	for i, f := range fields {
		s := &sums[i]
		c := Cell{Rows: d.rows, Nulls: -1, Distinct: -1, Bounds: true, Absent: d.snapshot.Schema().Index(f.Name) < 0}
		if s.known {
			c.Nulls = s.nulls
		}
		if c.HasRange = s.ranged && s.any && ordered(f.Type); c.HasRange {
			c.Min, c.Max = shown(f.Type, s.low), shown(f.Type, s.high)
		}
		// Counts and bounds of whole files, of types that statistics don't cut, are the truth.
		c.Bounds = !s.exact
		p.Columns[i].Cells[label] = c
	}
}

// columnSum adds up what files say of a column.
type columnSum struct {
	known, ranged, any, exact bool
	nulls                     int64
	low, high                 schema.Value
}

func (s *columnSum) add(f *stats.FileStatistics, column schema.Field, add *action.Add) {
	if f == nil {
		s.known, s.ranged = false, false
		return
	}
	b := f.Bounds(column.Name)
	if b.NullCount < 0 {
		s.known = false
	} else if s.nulls += b.NullCount; b.NullCount == f.NumRecords && add.DeletionVector != nil {
		s.nulls -= add.DeletionVector.Cardinality
	}
	s.exact = s.exact && (f.Tight && add.DeletionVector == nil) && exactly(column.Type)
	if b.NullCount >= 0 && b.NullCount == f.NumRecords {
		return // no value, no range
	}
	if b.Min.IsNull() || b.Max.IsNull() {
		s.ranged = false
		return
	}
	if !s.any || schema.Compare(b.Min, s.low) < 0 {
		s.low = b.Min
	}
	if !s.any || schema.Compare(b.Max, s.high) > 0 {
		s.high = b.Max
	}
	s.any = true
}

// exactly are the types whose bounds the statistics keep as they are.
func exactly(t schema.Type) bool {
	switch t.Primitive {
	case schema.Boolean, schema.Byte, schema.Short, schema.Integer, schema.Long, schema.DecimalType, schema.Date:
		return true
	}
	return false
}
