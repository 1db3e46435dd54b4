package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/server/group"
)

// crew is a group of servers in one process, on an embedded broker, and who of
// them runs which table.
type crew struct {
	t      *testing.T
	broker *kfake.Cluster

	mu     sync.Mutex
	at     map[string]*pod
	starts map[string]int
	faults map[string]chan error // ends a table's run
	// address is what a server advertises, peers how it asks the others.
	address func(name string) string
	peers   Asker
	// fenced lets a table be taken from a server that runs it, as tables do.
	fenced bool
}

// pod is one of the servers.
type pod struct {
	*Server
	crew   *crew
	name   string
	member *group.Member
	logs   *observer.ObservedLogs
	stop   context.CancelFunc
	done   chan error
	dead   atomic.Bool // what it still does counts for nothing
}

func newCrew(t *testing.T) *crew {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "wide"), kfake.SeedTopics(1, "t"),
		kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "100"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	return &crew{t: t, broker: broker, at: map[string]*pod{}, starts: map[string]int{}, faults: map[string]chan error{}, address: func(string) string { return "" }}
}

// names are n tables.
func names(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprint("t", i))
	}
	return out
}

func (p *pod) specs(tables []string) (out []Spec) {
	for _, name := range tables {
		f := &fake{run: func(ctx context.Context, with Shared) error { return p.crew.run(ctx, p, name, with) }}
		spec := f.spec(name, 0)
		spec.Topics = []string{"t"}
		out = append(out, spec)
	}
	return out
}

// run is a table at work: it takes a moment to stop.
func (c *crew) run(ctx context.Context, p *pod, table string, with Shared) error {
	c.mu.Lock()
	if other := c.at[table]; other != nil && !other.dead.Load() && c.fenced {
		c.faults[table] <- fmt.Errorf("table %s: %w to %s", table, ingest.ErrLostOwnership, p.name)
	} else if other != nil && !other.dead.Load() {
		c.t.Errorf("table %s is started on %s while it runs on %s", table, p.name, other.name)
	}
	c.at[table] = p
	c.starts[table]++
	fault := make(chan error, 1)
	c.faults[table] = fault
	c.mu.Unlock()
	with.Observer.Loaded(ingest.View{Version: -1})
	var err error
	select {
	case <-ctx.Done():
	case err = <-fault:
	}
	time.Sleep(30 * time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at[table] == p {
		delete(c.at, table)
	}
	return err
}

func (c *crew) start(name string, tables []string) *pod {
	c.t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	member, err := group.NewMember(group.Options{
		Group: "lake", Name: name, Address: c.address(name), SessionTimeout: time.Second,
		Brokers: kafka.Options{Brokers: c.broker.ListenAddrs(), RequestTimeout: 3 * time.Second}, Log: zap.New(core),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &pod{crew: c, name: name, member: member, logs: logs, stop: cancel, done: make(chan error, 1)}
	p.Server = New(Options{Log: zap.New(core), Group: member, Peers: c.peers})
	go func() { p.done <- p.Run(ctx, p.specs(tables)) }()
	c.t.Cleanup(p.end)
	return p
}

func (p *pod) end() {
	p.dead.Store(true)
	p.stop()
	<-p.Server.done
}

// spread is how many tables each server runs.
func (c *crew) spread() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]int{}
	for _, p := range c.at {
		if !p.dead.Load() {
			out[p.name]++
		}
	}
	return out
}

// places is who runs each table.
func (c *crew) places() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]string{}
	for table, p := range c.at {
		if !p.dead.Load() {
			out[table] = p.name
		}
	}
	return out
}

func (c *crew) until(what string, reached func() bool) {
	c.t.Helper()
	for end := time.Now().Add(20 * time.Second); !reached(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("not reached: %s; tables run at %v", what, c.places())
		}
	}
}

func (c *crew) untilSpread(want map[string]int) {
	c.t.Helper()
	c.until(fmt.Sprint(want), func() bool { return maps.Equal(c.spread(), want) })
}

// Servers come, die, come back and go on without their coordinator.
func TestGroup(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	all := names(6)
	a := c.start("a", all)
	c.untilSpread(map[string]int{"a": 6})
	if wrong := a.unready(time.Now()); len(wrong) != 0 {
		t.Errorf("%q", wrong)
	}
	b := c.start("b", all)
	c.untilSpread(map[string]int{"a": 3, "b": 3})
	c.start("c", all)
	c.untilSpread(map[string]int{"a": 2, "b": 2, "c": 2})
	// Three moved to b, and one of each to c.
	total := 0
	for _, n := range c.starts {
		total += n
	}
	if total != 6+3+2 {
		t.Errorf("%d starts of tables, want 11: %v", total, c.starts)
	}

	// One dies: its tables go to the two others, theirs stay.
	before := c.places()
	began := time.Now()
	b.end()
	c.untilSpread(map[string]int{"a": 3, "c": 3})
	t.Logf("handed over %s after the death, with a session of 1 s", time.Since(began).Round(time.Millisecond))
	for table, at := range before {
		if now := c.places()[table]; at != "b" && now != at {
			t.Errorf("%s moved from %s to %s", table, at, now)
		}
	}

	// Back under its name within the session: nothing moves.
	b = c.start("b", all)
	c.untilSpread(map[string]int{"a": 2, "b": 2, "c": 2})
	before = c.places()
	starts := maps.Clone(c.starts)
	b.end()
	b = c.start("b", all)
	c.until("b is back", func() bool { return b.member.View().Joined && maps.Equal(c.places(), before) })
	for table, at := range before {
		if n := c.starts[table] - starts[table]; at != "b" && n != 0 || at == "b" && n != 1 {
			t.Errorf("%s of %s was started %d times", table, at, n)
		}
	}

	// The group goes on without b, which hears so; nobody has taken what it runs.
	starts = maps.Clone(c.starts)
	rebalances := b.member.View().Rebalances
	c.fault(b, kerr.UnknownMemberID, 1)
	c.until("b has joined again", func() bool { return b.member.View().Rebalances > rebalances })
	time.Sleep(300 * time.Millisecond)
	if !maps.Equal(c.starts, starts) || !maps.Equal(c.places(), before) {
		t.Errorf("tables moved: %v, before %v; started %v, before %v", c.places(), before, c.starts, starts)
	}

	// A coordinator that does not answer is waited for, with the tables at work.
	silence := c.fault(b, kerr.CoordinatorNotAvailable, -1)
	c.until("b tells that nobody answers", func() bool { return b.member.View().Away != nil })
	silence.Remove()
	c.until("b is heard", func() bool { return b.member.View().Away == nil })
	if !maps.Equal(c.starts, starts) || !maps.Equal(c.places(), before) {
		t.Errorf("tables moved: %v, before %v; started %v, before %v", c.places(), before, c.starts, starts)
	}

	// Where that lasts, the others take what b runs on with, and b loses it.
	c.mu.Lock()
	c.fenced = true
	c.mu.Unlock()
	silence = c.fault(b, kerr.CoordinatorNotAvailable, -1)
	c.untilSpread(map[string]int{"a": 3, "c": 3})
	c.until("b has lost its tables", func() bool {
		wrong := b.unready(time.Now())
		return len(wrong) == 2 && strings.Contains(wrong[0], "lost ownership") && strings.Contains(wrong[1], "lost ownership")
	})
	c.mu.Lock()
	c.fenced = false
	c.mu.Unlock()
	silence.Remove()
	c.untilSpread(map[string]int{"a": 2, "b": 2, "c": 2})
	c.until("b is ready", func() bool { return len(b.unready(time.Now())) == 0 })
}

// fault answers heartbeats of a server, as many as it is told.
func (c *crew) fault(p *pod, err *kerr.Error, count int) *kfake.FaultHandle {
	return c.broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: err, Count: count, TopLevel: true, When: func(req kmsg.Request) bool {
		r, ok := req.(*kmsg.HeartbeatRequest)
		return ok && r.InstanceID != nil && *r.InstanceID == p.name
	}})
}

// Any process tells of the whole group; one that does not answer, or that another
// one answers for, is said to.
func TestGroupStatus(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	pages := map[string]*atomic.Pointer[http.Handler]{}
	address := func(name string) string {
		page := &atomic.Pointer[http.Handler]{}
		pages[name] = page
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if h := page.Load(); h != nil && r.Header.Get("Authorization") == "Bearer hush" {
				(*h).ServeHTTP(w, r)
				return
			}
			http.Error(w, "who are you?", http.StatusUnauthorized)
		}))
		t.Cleanup(web.Close)
		return web.URL
	}
	urls := map[string]string{"a": address("a"), "b": address("b"), "d": "http://127.0.0.1:1"}
	urls["c"] = urls["b"] // c advertises what is b's
	c.address = func(name string) string { return urls[name] }
	c.peers = Asker{Authorize: func(r *http.Request) { r.Header.Set("Authorization", "Bearer hush") }}
	all := names(8)
	pods := map[string]*pod{}
	for _, name := range []string{"a", "b", "c", "d"} {
		pods[name] = c.start(name, all)
	}
	c.untilSpread(map[string]int{"a": 2, "b": 2, "c": 2, "d": 2})
	for name, page := range pages {
		h := pods[name].Handler()
		page.Store(&h)
	}
	c.until("a has the last plan", func() bool { return len(tablesOf(pods["a"].member.View(), "d")) == 2 })
	var got struct {
		Group struct {
			Group, Member, Leader string
			Joined                bool
			Members               []struct {
				Member, Address string
				Self            bool
				Error           *string
				Tables          []struct {
					Table string
					Since time.Time
					State *string
				}
			}
		}
	}
	status := func() {
		t.Helper()
		w := httptest.NewRecorder()
		pods["a"].Handler().ServeHTTP(w, httptest.NewRequest("GET", "/status", nil))
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%v: %s", err, w.Body)
		}
		groupHolds(t, w.Body.Bytes())
	}
	status()
	g := got.Group
	if g.Group != "lake" || g.Member != "a" || g.Leader == "" || !g.Joined || len(g.Members) != 4 {
		t.Fatalf("%+v", g)
	}
	places := c.places()
	for _, m := range g.Members {
		text := ""
		if m.Error != nil {
			text = *m.Error
		}
		want := map[string]string{"a": "", "b": "", "c": `is member "b"`, "d": "connection refused"}[m.Member]
		if (text == "") != (want == "") || !strings.Contains(text, want) || m.Self != (m.Member == "a") || len(m.Tables) != 2 {
			t.Errorf("%+v, %s", m, text)
		}
		for _, table := range m.Tables {
			if places[table.Table] != m.Member || time.Since(table.Since) > time.Minute {
				t.Errorf("%s: %+v, it runs on %s", m.Member, table, places[table.Table])
			}
			if (table.State != nil && *table.State == "running") != (want == "") {
				t.Errorf("%s: %+v", m.Member, table)
			}
		}
	}
	// One process of its own, and what the coordinator tells to who is no member.
	w := httptest.NewRecorder()
	pods["b"].Handler().ServeHTTP(w, httptest.NewRequest("GET", "/status?scope=pod", nil))
	if text := w.Body.String(); !strings.Contains(text, `"member":"b"`) && !strings.Contains(text, `"member": "b"`) || strings.Contains(text, `"members"`) {
		t.Errorf("%s", text)
	}
	groupHolds(t, w.Body.Bytes())
	page := httptest.NewRecorder()
	pods["a"].Handler().ServeHTTP(page, httptest.NewRequest("GET", "/", nil))
	for _, m := range g.Members {
		name := m.Member
		if m.Self {
			name += " (this one)"
		}
		state := "member"
		if m.Member == g.Leader {
			state = "leader"
		}
		want := fmt.Sprintf(`<th scope="row">%s</th><td>%s</td><td>%s</td><td>%s, %s</td>`, name, m.Address, state, m.Tables[0].Table, m.Tables[1].Table)
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	described, err := kafka.DescribeGroup(t.Context(), kafka.Options{Brokers: c.broker.ListenAddrs()}, "lake")
	if err != nil {
		t.Fatal(err)
	}
	v, err := group.Described("lake", described)
	if own := pods["a"].member.View(); err != nil || v.Generation != own.Generation || !reflect.DeepEqual(v.Members, own.Members) {
		t.Errorf("%+v, %v; a has %+v", v, err, own)
	}
	metrics := httptest.NewRecorder()
	pods["a"].Handler().ServeHTTP(metrics, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{"gscd_group_members 4", `gscd_group_tables{which="mine"} 2`, `gscd_group_tables{which="all"} 8`, `gscd_group_tables{which="moving"} 0`} {
		if !strings.Contains(metrics.Body.String(), want) {
			t.Errorf("no %s", want)
		}
	}
}

// A new configuration comes to one server after the other: a table is only given
// to one that has it.
func TestGroupOfUnequalConfigurations(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	a := c.start("a", names(4))
	b := c.start("b", names(4))
	c.untilSpread(map[string]int{"a": 2, "b": 2})
	b.Reload(b.specs(names(8)))
	c.untilSpread(map[string]int{"a": 4, "b": 4})
	starts := maps.Clone(c.starts)
	for table, at := range c.places() {
		if strings.Compare(table, "t3") > 0 && at != "b" {
			t.Errorf("%s runs on %s, which does not have it", table, at)
		}
	}
	a.Reload(a.specs(names(8)))
	c.until("a has told of its tables", func() bool { return a.member.View().Rebalances > 2 })
	time.Sleep(300 * time.Millisecond)
	if !maps.Equal(c.starts, starts) {
		t.Errorf("tables moved: started %v, before %v", c.starts, starts)
	}
	// A table that leaves both ends.
	a.Reload(a.specs(names(7)))
	b.Reload(b.specs(names(7)))
	c.until("t7 has ended", func() bool { return len(c.places()) == 7 && c.places()["t7"] == "" })
}

// A table that someone outside of the group has taken stays stopped, until the
// group is shared out anew.
func TestGroupLosesTable(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	a := c.start("a", names(2))
	c.untilSpread(map[string]int{"a": 2})
	c.mu.Lock()
	c.faults["t1"] <- fmt.Errorf("table t1: %w to x", ingest.ErrLostOwnership)
	c.mu.Unlock()
	c.until("t1 has failed", func() bool { return len(a.unready(time.Now())) == 1 })
	time.Sleep(300 * time.Millisecond)
	if got := c.places(); len(got) != 1 {
		t.Errorf("%v", got)
	}
	c.start("b", names(2))
	c.untilSpread(map[string]int{"a": 1, "b": 1})
}

// Who can't be a member ends, with what to do.
func TestGroupRefuses(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	first := c.start("a", names(1))
	c.untilSpread(map[string]int{"a": 1})
	// Another process under the same name: the first one ends.
	second := c.start("a", names(1))
	first.dead.Store(true)
	if err := <-first.done; !errors.Is(err, kafka.ErrReplaced) || !strings.Contains(err.Error(), "scale_out.member") {
		t.Errorf("%v", err)
	}
	first.done <- nil
	c.untilSpread(map[string]int{"a": 1})
	if !slices.Equal(tablesOf(second.member.View(), "a"), []string{"t0"}) {
		t.Errorf("%+v", second.member.View())
	}
}

func tablesOf(v group.View, member string) (out []string) {
	for _, m := range v.Members {
		for _, table := range m.Tables {
			if m.Name == member {
				out = append(out, table.Name)
			}
		}
	}
	return out
}

// groupHolds compares the group of a status with what the document says of it.
func groupHolds(t *testing.T, status []byte) {
	t.Helper()
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(status, &parts); err != nil {
		t.Fatal(err)
	}
	readDocument(t).holds(t, "Group", string(parts["group"]))
}
