package stats

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
)

// IndexedColumns is how many leading leaves get statistics where a table does not say
// (delta.dataSkippingNumIndexedCols).
const IndexedColumns = 32

// Indexed chooses, by the properties of a table, which leaves of its files get
// statistics: those that delta.dataSkippingStatsColumns names, or that lie in structs
// that it names, else the first ones, as many as delta.dataSkippingNumIndexedCols says
// (-1: all), else IndexedColumns. An array or a map counts as one, and is left out.
// The order stays that of leaves.
func Indexed(properties map[string]string, leaves []Leaf) []Leaf {
	var chosen []Leaf
	if names, ok := properties["delta.dataSkippingStatsColumns"]; ok {
		asked := namedPaths(names)
		for _, l := range leaves {
			if slices.ContainsFunc(asked, func(path []string) bool { return within(l.Path, path) }) {
				chosen = append(chosen, l)
			}
		}
	} else {
		n := IndexedColumns
		if text, ok := properties["delta.dataSkippingNumIndexedCols"]; ok {
			if given, err := strconv.Atoi(text); err == nil {
				n = given
			}
		}
		if n < 0 || n > len(leaves) {
			n = len(leaves)
		}
		chosen = slices.Clone(leaves[:n])
	}
	return slices.DeleteFunc(chosen, func(l Leaf) bool { return !l.Type.IsLeaf() })
}

// within tells whether a leaf is what a path names, or lies in it.
func within(leaf, path []string) bool {
	return len(path) <= len(leaf) && slices.EqualFunc(leaf[:len(path)], path, strings.EqualFold)
}

// namedPaths reads the names of columns with commas between them. One that is no path,
// or has a dot in it, may be the name of a column as it is.
func namedPaths(text string) (paths [][]string) {
	quoted, from := false, 0
	for i := 0; i <= len(text); i++ {
		if i < len(text) && text[i] == '`' {
			quoted = !quoted
		}
		if i < len(text) && (quoted || text[i] != ',') {
			continue
		}
		name := strings.TrimSpace(text[from:i])
		from = i + 1
		path, err := schema.ParsePath(name)
		if err == nil {
			paths = append(paths, path)
		}
		if err != nil || len(path) > 1 {
			paths = append(paths, []string{name})
		}
	}
	return paths
}
