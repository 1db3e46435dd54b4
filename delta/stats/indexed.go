package stats

import (
	"slices"
	"strconv"
	"strings"
)

// Indexed chooses, by the properties of a table, which columns of its files get
// statistics, by place: those that delta.dataSkippingStatsColumns names, else the first
// ones, as many as delta.dataSkippingNumIndexedCols says (-1: all), else IndexedColumns.
func Indexed(properties map[string]string, columns []string) (places []int) {
	if names, ok := properties["delta.dataSkippingStatsColumns"]; ok {
		for name := range strings.SplitSeq(names, ",") {
			name = strings.Trim(strings.TrimSpace(name), "`")
			at := slices.IndexFunc(columns, func(c string) bool { return strings.EqualFold(c, name) })
			if at >= 0 && !slices.Contains(places, at) {
				places = append(places, at)
			}
		}
		return places
	}
	n := IndexedColumns
	if text, ok := properties["delta.dataSkippingNumIndexedCols"]; ok {
		if given, err := strconv.Atoi(text); err == nil {
			n = given
		}
	}
	if n < 0 || n > len(columns) {
		n = len(columns)
	}
	for i := range n {
		places = append(places, i)
	}
	return places
}
