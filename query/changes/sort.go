package changes

import (
	"cmp"
	"strings"

	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
)

// The cells that stand before those of the row in the form that is sorted.
const (
	cellKey     = iota // the key, as AppendEncoded has it
	cellVersion        // of the change
	cellRank           // 0 takes the row away, 1 brings it
	cellsBefore
)

// sorter puts changes in the order of key, version and rank.
type sorter struct {
	*scan.Sorter
	row []schema.Value
}

func newSorter(columns int, o Options) sorter {
	width := cellsBefore + columns
	return sorter{scan.NewSorter(width, compareCells, o.Memory, o.TempDir), make([]schema.Value, width)}
}

func compareCells(a, b []schema.Value) int {
	if order := strings.Compare(a[cellKey].S, b[cellKey].S); order != 0 {
		return order
	}
	return cmp.Or(cmp.Compare(a[cellVersion].I, b[cellVersion].I), cmp.Compare(a[cellRank].I, b[cellRank].I))
}

// add takes a copy of a change.
func (s *sorter) add(key []byte, c *Change) error {
	rank := int64(1)
	if c.gone() {
		rank = 0
	}
	s.row[cellKey], s.row[cellVersion], s.row[cellRank] = schema.BinaryValue(string(key)), schema.IntValue(c.Version), schema.IntValue(rank)
	copy(s.row[cellsBefore:], c.Row)
	return s.Add(s.row)
}
