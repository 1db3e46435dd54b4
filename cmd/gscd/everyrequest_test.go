package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// requests counts what a broker is asked, by kind, and fails one.
type requests struct {
	*cluster
	mu     sync.Mutex
	counts map[kmsg.Key]int
	cut    kmsg.Key // of the request whose connection is closed, -1 for none
	n      int
	hit    bool
}

func watch(c *cluster) *requests {
	r := &requests{cluster: c, counts: map[kmsg.Key]int{}, cut: -1}
	c.ControlKey(-1, func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		r.mu.Lock()
		defer r.mu.Unlock()
		key := kmsg.Key(req.Key())
		r.counts[key]++
		if key == r.cut && r.counts[key] == r.n {
			r.hit = true
			return nil, errors.New("cut"), true
		}
		return nil, nil, false
	})
	return r
}

// begin forgets what was counted, and gives it.
func (r *requests) begin() map[kmsg.Key]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := r.counts
	r.counts, r.cut, r.hit = map[kmsg.Key]int{}, -1, false
	return counts
}

// fail fails the n-th request of a kind from now on: with err, or by closing the connection
// before the broker has acted on it. The function ends that and tells whether it came so far.
func (r *requests) fail(key kmsg.Key, n int, err *kerr.Error) (end func() bool) {
	r.begin()
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.cut, r.n = key, n
		return func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.cut = -1
			return r.hit
		}
	}
	seen := 0
	fault := r.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: err, When: func(kmsg.Request) bool { seen++; return seen == n }})
	return func() bool { fault.Remove(); return fault.Hits() > 0 }
}

// asking is a command that asks brokers, and what it is to have done at its end.
type asking struct {
	args func(c *cluster, n int) []string // of the n-th run
	tell func(t *testing.T, w *world, c *cluster, n int) string
	// kinds are those that are failed; nil for all.
	kinds []kmsg.Key
}

// times are in records that are written, and no part of what they say.
var times = regexp.MustCompile(`"ts(_ms|_us|_ns)?":\d+|"offset":\d+,`)

func recorded(t *testing.T, w *world, c *cluster, topic string) []string {
	t.Helper()
	out := strings.TrimSpace(w.ok(t, "record", topic, "--brokers", c.brokers()))
	lines := strings.Split(times.ReplaceAllString(out, ""), "\n")
	slices.Sort(lines)
	return lines
}

func askings(t *testing.T) map[string]asking {
	table := func(t *testing.T, w *world, _ *cluster, _ int) string { return w.tell(t, "/w/t") }
	ingest := func(c *cluster, _ int) []string {
		return []string{"ingest", "--location", "/w/t", "--topic", "items", "--brokers", c.brokers(), "--timezone", "UTC", "--key", "id", "--until-end", "--now", "2022-07-19T12:00:00Z"}
	}
	return map[string]asking{
		"ingest": {args: ingest, tell: table},
		"ingest, dead letters to a topic": {
			args: func(c *cluster, n int) []string {
				file := c.write(fmt.Sprintf("dead%d.yaml", n), fmt.Sprintf("kafka: {brokers: [%q]}\ncalendar: {timezone: UTC}\ntables: [{name: t, location: /w/t, topics: [items], key: [id], dead_letter: {to: 'topic:out%d'}}]\n", c.brokers(), n))
				return []string{"ingest", "-c", file, "--until-end", "--now", "2022-07-19T12:00:00Z"}
			},
			// Each dead letter at least once: that is what is promised of the topic.
			tell: func(t *testing.T, w *world, c *cluster, n int) string {
				return w.tell(t, "/w/t") + strings.Join(slices.Compact(recorded(t, w, c, fmt.Sprintf("out%d", n))), "\n")
			},
			kinds: []kmsg.Key{kmsg.Produce, kmsg.Metadata, kmsg.InitProducerID},
		},
		"record": {
			args: func(c *cluster, _ int) []string { return []string{"record", "items", "--brokers", c.brokers()} },
			tell: func(t *testing.T, w *world, c *cluster, _ int) string { return "" },
		},
		"changes to a topic": {
			args: func(c *cluster, n int) []string {
				return []string{"changes", "--table", "/w/d", "--to-topic", fmt.Sprintf("out%d", n), "--position-topic", fmt.Sprintf("at%d", n), "--brokers", c.brokers(), "--net"}
			},
			tell: func(t *testing.T, w *world, c *cluster, n int) string {
				return strings.Join(recorded(t, w, c, fmt.Sprintf("out%d", n)), "\n")
			},
		},
	}
}

// TestEveryRequestOfCommands lets each request to the brokers fail once, by kind and number,
// runs the command again, and compares: the same table, and in a topic the same records,
// each once where that is promised.
func TestEveryRequestOfCommands(t *testing.T) {
	faults := map[string]*kerr.Error{"cut": nil, "refused": kerr.UnknownServerError, "applied, late": kerr.RequestTimedOut}
	all := askings(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for kind, fault := range faults {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				all[name].failEach(t, fault)
			})
		}
	}
}

// sorted is a text by lines, for partitions come in any order.
func sorted(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// items is the story as records of a broker.
func (c *cluster) items(days int) {
	for day := 16; day < 16+days; day++ {
		for id := range 4 {
			c.produce(c.upsert("items", int32(id%2), id, fmt.Sprintf("n%d", day), fmt.Sprintf("2022-07-%dT10:0%d:00Z", day, id)))
		}
		bad := c.upsert("items", 0, 7, "", fmt.Sprintf("2022-07-%dT11:00:00Z", day))
		bad.Value = []byte("no envelope")
		c.produce(bad, c.upsert("items", 1, 1, "early", fmt.Sprintf("2022-07-%dT00:01:00Z", day+1)))
	}
}

func (a asking) failEach(t *testing.T, fault *kerr.Error) {
	c := newCluster(t, 2, "items")
	c.items(3)
	base := newWorld()
	// A table whose changes are there to be written.
	base.ok(t, "load", "--snapshot", "2022-07-16", put2(t, base, "id,n\n1,a\n2,b\n"), "--table", "/w/d", "--key", "id", "--timezone", "UTC")
	base.ok(t, "load", "--snapshot", "2022-07-17", put2(t, base, "id,n\n1,A\n2,b\n3,c\n"), "--table", "/w/d")
	runs := 0
	next := func() int {
		runs++
		if _, err := c.admin().CreateTopics(t.Context(), 2, 1, nil, fmt.Sprintf("out%d", runs)); err != nil {
			t.Fatal(err)
		}
		return runs
	}
	r := watch(c)
	n := next()
	sound := base.clone()
	r.begin()
	printed := sound.ok(t, a.args(c, n)...)
	counts := r.begin()
	want := strings.ReplaceAll(a.tell(t, sound, c, n), fmt.Sprintf("out%d", n), "out")
	points := 0
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		if a.kinds != nil && !slices.Contains(a.kinds, key) {
			continue
		}
		for i := 1; i <= counts[key]; i++ {
			// With -everycall all of them, else the first and the last of each kind.
			if !*everyCall && i > 1 && (testing.Short() || i < counts[key]) {
				continue
			}
			w, n := base.clone(), next()
			args := a.args(c, n)
			end := r.fail(key, i, fault)
			var out, again bytes.Buffer
			code, stderr := w.gscd(&out, args...)
			what := fmt.Sprintf("%s %d of %d", key.Name(), i, counts[key])
			if !end() {
				continue
			}
			points++
			if code != 0 && stderr == "" {
				t.Errorf("%s: exit %d, and no word", what, code)
			}
			if code == 0 && printed != "" && sorted(out.String()) != sorted(printed) {
				t.Errorf("%s: exit 0, and it printed\n%s\nwithout a fault\n%s", what, out.String(), printed)
			}
			if code, says := w.gscd(&again, args...); code != 0 {
				t.Errorf("%s: exit %d: %s\nand again: exit %d: %s", what, code, stderr, code, says)
				continue
			}
			if got := strings.ReplaceAll(a.tell(t, w, c, n), fmt.Sprintf("out%d", n), "out"); got != want {
				t.Errorf("%s: exit %d: %s\nit is\n%s\nwithout a fault\n%s", what, code, stderr, got, want)
			}
		}
	}
	t.Logf("%v: %d points", counts, points)
	if points == 0 && fault == nil {
		t.Error("nothing was failed")
	}
}

// put2 puts a slice into the world and gives its address.
func put2(t *testing.T, w *world, text string) string {
	put("w/in/slice.csv", text)(t, w)
	return "s3://w/in/slice.csv"
}
