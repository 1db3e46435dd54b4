package stats_test

import (
	"slices"
	"testing"

	"github.com/gscd-io/gscd/delta/stats"
)

func TestIndexed(t *testing.T) {
	for _, c := range []struct {
		properties map[string]string
		want       []int
	}{
		{nil, []int{0, 1, 2}},
		{map[string]string{"delta.dataSkippingNumIndexedCols": "2"}, []int{0, 1}},
		{map[string]string{"delta.dataSkippingNumIndexedCols": "0"}, nil},
		{map[string]string{"delta.dataSkippingNumIndexedCols": "-1"}, []int{0, 1, 2}},
		{map[string]string{"delta.dataSkippingNumIndexedCols": "many"}, []int{0, 1, 2}},
		{map[string]string{"delta.dataSkippingStatsColumns": "`c`, A,c,nothing", "delta.dataSkippingNumIndexedCols": "1"}, []int{2, 0}},
	} {
		if got := stats.Indexed(c.properties, []string{"a", "b", "c"}); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.properties, got, c.want)
		}
	}
}
