package snapshotter

import (
	"testing"

	"github.com/gscd-io/gscd/ingest/change"
)

// Numbers stay apart whichever topic comes first, and after one has gone.
func TestAddPartition(t *testing.T) {
	var s State
	add := func(topic string, partition int32) int32 {
		return s.AddPartition(change.PartitionID{Topic: topic, Partition: partition}, 0).Number
	}
	for _, c := range []struct {
		topic     string
		partition int32
		want      int32
	}{
		{"b", 3, 3}, {"b", 0, 0}, {"a", 2, 65538}, {"a", 1, 65537}, {"c", 0, 131072}, {"b", 7, 7},
	} {
		if got := add(c.topic, c.partition); got != c.want {
			t.Errorf("%s/%d has number %d, want %d", c.topic, c.partition, got, c.want)
		}
	}
	kept := s.Partitions[:0]
	for _, p := range s.Partitions {
		if p.Topic != "a" {
			kept = append(kept, p)
		}
	}
	s.Partitions = kept
	if got := add("d", 1); got != 196609 {
		t.Errorf("d/1 has number %d, want one that c/1 can't have", got)
	}
}
