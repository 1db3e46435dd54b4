package ingest

import (
	"fmt"
	"slices"

	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/upsert"
	"github.com/gscd-io/gscd/snapshotter"
)

// writeRows writes a batch's rows and deletes into its transaction, and says how many
// live rows the table will have. It may run beside the lane.
func (l *Lane) writeRows(f *flight) error {
	b, s := f.batch, f.schema
	filled, err := l.fillBases(f)
	if err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	out := &upsert.Batch{Schema: s, PartitionBy: l.o.PartitionBy, ChangeData: f.feeds}
	live := int64(l.writer.Index().Len()) - b.killedCount
	n := len(b.entries)
	out.Replaced, out.Rows, out.Keys, out.Tags = make([]upsert.Ref, 0, n), make([][]schema.Value, 0, n), make([]string, 0, n), make([]uint16, 0, n)
	var bounds facts
	for i := range b.entries {
		e := &b.entries[i]
		if !e.dirty {
			continue
		}
		if e.old != 0 {
			out.Replaced = append(out.Replaced, e.old)
			live--
		}
		if !e.live {
			if e.old != 0 {
				out.Removed = append(out.Removed, e.key)
			}
			continue
		}
		live++
		bounds.add(e.meta, len(out.Rows) == 0)
		row := e.row
		if whole, ok := filled[i]; ok {
			row = whole
		}
		out.Rows = append(out.Rows, f.fullRow(row, e.meta, len(s.Fields)))
		out.Keys = append(out.Keys, e.key)
		out.Tags = append(out.Tags, tagOf(e.meta))
	}
	out.Killed = b.killed
	b.rows = l.countRows(b)
	if len(out.Rows) > 0 {
		out.Footer = bounds.encode()
	}
	f.p.Rows = live
	if f.written, err = l.writer.Write(f.ctx, out, f.tx); err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	if l.o.CopyOnWrite && len(l.p.Rewritten) > 0 {
		var from []string
		for _, ref := range out.Replaced {
			from = append(from, l.writer.Path(ref.Segment()))
		}
		for id := range out.Killed {
			from = append(from, l.writer.Path(id))
		}
		slices.Sort(from)
		l.carryRewritten(slices.Compact(from), f.written)
	}
	return nil
}

// fullRow gives a row with its hidden cells behind: in the memory behind the row, which
// nobody reads, where there is some.
func (f *flight) fullRow(row []schema.Value, m snapshotter.Meta, columns int) []schema.Value {
	var full []schema.Value
	if len(row) == columns && cap(row) >= columns+len(Hidden) {
		full = row[:columns+len(Hidden)]
	} else {
		full = f.arena.Values(columns + len(Hidden))
		copy(full, row)
	}
	hiddenCells(full[columns:], m)
	return full
}

// fillBases reads the cells that rows keep from the rows they replace, and gives copies
// of those rows, by entry: the next batch may be reading the rows themselves.
func (l *Lane) fillBases(f *flight) (map[int][]schema.Value, error) {
	var refs []upsert.Ref
	var which []int
	for i := range f.batch.entries {
		if e := &f.batch.entries[i]; e.dirty && e.live && e.base != 0 {
			refs = append(refs, e.base)
			which = append(which, i)
		}
	}
	if len(refs) == 0 {
		return nil, nil
	}
	cols := make([]parquet.Column, len(f.schema.Fields))
	for i, field := range f.schema.Fields {
		cols[i] = parquet.ColumnOf(&field)
	}
	rows, err := l.writer.ReadRows(f.ctx, refs, cols)
	if err != nil {
		return nil, fmt.Errorf("read the rows that partial images keep: %w", err)
	}
	filled := make(map[int][]schema.Value, len(which))
	for n, i := range which {
		from := f.batch.entries[i].row
		row := append(make([]schema.Value, 0, len(cols)+len(Hidden)), from...)
		for c := range row {
			if row[c].Kind == schema.Unavailable {
				row[c] = rows[n][c]
			}
		}
		filled[i] = row
	}
	return filled, nil
}
