package ingest

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/delta/schema"
)

// TestKeyTable: a map of strings is what it must agree with, over several batches.
func TestKeyTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := newKeyTable()
		for range 2 {
			want := map[string]int{}
			var entries []entry
			for range rapid.IntRange(0, 2000).Draw(t, "finds") {
				key := drawKey(t)
				at, found := table.find(key, entries)
				if was, ok := want[key]; ok != found || ok && was != at {
					t.Fatalf("%q is at %d, %v; want %d, %v", key, at, found, was, ok)
				}
				if !found {
					want[key] = at
					entries = append(entries, entry{key: key})
				}
			}
			table.clear()
		}
	})
}

// drawKey draws keys of one integer, near and far, of text, and of two columns.
func drawKey(t *rapid.T) string {
	n := rapid.Int64Range(0, 1500).Draw(t, "n")
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		n = math.MinInt64 + n<<32
	case 1:
		return string(schema.StringValue(fmt.Sprint(n)).AppendEncoded(nil))
	case 2:
		return string(schema.IntValue(n & 7).AppendEncoded(schema.IntValue(n >> 3).AppendEncoded(nil)))
	}
	return string(schema.IntValue(n).AppendEncoded(nil))
}

func BenchmarkKeyTable(b *testing.B) {
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = string(schema.IntValue(int64(i) * 7919).AppendEncoded(nil))
	}
	table := newKeyTable()
	var entries []entry
	b.ReportAllocs()
	for b.Loop() {
		for _, k := range keys {
			for range 3 {
				if _, found := table.find(k, entries); !found {
					entries = append(entries, entry{key: k})
				}
			}
		}
		table.clear()
		entries = entries[:0]
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*3*len(keys)), "ns/find")
}
