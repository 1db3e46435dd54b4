package scan

import (
	"slices"

	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
)

// MatchingRows gives the rows of a row group that may pass a filter by the page index of
// the file, as ranges of positions in the file that rise and don't touch; nil where that
// leaves out none. known gives what is known of columns that are not in the file.
func MatchingRows(file *parquet.File, group int, s *schema.Schema, where *expr.Predicate, known func(expr.Column) (expr.Bounds, bool)) []parquet.RowRange {
	refs := where.Refs()
	pages := make([]pagesOf, len(refs))
	var cuts []int64 // rows where a page of some column begins
	for i, c := range refs {
		if b, ok := known(c); ok {
			pages[i].always = b
			continue
		}
		path := c.Path(s)
		if pages[i].list = file.PageBounds(group, physical(path)...); len(pages[i].list) < 2 {
			pages[i] = pagesOf{always: GroupBounds(file, group, path)}
			continue
		}
		for _, p := range pages[i].list {
			cuts = append(cuts, p.Rows.From)
		}
	}
	if len(cuts) == 0 {
		return nil
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	// Pages of columns don't end at the same rows. Between two cuts each column has one
	// page, so that the filter judges what may stand together in a row.
	ranges, all := []parquet.RowRange{}, true
	for i, from := range cuts {
		to := cuts[0] + file.RowGroupRows(group)
		if i+1 < len(cuts) {
			to = cuts[i+1]
		}
		if where.CanSkip(func(c expr.Column) expr.Bounds {
			return pages[slices.IndexFunc(refs, func(r expr.Column) bool { return r.Place == c.Place && slices.Equal(r.Inside, c.Inside) })].at(from)
		}) {
			all = false
		} else if n := len(ranges); n > 0 && ranges[n-1].To == from {
			ranges[n-1].To = to
		} else {
			ranges = append(ranges, parquet.RowRange{From: from, To: to})
		}
	}
	if all {
		return nil
	}
	return ranges
}

// pagesOf is what is known of a column: page by page, or of all rows.
type pagesOf struct {
	list   []parquet.PageBounds
	next   int
	always expr.Bounds
}

// at gives what is known of the page with a row; rows rise from call to call.
func (p *pagesOf) at(row int64) expr.Bounds {
	if p.list == nil {
		return p.always
	}
	for p.list[p.next].Rows.To <= row {
		p.next++
	}
	b := &p.list[p.next]
	return boundsOf(b.Min, b.Max, b.NullCount, b.Rows.To-b.Rows.From)
}

// physical gives the columns of a file for a path in the schema.
func physical(path []schema.Field) []parquet.Column {
	columns := make([]parquet.Column, len(path))
	for i := range path {
		columns[i] = parquet.ColumnOf(&path[i])
	}
	return columns
}
