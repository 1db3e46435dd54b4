package main

import (
	"context"
	"time"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/ingest"
)

// job is one table at work, and what it reads from.
type job struct {
	name  string
	lane  *ingest.Lane
	close func()
}

// recordedJob makes the job of a table that reads a recording.
func (a *app) recordedJob(ctx context.Context, t *config.Table, o ingest.Options, f *ingestFlags, only bool) (*job, error) {
	topics, err := f.topicsOf(t, nil)
	if err != nil {
		return nil, err
	}
	r, err := openRecording(t, topics, f.input, only)
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		clock, err := recordingClock(ctx, r, &o)
		if err != nil {
			return nil, err
		}
		o.Now = func() time.Time { return clock }
	}
	r.SetNow(o.Now())
	lane, err := ingest.New(o, r)
	if err != nil {
		return nil, err
	}
	return &job{name: t.Name, lane: lane, close: func() { r.Close() }}, nil
}

// runJobs runs all jobs to their end.
func (a *app) runJobs(ctx context.Context, jobs []*job) error {
	for _, j := range jobs {
		if err := j.lane.Run(ctx); err != nil {
			return err
		}
	}
	return nil
}
