package ingest_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/kafka"
)

// TestModelOnKafka plays random runs on the Kafka protocol: a broker over TCP whose
// answers fail by a script, whose leaders move and whose connections are cut. Rows, seals and
// counts must be those of the model all the same.
func TestModelOnKafka(t *testing.T) {
	runs := 8
	if testing.Short() || underRace {
		runs = 3
	}
	for seed := uint64(1 << 41); runs > 0; seed++ {
		sc := newScenario(seed)
		f := sc.f
		if len(sc.events) < 5 || f.holes || f.empty || f.noBroker || f.foreign || sc.o.Key == nil {
			continue
		}
		runs--
		sc.local = false
		var steps []step
		for _, s := range sc.steps {
			if s.what == "look" || s.what == "rollback" {
				s.faults = nil
				steps = append(steps, s)
			}
		}
		sc.steps = steps
		if fault := sc.playOnKafka(t); fault != nil {
			t.Fatalf("seed %d: %v\n%s", seed, fault, sc.print())
		}
	}
}

// onKafka is the broker of a run.
type onKafka struct {
	*kfake.Cluster
	t          *testing.T
	r          *rand.Rand
	partitions int32
	produced   int
}

func (sc *scenario) playOnKafka(t *testing.T) error {
	partitions := int32(0)
	for _, e := range sc.events {
		partitions = max(partitions, e.record.Partition+1)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(partitions, "t"))
	if err != nil {
		return err
	}
	defer cluster.Close()
	tr := newTrial(sc, mem.New(), mem.New())
	tr.broker = &onKafka{Cluster: cluster, t: t, r: rand.New(rand.NewPCG(sc.seed, 47)), partitions: partitions}
	for _, s := range sc.steps {
		if s.what == "look" {
			var records []*change.Record
			for _, e := range sc.events[tr.broker.produced:s.n] {
				records = append(records, e.record)
			}
			tr.broker.produced = s.n
			if err := kafka.Produce(ctx, kafka.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"t"}}, records); err != nil {
				return err
			}
			tr.broker.storm()
		}
		if err := tr.step(s); err != nil {
			return err
		}
	}
	return nil
}

// storm scripts what goes wrong next.
func (b *onKafka) storm() {
	for range b.r.IntN(5) {
		b.Fault(kfake.Fault{
			Keys: []kmsg.Key{pick(b.r, kmsg.Fetch, kmsg.Fetch, kmsg.ListOffsets, kmsg.Metadata)}, Topic: "t", Count: 1 + b.r.IntN(2),
			Err: pick(b.r, kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.UnknownLeaderEpoch, kerr.FencedLeaderEpoch, kerr.RequestTimedOut),
		})
	}
	if b.r.IntN(2) == 0 {
		b.ShufflePartitionLeaders()
	}
}

// mayPass tells whether an error is the broker's, and may be gone next time.
func (b *onKafka) mayPass(err error) bool {
	if err == nil {
		return false
	}
	retry, _ := kafka.Classify(err)
	return retry
}

// source is a new consumer.
func (b *onKafka) source(clock int64) (ingest.Source, func() error, error) {
	c, err := kafka.New(kafka.Options{
		Brokers: b.ListenAddrs(), Topics: []string{"t"}, PollWait: 20 * time.Millisecond, RequestTimeout: 5 * time.Second,
		Now: func() time.Time { return time.UnixMicro(clock) },
	})
	if err != nil {
		return nil, nil, err
	}
	return shaken{c, b}, func() error { c.Close(); return nil }, nil
}

// shaken is a consumer under whose polls leaders move.
type shaken struct {
	*kafka.Consumer
	b *onKafka
}

// Poll implements ingest.Source.
func (s shaken) Poll(ctx context.Context, most int) ([]change.Block, error) {
	if s.b.r.IntN(8) == 0 {
		s.b.ShufflePartitionLeaders()
	}
	return s.Consumer.Poll(ctx, most)
}
