package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gscd-io/gscd/ingest/change"
)

// WriterOptions say how a Writer writes.
type WriterOptions struct {
	// StateTopic keeps what a Writer must find again: the last record of each key. It is
	// made where it is missing: compacted, with one partition.
	StateTopic string
	// ID is the transactional id: of several Writers with one ID the last that was started
	// writes, the others get ErrFenced.
	ID string
	// Idempotent writes without transactions: what was written behind the last Commit is
	// there after a crash, and comes again.
	Idempotent bool
	// Timeout is how long a transaction may take before the brokers abort it. Default 5 min.
	Timeout time.Duration
	// MaxMessage is the most bytes of a record with what the format adds. Topics are made
	// for it, and ones that take less are refused. Default 1,000,012, Kafka's own.
	MaxMessage int
}

// Writer writes records to partitions of several topics, with a state that is read back
// after a crash: in one transaction with the records before it, or behind them. It is
// meant for one goroutine.
type Writer struct {
	opts Options
	to   WriterOptions

	asking *kgo.Client // for questions, and topics to make
	client *kgo.Client
	open   bool      // a transaction
	began  time.Time // the transaction

	mu     sync.Mutex // guards failed
	failed error
}

// NewWriter makes a Writer without talking to the brokers. Of opts only the connection is used.
func NewWriter(opts Options, to WriterOptions) (*Writer, error) {
	if err := opts.validateConnection(); err != nil {
		return nil, err
	}
	if to.Timeout <= 0 {
		to.Timeout = 5 * time.Minute
	}
	if to.MaxMessage <= 0 {
		to.MaxMessage = defaultMaxMessage
	}
	return &Writer{opts: opts.withDefaults(), to: to}, nil
}

// defaultMaxMessage is what brokers and topics take where nothing else is set.
const defaultMaxMessage = 1_000_012

// Start takes the writing over: Writers of the same ID that run are fenced, and what they
// have not committed is aborted. It calls state with every record of the state topic, in
// order: of a key the last one counts, and one without a value has deleted it. The error
// wraps ErrNotWritable, ErrNotCompacted, or is the network's.
func (w *Writer) Start(ctx context.Context, state func(*change.Record) error) error {
	w.Close()
	shared, err := w.opts.client(newLogin(&w.opts))
	if err != nil {
		return err
	}
	if w.asking, err = kgo.NewClient(shared...); err != nil {
		return fmt.Errorf("kafka client: %w", err)
	}
	if err := w.prepare(ctx); err != nil {
		return err
	}
	opts := append(shared,
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(int32(w.to.MaxMessage)), kgo.BrokerMaxWriteBytes(int32(max(100<<20, w.to.MaxMessage+1<<20))),
		kgo.MaxBufferedBytes(max(32<<20, 2*w.to.MaxMessage)), kgo.ProducerLinger(5*time.Millisecond),
	)
	if !w.to.Idempotent {
		opts = append(opts, kgo.TransactionalID(w.to.ID), kgo.TransactionTimeout(w.to.Timeout))
	}
	if w.client, err = kgo.NewClient(opts...); err != nil {
		return fmt.Errorf("kafka client: %w", err)
	}
	w.open, w.failed, w.began = false, nil, time.Time{}
	// The brokers answer when transactions of this id have ended, so what is read
	// behind it is all that was committed.
	if _, _, err := w.client.ProducerID(ctx); err != nil {
		return w.explain(fmt.Errorf("begin to write as %s: %w", w.to.ID, err))
	}
	return readAll(ctx, w.opts, w.to.StateTopic, w.to.Timeout, state)
}

// prepare looks at the state topic, and makes it where it is missing.
func (w *Writer) prepare(ctx context.Context) error {
	if _, err := w.Topic(ctx, NewTopic{Name: w.to.StateTopic, Partitions: 1, Settings: map[string]string{cleanupPolicy: "compact"}}); err != nil {
		return err
	}
	settings, err := topicSettings(ctx, w.asking, w.to.StateTopic, cleanupPolicy)
	if err == nil && settings[cleanupPolicy] != "" && settings[cleanupPolicy] != "compact" {
		return fmt.Errorf("topic %s: %w", w.to.StateTopic, ErrNotCompacted)
	}
	return nil // who may not describe topics can write to them all the same
}

// NewTopic is a topic as it is made where it is missing.
type NewTopic struct {
	Name       string
	Partitions int32
	// Replication is the number of copies; 0: the brokers' default.
	Replication int16
	// Settings of the topic, as Kafka names them.
	Settings map[string]string
}

// ErrTopicTakesLess: a topic takes smaller records than those that are to be written.
var ErrTopicTakesLess = errors.New("the topic takes only smaller records: raise its max.message.bytes")

// Topic makes a topic where it is missing, and gives the number of partitions that it has.
// Between Start and Close.
func (w *Writer) Topic(ctx context.Context, t NewTopic) (partitions int32, err error) {
	partitions, err = w.partitions(ctx, t.Name)
	if errors.Is(err, ErrNotThere) {
		if err := w.create(ctx, t); err != nil {
			return 0, err
		}
		// Brokers hear of a new topic one after the other.
		for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
			if partitions, err = w.partitions(ctx, t.Name); !errors.Is(err, ErrNotThere) {
				return partitions, err
			}
			select {
			case <-ctx.Done():
				return 0, errors.Join(ctx.Err(), err)
			case <-time.After(wait):
			}
		}
	}
	if err != nil {
		return 0, err
	}
	const limit = "max.message.bytes"
	if settings, err := topicSettings(ctx, w.asking, t.Name, limit); err == nil {
		if n, err := strconv.Atoi(settings[limit]); err == nil && n > 0 && n < w.to.MaxMessage {
			return 0, fmt.Errorf("topic %s: %w: it takes %d bytes, and %d are configured", t.Name, ErrTopicTakesLess, n, w.to.MaxMessage)
		}
	}
	return partitions, nil
}

// partitions asks how many partitions a topic has; ErrNotThere while it or one of them is not there.
func (w *Writer) partitions(ctx context.Context, topic string) (int32, error) {
	if err := writable(ctx, w.asking, topic); err != nil {
		return 0, err
	}
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, w.asking)
	if err != nil {
		return 0, fmt.Errorf("topic %s: %w", topic, err)
	}
	if len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != 0 || len(resp.Topics[0].Partitions) == 0 {
		return 0, fmt.Errorf("topic %s: %w", topic, ErrNotThere)
	}
	for _, p := range resp.Topics[0].Partitions {
		if p.Leader < 0 && errors.Is(kerr.ErrorForCode(p.ErrorCode), kerr.LeaderNotAvailable) {
			return 0, fmt.Errorf("topic %s partition %d has no leader yet: %w", topic, p.Partition, ErrNotThere)
		}
	}
	return int32(len(resp.Topics[0].Partitions)), nil
}

func (w *Writer) create(ctx context.Context, topic NewTopic) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(w.opts.RequestTimeout.Milliseconds())
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic.Name, topic.Partitions, -1
	if topic.Replication > 0 {
		t.ReplicationFactor = topic.Replication
	}
	settings := maps.Clone(topic.Settings)
	if w.to.MaxMessage > defaultMaxMessage {
		if settings == nil {
			settings = map[string]string{}
		}
		settings["max.message.bytes"] = strconv.Itoa(w.to.MaxMessage)
	}
	for name, value := range settings {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = name, &value
		t.Configs = append(t.Configs, c)
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, w.asking)
	if err != nil {
		return fmt.Errorf("create topic %s: %w", topic.Name, err)
	}
	for _, t := range resp.Topics {
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case err == nil, errors.Is(err, kerr.TopicAlreadyExists):
		case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
			return fmt.Errorf("create topic %s with %d partitions: the right CREATE is missing: make the topic, or grant it to gscd's user: %w", topic.Name, topic.Partitions, err)
		default:
			return fmt.Errorf("create topic %s with %d partitions: %w", topic.Name, topic.Partitions, err)
		}
	}
	return nil
}

// Write writes a record to its partition, within a transaction that the first record
// begins. It returns before the brokers have it, but waits where many bytes are under way;
// key and value are not to be changed until Commit has returned. The error may be that of
// an earlier record.
func (w *Writer) Write(ctx context.Context, r *change.Record) error {
	if err := w.fault(); err != nil {
		return err
	}
	if w.client == nil {
		return ErrClosed
	}
	if !w.open && !w.to.Idempotent {
		if err := w.client.BeginTransaction(); err != nil {
			return w.explain(err)
		}
	}
	if !w.open {
		w.open, w.began = true, time.Now()
	}
	k := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value}
	if r.Timestamp > 0 {
		k.Timestamp = time.UnixMilli(r.Timestamp)
	}
	for _, h := range r.Headers {
		k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	w.client.Produce(ctx, k, w.written)
	return nil
}

func (w *Writer) written(r *kgo.Record, err error) {
	if err == nil {
		return
	}
	if errors.Is(err, kerr.MessageTooLarge) {
		err = fmt.Errorf("%w: it has %d bytes, its key is %.200q", ErrTooLarge, len(r.Key)+len(r.Value), r.Key)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = w.explain(fmt.Errorf("topic %s partition %d: %w", r.Topic, r.Partition, err))
	}
}

func (w *Writer) fault() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// Commit writes the state, which is records of keys and values, and ends the transaction:
// what was written and the state become visible together. Without transactions it waits
// until the brokers have all records, and writes the state then. After an error it may
// have been committed all the same: Start tells.
func (w *Writer) Commit(ctx context.Context, state []*change.Record) error {
	if w.to.Idempotent {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	for _, r := range state {
		if err := w.Write(ctx, &change.Record{Topic: w.to.StateTopic, Key: r.Key, Value: r.Value}); err != nil {
			return err
		}
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	if w.open && !w.to.Idempotent {
		if err := w.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
			return w.explain(fmt.Errorf("commit as %s: %w", w.to.ID, err))
		}
	}
	w.open = false
	return nil
}

func (w *Writer) flush(ctx context.Context) error {
	if w.client == nil {
		return ErrClosed
	}
	err := w.client.Flush(ctx)
	if fault := w.fault(); fault != nil {
		return fault
	}
	return w.explain(err)
}

// Abort gives up what was written since the last Commit, if there are transactions.
func (w *Writer) Abort(ctx context.Context) error {
	if w.client == nil || !w.open || w.to.Idempotent {
		return nil
	}
	err := w.client.AbortBufferedRecords(ctx)
	if err == nil {
		err = w.client.EndTransaction(ctx, kgo.TryAbort)
	}
	w.open = false
	if err == nil { // the records that were given up are no fault
		w.mu.Lock()
		w.failed = nil
		w.mu.Unlock()
	}
	return w.explain(err)
}

// Close gives the connections up; an open transaction is aborted by the next Start, or
// by the brokers after its timeout, and until then readers wait behind it.
func (w *Writer) Close() {
	if w.client != nil {
		w.client.Close()
		w.client = nil
	}
	if w.asking != nil {
		w.asking.Close()
		w.asking = nil
	}
}

// Retryable tells whether Start and writing again may help.
func (w *Writer) Retryable(err error) bool {
	for _, final := range []error{ErrNotThere, ErrNotWritable, ErrFenced, ErrTooLarge, ErrTooSlow, ErrNotCompacted, ErrTopicTakesLess} {
		if errors.Is(err, final) {
			return false
		}
	}
	retry, _ := Classify(err)
	return retry
}

func (w *Writer) explain(err error) error {
	return explainTransaction(err, w.to.ID, w.began, w.to.Timeout)
}
