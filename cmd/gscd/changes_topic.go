package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/sink"
)

// sinkFlags say how changes go into a topic.
type sinkFlags struct {
	topic, shape, positions string
	timeout                 time.Duration
	schemas, tombstones     bool
}

// sinkOnly are the flags that need --to-topic.
var sinkOnly = []string{"shape", "position-topic", "transaction-timeout", "schemas", "tombstones", "brokers"}

func (s *sinkFlags) add(f *pflag.FlagSet) {
	f.StringVar(&s.topic, "to-topic", "", "write into a Kafka `topic`, exactly once, in place of printing; without --follow what is there now")
	f.StringVar(&s.shape, "shape", string(sink.Debezium), "of --to-topic: the `shape` of records: debezium or cdf")
	f.BoolVar(&s.schemas, "schemas", true, "of --shape debezium: records carry the schema of Kafka Connect")
	f.BoolVar(&s.tombstones, "tombstones", false, "of --to-topic: a record without a value behind each delete")
	f.StringVar(&s.positions, "position-topic", sink.DefaultPositionTopic, "of --to-topic: the compacted `topic` that keeps the position; made where it is missing")
	f.DurationVar(&s.timeout, "transaction-timeout", 5*time.Minute, "of --to-topic: the `time` within which a version must be written")
	addSettingFlags(f, topicFlags)
}

// topicFlags are settings of the configuration.
var topicFlags = []settingFlag{{"brokers", "kafka.brokers", "host:port", "of --to-topic: Kafka `brokers`, host:port, comma between"}}

// used gives a flag that needs --to-topic and was given without it.
func (s *sinkFlags) used(c *cobra.Command) string {
	for _, name := range sinkOnly {
		if c.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

func (s *sinkFlags) check(c *cobra.Command) error {
	switch {
	case !slices.Contains(sink.Shapes(), s.shape):
		return usagef("--shape %s is unknown: use %s", s.shape, strings.Join(sink.Shapes(), " or "))
	case s.timeout < time.Second:
		return usagef("--transaction-timeout %s: give a second or more", s.timeout)
	case c.Flags().Changed("columns"), c.Flags().Changed("format"):
		return usagef("--columns and --format are of what is printed: they don't go with --to-topic")
	}
	return nil
}

// publishChanges writes changes into a topic.
func (a *app) publishChanges(c *cobra.Command, f changesFlags) error {
	ctx := c.Context()
	cfg, err := a.config(settings(c.Flags(), topicFlags)...)
	if err != nil {
		return err
	}
	k, err := a.kafkaOptions(cfg, []string{f.sink.topic})
	if err != nil {
		return err
	}
	t, err := a.openDelta(ctx)
	if err != nil {
		return err
	}
	if t.Config != nil && slices.Contains(tableTopics(t.Config), f.sink.topic) {
		return usagef("table %s reads topic %s itself: its changes would come back", t.Name, f.sink.topic)
	}
	feed, err := a.feed(t, f.key)
	if err != nil {
		return err
	}
	behind, begun, err := f.start(ctx, t, feed)
	if err != nil {
		return err
	}
	if !begun {
		behind = -1
	}
	err = sink.Run(ctx, sink.Options{
		Name: t.Name, Table: t.table, Changes: a.changeOptions(f.key), Sealed: f.sealed || f.net,
		Start: behind, Follow: f.follow, Poll: f.poll,
		Kafka: k, Topic: f.sink.topic, PositionTopic: cmp.Or(f.sink.positions, sink.DefaultPositionTopic), Timeout: f.sink.timeout,
		Shape: sink.Shape(f.sink.shape), Schemas: f.sink.schemas, Tombstones: f.sink.tombstones,
		Log: a.log,
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kafka.ErrFenced):
		return fmt.Errorf("table %s, topic %s: %w: only one writes at a time", t.Name, f.sink.topic, err)
	}
	return changesFault(t, err)
}
