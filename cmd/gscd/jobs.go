package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/ingest"
)

// job is one table at work, and what it reads from.
type job struct {
	name  string
	check func(context.Context) error // asked once, before the first run
	run   func(context.Context) error
	ends  bool // it stops by itself
	close func()
}

// recordedJob makes the job of a table that reads a recording.
func (a *app) recordedJob(ctx context.Context, t *config.Table, o ingest.Options, files, topics []string, only bool) (*job, error) {
	r, err := openRecording(t, topics, files, only)
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		clock, err := recordingClock(ctx, r, &o)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		o.Now = func() time.Time { return clock }
	}
	r.SetNow(o.Now())
	lane, err := ingest.New(o, r)
	if err != nil {
		return nil, errors.Join(usagef("table %s: %w", t.Name, err), r.Close())
	}
	return &job{name: t.Name, check: a.checkLocation(t), run: lane.Run, ends: true, close: func() { r.Close() }}, nil
}

// kafkaJob makes the job of a table that reads from brokers.
func (a *app) kafkaJob(cfg *config.Config, t *config.Table, o ingest.Options) (*job, error) {
	c, err := a.openConsumer(cfg, t, &o)
	if err != nil {
		return nil, err
	}
	lane, err := ingest.New(o, c)
	if err != nil {
		return nil, errors.Join(usagef("table %s: %w", t.Name, err), c.Close())
	}
	check := func(ctx context.Context) error {
		if err := a.checkLocation(t)(ctx); err != nil {
			return err
		}
		return askBrokers(ctx, cfg, c)
	}
	return &job{name: t.Name, check: check, run: lane.Run, ends: o.UntilEnd, close: func() { c.Close() }}, nil
}

// runJobs runs all jobs side by side until each has ended. One that fails does
// not stop the others; the error names all that failed.
func (a *app) runJobs(ctx context.Context, jobs []*job) error {
	faults := make([]error, len(jobs))
	for i, j := range jobs {
		if err := j.check(ctx); err != nil {
			err = fmt.Errorf("table %s: %w", j.name, err)
			var nobody *noBrokerError
			if len(jobs) == 1 || errors.As(err, &nobody) || ctx.Err() != nil {
				return err
			}
			a.stopped(j, err)
			faults[i] = err
		}
	}
	var running sync.WaitGroup
	for i, j := range jobs {
		if faults[i] == nil {
			running.Go(func() { faults[i] = a.runJob(ctx, j, len(jobs) > 1) })
		}
	}
	running.Wait()
	return stoppedTables(faults)
}

// runJob runs a table until it ends, starting it again where that may help.
func (a *app) runJob(ctx context.Context, j *job, log bool) error {
	wait := firstWait
	for try := 1; ; try++ {
		began := time.Now()
		err := j.run(ctx)
		if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil
		}
		if time.Since(began) > calm {
			wait, try = firstWait, 1
		}
		if !retryable(err) || j.ends && try >= lastTry {
			if log {
				a.stopped(j, err)
			}
			return err
		}
		a.log.Warn("the table failed and is started again", zap.String("table", j.name), zap.Duration("in", wait), zap.Error(err))
		if !sleep(ctx, wait) {
			return nil
		}
		wait = min(2*wait, longWait)
	}
}

func (a *app) stopped(j *job, err error) {
	a.log.Error("the table has stopped; the others go on", zap.String("table", j.name), zap.Error(err))
}

// stoppedTables is the error of a run in which some tables failed.
func stoppedTables(faults []error) error {
	var failed []error
	for _, err := range faults {
		if err != nil {
			failed = append(failed, err)
		}
	}
	if len(faults) == 1 || len(failed) == 0 {
		return errors.Join(failed...)
	}
	var text strings.Builder
	for _, err := range failed {
		fmt.Fprintf(&text, "\n  %v", err)
	}
	return &stoppedError{fmt.Sprintf("%d of %d tables stopped:%s", len(failed), len(faults), text.String()), failed}
}

// stoppedError is several tables' errors in one text.
type stoppedError struct {
	text   string
	faults []error
}

func (e *stoppedError) Error() string { return e.text }

func (e *stoppedError) Unwrap() []error { return e.faults }
