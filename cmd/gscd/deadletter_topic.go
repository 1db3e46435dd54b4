package main

import (
	"slices"
	"strings"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/kafka"
)

// setDeadLetterTopic sets the topic that is told of a table's dead letters, where
// dead_letter.to names one. Brokers are not asked yet.
func (a *app) setDeadLetterTopic(cfg *config.Config, t *config.Table, o *ingest.Options) error {
	topic, ok := strings.CutPrefix(t.DeadLetter.To, "topic:")
	switch {
	case !ok:
		return nil
	case slices.Contains(tableTopics(t), topic):
		return usagef("table %s: dead_letter.to: the table reads topic %s itself, so its dead letters would come back: name another", t.Name, topic)
	case len(cfg.Kafka.Brokers) == 0:
		return usagef("table %s: dead_letter.to: topic:%s needs kafka.brokers", t.Name, topic)
	}
	k, err := a.kafkaOptions(cfg, []string{topic})
	if err != nil {
		return err
	}
	sink, err := kafka.NewSink(k, topic)
	if err != nil {
		return usagef("table %s: %w", t.Name, err)
	}
	o.DeadLetterTopic = sink
	return nil
}
