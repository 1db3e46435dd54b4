package group

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Candidate is a process that may run tables.
type Candidate struct {
	// Name is one of the group's members, and no other's.
	Name string
	// Tables are those of its configuration, each by its weight, at least 1.
	Tables map[string]int
	// Claims are the tables that it runs, or has not stopped yet.
	Claims map[string]Claim
}

// Claim says how a process came to a table.
type Claim struct {
	// Generation is the last one whose plan gave it the table. Of two claims the
	// higher one stands: the group has gone on without the other process.
	Generation int32
	Since      time.Time
}

// Place is where a table runs.
type Place struct {
	// Member is the name of the process that it belongs to.
	Member string
	// Since is when it came there; zero while From has not given it up.
	Since time.Time
	// From names the process that has to stop it first, "" for none: until then
	// nobody is given it.
	From string
}

// Plan is where each table runs, by its name.
type Plan map[string]Place

// Share makes the plan of a generation. before is the last one known; a table that
// nobody claims goes back to its process of then.
//
// With weights of 1 the processes that have all tables get the same number of them,
// but for one, with the fewest moves that this can be had by. With others no table
// is on a process that another one could take it from and still have less.
func Share(candidates []Candidate, before Plan, now time.Time) Plan {
	s := newSharing(candidates)
	plan := Plan{}
	var free []string
	for _, table := range s.tables {
		home := s.holder[table]
		if home == "" {
			home = before[table].Member
		}
		if _, can := s.has[home][table]; can {
			s.home[table] = home
			s.put(table, home)
		} else {
			free = append(free, table)
		}
	}
	// The heavy ones first: the light ones fill what is left.
	slices.SortStableFunc(free, func(a, b string) int { return cmp.Compare(s.weight[b], s.weight[a]) })
	for _, table := range free {
		s.put(table, s.least(table))
	}
	for s.improve() {
	}
	for _, member := range s.names {
		for _, table := range s.at[member] {
			plan[table] = s.place(table, member, before[table], now)
		}
	}
	return plan
}

// place says where a table is, and who has to give it up first.
func (s *sharing) place(table, member string, before Place, now time.Time) Place {
	holder := s.holder[table]
	switch {
	case holder == member:
		return Place{Member: member, Since: s.claims[holder][table].Since}
	case holder != "":
		return Place{Member: member, From: holder}
	case before.Member == member && before.From == "" && !before.Since.IsZero():
		return Place{Member: member, Since: before.Since}
	}
	return Place{Member: member, Since: now}
}

// sharing is the work on one plan.
type sharing struct {
	names  []string // of the candidates, sorted
	tables []string // of all of them, sorted
	has    map[string]map[string]int
	claims map[string]map[string]Claim
	weight map[string]int
	holder map[string]string // whose claim of a table stands
	home   map[string]string // where a table stays if it can
	at     map[string][]string
	load   map[string]int
}

func newSharing(candidates []Candidate) *sharing {
	s := &sharing{
		has: map[string]map[string]int{}, claims: map[string]map[string]Claim{}, weight: map[string]int{},
		holder: map[string]string{}, home: map[string]string{}, at: map[string][]string{}, load: map[string]int{},
	}
	for _, c := range candidates {
		s.names = append(s.names, c.Name)
		s.has[c.Name], s.claims[c.Name] = c.Tables, c.Claims
		for table, weight := range c.Tables {
			s.weight[table] = max(1, weight, s.weight[table])
		}
	}
	slices.Sort(s.names)
	s.tables = slices.Sorted(maps.Keys(s.weight))
	for _, name := range s.names {
		for table, claim := range s.claims[name] {
			holder := s.holder[table]
			if holder == "" || claim.Generation > s.claims[holder][table].Generation {
				s.holder[table] = name
			}
		}
	}
	return s
}

func (s *sharing) put(table, member string) {
	s.at[member] = append(s.at[member], table)
	s.load[member] += s.weight[table]
}

func (s *sharing) move(table, from, to string) {
	i := slices.Index(s.at[from], table)
	s.at[from] = slices.Delete(s.at[from], i, i+1)
	s.load[from] -= s.weight[table]
	s.put(table, to)
}

// least is the process with the least to do of those that have a table.
func (s *sharing) least(table string) (best string) {
	for _, name := range s.names {
		if _, can := s.has[name][table]; can && (best == "" || s.load[name] < s.load[best]) {
			best = name
		}
	}
	return best
}

// improve moves one table to where it leaves the two processes less apart; false
// where there is none. Each move makes the sum of the loads' squares smaller, so it ends.
func (s *sharing) improve() bool {
	order := slices.Clone(s.names)
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(s.load[b], s.load[a]) })
	for _, from := range order {
		for i := len(order) - 1; i >= 0; i-- {
			to := order[i]
			gap := s.load[from] - s.load[to]
			if gap < 2 {
				break // those before it have more to do
			}
			if table := s.toMove(from, to, gap); table != "" {
				s.move(table, from, to)
				return true
			}
		}
	}
	return false
}

// toMove is the table to move: one that is not at home costs nothing, and of the
// others the one that leaves the two loads the closest, by which the fewest follow.
func (s *sharing) toMove(from, to string, gap int) (best string) {
	rank := func(table string) [2]int {
		home := 0
		switch s.home[table] {
		case from:
			home = 1
		case to:
			home = -1
		}
		rest := gap - 2*s.weight[table]
		return [2]int{home, max(rest, -rest)}
	}
	for _, table := range s.at[from] {
		if _, can := s.has[to][table]; !can || s.weight[table] >= gap {
			continue
		}
		if best == "" {
			best = table
			continue
		}
		a, b := rank(table), rank(best)
		if c := slices.Compare(a[:], b[:]); c < 0 || c == 0 && table < best {
			best = table
		}
	}
	return best
}
