package scenario

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gscd-io/gscd/delta/objstore/counting"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/progress"
)

// runSteady ingests events as they come, and takes the time from each one's time stamp to
// the end of the commit that makes it readable.
func runSteady(ctx context.Context, s *Spec, env Env, r *Result) error {
	store, counted, err := openCounted(ctx, s, env)
	if err != nil {
		return err
	}
	cal, err := calendar(s)
	if err != nil {
		return err
	}
	if r.FirstVersion, err = newestVersion(ctx, store); err != nil {
		return err
	}
	consumer, err := kafka.New(kafka.Options{Brokers: s.Brokers, Topics: []string{s.Topic}, PollWait: 50 * time.Millisecond})
	if err != nil {
		return err
	}
	defer consumer.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	m := &meter{}
	w := &watch{counted: counted, m: m, r: r, left: s.events(), stop: stop, waiting: map[change.PartitionID][]stamp{}, took: make([]time.Duration, 0, s.events())}
	o := laneOptions(s, counted, cal)
	o.UntilEnd, o.Now, o.BatchRows = false, nil, 0
	o.BatchInterval, o.BatchMaxInterval = s.Interval, s.Interval
	late := time.AfterFunc(time.Until(time.UnixMilli(s.Params.Time(s.events())))+s.Interval+lateness, stop)
	defer late.Stop()
	if err := runLane(ctx, o, &stamped{consumer, w}, w); err != nil {
		return err
	}
	if w.left > 0 {
		return fmt.Errorf("%d of %d events were not in the table %s after the last one", w.left, s.events(), lateness+s.Interval)
	}
	r.Done, r.Latency = s.events(), latencyOf(w.took)
	return nil
}

// lateness is how long the last events are waited for.
const lateness = 30 * time.Second

// stamp is a record that waits for its commit.
type stamp struct {
	offset int64
	at     int64 // milliseconds since 1970
}

// watch takes the time of records from one end of the lane to the other.
type watch struct {
	ingest.Observer // the server's, which is told too

	counted *counting.Store
	m       *meter
	r       *Result
	stop    func()

	mu      sync.Mutex
	begun   bool
	waiting map[change.PartitionID][]stamp
	took    []time.Duration
	left    int64
}

// read notes records that have come.
func (w *watch) read(blocks []change.Block) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range blocks {
		if len(b.Records) > 0 && !w.begun {
			w.begun = true
			w.counted.Reset()
			w.m.begin()
		}
		for _, r := range b.Records {
			w.waiting[b.ID] = append(w.waiting[b.ID], stamp{r.Offset, r.Timestamp})
		}
	}
}

// Loaded implements ingest.Observer. What was read and not committed comes again.
func (w *watch) Loaded(v ingest.View) {
	w.Observer.Loaded(v)
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.waiting)
}

// Committed implements ingest.Observer.
func (w *watch) Committed(c ingest.Commit, v ingest.View) {
	w.Observer.Committed(c, v)
	if c.Kind != progress.Batch && c.Kind != progress.Create {
		return
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range v.Progress.State.Partitions {
		queue := w.waiting[p.ID()]
		n := 0
		for n < len(queue) && queue[n].offset < p.Next {
			w.took = append(w.took, now.Sub(time.UnixMilli(queue[n].at)))
			n++
		}
		w.waiting[p.ID()] = queue[n:]
		w.left -= int64(n)
	}
	if w.left <= 0 && w.r.Seconds == 0 {
		w.m.end(w.r)
		w.r.count(w.counted)
		w.stop()
	}
}

// stamped is a consumer whose records are noted as they come.
type stamped struct {
	*kafka.Consumer
	w *watch
}

func (s *stamped) Poll(ctx context.Context, limit int) ([]change.Block, error) {
	blocks, err := s.Consumer.Poll(ctx, limit)
	s.w.read(blocks)
	return blocks, err
}
