package capture

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Where a request to the brokers fails, one in the middle of those of each kind, and the capture is started again, the topics have each record once.
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
		if first != nil {
			if err := r.session(1 << 30); err != nil {
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
	if err != nil {
		t.Fatal(err)
	}
	points := 0
	for _, point := range []struct {
		key   kmsg.Key
		n     int
		fault *kerr.Error // nil closes the connection
	}{
		{kmsg.CreateTopics, 2, kerr.UnknownServerError}, {kmsg.CreateTopics, counts[kmsg.CreateTopics] / 2, kerr.UnknownServerError},
		{kmsg.CreateTopics, counts[kmsg.CreateTopics], kerr.RequestTimedOut}, {kmsg.Metadata, counts[kmsg.Metadata] / 2, kerr.UnknownServerError},
		{kmsg.Produce, counts[kmsg.Produce] / 2, kerr.UnknownServerError}, {kmsg.EndTxn, counts[kmsg.EndTxn] / 2, nil}, {kmsg.InitProducerID, 1, nil},
	} {
		hits, seen := 0, 0
		r, got, err := run(func(r *rig) func() {
			if point.fault != nil {
				h := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{point.key}, Err: point.fault, When: func(kmsg.Request) bool { seen++; return seen == point.n }})
				return func() { hits = h.Hits(); h.Remove() }
			}
			r.cluster.ControlKey(point.key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
				r.cluster.KeepControl()
				mu.Lock()
				defer mu.Unlock()
				if seen++; seen == point.n {
					hits++
					return nil, errors.New("cut"), true
				}
				return nil, nil, false
			})
			return func() {}
		})
		what := fmt.Sprintf("%s %d of %d, %v: %v", point.key.Name(), point.n, counts[point.key], point.fault, err)
		mu.Lock()
		if hits > 0 {
			points++
		}
		mu.Unlock()
		for range 10 { // what a busy machine reads late
			if len(got) == len(want) {
				break
			}
			got = r.records()
		}
		for p, list := range want {
			if !slices.Equal(got[p], list) {
				t.Errorf("%s: %s has %d records, want %d", what, p, len(got[p]), len(list))
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d partitions, want %d", what, len(got), len(want))
		}
	}
	t.Logf("%v: %d points", counts, points)
	if points < 6 {
		t.Errorf("%d points", points)
	}
}
