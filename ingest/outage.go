package ingest

import (
	"errors"
	"time"

	"go.uber.org/zap"
)

// SourceError is an error of the Source that a table reads from, or of the registry
// that has the schemas of its records.
type SourceError struct {
	// Retryable tells that asking again may help.
	Retryable bool
	Err       error
}

func (e *SourceError) Error() string { return e.Err.Error() }

// Unwrap gives the source's own error.
func (e *SourceError) Unwrap() error { return e.Err }

// retrier is a Source that knows of which errors asking again may help.
type retrier interface {
	Retryable(err error) bool
}

func sourceError(source Source, err error) error {
	if err == nil {
		return nil
	}
	src, ok := source.(retrier)
	return &SourceError{ok && src.Retryable(err), err}
}

func isRetryable(err error) bool {
	var e *SourceError
	return errors.As(err, &e) && e.Retryable
}

// outage is a time in which the source, or the registry of its schemas, does not
// answer. A lane that runs waits
// for its end: it keeps what it has, and commits what it took.
type outage struct {
	log    *zap.Logger
	table  string
	what   string    // "the source"
	since  time.Time // zero: none
	err    error     // the last one, while it lasts
	logged time.Time
}

// wait is what a View tells of it: nothing where the source answers.
func (o *outage) wait() []Wait {
	if o.since.IsZero() {
		return nil
	}
	return []Wait{{For: o.what, Since: o.since, Err: o.err}}
}

const (
	outageWait = 250 * time.Millisecond
	outageLog  = time.Minute
)

// ride gives nil, after a short wait, for an error that may pass.
func (o *outage) ride(err error) error {
	if !isRetryable(err) {
		return err
	}
	now := time.Now()
	if o.since.IsZero() {
		o.since = now
	}
	o.err = err
	if now.Sub(o.logged) >= outageLog {
		o.logged = now
		o.log.Warn(o.what+" does not answer; waiting for it", zap.String("table", o.table),
			zap.Duration("for", now.Sub(o.since).Round(time.Second)), zap.Error(err))
	}
	time.Sleep(outageWait)
	return nil
}

func (o *outage) over() {
	if !o.since.IsZero() {
		o.log.Info(o.what+" answers again", zap.String("table", o.table), zap.Duration("after", time.Since(o.since).Round(time.Second)))
		o.since, o.logged, o.err = time.Time{}, time.Time{}, nil
	}
}
