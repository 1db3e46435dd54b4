package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gscd-io/gscd/ingest/change"
)

// What ends a Producer.
var (
	// ErrFenced: another producer of the same transactional id has begun.
	ErrFenced = errors.New("another process has taken over the writing to the topic")
	// ErrTooLarge: a record is larger than the topic takes.
	ErrTooLarge = errors.New("a record is larger than the topic takes: raise its max.message.bytes")
	// ErrTooSlow: a transaction took longer than its timeout, and the brokers aborted it.
	ErrTooSlow = errors.New("a transaction took longer than its timeout: give more, up to the brokers' transaction.max.timeout.ms")
	// ErrNotCompacted: the topic of positions would lose them.
	ErrNotCompacted = errors.New("the topic of positions is not compacted, so positions would be lost: set cleanup.policy=compact, or name another one")
)

// ProducerOptions say what a Producer writes to.
type ProducerOptions struct {
	// Topic is written to; it must be there.
	Topic string
	// PositionTopic holds the positions of all Producers that name it. It is made where
	// it is missing: compacted, with one partition.
	PositionTopic string
	// ID is the transactional id, and the key of the position: one at a time writes.
	ID string
	// Timeout is how long a transaction may take before the brokers abort it. Default 5 min.
	Timeout time.Duration
}

// Producer writes records to one topic exactly once: in transactions that carry a
// position, which is read back after a crash. Of several with one ID the last that was
// started writes, the others get ErrFenced. It is meant for one goroutine.
type Producer struct {
	opts Options
	to   ProducerOptions

	client  *kgo.Client
	largest int        // bytes of a batch
	began   time.Time  // the transaction
	mu      sync.Mutex // guards failed
	failed  error
}

// NewProducer makes a Producer without talking to the brokers. Of opts only the
// connection is used.
func NewProducer(opts Options, to ProducerOptions) (*Producer, error) {
	if err := opts.validateConnection(); err != nil {
		return nil, err
	}
	if to.Timeout <= 0 {
		to.Timeout = 5 * time.Minute
	}
	return &Producer{opts: opts.withDefaults(), to: to}, nil
}

// Start takes the writing over: producers of the same ID that run are fenced, and what
// they have not committed is aborted. It gives the position of the last transaction that
// was committed, nil where there is none. The error wraps ErrNotThere, ErrNotWritable,
// ErrNotCompacted, or is the network's.
func (p *Producer) Start(ctx context.Context) (position []byte, err error) {
	p.Close()
	shared, err := p.opts.client(newLogin(&p.opts))
	if err != nil {
		return nil, err
	}
	asking, err := kgo.NewClient(shared...)
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	defer asking.Close()
	if err := p.prepare(ctx, asking); err != nil {
		return nil, err
	}
	p.client, err = kgo.NewClient(append(shared,
		kgo.TransactionalID(p.to.ID), kgo.TransactionTimeout(p.to.Timeout),
		kgo.ProducerBatchMaxBytes(int32(p.largest)), kgo.BrokerMaxWriteBytes(int32(max(100<<20, p.largest+1<<20))),
		kgo.MaxBufferedBytes(max(32<<20, 2*p.largest)), kgo.ProducerLinger(5*time.Millisecond),
	)...)
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	// The brokers answer when transactions of this id have ended, so what is read
	// behind it is all that was committed.
	if _, _, err := p.client.ProducerID(ctx); err != nil {
		p.Close()
		return nil, p.explain(fmt.Errorf("begin to write as %s: %w", p.to.ID, err))
	}
	position, err = p.position(ctx)
	if err != nil {
		p.Close()
		return nil, err
	}
	return position, nil
}

// prepare looks at the topics, and makes that of positions where it is missing.
func (p *Producer) prepare(ctx context.Context, cl *kgo.Client) error {
	if err := writable(ctx, cl, p.to.Topic); err != nil {
		return err
	}
	err := writable(ctx, cl, p.to.PositionTopic)
	if errors.Is(err, ErrNotThere) {
		err = p.create(ctx, cl)
	}
	if err != nil {
		return err
	}
	settings, err := topicSettings(ctx, cl, p.to.PositionTopic, cleanupPolicy)
	if err == nil && settings[cleanupPolicy] != "" && settings[cleanupPolicy] != "compact" {
		return fmt.Errorf("topic %s: %w", p.to.PositionTopic, ErrNotCompacted)
	}
	p.largest = 1_000_012
	const limit = "max.message.bytes"
	if settings, err = topicSettings(ctx, cl, p.to.Topic, limit); err == nil {
		if n, err := strconv.Atoi(settings[limit]); err == nil && n > 0 && n < 1<<30 {
			p.largest = n
		}
	}
	return nil // who may not describe topics can write to them all the same
}

// topicSettings asks for settings of a topic.
func topicSettings(ctx context.Context, cl *kgo.Client, topic string, names ...string) (map[string]string, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, names
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("topic %s: ask for its settings: %w", topic, err)
	}
	out := map[string]string{}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return nil, fmt.Errorf("topic %s: ask for its settings: %w", topic, err)
		}
		for _, c := range r.Configs {
			if c.Value != nil {
				out[c.Name] = *c.Value
			}
		}
	}
	return out, nil
}

// create makes the topic of positions.
func (p *Producer) create(ctx context.Context, cl *kgo.Client) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(p.opts.RequestTimeout.Milliseconds())
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = p.to.PositionTopic, 1, -1
	c := kmsg.NewCreateTopicsRequestTopicConfig()
	policy := "compact"
	c.Name, c.Value = cleanupPolicy, &policy
	t.Configs = append(t.Configs, c)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return fmt.Errorf("create topic %s: %w", p.to.PositionTopic, err)
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s, compacted and with one partition, for the positions: %w", p.to.PositionTopic, err)
		}
	}
	return nil
}

// position reads the topic of positions to its end.
func (p *Producer) position(ctx context.Context) (found []byte, err error) {
	err = readAll(ctx, p.opts, p.to.PositionTopic, p.to.Timeout, func(r *change.Record) error {
		if string(r.Key) == p.to.ID {
			found = r.Value
		}
		return nil
	})
	return found, err
}

// readAll calls take with all records of a topic that are committed now. timeout is the
// longest that a transaction of another producer may still be open there.
func readAll(ctx context.Context, o Options, topic string, timeout time.Duration, take func(*change.Record) error) error {
	// Behind an open transaction of another producer nothing is readable; it ends within its timeout.
	ctx, cancel := context.WithTimeout(ctx, timeout+o.RequestTimeout)
	defer cancel()
	o.Topics, o.Group = []string{topic}, ""
	c, err := New(o)
	if err != nil {
		return err
	}
	defer c.Close()
	states, _, err := c.Partitions(ctx)
	for wait := 50 * time.Millisecond; err != nil && c.Retryable(err); wait = min(2*wait, time.Second) { // a topic made just now
		select {
		case <-ctx.Done():
			return fmt.Errorf("topic %s: %w", topic, err)
		case <-time.After(wait):
		}
		states, _, err = c.Partitions(ctx)
	}
	if err != nil {
		return err
	}
	from, left := map[change.PartitionID]int64{}, map[change.PartitionID]int64{}
	for _, s := range states {
		from[s.ID] = s.Earliest
		if s.End > s.Earliest {
			left[s.ID] = s.End
		}
	}
	if err := c.Assign(ctx, from); err != nil {
		return err
	}
	for len(left) > 0 {
		blocks, err := c.Poll(ctx, 0)
		if err != nil && !c.Retryable(err) {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("topic %s: read to the end of partitions %v: %w", topic, slices.Collect(maps.Keys(left)), ctx.Err())
		}
		for _, b := range blocks {
			for _, r := range b.Records {
				if err := take(r); err != nil {
					return err
				}
			}
			if b.Next >= left[b.ID] {
				delete(left, b.ID)
			}
		}
	}
	return nil
}

// Begin begins a transaction.
func (p *Producer) Begin() error {
	if p.client == nil {
		return ErrClosed
	}
	p.failed, p.began = nil, time.Now()
	return p.explain(p.client.BeginTransaction())
}

// Produce writes a record within the transaction; the key decides the partition. It
// returns before the brokers have it, but waits where many bytes are under way. The error
// may be that of an earlier record.
func (p *Producer) Produce(ctx context.Context, r *change.Record) error {
	if err := p.fault(); err != nil {
		return err
	}
	k := &kgo.Record{Topic: p.to.Topic, Key: r.Key, Value: r.Value}
	if r.Timestamp >= 0 {
		k.Timestamp = time.UnixMilli(r.Timestamp)
	}
	for _, h := range r.Headers {
		k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	p.produce(ctx, k)
	return nil
}

func (p *Producer) produce(ctx context.Context, k *kgo.Record) {
	p.client.Produce(ctx, k, func(r *kgo.Record, err error) {
		if err == nil {
			return
		}
		if errors.Is(err, kerr.MessageTooLarge) {
			err = fmt.Errorf("%w: it has %d bytes, and the topic takes about %d", ErrTooLarge, len(r.Key)+len(r.Value), p.largest)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.failed == nil {
			p.failed = p.explain(fmt.Errorf("topic %s: %w", r.Topic, err))
		}
	})
}

func (p *Producer) fault() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// Commit ends the transaction: its records and the position become visible together. After
// an error it may have been committed all the same: Start tells.
func (p *Producer) Commit(ctx context.Context, position []byte) error {
	if err := p.fault(); err != nil {
		return err
	}
	p.produce(ctx, &kgo.Record{Topic: p.to.PositionTopic, Key: []byte(p.to.ID), Value: position})
	err := p.client.Flush(ctx)
	if fault := p.fault(); fault != nil {
		return fault
	}
	if err == nil {
		err = p.client.EndTransaction(ctx, kgo.TryCommit)
	}
	if err != nil {
		return p.explain(fmt.Errorf("topic %s: commit: %w", p.to.Topic, err))
	}
	return nil
}

// Abort gives the transaction up. After an error Start does so.
func (p *Producer) Abort(ctx context.Context) error {
	if p.client == nil {
		return nil
	}
	err := p.client.AbortBufferedRecords(ctx)
	if err == nil {
		err = p.client.EndTransaction(ctx, kgo.TryAbort)
	}
	return p.explain(err)
}

// Close gives the connections up; an open transaction is aborted by the next Start, or
// by the brokers after its timeout.
func (p *Producer) Close() {
	if p.client != nil {
		p.client.Close()
		p.client = nil
	}
}

// Retryable tells whether Start and writing again may help.
func (p *Producer) Retryable(err error) bool {
	for _, final := range []error{ErrNotThere, ErrNotWritable, ErrFenced, ErrTooLarge, ErrTooSlow, ErrNotCompacted} {
		if errors.Is(err, final) {
			return false
		}
	}
	retry, _ := Classify(err)
	return retry
}

func (p *Producer) explain(err error) error {
	return explainTransaction(err, p.to.ID, p.began, p.to.Timeout)
}

// explainTransaction says what an error of transactions means, of one that began then.
func explainTransaction(err error, id string, began time.Time, timeout time.Duration) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.ProducerFenced), errors.Is(err, kerr.InvalidProducerEpoch):
		// Brokers that abort a slow transaction fence its producer.
		if took := time.Since(began); !began.IsZero() && took >= timeout {
			return fmt.Errorf("%w (it is %s, and %s have passed): %w", ErrTooSlow, timeout, took.Round(time.Second), err)
		}
		return fmt.Errorf("%w: %w", ErrFenced, err)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return fmt.Errorf("%w: %w", ErrNotWritable, err)
	case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		return fmt.Errorf("the right WRITE on the transactional id %s is missing: %w", id, err)
	case errors.Is(err, kerr.InvalidTransactionTimeout):
		return fmt.Errorf("the brokers allow no transaction of %s: lower it, or raise their transaction.max.timeout.ms: %w", timeout, err)
	}
	return err
}
