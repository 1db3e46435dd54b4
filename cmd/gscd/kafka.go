package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/server"
)

// kafkaOptions say how to reach the brokers of the configuration.
func (a *app) kafkaOptions(cfg *config.Config, topics []string) (kafka.Options, error) {
	k := &cfg.Kafka
	if len(k.Brokers) == 0 {
		return kafka.Options{}, usagef("no broker is configured: give --brokers HOST:PORT, or set kafka.brokers; --input reads recorded topics instead")
	}
	log := a.log
	if log.Core().Enabled(zap.WarnLevel) { // the client tells more than an operator wants to know
		log = log.WithOptions(zap.IncreaseLevel(zap.WarnLevel))
	}
	o := kafka.Options{
		Brokers: k.Brokers, Topics: topics, ClientID: k.ClientID, Group: k.Group,
		RequestTimeout: a.brokerPatience, FetchBytes: int64(k.FetchBytes), Logger: log,
	}
	o.Hooks = append(o.Hooks, &a.traffic)
	if k.TLS != nil {
		o.TLS = &kafka.TLS{CAFile: k.TLS.CAFile, CertFile: k.TLS.CertFile, KeyFile: k.TLS.KeyFile, ServerName: k.TLS.ServerName}
	}
	if k.SASL != nil {
		o.SASL = &kafka.SASL{
			Mechanism: k.SASL.Mechanism, Username: k.SASL.Username, Password: k.SASL.Password.Reveal(),
			PasswordFile: k.SASL.PasswordFile, TokenFile: k.SASL.TokenFile, Extensions: k.SASL.Extensions,
			Region: k.SASL.Region, RoleARN: k.SASL.RoleARN, ExternalID: k.SASL.ExternalID,
		}
	}
	return o, nil
}

// tableTopics are the topics that a table's consumer reads.
func tableTopics(t *config.Table) []string {
	topics := slices.Clone(t.Topics)
	if t.Seal.Topic != "" && !slices.Contains(topics, t.Seal.Topic) {
		topics = append(topics, t.Seal.Topic)
	}
	return topics
}

// openConsumer makes the reader of a table's topics. Brokers are not asked yet.
func (a *app) openConsumer(cfg *config.Config, t *config.Table, o *ingest.Options) (*kafka.Consumer, error) {
	k, err := a.kafkaOptions(cfg, tableTopics(t))
	if err != nil {
		return nil, err
	}
	k.MaxRecord, k.Now = o.MaxRecord, o.Now
	c, err := a.clusters.consumer(cfg.Kafka, k)
	if err != nil {
		return nil, usagef("%w", err)
	}
	return c, nil
}

// schemaConsumer makes the reader of a table's schema topic.
func (a *app) schemaConsumer(cfg *config.Config, t *config.Table, o *ingest.Options) func(context.Context) (ingest.Source, io.Closer, error) {
	maxRecord := o.MaxRecord
	return func(context.Context) (ingest.Source, io.Closer, error) {
		k, err := a.kafkaOptions(cfg, []string{t.SchemaTopic})
		if err != nil {
			return nil, nil, err
		}
		k.MaxRecord, k.Group = maxRecord, ""
		c, err := a.clusters.consumer(cfg.Kafka, k)
		if err != nil {
			return nil, nil, usagef("%w", err)
		}
		return c, c, nil
	}
}

// clusters are the clusters that tables read from: one for all tables of equal
// settings, closed with its last table.
type clusters struct {
	mu   sync.Mutex
	list []openCluster
}

type openCluster struct {
	settings config.Kafka
	cluster  *kafka.Cluster
}

func (s *clusters) consumer(settings config.Kafka, o kafka.Options) (*kafka.Consumer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, open := range s.list {
		if !reflect.DeepEqual(open.settings, settings) {
			continue
		}
		c, err := open.cluster.Consumer(o)
		if !errors.Is(err, kafka.ErrClosed) {
			return c, err
		}
		s.list = slices.Delete(s.list, i, i+1)
		break
	}
	cl, err := kafka.NewCluster(o)
	if err != nil {
		return nil, err
	}
	cl.CloseWithLast()
	c, err := cl.Consumer(o)
	if err != nil {
		return nil, errors.Join(err, cl.Close())
	}
	s.list = append(s.list, openCluster{settings, cl})
	return c, nil
}

// askBrokers asks a table's topics once, for a clear answer at the start.
func askBrokers(ctx context.Context, cfg *config.Config, c *kafka.Consumer) error {
	_, _, err := c.Partitions(ctx)
	return brokerFault(ctx, cfg, err)
}

// brokerFault says what to do about an error of the brokers.
func brokerFault(ctx context.Context, cfg *config.Config, err error) error {
	retry, reason := kafka.Classify(err)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case retry && kafka.Answered(err):
		return noBroker(fmt.Errorf("the brokers at %s are not ready (%s): %w", strings.Join(cfg.Kafka.Brokers, ", "), reason, err))
	case retry:
		return noBroker(fmt.Errorf("no broker answers at %s (%s): start it, or correct kafka.brokers (--brokers), kafka.tls and kafka.sasl: %w",
			strings.Join(cfg.Kafka.Brokers, ", "), reason, err))
	case errors.Is(err, kafka.ErrNoTopic):
		return err
	}
	return fmt.Errorf("%s: %w", reason, err)
}

// noBroker says that no broker answered: at the start no table can go on, later
// it is waited for.
func noBroker(err error) error {
	return &server.StartError{Err: &ingest.SourceError{Retryable: true, Err: err}}
}

// startOf is where a new table begins to read.
func startOf(t *config.Table) ingest.Start {
	s := ingest.Start{At: t.Start.At, Time: t.Start.Time}
	if len(t.Start.Offsets) > 0 {
		s.Offsets = map[change.PartitionID]int64{}
		for _, o := range t.Start.Offsets {
			id := change.PartitionID{Topic: o.Topic, Partition: o.Partition}
			if id.Topic == "" && len(t.Topics) == 1 {
				id.Topic = t.Topics[0]
			}
			s.Offsets[id] = o.Offset
		}
	}
	return s
}
