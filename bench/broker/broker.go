// Package broker brings the events of a workload into a Kafka topic: an embedded broker's
// or a real one's.
//
// Nouns: Feed (a topic and what is in it), paced feed (one that is written at a rate).
//
// Invariants:
//
//  1. A topic of a Feed is new, and has the events of the workload in their order, nothing
//     else. Events of a key are in one partition.
//  2. Close removes it, and the embedded broker with it.
package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gscd-io/gscd/bench"
)

// MaxEvents is how many events a topic is filled with at most.
const MaxEvents = 20_000_000

// Options say what a Feed is.
type Options struct {
	Params bench.Params `json:"params"`
	// Topic is made, and must not be there.
	Topic      string `json:"topic"`
	Partitions int    `json:"partitions"`
	// Brokers are those of a real cluster, HOST:PORT; none: one is embedded.
	Brokers []string `json:"brokers,omitempty"`
}

// Feed is a topic with a workload.
type Feed struct {
	Brokers []string
	Topic   string
	// Bytes are those of all keys and values that were written.
	Bytes int64

	o       Options
	cluster *kfake.Cluster // nil for a real one
	client  *kgo.Client
	g       *bench.Generator
	failed  faults
}

// Open makes the topic, without records.
func Open(ctx context.Context, o Options) (_ *Feed, err error) {
	f := &Feed{o: o, Brokers: o.Brokers, Topic: o.Topic}
	if f.g, err = bench.NewGenerator(o.Params); err != nil {
		return nil, err
	}
	if o.Params.Events > MaxEvents {
		return nil, fmt.Errorf("%d events: a broker is filled with at most %d", o.Params.Events, MaxEvents)
	}
	o.Partitions = max(1, o.Partitions)
	if len(o.Brokers) == 0 {
		if f.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(int32(o.Partitions), f.Topic)); err != nil {
			return nil, fmt.Errorf("start the embedded broker: %w", err)
		}
		f.Brokers = f.cluster.ListenAddrs()
	}
	f.client, err = kgo.NewClient(
		kgo.SeedBrokers(f.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.SnappyCompression()),
		kgo.ProducerLinger(5*time.Millisecond), kgo.MaxBufferedRecords(50_000),
	)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if f.cluster == nil {
		made, err := kadm.NewClient(f.client).CreateTopic(ctx, int32(o.Partitions), 1, map[string]*string{"retention.ms": kadm.StringPtr("-1")}, f.Topic)
		if err = errors.Join(err, made.Err); err != nil {
			f.Topic = "" // it is not ours to delete
			return nil, errors.Join(fmt.Errorf("make a topic on %v: %w", o.Brokers, err), f.Close())
		}
	}
	return f, nil
}

// Fill writes all events of the workload and waits until they are stored.
func (f *Feed) Fill(ctx context.Context) error {
	for range f.o.Params.Events {
		if err := f.send(ctx); err != nil {
			return err
		}
	}
	return f.flush(ctx)
}

// Pace writes the events as their times come, which are on the clock.
func (f *Feed) Pace(ctx context.Context) error {
	for n := range f.o.Params.Events {
		if wait := time.Until(time.UnixMilli(f.o.Params.Time(n))); wait > time.Millisecond {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := f.send(ctx); err != nil {
			return err
		}
	}
	return f.flush(ctx)
}

// send hands the next event to the client, which keeps the order of each partition.
func (f *Feed) send(ctx context.Context) error {
	e := f.g.Next()
	made := f.g.Record(e)
	r := &kgo.Record{
		Topic: f.Topic, Partition: int32(e.ID % int64(max(1, f.o.Partitions))), Key: made.Key, Value: made.Value,
		Timestamp: time.UnixMilli(e.Time),
	}
	f.Bytes += int64(len(r.Key) + len(r.Value))
	f.client.Produce(ctx, r, func(_ *kgo.Record, err error) {
		if err != nil {
			f.failed.set(err)
		}
	})
	return f.failed.get()
}

func (f *Feed) flush(ctx context.Context) error {
	if err := f.client.Flush(ctx); err != nil {
		return err
	}
	return f.failed.get()
}

// Close deletes the topic and ends the embedded broker.
func (f *Feed) Close() error {
	var err error
	if f.client != nil {
		if f.cluster == nil && f.Topic != "" {
			ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
			defer cancel()
			if _, err = kadm.NewClient(f.client).DeleteTopic(ctx, f.Topic); err != nil {
				err = fmt.Errorf("delete the topic %s: %w", f.Topic, err)
			}
		}
		f.client.Close()
	}
	if f.cluster != nil {
		f.cluster.Close()
	}
	return err
}

// faults keeps the first error of a record.
type faults struct {
	mu  sync.Mutex
	err error
}

func (f *faults) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

func (f *faults) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
