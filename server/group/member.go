package group

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/ingest/kafka"
)

// The words by which the group protocol tells groups of gscd from others.
const (
	ProtocolType = "gscd"
	Protocol     = "tables-1"
)

// Table is one that this process could run.
type Table struct {
	Name string
	// Topics give its weight: the number of their partitions.
	Topics []string
}

// Options are of this process in its group.
type Options struct {
	// Group is the name of the group, Name that of this member, no other's.
	Group, Name string
	// Address is where others ask this process for its status, http://… or https://…;
	// "" for nowhere.
	Address        string
	SessionTimeout time.Duration
	Brokers        kafka.Options
	Log            *zap.Logger
}

// Member is this process in its group. Its methods may be called from anywhere.
type Member struct {
	o          Options
	membership *kafka.Membership
	changed    chan struct{}

	mu      sync.Mutex
	topics  map[string][]string // of the tables of the configuration
	weights map[string]int      // of those tables, as far as the brokers told
	weighed time.Time
	claims  map[string]Claim
	lost    map[string]bool // tables that the plan gives us and that another process took
	told    *assignment     // the newest, nil before
	plan    Plan
	asks    int

	away       error // why the coordinator could not be asked, nil where it could
	awaySince  time.Time
	rebalances int64
}

// NewMember makes a Member without talking to the brokers.
func NewMember(o Options) (*Member, error) {
	membership, err := kafka.NewMembership(o.Brokers, kafka.MembershipOptions{
		Group: o.Group, Type: ProtocolType, Protocol: Protocol, Instance: o.Name, SessionTimeout: o.SessionTimeout,
	})
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return &Member{
		o: o, membership: membership, changed: make(chan struct{}, 1), weights: map[string]int{},
		claims: map[string]Claim{}, lost: map[string]bool{},
	}, nil
}

// Run is in the group until ctx ends. Nothing is given up then: the group waits
// for the process to come back under its name until its session ends.
func (m *Member) Run(ctx context.Context) error {
	return m.membership.Run(ctx, (*shares)(m))
}

// Close releases a Member that Run was not called of.
func (m *Member) Close() { m.membership.Close() }

// Changed has a token after each sharing out.
func (m *Member) Changed() <-chan struct{} { return m.changed }

// Have tells which tables the process could run. Where they are others than
// before, the group shares out anew.
func (m *Member) Have(tables []Table) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.topics
	m.topics = map[string][]string{}
	for _, t := range tables {
		m.topics[t.Name] = t.Topics
	}
	if before != nil && !maps.EqualFunc(before, m.topics, slices.Equal[[]string]) {
		m.weighed = time.Time{}
		m.ask()
	}
}

// Mine are the tables that the newest plan gives to this process.
func (m *Member) Mine() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]bool{}
	for table := range m.plan {
		if m.given(table) {
			out[table] = true
		}
	}
	return out
}

// given tells that the newest plan gives us the table. The caller holds mu.
func (m *Member) given(table string) bool {
	place, ok := m.plan[table]
	return ok && place.Member == m.o.Name && place.From == ""
}

// Take claims a table that is about to be started; false: it is no longer given to us.
func (m *Member) Take(table string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.given(table) {
		return false
	}
	delete(m.lost, table)
	if _, claimed := m.claims[table]; !claimed {
		m.claims[table] = Claim{Generation: m.told.Generation, Since: m.plan[table].Since}
	}
	return true
}

// Stopped takes the claim of a table back: it has stopped here, at a commit
// boundary. The group gives it to whom it is planned for.
func (m *Member) Stopped(table string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.claims, table)
	if !m.given(table) {
		m.ask()
	}
}

// Lost tells that another process has taken a table that the plan gives to this
// one. Our claim ends; that the table is ours stays so until the next plan.
func (m *Member) Lost(table string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.claims, table)
	m.lost[table] = true
}

// ask asks for a sharing out. The caller holds mu.
func (m *Member) ask() {
	m.asks++
	m.membership.Rejoin()
}

// shares is the Member as its Membership sees it.
type shares Member

// weighAgain is how long the numbers of partitions are good for.
const weighAgain = 10 * time.Minute

// Subscription is kafka.Shares'.
func (s *shares) Subscription(ctx context.Context) []byte {
	m := (*Member)(s)
	m.weigh(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	out := subscription{Address: m.o.Address, Asks: m.asks, Tables: m.tables(), Claims: map[string][2]int64{}}
	for table, claim := range m.claims {
		out.Claims[table] = [2]int64{int64(claim.Generation), claim.Since.Unix()}
	}
	// What the plan gave us and was not started yet will be.
	for table, place := range m.plan {
		_, claimed := out.Claims[table]
		if _, have := m.topics[table]; have && !claimed && m.given(table) && !m.lost[table] {
			out.Claims[table] = [2]int64{int64(m.told.Generation), place.Since.Unix()}
		}
	}
	data, err := pack(out)
	if err != nil { // of names and numbers
		m.o.Log.Error("what this process says to its group can't be written", zap.Error(err))
	}
	return data
}

// tables are those of the configuration, by weight. The caller holds mu.
func (m *Member) tables() map[string]int {
	out := map[string]int{}
	for table := range m.topics {
		out[table] = max(1, m.weights[table])
	}
	return out
}

// weigh asks how many partitions the topics have. A table whose topics are not
// known weighs as little as one can.
func (m *Member) weigh(ctx context.Context) {
	m.mu.Lock()
	topics := m.topics
	recent := time.Since(m.weighed) < weighAgain
	m.mu.Unlock()
	if recent || len(topics) == 0 {
		return
	}
	var all []string
	for _, of := range topics {
		all = append(all, of...)
	}
	slices.Sort(all)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	counts, err := m.membership.PartitionCounts(ctx, slices.Compact(all))
	if err != nil {
		m.o.Log.Debug("tables are shared out by what was known of their topics", zap.Error(err))
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.weighed = time.Now()
	for table, of := range topics {
		m.weights[table] = 0
		for _, topic := range of {
			m.weights[table] += counts[topic]
		}
	}
}

// Share is kafka.Shares'.
func (s *shares) Share(generation int32, members []kafka.GroupMember) (map[string][]byte, error) {
	m := (*Member)(s)
	a := assignment{Generation: generation, Leader: m.o.Name}
	var candidates []Candidate
	for _, one := range members {
		name := one.Instance
		if name == "" {
			name = one.ID
		}
		c, told, err := candidate(name, one.Subscription)
		if err != nil {
			m.o.Log.Error("a member of the group gets no tables", zap.String("member", name), zap.Error(err))
			c, told = Candidate{Name: name}, planMember{Name: name}
		}
		candidates, a.Members = append(candidates, c), append(a.Members, told)
	}
	m.mu.Lock()
	before := m.plan
	m.mu.Unlock()
	Share(candidates, before, time.Now().UTC().Truncate(time.Second)).written(&a)
	data, err := pack(a)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, one := range members {
		out[one.ID] = data
	}
	return out, nil
}

// Assigned is kafka.Shares'.
func (s *shares) Assigned(generation int32, data []byte) {
	m := (*Member)(s)
	var a assignment
	err := unpack(data, &a)
	var plan Plan
	if err == nil {
		plan, err = a.plan()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		// Better run what we run than nothing: the tables fence themselves.
		m.o.Log.Error("what the leader of the group says can't be read; the tables stay as they are", zap.Int32("generation", generation), zap.Error(err))
		return
	}
	a.Generation = generation // of a leader that came back, the plan is older
	m.told, m.plan = &a, plan
	m.rebalances++
	clear(m.lost)
	for table, claim := range m.claims {
		if m.given(table) {
			claim.Generation = generation
			m.claims[table] = claim
		}
	}
	for table, place := range plan {
		if _, claimed := m.claims[table]; place.From == m.o.Name && !claimed {
			m.ask() // it has stopped since we said that it had not
			break
		}
	}
	if i := slices.IndexFunc(a.Members, func(p planMember) bool { return p.Name == m.o.Name }); i < 0 ||
		a.Members[i] != (planMember{Name: m.o.Name, Address: m.o.Address, Sum: sumOf(m.tables())}) {
		m.ask() // it was made of what this process said before it was started again
	}
	m.o.Log.Info("the group has shared out its tables", zap.String("group", m.o.Group), zap.Int32("generation", generation),
		zap.String("leader", a.Leader), zap.Int("members", len(a.Members)), zap.Int("tables", len(plan)), zap.Strings("mine", m.mine()))
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// mine are the tables that are given to us, sorted. The caller holds mu.
func (m *Member) mine() []string {
	out := []string{}
	for table := range m.plan {
		if m.given(table) {
			out = append(out, table)
		}
	}
	slices.Sort(out)
	return out
}

// Heard is kafka.Shares'.
func (s *shares) Heard(err error) {
	m := (*Member)(s)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil && m.away != nil:
		m.o.Log.Info("the coordinator of the group answers again", zap.String("group", m.o.Group))
	case err != nil && m.away == nil:
		m.awaySince = time.Now()
		m.o.Log.Warn("the coordinator of the group does not answer; the tables of this process go on until it says that another one has them",
			zap.String("group", m.o.Group), zap.Error(err))
	}
	m.away = err
}

// View is a group as this member knows it.
type View struct {
	Group, Member, Leader string
	// Generation counts sharings out, 0 before the first.
	Generation int32
	Joined     bool
	// Away is why the coordinator does not answer, nil where it does; since AwaySince.
	Away      error
	AwaySince time.Time
	// Rebalances are the sharings out that this process has seen.
	Rebalances int64
	Members    []ViewMember // by name
}

// ViewMember is a member with its tables, by name.
type ViewMember struct {
	Name, Address string
	Tables        []ViewTable
}

// ViewTable is a table where it belongs.
type ViewTable struct {
	Name  string
	Since time.Time
	// From names the process that has not stopped it yet, "" for none.
	From string
}

// View gives the group as it was shared out last.
func (m *Member) View() View {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := View{Group: m.o.Group, Member: m.o.Name, Away: m.away, AwaySince: m.awaySince, Rebalances: m.rebalances}
	if m.told != nil {
		v.Joined, v.Leader, v.Generation = true, m.told.Leader, m.told.Generation
		v.Members = viewMembers(m.told, m.plan)
	}
	return v
}

func viewMembers(a *assignment, plan Plan) (out []ViewMember) {
	tables := map[string][]ViewTable{}
	for _, name := range slices.Sorted(maps.Keys(plan)) {
		place := plan[name]
		tables[place.Member] = append(tables[place.Member], ViewTable{name, place.Since, place.From})
	}
	for _, m := range a.Members {
		out = append(out, ViewMember{m.Name, m.Address, tables[m.Name]})
	}
	slices.SortFunc(out, func(x, y ViewMember) int { return cmp.Compare(x.Name, y.Name) })
	return out
}

// Described is a group as its coordinator tells it to one who is no member.
func Described(name string, g *kafka.Group) (View, error) {
	v := View{Group: name}
	if g.Type != "" && g.Type != ProtocolType {
		return v, fmt.Errorf("group %s: %w", name, kafka.ErrGroupInUse)
	}
	for _, member := range g.Members {
		if len(member.Assignment) == 0 {
			continue
		}
		var a assignment
		err := unpack(member.Assignment, &a)
		var plan Plan
		if err == nil {
			plan, err = a.plan()
		}
		if err != nil {
			return v, fmt.Errorf("group %s: what member %s was told can't be read: %w", name, member.Instance, err)
		}
		if a.Generation >= v.Generation {
			v.Joined, v.Leader, v.Generation, v.Members = true, a.Leader, a.Generation, viewMembers(&a, plan)
		}
	}
	return v, nil
}
