package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/server"
)

// runner is a table's lane, and what it reads from. rest is called when the lane has ended.
type runner struct {
	*ingest.Lane
	source io.Closer
	rest   func()
}

// Close is server.Runner's.
func (r runner) Close() error {
	r.rest()
	return r.source.Close()
}

// specs are the tables of a configuration as the server runs them. The error
// names all that can't be run. Files of a recording stay open until close is called.
func (a *app) specs(ctx context.Context, cfg *config.Config, f *ingestFlags) (specs []server.Spec, close func(), err error) {
	var files []io.Closer
	close = func() {
		for _, c := range files {
			c.Close()
		}
	}
	tables, err := a.tablesToIngest(cfg)
	if err != nil {
		return nil, close, err
	}
	clock, err := f.clock()
	if err != nil {
		return nil, close, err
	}
	recorded, err := f.recordedTopics(cfg)
	if err != nil {
		return nil, close, err
	}
	var faults []error
	for _, t := range tables {
		if len(t.Topics) == 0 && len(f.input) == 0 {
			if len(tables) == 1 {
				return nil, close, usagef("table %s has no topics: give --topic, or set them; gscd load fills a table without", t.Name)
			}
			a.log.Info("the table has no topics and is left alone", zap.String("table", t.Name))
			continue
		}
		o, err := a.ingestOptions(ctx, cfg, t)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		o.Now, o.UntilEnd = clock, f.ends()
		if cfg.ScaleOut.Group != "" {
			o.Turns = progress.MaxRaised
		}
		o.IndexProgress = a.steps.index(t.Name)
		if o.UntilEnd {
			o.Observer = a.steps.observe(t.Name)
		}
		var spec server.Spec
		if len(f.input) > 0 {
			topics := recorded[t.Name]
			if topics == nil {
				topics = tableTopics(t)
			}
			var file io.Closer
			if spec, file, err = a.recordedSpec(ctx, t, o, f.input, topics, len(tables) == 1); file != nil {
				files = append(files, file)
			}
		} else {
			spec, err = a.kafkaSpec(cfg, t, o)
		}
		if err != nil {
			faults = append(faults, err)
		}
		specs = append(specs, spec)
	}
	return specs, close, errors.Join(faults...)
}

// ends tells that the run stops by itself.
func (f *ingestFlags) ends() bool { return f.untilEnd || len(f.input) > 0 }

// spec is what every table's Spec has. Options that can't be are wrong usage.
func (a *app) spec(t *config.Table, o ingest.Options) (server.Spec, error) {
	if _, err := ingest.New(o, nil); err != nil {
		return server.Spec{}, usagef("table %s: %w", t.Name, err)
	}
	return server.Spec{
		Name: t.Name, Address: o.Store.String(), Topics: t.Topics, Settings: *t, Ends: o.UntilEnd,
		Idle: t.Drift.Idle, Proof: t.Seal.Proof, Check: a.checkLocation(t),
	}, nil
}

// laneOf makes the lane of a table with what it shares with the others.
func (a *app) laneOf(ctx context.Context, t *config.Table, o ingest.Options, source ingest.Source, closer io.Closer, with server.Shared) (server.Runner, error) {
	o.Budget, o.Gate = with.Budget, with.Gate
	if shown, ok := o.Observer.(*laneStep); ok {
		shown.Observer = with.Observer
	} else {
		o.Observer = with.Observer
	}
	o.Store, o.DeadLetterStore = with.Count(o.Store), with.Count(o.DeadLetterStore)
	if a.tracer != nil {
		traced := a.tracer.Table(t.Name, o.Observer)
		o.Tracer, o.Observer, o.Store = traced, traced, traced.Store(o.Store)
	}
	rest, err := a.watch(ctx, t, &o)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", t.Name, err)
	}
	lane, err := ingest.New(o, source)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", t.Name, err)
	}
	return runner{lane, closer, rest}, nil
}

// recordedSpec is a table that reads a recording; file is to be closed.
func (a *app) recordedSpec(ctx context.Context, t *config.Table, o ingest.Options, files, topics []string, only bool) (_ server.Spec, file io.Closer, err error) {
	r, err := openRecording(t, topics, files, only)
	if err != nil {
		return server.Spec{}, nil, err
	}
	if o.Now == nil {
		clock, err := recordingClock(ctx, r, &o)
		if err != nil {
			return server.Spec{}, r, err
		}
		o.Now = func() time.Time { return clock }
	}
	r.SetNow(o.Now())
	if o.SchemaTopic != nil {
		o.SchemaTopic.Open = recordedSchemas(t, files)
	}
	spec, err := a.spec(t, o)
	spec.Open = func(ctx context.Context, with server.Shared) (server.Runner, error) {
		return a.laneOf(ctx, t, o, r, io.NopCloser(nil), with)
	}
	return spec, r, err
}

// kafkaSpec is a table that reads from brokers. They are not asked yet.
func (a *app) kafkaSpec(cfg *config.Config, t *config.Table, o ingest.Options) (server.Spec, error) {
	c, err := a.openConsumer(cfg, t, &o)
	if err != nil {
		return server.Spec{}, err
	}
	c.Close() // it was only tried: a table that goes on undisturbed needs no other
	spec, err := a.spec(t, o)
	if err != nil {
		return spec, err
	}
	var consumer *kafka.Consumer
	location := spec.Check
	spec.Check = func(ctx context.Context) (err error) {
		if err := location(ctx); err != nil {
			return err
		}
		if consumer, err = a.openConsumer(cfg, t, &o); err != nil {
			return err
		}
		if err = askBrokers(ctx, cfg, consumer); err != nil {
			return errors.Join(err, consumer.Close())
		}
		return nil
	}
	spec.Open = func(ctx context.Context, with server.Shared) (server.Runner, error) {
		lane, err := a.laneOf(ctx, t, o, consumer, consumer, with)
		if err != nil && !server.Retryable(err) {
			err = errors.Join(err, consumer.Close())
		}
		return lane, err
	}
	return spec, nil
}
