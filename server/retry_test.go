package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"
	"testing"

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
		if got := Retryable(fmt.Errorf("table t: commit: %w", c.err)); got != c.want {
			t.Errorf("%#v: %v, want %v", c.err, got, c.want)
		}
	}
}
