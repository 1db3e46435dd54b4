package capture

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/ingest/kafka"
)

// topic is one that is written to.
type topic struct {
	name       string
	partitions int32
	// written tells the partitions that got a record since the last heartbeat.
	written []bool
}

// topics are made when they are first written to. The number of their partitions stays:
// with more, keys would move.
type topics struct {
	o      *Options
	writer *kafka.Writer
	state  *state
	byName map[string]*topic
}

func newTopics(o *Options, w *kafka.Writer, s *state) *topics {
	return &topics{o: o, writer: w, state: s, byName: map[string]*topic{}}
}

func (t *topics) get(ctx context.Context, name string, single bool) (*topic, error) {
	if known := t.byName[name]; known != nil {
		return known, nil
	}
	make := t.o.Topics
	make.Name = name
	if single {
		make.Partitions = 1
	}
	n, err := t.writer.Topic(ctx, make)
	if err != nil {
		return nil, kafkaError{err}
	}
	switch was := t.state.topics[name]; {
	case was == 0:
		t.state.topics[name] = n
		t.state.put(topicSizes+name, n)
	case was > n:
		return nil, fmt.Errorf("topic %s had %d partitions and has %d: it was made anew; take another capture.name, or delete the state topic to begin with a load", name, was, n)
	case was < n:
		t.o.Log.Warn("the topic has more partitions than at the beginning; the new ones get heartbeats alone, so that keys stay where they are",
			zap.String("topic", name), zap.Int32("was", was), zap.Int32("is", n))
	}
	out := &topic{name: name, partitions: t.state.topics[name]}
	out.written = append(out.written, newBools(n)...)
	t.byName[name] = out
	return out, nil
}

func newBools(n int32) []bool { return make([]bool, n) }

// kafkaError marks errors of the brokers.
type kafkaError struct{ error }

func (e kafkaError) Unwrap() error { return e.error }
