package scd2_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/scd2"
)

// timed is a change of the model with its time.
type timed struct {
	at  time.Time
	key int
	v   string // "" deletes
}

// momentsOf gives the intervals of the model, as lines prints them: an interval for each
// state that a change left, of a day's changes at one time the last one.
func momentsOf(events []timed) (list []string) {
	stamp := func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }
	byKey := map[int][]timed{}
	for _, e := range events {
		l := byKey[e.key]
		if n := len(l); n > 0 && !e.at.After(l[n-1].at) { // its time stands still or steps back
			e.at = l[n-1].at
			l = l[:n-1]
		}
		byKey[e.key] = append(l, e)
	}
	for k, l := range byKey {
		last := ""
		var kept []timed
		for _, e := range l {
			if e.v != last {
				kept = append(kept, e)
			}
			last = e.v
		}
		for i, e := range kept {
			if e.v == "" {
				continue
			}
			till, current := "5999-01-01T00:00:00.000000Z", "true"
			if i+1 < len(kept) {
				till, current = stamp(kept[i+1].at), "false"
			}
			list = append(list, fmt.Sprintf("%d %s %s %s %s", k, e.v, stamp(e.at), till, current))
		}
	}
	slices.Sort(list)
	return list
}

// Where each change is a commit, the history has a row for each state, from the time of its
// change; with larger commits it says at each day's end what the day says.
func TestByChange(t *testing.T) {
	for _, batch := range []int{1, 7} {
		for range 3 {
			seed := rand.Uint64()
			t.Run(fmt.Sprint(batch, "/", seed), func(t *testing.T) { byChange(t, rand.New(rand.NewPCG(seed, 1)), batch) })
		}
	}
}

func byChange(t *testing.T, r *rand.Rand, batch int) {
	g := newRig(t)
	g.options.Granularity = scd2.ByChange
	g.ingests = func(o *ingest.Options) { o.ChangeData, o.BatchRows, o.PollRecords = true, batch, 3 }
	var events []timed
	for day := 2; day <= 7; day++ {
		at := july(day, 1)
		for range r.IntN(15) + 2 {
			at = at.Add(time.Duration(r.IntN(3)) * 7 * time.Minute) // also none
			e := timed{at, r.IntN(4), []string{"a", "b", "c", ""}[r.IntN(4)]}
			events = append(events, e)
			row := map[string]any{"id": e.key, "v": e.v}
			if e.v == "" {
				row = nil
			}
			g.put(e.at, id(e.key), row)
		}
		g.ingest()
		if day > 3 {
			to := day - 1
			if day == 5 {
				g.rollback("2022-07-03")
				if r.IntN(2) == 0 {
					g.build()
				}
				g.ingest()
			}
			g.build()
			g.check()
			if batch == 1 {
				var sealed []timed
				for _, e := range events {
					if e.at.Day() <= to {
						sealed = append(sealed, e)
					}
				}
				want(t, fmt.Sprintf("history up to %d", to), lines(t, g.out, "id", "v", "valid_from", "valid_to", "is_current"), momentsOf(sealed)...)
			}
			if t.Failed() {
				t.FailNow()
			}
		}
	}
}

// A table without change data is refused by name.
func TestByChangeNeedsChangeData(t *testing.T) {
	g := newRig(t)
	g.put(july(2, 1), id(1), level(1, 1))
	g.put(july(3, 1), id(1), level(1, 1))
	g.ingest()
	_, err := scd2.Build(ctx, g.source(), delta.New(g.out), scd2.Options{Granularity: scd2.ByChange})
	if !errors.Is(err, scd2.ErrSettings) || !strings.Contains(err.Error(), "change_data: true") {
		t.Error(err)
	}
}
