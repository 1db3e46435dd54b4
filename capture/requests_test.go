package capture

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Where a request to the brokers fails (some of each kind: the first, the last and some
// between), and the capture is started again, the topics have each record once.
func TestEveryRequest(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes a whole log for each request")
	}
	run := func(fail func(*rig) (ended func())) (*rig, map[string][]string, error) {
		r := newRig(t, false)
		r.o.Batch.Bytes = 2_000_000
		ended := fail(r)
		first := r.session(1 << 30)
		ended()
		if first != nil && !errors.Is(first, io.EOF) {
			if err := r.session(1 << 30); err != nil && !errors.Is(err, io.EOF) {
				t.Fatalf("after %v, again: %v", first, err)
			}
		}
		return r, r.records(), first
	}
	counts := map[kmsg.Key]int{}
	var mu sync.Mutex
	_, want, err := run(func(r *rig) func() {
		r.cluster.ControlKey(-1, func(req kmsg.Request) (kmsg.Response, error, bool) {
			r.cluster.KeepControl()
			mu.Lock()
			defer mu.Unlock()
			counts[kmsg.Key(req.Key())]++
			return nil, nil, false
		})
		return func() { mu.Lock(); counts = maps.Clone(counts); mu.Unlock() }
	})
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	points := 0
	for _, key := range []kmsg.Key{kmsg.InitProducerID, kmsg.Produce, kmsg.AddPartitionsToTxn, kmsg.EndTxn, kmsg.Metadata, kmsg.CreateTopics} {
		var at []int
		for _, n := range []int{1, counts[key] / 2, counts[key]} {
			if n > 0 && !slices.Contains(at, n) {
				at = append(at, n)
			}
		}
		for _, n := range at {
			for name, fault := range map[string]*kerr.Error{"refused": kerr.UnknownServerError, "applied, late": kerr.RequestTimedOut, "cut": nil} {
				hits := 0
				_, got, err := run(func(r *rig) func() {
					if fault != nil {
						seen := 0
						h := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: fault, When: func(kmsg.Request) bool { seen++; return seen == n }})
						return func() { hits = h.Hits(); h.Remove() }
					}
					seen := 0
					r.cluster.ControlKey(key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
						r.cluster.KeepControl()
						if seen++; seen == n {
							mu.Lock()
							hits++
							mu.Unlock()
							return nil, errors.New("cut"), true
						}
						return nil, nil, false
					})
					return func() {}
				})
				mu.Lock()
				reached := hits > 0
				mu.Unlock()
				if !reached {
					continue
				}
				points++
				what := fmt.Sprintf("%s %d of %d %s, %v", key.Name(), n, counts[key], name, err)
				for p, list := range want {
					if !slices.Equal(got[p], list) {
						t.Errorf("%s: %s has %d records, want %d", what, p, len(got[p]), len(list))
					}
				}
				if len(got) != len(want) {
					t.Errorf("%s: %d partitions, want %d", what, len(got), len(want))
				}
			}
		}
	}
	t.Logf("%v: %d points", counts, points)
	if points < 5 {
		t.Errorf("%d points", points)
	}
}
