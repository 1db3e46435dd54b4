package scd2_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/faulty"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/scd2"
)

// event is a change of the model's topic: the day, the key and the row; nil deletes.
type event struct {
	day int
	key string
	row map[string]any
}

// states gives the rows of each day from the first to last, by key.
func states(events []event, first, last int) []map[string]map[string]any {
	var days []map[string]map[string]any
	now := map[string]map[string]any{}
	i := 0
	for day := first; day <= last; day++ {
		for ; i < len(events) && events[i].day <= day; i++ {
			if e := events[i]; e.row == nil {
				delete(now, e.key)
			} else {
				now[e.key] = e.row
			}
		}
		days = append(days, maps.Clone(now))
	}
	return days
}

// history gives the intervals of the model, as lines prints them: a run of days in which a
// key has the same row.
func history(days []map[string]map[string]any, first int, columns []string) []string {
	keys := map[string]bool{}
	for _, d := range days {
		for k := range d {
			keys[k] = true
		}
	}
	rowText := func(row map[string]any) string {
		text := ""
		for _, c := range columns {
			if v, ok := row[c]; ok && v != nil {
				text += fmt.Sprint(v) + " "
			} else {
				text += "- "
			}
		}
		return text
	}
	var list []string
	for k := range keys {
		for from := 0; from < len(days); {
			row, ok := days[from][k]
			if !ok {
				from++
				continue
			}
			to := from + 1
			for to < len(days) && days[to][k] != nil && rowText(days[to][k]) == rowText(row) {
				to++
			}
			end, current := fmt.Sprintf("2022-07-%02d", first+to), "false"
			if to == len(days) {
				end, current = "5999-01-01", "true"
			}
			list = append(list, rowText(row)+fmt.Sprintf("2022-07-%02d %s %s", first+from, end, current))
			from = to
		}
	}
	slices.Sort(list)
	return list
}

// Random days with deletes, returns, changes that change nothing, keys with NULL, columns
// that appear, rollbacks at the source and runs that are broken off anywhere: after each
// run the history is the model's, row by row, and says of each day what its savepoint says.
func TestRandomHistories(t *testing.T) {
	runs := 6
	if testing.Short() {
		runs = 3
	}
	seed := rand.Uint64()
	if text := os.Getenv("GSCD_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
		runs = 1
	}
	for i := range runs {
		s := seed + uint64(i)
		t.Run(fmt.Sprint(s), func(t *testing.T) { randomHistory(t, rand.New(rand.NewPCG(s, 27))) })
	}
}

func randomHistory(t *testing.T, r *rand.Rand) {
	g := newRig(t)
	g.options.Memory = cmp.Or(int64(r.IntN(2))*16<<10, 64<<20)
	g.options.Columns.RowHash = []string{"", "row_hash"}[r.IntN(2)]
	keep := map[string]*mem.Store{}
	columns := []string{"id", "region", "a"}
	var events []event
	const first = 2
	sealed, undone := first-1, 0
	days := first + 6 + r.IntN(6)
	for day := first; day <= days; day++ {
		if day == days-3 {
			columns = append(columns, "extra") // a column that the first days do not have
		}
		for range r.IntN(40) + 1 {
			key := map[string]any{"id": r.IntN(12), "region": []any{"eu", "us", nil}[r.IntN(3)]}
			e := event{day: day, key: fmt.Sprint(key["id"], key["region"])}
			if r.IntN(4) > 0 {
				e.row = map[string]any{"id": key["id"], "region": key["region"], "a": []any{"x", "y", nil, ""}[r.IntN(4)]}
				if len(columns) > 3 {
					e.row["extra"] = []any{1, 2, nil}[r.IntN(3)]
				}
				if v, _ := e.row["a"].(string); v == "" && e.row["a"] != nil {
					e.row["a"] = "z"
				}
			}
			events = append(events, e)
			g.put(july(day, 1+r.IntN(20)), key, e.row)
		}
		// A column exists from its first value on, key columns too, and a rollback may go
		// back to the first day.
		fixed := map[int][]any{first: {nil, "us"}, first + 1: {"us"}}
		for _, region := range fixed[day] {
			e := event{day: day, key: fmt.Sprint(0, region), row: map[string]any{"id": 0, "region": region, "a": "x"}}
			events = append(events, e)
			g.put(july(day, 21), map[string]any{"id": 0, "region": region}, e.row)
		}
		g.ingest("id", "region")
		if day > first {
			sealed = day - 1
		}
		if sealed > first+1 && r.IntN(3) == 0 {
			to := first + r.IntN(sealed-first)
			g.rollback(fmt.Sprintf("2022-07-%02d", to))
			if r.IntN(2) == 0 { // a run may see the table rolled back, or only what comes after
				undone += len(randomBuild(t, g, r, keep).Undone)
				checkModel(t, g, events, first, to, columns)
			}
			g.ingest("id", "region")
		}
		if sealed >= first && r.IntN(3) > 0 {
			undone += len(randomBuild(t, g, r, keep).Undone)
			checkModel(t, g, events, first, sealed, columns)
		}
	}
	randomBuild(t, g, r, keep)
	checkModel(t, g, events, first, sealed, columns)
	before := versionOf(t, g.out)
	if g.build(); versionOf(t, g.out) != before {
		t.Error("a run with nothing to do wrote a version")
	}
	// All at once is the same.
	other := *g
	other.out = mem.New()
	other.options.Keep = nil
	other.build()
	shown := append(slices.Clone(columns), "valid_from", "valid_to", "is_current")
	want(t, "built at once", lines(t, other.out, shown...), lines(t, g.out, shown...)...)
	t.Logf("%d days, %d events, %d labels undone", days-first+1, len(events), undone)
}

// randomBuild runs until nothing is left to do; before that it may be broken off.
func randomBuild(t *testing.T, g *rig, r *rand.Rand, keep map[string]*mem.Store) *scd2.Report {
	t.Helper()
	g.options.Keep = nil
	if r.IntN(2) == 0 {
		g.options.Keep = keepAt(keep)
	}
	all := &scd2.Report{}
	for range r.IntN(3) {
		at := int64(1 + r.IntN(60))
		store := faulty.New(g.out, func(c faulty.Call) *faulty.Fault {
			if c.N == at {
				return &faulty.Fault{Crash: true, Applied: r.IntN(2) == 0}
			}
			return nil
		})
		report, err := scd2.Build(ctx, g.source(), delta.New(store), g.options)
		all.Undone = append(all.Undone, report.Undone...)
		if err == nil {
			continue
		}
		if !errors.Is(err, faulty.ErrInjected) && !errors.Is(err, faulty.ErrCrashed) {
			t.Fatal(err)
		}
	}
	report := g.build()
	all.Undone = append(all.Undone, report.Undone...)
	return all
}

// keepAt keeps steps in memory.
func keepAt(stores map[string]*mem.Store) *scd2.Keep {
	return &scd2.Keep{Open: func(_ ctxType, name string) (*delta.Table, error) {
		if stores[name] == nil {
			stores[name] = mem.New()
		}
		return delta.New(stores[name]), nil
	}}
}

func checkModel(t *testing.T, g *rig, events []event, first, last int, columns []string) {
	t.Helper()
	shown := columns
	table, err := delta.Open(ctx, g.out)
	if err != nil {
		t.Fatal(err)
	}
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if s.Schema().Index("extra") < 0 {
		shown = columns[:3]
	}
	model := history(states(events, first, last), first, shown)
	want(t, fmt.Sprintf("history up to %d", last), lines(t, g.out, append(slices.Clone(shown), "valid_from", "valid_to", "is_current")...), model...)
	g.check()
	if t.Failed() {
		t.FailNow()
	}
}

// A run that is broken off at any call is gone on with by the next one.
func TestBrokenOffAnywhere(t *testing.T) {
	g := newRig(t)
	for day := 15; day <= 18; day++ {
		for n := range 5 {
			g.put(july(day, 1), id(n+day%2), level(n+day%2, day*n%4))
		}
		g.put(july(day, 2), id(day%5), nil)
	}
	g.ingest()
	g.build()
	shown := []string{"id", "level", "valid_from", "valid_to", "is_current"}
	whole := lines(t, g.out, shown...)
	for at := int64(1); ; at++ {
		if testing.Short() && at%5 != 0 {
			continue
		}
		below := mem.New()
		store := faulty.New(below, func(c faulty.Call) *faulty.Fault {
			if c.N == at {
				return &faulty.Fault{Crash: true, Applied: at%2 == 0}
			}
			return nil
		})
		_, err := scd2.Build(ctx, g.source(), delta.New(store), g.options)
		g.out = below
		r := g.build()
		want(t, fmt.Sprintf("broken off at call %d", at), lines(t, g.out, shown...), whole...)
		if t.Failed() {
			t.FailNow()
		}
		if err == nil {
			if len(r.Steps) > 0 {
				t.Errorf("the second run did %+v", r.Steps)
			}
			t.Logf("%d calls", at-1)
			return
		}
	}
}
