package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/savepoint"
)

func TestRetryable(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, true},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, false},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, true},
		{context.DeadlineExceeded, true},
		{objstore.ErrUnknownOutcome, true},
		{ingest.ErrLate, false},
		{ingest.ErrNoKey, false},
		{savepoint.ErrForeign, false},
		{delta.ErrCorrupt, false},
		{errors.New("what nobody knows"), false},
		{&ingest.SourceError{Retryable: true, Err: errors.New("away")}, true},
		{&ingest.SourceError{Err: errors.New("gone")}, false},
	} {
		if got := retryable(fmt.Errorf("table t: commit: %w", c.err)); got != c.want {
			t.Errorf("%#v: %v, want %v", c.err, got, c.want)
		}
	}
}

// runs gives the results of a job's runs one after the other.
func runs(results ...error) (*job, *int) {
	n := new(int)
	return &job{name: "t", check: func(context.Context) error { return nil }, run: func(context.Context) error {
		*n++
		return results[min(*n, len(results))-1]
	}}, n
}

func TestRunJobs(t *testing.T) {
	t.Parallel()
	full := &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	a, _, _ := newTestApp()

	// A full disk is waited for; what needs a person ends the table, not the others.
	passes, tries := runs(full, nil)
	stops, once := runs(ingest.ErrNoKey)
	err := a.runJobs(t.Context(), []*job{passes, stops})
	if *tries != 2 || *once != 1 || !errors.Is(err, ingest.ErrNoKey) || err.Error() != "1 of 2 tables stopped:\n  the table has no key" {
		t.Errorf("%d and %d runs, %v", *tries, *once, err)
	}
	// The only table gives its own error.
	if err := a.runJobs(t.Context(), []*job{stops}); err == nil || err.Error() != "the table has no key" {
		t.Errorf("alone: %v", err)
	}
	// A stop while waiting is a clean end.
	ctx, cancel := context.WithCancel(t.Context())
	waits, _ := runs(full)
	time.AfterFunc(50*time.Millisecond, cancel)
	if err := a.runJobs(ctx, []*job{waits}); err != nil {
		t.Errorf("stopped: %v", err)
	}
}
