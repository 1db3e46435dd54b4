package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/ingest/recording"
	"github.com/gscd-io/gscd/progress"
)

// sourceFlags say what stands for the broker, and for the clock.
type sourceFlags struct {
	input []string
	now   string
}

func (f *sourceFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.input, "input", nil, "read this recorded `file` instead of a broker; repeat it, the files are one recording")
	flags.StringVar(&f.now, "now", "", "clock of the seal rule, RFC 3339 (default: the real `time`; with --input the largest timestamp in it)")
}

// clock is that of --now, nil where it was not given.
func (f *sourceFlags) clock() (func() time.Time, error) {
	if f.now == "" {
		return nil, nil
	}
	now, err := time.Parse(time.RFC3339Nano, f.now)
	if err != nil {
		return nil, usagef("--now %q is no time: write it like 2022-07-17T00:20:00+08:00", f.now)
	}
	return func() time.Time { return now }, nil
}

// topicState is what a source says of a table's partitions at one moment.
type topicState struct {
	// known is false where there is nothing to ask: no broker, no recording.
	known      bool
	partitions []change.PartitionState
	// settled are the ends of what can be read: an open transaction, and all
	// behind it, waits. Empty where it is not known.
	settled map[change.PartitionID]int64
	// at is the clock before the source was asked.
	at time.Time
}

// askSource asks the recording of --input, else the brokers of the
// configuration, what the topics of a table's state have.
func (a *app) askSource(ctx context.Context, t tableRef, p *progress.Progress, f *sourceFlags) (topicState, error) {
	clock, err := f.clock()
	if err != nil {
		return topicState{}, err
	}
	var topics []string
	for _, part := range p.State.Partitions {
		if !slices.Contains(topics, part.Topic) {
			topics = append(topics, part.Topic)
		}
	}
	cfg, err := a.config()
	if err != nil {
		return topicState{}, err
	}
	state := topicState{at: time.Now()}
	switch {
	case len(f.input) > 0:
		o := recording.Options{Topics: topics}
		if len(topics) == 1 {
			o.Topic = topics[0]
		}
		r, err := recording.Open(f.input, o)
		if err != nil {
			return state, err
		}
		defer r.Close()
		if r.HasTimestamps() {
			state.at = time.UnixMilli(r.MaxBrokerTimestamp())
		}
		state.known = true
		if state.partitions, _, err = r.Partitions(ctx); err != nil {
			return state, err
		}
	case len(cfg.Kafka.Brokers) > 0 && t.Config != nil && len(t.Config.Topics) > 0 && len(topics) > 0:
		o, err := a.kafkaOptions(cfg, topics)
		if err != nil {
			return state, err
		}
		c, err := kafka.New(o)
		if err != nil {
			return state, usagef("%w", err)
		}
		defer c.Close()
		c.ExpectTopicIDs(p.TopicIDs)
		partitions, at, err := c.Partitions(ctx)
		if err != nil {
			return state, brokerFault(ctx, cfg, fmt.Errorf("table %s: %w", t.Name, err))
		}
		state.known, state.partitions, state.at = true, partitions, at
		if state.settled, err = c.SettledEnds(ctx); err != nil {
			a.log.Debug("which transactions are open is not known", zap.String("table", t.Name), zap.Error(err))
		}
	}
	if clock != nil {
		state.at = clock()
	}
	return state, nil
}
