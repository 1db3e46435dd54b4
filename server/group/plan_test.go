package group

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// world is a group whose members follow its plans at once.
type world struct {
	candidates []Candidate
	plan       Plan
	generation int32
}

// step makes the next plan, and lets every process do what it says.
func (w *world) step() Plan {
	w.generation++
	w.plan = Share(w.candidates, w.plan, noon.Add(time.Duration(w.generation)*time.Minute))
	for i, c := range w.candidates {
		claims := map[string]Claim{}
		for table, place := range w.plan {
			if place.Member == c.Name && place.From == "" {
				claims[table] = Claim{w.generation, place.Since}
			}
		}
		w.candidates[i].Claims = claims
	}
	return w.plan
}

func tables(n int, weight func(i int) int) map[string]int {
	out := map[string]int{}
	for i := range n {
		out[fmt.Sprintf("t%03d", i)] = weight(i)
	}
	return out
}

func one(int) int { return 1 }

func (w *world) add(name string, tables map[string]int) {
	w.candidates = append(w.candidates, Candidate{Name: name, Tables: tables, Claims: map[string]Claim{}})
}

func (w *world) remove(i int) { w.candidates = slices.Delete(w.candidates, i, i+1) }

// check holds a plan against what every plan must be.
func check(t *testing.T, candidates []Candidate, plan Plan) {
	t.Helper()
	has, load, weight := map[string]map[string]int{}, map[string]int{}, map[string]int{}
	for _, c := range candidates {
		has[c.Name] = c.Tables
		load[c.Name] = 0
		for table, w := range c.Tables {
			weight[table] = max(1, w, weight[table])
		}
	}
	if len(plan) != len(weight) {
		t.Fatalf("%d tables are placed, there are %d", len(plan), len(weight))
	}
	for table, place := range plan {
		if _, can := has[place.Member][table]; !can {
			t.Fatalf("table %s is given to %s, which does not have it", table, place.Member)
		}
		load[place.Member] += weight[table]
		claimed := false
		for _, c := range candidates {
			_, claims := c.Claims[table]
			claimed = claimed || claims && c.Name == place.Member
			if claims && c.Name != place.Member && place.From == "" && !holds(candidates, table, place.Member) {
				t.Fatalf("table %s is given to %s while %s has not stopped it", table, place.Member, c.Name)
			}
		}
		if claimed && place.From != "" && holds(candidates, table, place.Member) {
			t.Fatalf("table %s waits for %s though %s has it", table, place.From, place.Member)
		}
		if (place.From == "") == place.Since.IsZero() {
			t.Fatalf("table %s: %+v", table, place)
		}
	}
	for table, place := range plan {
		for _, c := range candidates {
			if _, can := c.Tables[table]; can && load[place.Member]-load[c.Name] > weight[table] {
				t.Fatalf("%s has %d to do, %s %d: table %s of %d should be there", place.Member, load[place.Member], c.Name, load[c.Name], table, weight[table])
			}
		}
	}
}

// holds tells that the claim of a process is the one that stands.
func holds(candidates []Candidate, table, name string) bool {
	best, generation := "", int32(-1)
	for _, c := range candidates {
		if claim, ok := c.Claims[table]; ok && (claim.Generation > generation || claim.Generation == generation && c.Name < best) {
			best, generation = c.Name, claim.Generation
		}
	}
	return best == name
}

// moved counts the tables whose process stays and that go to another one.
func moved(before Plan, candidates []Candidate, after Plan) (n int) {
	for table, place := range after {
		old := before[table].Member
		for _, c := range candidates {
			if _, can := c.Tables[table]; can && c.Name == old && place.Member != old {
				n++
			}
		}
	}
	return n
}

// fewest is the least number of moves by which every process gets the same number
// of tables but for one, where all have all tables: each keeps what it may, and the
// larger shares go to those that have the most.
func fewest(before Plan, candidates []Candidate, tables int) (n int) {
	counts := map[string]int{}
	for _, place := range before {
		counts[place.Member]++
	}
	var list []int
	for _, c := range candidates {
		list = append(list, counts[c.Name])
	}
	slices.SortFunc(list, func(a, b int) int { return b - a })
	for i, count := range list {
		share := tables / len(list)
		if i < tables%len(list) {
			share++
		}
		n += max(0, count-share)
	}
	return n
}

// Processes come and go, one or several at a time: every plan is whole and even,
// and no table moves that need not.
func TestPlansOfEqualTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for run := range 100 {
		w := &world{}
		all := tables(1+rng.IntN(40), one)
		next := 0
		join := func() {
			next++
			w.add(fmt.Sprintf("pod-%02d", next), all)
		}
		for range 1 + rng.IntN(5) {
			join()
		}
		check(t, w.candidates, w.step())
		for range 12 {
			for range 1 + rng.IntN(2) {
				if len(w.candidates) > 1 && rng.IntN(2) == 0 {
					w.remove(rng.IntN(len(w.candidates)))
				} else {
					join()
				}
			}
			before, candidates := w.plan, slices.Clone(w.candidates)
			plan := w.step()
			check(t, candidates, plan)
			if got, want := moved(before, candidates, plan), fewest(before, candidates, len(all)); got != want {
				t.Fatalf("run %d: %d tables move, %d have to", run, got, want)
			}
			// What moves has to stop first: the next plan gives it, and is the last.
			settled := w.step()
			for table, place := range settled {
				if place.From != "" || place.Member != plan[table].Member {
					t.Fatalf("run %d: %s goes to %+v, %s was planned", run, table, place, plan[table].Member)
				}
			}
			if again := w.step(); !reflect.DeepEqual(again, settled) {
				t.Fatalf("run %d: a plan without a reason differs: %v, %v", run, again, settled)
			}
		}
	}
}

// Tables of different weights, processes that do not have all of them, and claims
// of those that were away: whole and even, and the same in whatever order the
// processes are named.
func TestPlansOfUnequalTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		all := tables(1+rng.IntN(60), func(int) int { return 1 << rng.IntN(6) })
		names := slices.Sorted(maps.Keys(all))
		w := &world{plan: Plan{}}
		for i := range 1 + rng.IntN(8) {
			some := map[string]int{}
			for _, name := range names {
				if rng.IntN(5) > 0 {
					some[name] = all[name]
				}
			}
			w.add(fmt.Sprint("pod-", i), some)
			for _, name := range names {
				if rng.IntN(8) == 0 { // also of tables that have left its configuration
					w.candidates[i].Claims[name] = Claim{int32(rng.IntN(3)), noon}
				}
			}
		}
		candidates := slices.Clone(w.candidates)
		plan := w.step()
		check(t, candidates, plan)
		rng.Shuffle(len(candidates), func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
		if again := Share(candidates, Plan{}, noon.Add(time.Minute)); !reflect.DeepEqual(again, plan) {
			t.Fatalf("another order, another plan:\n%v\n%v", plan, again)
		}
		for table, place := range w.step() {
			if place.From != "" {
				t.Fatalf("%s still waits for %s, which has stopped it", table, place.From)
			}
		}
	}
}

// A process that the group went on without finds its tables with another one, and
// keeps those that nobody has taken.
func TestLaterClaimStands(t *testing.T) {
	all := tables(2, one)
	paused := Candidate{Name: "a", Tables: all, Claims: map[string]Claim{"t000": {4, noon}, "t001": {4, noon}}}
	other := Candidate{Name: "b", Tables: all, Claims: map[string]Claim{"t000": {5, noon.Add(time.Hour)}}}
	got := Share([]Candidate{paused, other}, nil, noon.Add(2*time.Hour))
	want := Plan{"t000": {Member: "b", Since: noon.Add(time.Hour)}, "t001": {Member: "a", Since: noon}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
}

// A process that is back has no claims yet: what the plan before gave it is its own.
func TestBackInTime(t *testing.T) {
	all := tables(7, one)
	w := &world{}
	for _, name := range []string{"a", "b", "c"} {
		w.add(name, all)
	}
	w.step()
	before := w.step()
	w.candidates[1].Claims = map[string]Claim{}
	if after := w.step(); !reflect.DeepEqual(after, before) {
		t.Errorf("%v, before %v", after, before)
	}
}

// One heavy table has a process of its own, as far as the others have room.
func TestHeavyTable(t *testing.T) {
	all := tables(13, func(i int) int { return max(1, 12*(1-i)) })
	plan := Share([]Candidate{{Name: "a", Tables: all}, {Name: "b", Tables: all}}, nil, noon)
	for table, place := range plan {
		if (table == "t000") != (place.Member == "a") {
			t.Errorf("%s is on %s", table, place.Member)
		}
	}
}

func BenchmarkShare(b *testing.B) {
	rng := rand.New(rand.NewPCG(5, 6))
	all := tables(2000, func(int) int { return 1 + rng.IntN(16) })
	w := &world{}
	for i := range 30 {
		w.add(fmt.Sprintf("pod-%02d", i), all)
	}
	w.step()
	w.remove(3)
	for b.Loop() {
		Share(w.candidates, w.plan, noon)
	}
}
