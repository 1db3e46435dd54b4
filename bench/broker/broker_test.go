package broker

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gscd-io/gscd/bench"
)

func params(events int64) bench.Params {
	return bench.Params{Seed: 5, Columns: 10, Mix: "standard", Keys: "uniform", Rows: 100, Events: events, Days: 1}
}

// consume reads n records of a topic, by partition.
func consume(t *testing.T, brokers []string, topic string, n int) map[int32][]*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, got := map[int32][]*kgo.Record{}, 0
	for got < n {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			out[r.Partition] = append(out[r.Partition], r)
			got++
		})
	}
	return out
}

// The embedded topic has the workload in its order, those of a key in one partition.
func TestFill(t *testing.T) {
	const n, partitions = 500, 3
	f, err := Open(t.Context(), Options{Params: params(n), Topic: bench.Topic, Partitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := consume(t, f.Brokers, f.Topic, n)
	g, err := bench.NewGenerator(params(n))
	if err != nil {
		t.Fatal(err)
	}
	bytes := int64(0)
	for range n {
		e := g.Next()
		want := g.Record(e)
		p := int32(e.ID % partitions)
		if len(got[p]) == 0 || string(got[p][0].Key) != string(want.Key) || string(got[p][0].Value) != string(want.Value) || got[p][0].Timestamp.UnixMilli() != e.Time {
			t.Fatalf("event %d is not the next one of partition %d", e.N, p)
		}
		bytes += int64(len(want.Key) + len(want.Value))
		got[p] = got[p][1:]
	}
	if f.Bytes != bytes {
		t.Errorf("%d bytes, want %d", f.Bytes, bytes)
	}
}

// In a cluster of others a topic is made, and is gone behind Close; one that is there is
// refused, and stays.
func TestTopicOfACluster(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "theirs"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	topics := func() kadm.TopicDetails {
		t.Helper()
		client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...)) // one that remembers nothing
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		list, err := kadm.NewClient(client).ListTopics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	f, err := Open(t.Context(), Options{Params: params(20), Topic: "gscd-bench-x", Brokers: cluster.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := consume(t, f.Brokers, f.Topic, 20); len(got[0]) != 20 {
		t.Errorf("%d records", len(got[0]))
	}
	if !topics().Has("gscd-bench-x") {
		t.Error("no topic was made")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if topics().Has("gscd-bench-x") {
		t.Error("the topic was left")
	}
	if _, err := Open(t.Context(), Options{Params: params(20), Topic: "theirs", Brokers: cluster.ListenAddrs()}); err == nil {
		t.Error("a topic of somebody else was taken")
	}
	if !topics().Has("theirs") {
		t.Error("a topic of somebody else was deleted")
	}
}

func TestTooMany(t *testing.T) {
	if _, err := Open(t.Context(), Options{Params: params(MaxEvents + 1), Topic: "x"}); err == nil {
		t.Error("more events than a broker is filled with")
	}
}
