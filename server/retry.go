package server

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/ingest"
)

// temporary are the faults of a disk or a network file system that pass, or
// that a person mends while the program waits.
var temporary = []error{
	syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.ESTALE, syscall.ETIMEDOUT, syscall.EAGAIN,
	syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ECONNRESET, syscall.ECONNREFUSED,
	context.DeadlineExceeded, io.ErrUnexpectedEOF, objstore.ErrUnknownOutcome, objstore.ErrTemporary,
}

// Retryable is the one place that decides whether a table that stopped is
// started again: where its source says so, or its storage failed in a way that
// may pass. All else needs a person.
func Retryable(err error) bool {
	var source *ingest.SourceError
	var dial *net.OpError
	var name *net.DNSError
	var slow net.Error // what the system calls an error is one too, timeout or not
	switch {
	case errors.As(err, &source):
		return source.Retryable
	case errors.As(err, &dial), errors.As(err, &name), errors.As(err, &slow) && slow.Timeout():
		return true
	}
	return slices.ContainsFunc(temporary, func(t error) bool { return errors.Is(err, t) })
}

// The waits between two starts of a table. A table that ran for longer than
// calm had recovered: the next failure is a first one.
const (
	firstWait = time.Second
	longWait  = time.Minute
	calm      = 10 * time.Minute
	// lastTry bounds the starts of a run that has an end (--until-end).
	lastTry = 5
)

// scattered is a wait with a fifth of chance in it, so that the tables of a
// storage that failed don't all come back at once.
func scattered(wait time.Duration) time.Duration {
	return wait - wait/10 + rand.N(wait/5+1)
}
