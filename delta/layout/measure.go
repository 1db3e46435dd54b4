package layout

import (
	"fmt"
	"slices"
	"sort"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
)

// Clustering says how well the files of a version tell the values of a column apart,
// as far as their statistics know.
type Clustering struct {
	Column string
	// Files is the number of files, and Unknown those of them without bounds: they are
	// read for every value.
	Files, Unknown int
	// Depth is how many files of a partition a reader of one value opens on average,
	// over the values at which files begin and end. 1 is as good as can be; the number
	// of files of a partition is as if rows lay anywhere.
	Depth float64
	// Overlaps is with how many other files of its partition a file shares values, on
	// average.
	Overlaps float64
}

// Measure looks at the statistics of a version's files. Partitions are looked at apart,
// and count by their files. The error wraps ErrColumn.
func Measure(s *delta.Snapshot, columns ...string) ([]Clustering, error) {
	list := make([]Clustering, 0, len(columns))
	for _, name := range columns {
		at := s.Schema().IndexFold(name)
		if at < 0 {
			return nil, fmt.Errorf("%w: %q; the table has %q", ErrColumn, name, s.Schema().Names())
		}
		f := s.Schema().Fields[at]
		if slices.Contains(s.Metadata().PartitionColumns, f.Name) {
			return nil, fmt.Errorf("%w: every row of a file has the same %s, it is a partition column", ErrColumn, name)
		}
		c, err := measure(s, f)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// spans are the bounds of a column in the files of a partition.
type spans struct {
	low, high []schema.Value // each sorted
	unknown   int
	empty     int // files without a value
}

func measure(s *delta.Snapshot, f schema.Field) (Clustering, error) {
	c := Clustering{Column: f.Name}
	asked, err := schema.New(f)
	if err != nil {
		return c, err
	}
	parts := map[string]*spans{}
	for _, add := range s.Files() {
		folder := partitionOf(s, add).folder
		p := parts[folder]
		if p == nil {
			p = &spans{}
			parts[folder] = p
		}
		c.Files++
		known, err := stats.Parse(add.Stats, asked)
		if err != nil {
			known = &stats.FileStatistics{NumRecords: -1}
		}
		b := known.Bounds(f.Name)
		switch {
		case b.NullCount >= 0 && b.NullCount == known.NumRecords:
			p.empty++
		case b.Min.IsNull() || b.Max.IsNull():
			p.unknown++
			c.Unknown++
		default:
			p.low, p.high = append(p.low, b.Min), append(p.high, b.Max)
		}
	}
	for _, p := range parts {
		depth, overlaps := p.measure()
		n := float64(len(p.low) + p.unknown + p.empty)
		c.Depth += depth * n / float64(c.Files)
		c.Overlaps += overlaps * n / float64(c.Files)
	}
	return c, nil
}

func (p *spans) measure() (depth, overlaps float64) {
	n := len(p.low)
	if n == 0 {
		return float64(p.unknown), float64(max(0, p.unknown-1))
	}
	for _, list := range [][]schema.Value{p.low, p.high} {
		sort.Slice(list, func(i, j int) bool { return schema.Compare(list[i], list[j]) < 0 })
	}
	upTo := func(list []schema.Value, v schema.Value) int { // values <= v
		return sort.Search(len(list), func(i int) bool { return schema.Compare(list[i], v) > 0 })
	}
	below := func(list []schema.Value, v schema.Value) int { // values < v
		return sort.Search(len(list), func(i int) bool { return schema.Compare(list[i], v) >= 0 })
	}
	at := 0
	for _, list := range [][]schema.Value{p.low, p.high} {
		for _, v := range list {
			at += upTo(p.low, v) - below(p.high, v)
		}
	}
	depth = float64(at)/float64(2*n) + float64(p.unknown)
	// Of two files that share no value one ends before the other begins.
	apart := 0
	for _, v := range p.low {
		apart += below(p.high, v)
	}
	pairs := n*(n-1)/2 - apart + p.unknown*n + p.unknown*(p.unknown-1)/2
	return depth, float64(2*pairs) / float64(n+p.unknown+p.empty)
}
