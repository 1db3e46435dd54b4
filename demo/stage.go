package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/ingest/recording"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

const timezone = "Asia/Shanghai"

// patience is how long the story waits for the ingester to get somewhere.
const patience = 30 * time.Second

// stage is where the story is played: an embedded broker, a clock that is set
// by hand, and an ingester that runs from the first day to the last.
type stage struct {
	calendar  *snapshotter.Calendar
	now       atomic.Int64 // microseconds
	broker    *kfake.Cluster
	source    *kafka.Consumer
	connector *connector
	sent      int64 // records in the topic

	store, deadLetters objstore.Store
	stop               context.CancelFunc
	ended              chan struct{} // closed when the ingester has stopped
	failure            error         // why it did, valid then
}

func openStage(ctx context.Context, f *folder, log *zap.Logger) (_ *stage, err error) {
	s := &stage{connector: newConnector(), ended: make(chan struct{})}
	if s.calendar, err = snapshotter.NewCalendar("day", timezone, "00:00"); err != nil {
		return nil, err
	}
	s.setClock(s.at(14, "08:00"))
	// Without syncs: what a power cut would take away is a demo.
	if s.store, err = local.New(f.table(), local.Options{NoSync: true}); err != nil {
		return nil, err
	}
	if s.deadLetters, err = local.New(f.deadLetters(), local.Options{NoSync: true}); err != nil {
		return nil, err
	}
	if s.broker, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic)); err != nil {
		return nil, fmt.Errorf("start the embedded broker: %w", err)
	}
	if err := s.ingest(ctx, log); err != nil {
		s.broker.Close()
		return nil, err
	}
	return s, nil
}

// ingest starts the ingester, with the defaults of `gscd ingest` but for a
// clock that is played back.
func (s *stage) ingest(ctx context.Context, log *zap.Logger) error {
	options := s.brokerOptions()
	options.Now = s.clock
	options.PollWait = 50 * time.Millisecond
	var err error
	if s.source, err = kafka.New(options); err != nil {
		return err
	}
	lane, err := ingest.New(ingest.Options{
		Name: TableName, Store: s.store, DeadLetterStore: s.deadLetters, Calendar: s.calendar, Key: []string{"id"},
		BatchInterval: 50 * time.Millisecond, Backup: true, Now: s.clock, Log: log,
	}, s.source)
	if err != nil {
		return errors.Join(err, s.source.Close())
	}
	ctx, s.stop = context.WithCancel(ctx)
	go func() {
		defer close(s.ended)
		s.failure = lane.Run(ctx)
	}()
	return nil
}

// close stops the ingester at a commit boundary, then the broker.
func (s *stage) close() error {
	s.stop()
	<-s.ended
	err := errors.Join(s.failure, s.source.Close())
	s.broker.Close()
	return err
}

func (s *stage) brokerOptions() kafka.Options {
	return kafka.Options{Brokers: s.broker.ListenAddrs(), Topics: []string{topic}}
}

func (s *stage) address() string { return strings.Join(s.broker.ListenAddrs(), ",") }

// at is a time of day of July 2022 in the table's zone: "09:30" or "09:30:15".
func (s *stage) at(day int, clock string) time.Time {
	var hour, minute, second int
	// The story's own times: what does not parse stays 0 and fails its tests.
	_, _ = fmt.Sscanf(clock+":00", "%d:%d:%d", &hour, &minute, &second)
	return time.Date(2022, time.July, day, hour, minute, second, 0, s.calendar.Location())
}

func (s *stage) clock() time.Time { return time.UnixMicro(s.now.Load()).In(s.calendar.Location()) }

// setClock moves the clock, never back.
func (s *stage) setClock(t time.Time) { s.now.Store(max(s.now.Load(), t.UnixMicro())) }

// deliver lets the connector send events at a time.
func (s *stage) deliver(ctx context.Context, at time.Time, events ...logged) error {
	records, err := s.connector.records(at, events...)
	if err != nil {
		return err
	}
	return s.send(ctx, at, records)
}

// send writes records to the topic and moves the clock there.
func (s *stage) send(ctx context.Context, at time.Time, records []*change.Record) error {
	s.setClock(at)
	if err := kafka.Produce(ctx, s.brokerOptions(), records); err != nil {
		return err
	}
	s.sent += int64(len(records))
	return nil
}

// record writes all that is in the topic to a file.
func (s *stage) record(ctx context.Context, path string) (records int64, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := recording.NewWriter(f, recording.Readable)
	if records, err = kafka.Record(ctx, s.brokerOptions(), w); err != nil {
		return 0, err
	}
	return records, w.Flush()
}

// view is the table at its newest version.
type view struct {
	table    *delta.Table
	snapshot *delta.Snapshot
	labels   *savepoint.Map
	progress *progress.Progress
}

// look reads the table, as any other program would; nil before there is one.
func (s *stage) look(ctx context.Context) (*view, error) {
	table, err := delta.Open(ctx, s.store)
	if errors.Is(err, delta.ErrNotATable) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v := &view{table: table}
	if v.snapshot, err = table.Snapshot(ctx); err != nil {
		return nil, err
	}
	if v.labels, err = savepoint.Read(ctx, table, v.snapshot); err != nil {
		return nil, err
	}
	v.progress = v.labels.Progress
	return v, nil
}

// taken waits until the ingester has taken all that was sent, while a day is
// open and nothing waits to be applied to it.
func (s *stage) taken(ctx context.Context, open string) (*view, error) {
	return s.until(ctx, fmt.Sprintf("%d records taken, %s open", s.sent, open), func(v *view) bool {
		return v.progress.Totals.Taken == s.sent && v.open() == open && !v.due()
	})
}

// until waits for the table to become something.
func (s *stage) until(ctx context.Context, what string, is func(*view) bool) (*view, error) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		v, err := s.look(ctx)
		if err != nil {
			return nil, err
		}
		if v != nil && is(v) {
			return v, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.ended:
			return nil, errors.New("the ingester stopped before its time") // close says why
		case <-deadline.C:
			return nil, fmt.Errorf("waited %s for: %s", patience, what)
		case <-again.C:
		}
	}
}
