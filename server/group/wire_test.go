package group

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/ingest/kafka"
)

func newMember(t testing.TB, name string) *Member {
	t.Helper()
	m, err := NewMember(Options{Group: "lake", Name: name, Address: "http://" + name, Brokers: kafka.Options{Brokers: []string{"127.0.0.1:1"}}, Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// A plan goes through what members are told.
func TestPlanOnTheWire(t *testing.T) {
	plan := Plan{
		"users":  {Member: "b", Since: noon},
		"orders": {Member: "a", From: "b"},
	}
	a := assignment{Generation: 7, Leader: "a", Members: []planMember{{Name: "b"}, {Name: "a", Address: "http://a:9090", Sum: 12}}}
	plan.written(&a)
	data, err := pack(a)
	if err != nil {
		t.Fatal(err)
	}
	var b assignment
	if err := unpack(data, &b); err != nil || !reflect.DeepEqual(a, b) {
		t.Fatalf("%+v, %v, want %+v", b, err, a)
	}
	if got, err := b.plan(); err != nil || !reflect.DeepEqual(got, plan) {
		t.Errorf("%v, %v, want %v", got, err, plan)
	}
	b.Tables["orders"] = planPlace{Member: 2, From: -1}
	if _, err := b.plan(); err == nil || err.Error() != "table orders: the plan names member 2 of 2" {
		t.Errorf("%v", err)
	}
}

// The whole of a large group fits into the one record that the coordinator keeps.
func TestSizeOfGroup(t *testing.T) {
	const members, tables = 20, 1000
	leader := newMember(t, "gscd-0")
	var list []kafka.GroupMember
	for i := range members {
		s := subscription{Address: fmt.Sprintf("http://gscd-%d.gscd.lake.svc:9090", i), Tables: map[string]int{}, Claims: map[string][2]int64{}}
		for j := range tables {
			name := fmt.Sprintf("shop_%d_%s_history", j*7919%100003, []string{"orders", "customers", "payments"}[j%3])
			s.Tables[name] = 1 + j%16
			if j%members == i {
				s.Claims[name] = [2]int64{41, noon.Unix() + int64(j*977%86400)}
			}
		}
		data, err := pack(s)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, kafka.GroupMember{ID: fmt.Sprintf("gscd-%d-uuid", i), Instance: fmt.Sprintf("gscd-%d", i), Subscription: data})
	}
	out, err := (*shares)(leader).Share(42, list)
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, m := range list {
		size += len(m.Subscription) + len(out[m.ID])
	}
	t.Logf("%d tables on %d processes: %d bytes", tables, members, size)
	if size > 512<<10 {
		t.Errorf("%d bytes: the coordinator's record is bounded by 1 MiB", size)
	}
	if len(out) != members {
		t.Errorf("%d members are told", len(out))
	}
}

// What can't be read harms nobody: who sent it gets no tables, and who is told it
// keeps what it has.
func TestBadWords(t *testing.T) {
	var bomb bytes.Buffer
	w, _ := flate.NewWriter(&bomb, flate.BestCompression)
	w.Write([]byte(`{"tables":{"`))
	for range 20 << 4 {
		w.Write(bytes.Repeat([]byte("a"), 64<<10))
	}
	w.Close()
	if err := unpack(bomb.Bytes(), &subscription{}); !errors.Is(err, errTooLarge) {
		t.Errorf("%v", err)
	}
	good, _ := pack(subscription{Tables: map[string]int{"users": 4}})
	leader := newMember(t, "a")
	told, err := (*shares)(leader).Share(3, []kafka.GroupMember{{ID: "1", Instance: "a", Subscription: good}, {ID: "2", Instance: "b", Subscription: bomb.Bytes()}, {ID: "3", Instance: "c", Subscription: nil}})
	if err != nil {
		t.Fatal(err)
	}
	leader.Have([]Table{{Name: "users", Topics: []string{"t"}}})
	(*shares)(leader).Assigned(3, told["1"])
	if mine := leader.Mine(); !reflect.DeepEqual(mine, map[string]bool{"users": true}) {
		t.Errorf("%v", mine)
	}
	for _, bad := range [][]byte{nil, []byte("x"), bomb.Bytes(), told["1"][:len(told["1"])/2]} {
		(*shares)(leader).Assigned(4, bad)
		if mine := leader.Mine(); !reflect.DeepEqual(mine, map[string]bool{"users": true}) {
			t.Errorf("after %d bytes: %v", len(bad), mine)
		}
	}
	if _, err := Described("lake", &kafka.Group{State: "Stable", Type: "consumer"}); !errors.Is(err, kafka.ErrGroupInUse) {
		t.Errorf("%v", err)
	}
	_, err = Described("lake", &kafka.Group{State: "Stable", Type: ProtocolType, Members: []kafka.DescribedMember{{GroupMember: kafka.GroupMember{Instance: "a"}, Assignment: []byte("x")}}})
	if err == nil || !strings.Contains(err.Error(), "group lake: what member a was told can't be read") {
		t.Errorf("%v", err)
	}
}

// What the plan gave counts as claimed until it is stopped or lost, and what is
// asked of the leader says so.
func TestClaims(t *testing.T) {
	m := newMember(t, "a")
	m.Have([]Table{{Name: "users"}, {Name: "orders"}})
	m.weighed = time.Now() // no broker is asked
	tell := func(generation int32, plan Plan) {
		t.Helper()
		a := assignment{Generation: generation, Leader: "b", Members: []planMember{{"a", "http://a", sumOf(m.tables())}, {Name: "b"}}}
		plan.written(&a)
		data, err := pack(a)
		if err != nil {
			t.Fatal(err)
		}
		(*shares)(m).Assigned(generation, data)
	}
	says := func(want map[string]Claim) {
		t.Helper()
		c, _, err := candidate("a", (*shares)(m).Subscription(t.Context()))
		if err != nil || !reflect.DeepEqual(c.Claims, want) {
			t.Errorf("claims %v, %v, want %v", c.Claims, err, want)
		}
	}
	says(map[string]Claim{})
	tell(5, Plan{"users": {Member: "a", Since: noon}, "orders": {Member: "a", From: "b"}})
	says(map[string]Claim{"users": {5, noon}}) // not started, but nobody else's
	if !m.Take("users") || m.Take("orders") {
		t.Error("what is given can be taken, what another process has not stopped can't")
	}
	asked := m.asks
	tell(6, Plan{"users": {Member: "b", From: "a"}, "orders": {Member: "a", Since: noon}})
	says(map[string]Claim{"users": {5, noon}, "orders": {6, noon}})
	if m.Take("users") {
		t.Error("a table that is to be given up was taken")
	}
	m.Stopped("users")
	if says(map[string]Claim{"orders": {6, noon}}); m.asks != asked+1 {
		t.Errorf("asked %d times for a sharing out", m.asks-asked)
	}
	// It was stopped while the group was shared out by what it had said before.
	tell(7, Plan{"users": {Member: "b", From: "a"}, "orders": {Member: "a", Since: noon}})
	if m.asks != asked+2 {
		t.Errorf("asked %d times for a sharing out", m.asks-asked)
	}
	m.Take("orders")
	m.Lost("orders")
	says(map[string]Claim{})
	tell(8, Plan{"users": {Member: "b", Since: noon}, "orders": {Member: "a", Since: noon}})
	says(map[string]Claim{"orders": {8, noon}})
	// A leader that does not know our tables is told them.
	asked = m.asks
	a := assignment{Generation: 9, Members: []planMember{{"a", "http://a", 1}}}
	data, _ := pack(a)
	(*shares)(m).Assigned(9, data)
	if m.asks != asked+1 {
		t.Errorf("asked %d times for a sharing out", m.asks-asked)
	}
}
