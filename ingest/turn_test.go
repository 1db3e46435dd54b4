package ingest

import (
	"testing"
	"time"

	"github.com/gscd-io/gscd/progress"
)

// Two ingesters that are started again and again must not take turns: the more
// often the epoch was raised in the last hour, the longer a starter waits.
func TestTurn(t *testing.T) {
	now := time.Date(2022, 7, 16, 12, 0, 0, 0, time.UTC)
	ago := func(minutes ...int) (raised []int64) {
		for _, m := range minutes {
			raised = append(raised, now.Add(-time.Duration(m)*time.Minute).UnixMilli())
		}
		return raised
	}
	for _, c := range []struct {
		raised []int64
		want   time.Duration
	}{
		{nil, 0},
		{ago(2, 0), 0},
		{ago(200, 100, 61), 0},
		{ago(20, 10, 0), time.Minute},
		{ago(30, 20, 10, 0), 2 * time.Minute},
		{ago(50, 40, 30, 20, 10, 0), 8 * time.Minute},
		{ago(7, 6, 5, 4, 3, 2, 1, 0), 10 * time.Minute},
		{ago(40, 30, 10), -9 * time.Minute},
	} {
		if got := turn(c.raised, now, oftenRaised); got != c.want {
			t.Errorf("raised %v: wait %s, want %s", c.raised, got, c.want)
		}
	}
	// Where a group hands tables over, it may do so more often.
	for raised, want := range map[int]time.Duration{progress.MaxRaised - 1: 0, progress.MaxRaised: time.Minute} {
		if got := turn(ago(7, 6, 5, 4, 3, 2, 1, 0)[progress.MaxRaised-raised:], now, progress.MaxRaised); got != want {
			t.Errorf("%d raises in a group: wait %s, want %s", raised, got, want)
		}
	}
}
