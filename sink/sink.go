package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/query/changes"
)

// ErrPosition: the position in Kafka can't be gone on from.
var ErrPosition = errors.New("the position in Kafka does not fit the table")

// Options say what is written where.
type Options struct {
	// Name is what records and messages call the table.
	Name  string
	Table *delta.Table
	// Changes say how changes are read. Their key is that of the records, and must be there.
	Changes changes.Options
	// Sealed writes the net changes of each seal when it is there, instead of those of
	// each version.
	Sealed bool
	// Start is the version behind which a new topic begins, -1 for the first one. Where
	// Kafka has a position it is not used. Where change data behind the start or the
	// position is not there, the version there and the newest one are compared.
	Start int64
	// Follow goes on until ctx ends; else what is there at the start is written.
	Follow bool
	// Poll is how often the log is looked at. Default 1 s.
	Poll time.Duration

	Kafka kafka.Options
	Topic string
	// PositionTopic holds the positions of all sinks. Default DefaultPositionTopic.
	PositionTopic string
	// Timeout bounds a transaction, so the writing of a stage. Default 5 min.
	Timeout time.Duration

	Shape Shape
	// Schemas puts the schema of Kafka Connect into Debezium's envelopes.
	Schemas bool
	// Tombstones puts a record without a value behind each delete.
	Tombstones bool

	Log *zap.Logger
}

// DefaultPositionTopic is Options.PositionTopic where it is empty.
const DefaultPositionTopic = "gscd-changes-positions"

// defaultTimeout is Options.Timeout where it is 0.
const defaultTimeout = 5 * time.Minute

// position is what is kept in Kafka.
type position struct {
	Table   string `json:"table"` // the id in its metadata
	Name    string `json:"name"`
	Topic   string `json:"topic"`
	Version int64  `json:"version"`
	Label   string `json:"label,omitempty"`
	At      string `json:"at"`
}

// Sink writes the changes of one table to one topic.
type Sink struct {
	o        Options
	id       string // of the table
	producer *kafka.Producer
	follow   changes.Follow
	written  int64 // the version that the position in Kafka has
}

// Run writes until ctx ends (nil then), or, without Follow, until what was there is
// written. After a fault of the network it starts anew where Kafka says. The error wraps
// kafka.ErrFenced, kafka.ErrNotThere and others of a Producer, ErrPosition, or those of
// changes.
func Run(ctx context.Context, o Options) error {
	if o.PositionTopic == "" {
		o.PositionTopic = DefaultPositionTopic
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.PositionTopic == o.Topic {
		return fmt.Errorf("%w: topic %s would hold both changes and positions", ErrPosition, o.Topic)
	}
	newest, err := o.Table.Snapshot(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	s := &Sink{o: o, id: newest.Metadata().ID}
	s.producer, err = kafka.NewProducer(o.Kafka, kafka.ProducerOptions{
		Topic: o.Topic, PositionTopic: o.PositionTopic, ID: "gscd-changes/" + s.id + "/" + o.Topic, Timeout: o.Timeout,
	})
	if err != nil {
		return err
	}
	defer s.producer.Close()
	const longest = time.Minute
	for wait := time.Second; ; wait = min(2*wait, longest) {
		began := time.Now()
		err := s.session(ctx)
		switch {
		case ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
			return nil
		case err == nil:
			return nil
		case !s.fromKafka(err) || !s.producer.Retryable(err):
			return err
		}
		if time.Since(began) > longest {
			wait = time.Second
		}
		o.Log.Warn("start the writing anew", zap.Duration("in", wait), zap.Error(err))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// brokerError marks errors of the brokers, which are tried again; reading the table has
// been tried again already where that helps.
type brokerError struct{ error }

func (e brokerError) Unwrap() error { return e.error }

func (s *Sink) fromKafka(err error) bool {
	var e brokerError
	return errors.As(err, &e)
}

// session writes from the position in Kafka on.
func (s *Sink) session(ctx context.Context) error {
	raw, err := s.producer.Start(ctx)
	if err != nil {
		return brokerError{err}
	}
	if err := s.resume(raw); err != nil {
		return err
	}
	for {
		next := s.follow.Look
		if s.o.Follow {
			next = s.follow.Next
		}
		feed, ends, err := next(ctx)
		if err != nil {
			return err
		}
		for _, end := range ends {
			if err := s.writeTo(ctx, feed, end); err != nil {
				return err
			}
		}
		if !s.o.Follow {
			return nil
		}
	}
}

// resume sets the position to that of Kafka, or to the start.
func (s *Sink) resume(raw []byte) error {
	s.follow = changes.Follow{Table: s.o.Table, Options: s.o.Changes, Position: s.o.Start, Sealed: s.o.Sealed, Poll: s.o.Poll}
	s.written = s.o.Start
	if raw == nil {
		s.o.Log.Info("the topic has no position: begin", zap.Int64("behind_version", s.o.Start))
		return nil
	}
	var p position
	if err := json.Unmarshal(raw, &p); err != nil || p.Table != s.id || p.Topic != s.o.Topic || p.Version < -1 {
		return fmt.Errorf("%w: topic %s has %.200q", ErrPosition, s.o.PositionTopic, raw)
	}
	s.follow.Position, s.written = p.Version, p.Version
	s.o.Log.Info("go on", zap.Int64("behind_version", p.Version), zap.String("label", p.Label))
	return nil
}

// writeTo writes what lies between the position and a version.
func (s *Sink) writeTo(ctx context.Context, feed *changes.Feed, end int64) error {
	encode, err := newEncoder(s.o, feed)
	if err != nil {
		return err
	}
	err = errNet
	if !s.o.Sealed {
		err = s.versions(ctx, encode, feed, end)
	}
	if errors.Is(err, errNet) || changes.Lost(err) {
		err = s.net(ctx, encode, feed, end)
	}
	if err != nil {
		return err
	}
	s.follow.Position = end
	return nil
}

// errNet asks for net changes.
var errNet = errors.New("net changes")

// net writes the net changes up to a version. Where there is no change data the versions
// are compared.
func (s *Sink) net(ctx context.Context, encode encoder, feed *changes.Feed, end int64) error {
	u, done, err := feed.NetBetween(ctx, s.written, end)
	if err != nil {
		return err
	}
	defer done()
	return s.stage(ctx, encode, u)
}

// versions writes the changes of each version up to one.
func (s *Sink) versions(ctx context.Context, encode encoder, feed *changes.Feed, end int64) error {
	for u, err := range feed.NetVersions(ctx, s.written+1, end) {
		if err != nil {
			return err
		}
		if err := s.stage(ctx, encode, u); err != nil {
			return err
		}
	}
	if s.written == end {
		return nil
	}
	// Versions without changes are behind the position too: their commits may go.
	return s.stage(ctx, encode, &changes.Unit{Version: end, Keys: func(func(*changes.KeyChange, error) bool) {}})
}

// stage writes the changes of a unit and the position behind it in one transaction.
func (s *Sink) stage(ctx context.Context, encode encoder, u *changes.Unit) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := s.toEnd(ctx)
	defer cancel()
	began, records := time.Now(), 0
	if err := s.producer.Begin(); err != nil {
		return brokerError{err}
	}
	n := 0
	for k, err := range u.Keys {
		if err != nil {
			return errors.Join(err, s.producer.Abort(ctx))
		}
		list, err := encode.records(u, k, n)
		if err != nil {
			return errors.Join(err, s.producer.Abort(ctx))
		}
		for i := range list {
			if err := s.producer.Produce(ctx, &list[i]); err != nil {
				return brokerError{fmt.Errorf("version %d: %w", u.Version, err)}
			}
			records++
		}
		n++
	}
	p, err := json.Marshal(position{s.id, s.o.Name, s.o.Topic, u.Version, u.Label, time.Now().UTC().Format(time.RFC3339Nano)})
	if err != nil {
		return err
	}
	if err := s.producer.Commit(ctx, p); err != nil {
		return brokerError{fmt.Errorf("version %d: %w", u.Version, err)}
	}
	s.written = u.Version
	s.o.Log.Info("written", zap.String("label", u.Label), zap.Int64("version", u.Version), zap.Int("records", records), zap.Duration("took", time.Since(began)))
	return nil
}

// grace is how long a stop waits for the stage that is being written. One that takes
// longer is given up, and written anew by the next start.
const grace = 10 * time.Second

// toEnd lets a stage that was begun come to its end after ctx ends, for a while.
func (s *Sink) toEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := s.o.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	inner, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout+grace)
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-inner.Done():
		case <-time.After(grace):
			cancel()
		}
	})
	return inner, func() { stop(); cancel() }
}

// encoder makes the records of a key change; n counts those of its unit.
type encoder interface {
	records(u *changes.Unit, k *changes.KeyChange, n int) ([]change.Record, error)
}
