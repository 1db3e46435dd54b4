package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gscd-io/gscd/ingest/change"
)

// What a topic that is written to must have.
var (
	// ErrNotThere: the topic to write to does not exist; it is not created.
	ErrNotThere = errors.New("the topic to write to does not exist: create it, or correct its name")
	// ErrNotWritable: the brokers say that we may not write to it.
	ErrNotWritable = errors.New("the right WRITE on the topic is missing: grant it to gscd's user, or correct the topic's name")
)

// Sink writes records to one topic, each at least once: what a call has written
// twice, since its answer was lost, is in the topic once, but what is written again
// after a crash is there again. Its client is made when it is first needed. Safe
// for concurrent use.
type Sink struct {
	opts  Options
	topic string

	mu     sync.Mutex
	client *kgo.Client
}

// NewSink makes a Sink without talking to the brokers. Of opts only the connection is used.
func NewSink(opts Options, topic string) (*Sink, error) {
	if err := opts.validateConnection(); err != nil {
		return nil, err
	}
	return &Sink{opts: opts.withDefaults(), topic: topic}, nil
}

// leftOut is the header of a record whose value did not fit into the topic.
const leftOut = "gscd-value-left-out"

// connection gives the client, making it where there is none.
func (s *Sink) connection() (*kgo.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		return s.client, nil
	}
	shared, err := s.opts.client(newLogin(&s.opts))
	if err != nil {
		return nil, err
	}
	// Idempotent, and all in-sync replicas: that is the library's default.
	s.client, err = kgo.NewClient(append(shared, kgo.DefaultProduceTopic(s.topic))...)
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	return s.client, nil
}

// Check asks the brokers whether the topic is there and may be written to. The
// error wraps ErrNotThere, ErrNotWritable, or the network's.
func (s *Sink) Check(ctx context.Context) error {
	cl, err := s.connection()
	if err != nil {
		return err
	}
	if err := writable(ctx, cl, s.topic); err != nil {
		return err
	}
	if _, _, err := cl.ProducerID(ctx); err != nil {
		return fmt.Errorf("topic %s: begin to write: %w", s.topic, err)
	}
	return nil
}

// writable asks the brokers whether a topic is there and may be written to.
func writable(ctx context.Context, cl *kgo.Client, topic string) error {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation, req.IncludeTopicAuthorizedOperations = false, true
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return fmt.Errorf("topic %s: %w", topic, err)
	}
	if len(resp.Topics) != 1 {
		return fmt.Errorf("topic %s: the brokers told of %d topics", topic, len(resp.Topics))
	}
	switch err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); {
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.InvalidTopicException):
		return fmt.Errorf("topic %s: %w", topic, ErrNotThere)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return fmt.Errorf("topic %s: %w", topic, ErrNotWritable)
	case err != nil:
		return fmt.Errorf("topic %s: %w", topic, err)
	}
	// Brokers that do not tell give no operation at all, or the smallest number.
	const write = 1 << 4
	if may := resp.Topics[0].AuthorizedOperations; may > 0 && may&write == 0 {
		return fmt.Errorf("topic %s: %w", topic, ErrNotWritable)
	}
	return nil
}

// Publish writes the records and waits until all in-sync replicas have them.
// Topic, Partition and Offset are not used: the key decides the partition. A
// record that is too large for the topic is written without its value, and a
// header says so.
func (s *Sink) Publish(ctx context.Context, records []*change.Record) error {
	cl, err := s.connection()
	if err != nil {
		return err
	}
	// Not the library's own limit, which counts from the time that a record bears.
	ctx, cancel := context.WithTimeout(ctx, 4*s.opts.RequestTimeout)
	defer cancel()
	out := make([]*kgo.Record, len(records))
	for i, r := range records {
		out[i] = s.record(r)
	}
	for i, done := range cl.ProduceSync(ctx, out...) {
		switch {
		case done.Err == nil:
		case errors.Is(done.Err, kerr.MessageTooLarge):
			if err := s.alone(ctx, cl, done.Record); err != nil {
				return err
			}
		case errors.Is(done.Err, kerr.TopicAuthorizationFailed):
			return fmt.Errorf("topic %s: %w", s.topic, ErrNotWritable)
		default:
			return fmt.Errorf("topic %s: write %d of %d records: %w", s.topic, len(out)-i, len(out), done.Err)
		}
	}
	return nil
}

// alone writes a record whose batch was too large, without its value if need be.
func (s *Sink) alone(ctx context.Context, cl *kgo.Client, r *kgo.Record) error {
	again := &kgo.Record{Topic: s.topic, Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp}
	err := cl.ProduceSync(ctx, again).FirstErr()
	if errors.Is(err, kerr.MessageTooLarge) {
		again = &kgo.Record{Topic: s.topic, Key: r.Key, Headers: slices.Clone(r.Headers), Timestamp: r.Timestamp}
		again.Headers = append(again.Headers, kgo.RecordHeader{Key: leftOut, Value: []byte("too large for this topic")})
		err = cl.ProduceSync(ctx, again).FirstErr()
	}
	if err != nil {
		return fmt.Errorf("topic %s: write a large record: %w", s.topic, err)
	}
	return nil
}

func (s *Sink) record(r *change.Record) *kgo.Record {
	k := &kgo.Record{Topic: s.topic, Key: r.Key, Value: r.Value}
	if r.Timestamp >= 0 {
		k.Timestamp = time.UnixMilli(r.Timestamp)
	}
	for _, h := range r.Headers {
		k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return k
}

// Retryable tells whether trying again may help.
func (s *Sink) Retryable(err error) bool {
	if errors.Is(err, ErrNotThere) || errors.Is(err, ErrNotWritable) {
		return false
	}
	retry, _ := Classify(err)
	return retry
}

// Close gives the connections up. A later call makes new ones.
func (s *Sink) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		s.client.Close()
		s.client = nil
	}
}
