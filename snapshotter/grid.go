package snapshotter

import (
	"slices"
	"sort"
	"time"
)

// grid cuts time into hours or n minutes as the zone's clock shows them: one
// period is the longest stretch in which the clock's date, hour (and minutes,
// rounded down to n) and offset stay the same.
//
// Where all offsets and jumps of the zone fall on the grid, which is nearly
// everywhere, that is plain arithmetic on one run. Where the clock jumps by half
// an hour or at one minute past midnight, the period at the jump is short, and
// each stretch between jumps is a run of its own.
type grid struct {
	period int64 // microseconds
	runs   []run
	// plain is the offset that names leave out, when dated is false.
	plain int64
	// dated: the zone's offset changes after 1999, names always carry it.
	dated bool
}

// run is a stretch of one offset.
type run struct {
	start  int64 // microseconds; of the first run only where it is anchored
	offset int64 // microseconds east of UTC
	first  Label
}

// gridHorizon ends the list of runs of zones that need one. Later instants count
// by the last offset before it.
const gridHorizon = 2200

func newGrid(zone *time.Location, period time.Duration) grid {
	g := grid{period: period.Microseconds()}
	y2000 := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	_, plain := y2000.In(zone).Zone()
	g.plain = int64(plain) * 1e6

	at := time.Unix(0, 0).In(zone)
	_, offset := at.Zone()
	g.runs = []run{{offset: int64(offset) * 1e6}}
	g.runs[0].first = Label(g.ticks(&g.runs[0], 0))
	for {
		next, ends := offsetEnd(at)
		if !ends || next.Year() >= gridHorizon {
			break
		}
		at = next
		_, offset := at.Zone()
		last, r := &g.runs[len(g.runs)-1], run{start: at.UnixMicro(), offset: int64(offset) * 1e6}
		if r.offset == last.offset {
			continue
		}
		r.first = g.in(last, r.start-1) + 1
		g.runs = append(g.runs, r)
		g.dated = g.dated || !at.Before(y2000)
	}
	offGrid := func(r run) bool {
		return (r.offset-g.runs[0].offset)%g.period != 0 || (r.start+r.offset)%g.period != 0
	}
	if !slices.ContainsFunc(g.runs[1:], offGrid) {
		g.runs = g.runs[:1]
	}
	return g
}

// ticks counts the periods on the clock of a run from 1970 to t.
func (g *grid) ticks(r *run, t int64) int64 { return floorDiv(t+r.offset, g.period) }

// in is the label of an instant of the run.
func (g *grid) in(r *run, t int64) Label {
	return r.first + Label(g.ticks(r, t)-g.ticks(r, r.start))
}

func (g *grid) label(t int64) Label {
	i := sort.Search(len(g.runs)-1, func(i int) bool { return g.runs[i+1].start > t })
	return g.in(&g.runs[i], t)
}

func (g *grid) startOf(l Label) int64 {
	i := sort.Search(len(g.runs)-1, func(i int) bool { return g.runs[i+1].first > l })
	r := &g.runs[i]
	start := (int64(l-r.first)+g.ticks(r, r.start))*g.period - r.offset
	if i > 0 {
		start = max(start, r.start)
	}
	return start
}
