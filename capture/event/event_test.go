package event_test

import (
	"testing"

	"github.com/gscd-io/gscd/capture/event"
)

// What kafka-clients' Utils.murmur2 gives, by Kafka's own test.
func TestPartition(t *testing.T) {
	for key, want := range map[string]int32{"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107} {
		if got := event.Partition([]byte(key), 1<<30); got != (want&0x7fffffff)%(1<<30) {
			t.Errorf("%s: %d", key, got)
		}
	}
}
