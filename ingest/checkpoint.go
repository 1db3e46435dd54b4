package ingest

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
)

// pendingCheckpoint is a checkpoint that is being written beside the lane.
type pendingCheckpoint struct {
	*aside
	cancel context.CancelFunc
	result delta.CheckpointResult
	err    error
}

// maybeCheckpoint starts a checkpoint of the newest version once in a while, one at a
// time. One that can't be written is logged: the log alone is enough to read the table.
func (l *Lane) maybeCheckpoint() error {
	l.saveIndex(false)
	if c := l.checkpointing; c != nil {
		if !l.isOver(c.aside) {
			return nil // the next one waits for it
		}
		if err := l.settleCheckpoint(); err != nil {
			return err
		}
	}
	if l.base.Version()-l.lastCheckpoint < l.o.CheckpointEvery {
		return nil
	}
	if l.inside {
		return l.checkpoint() // it holds the gate, and must not wait for it a second time
	}
	ctx, cancel := context.WithCancel(l.ctx)
	c := &pendingCheckpoint{cancel: cancel}
	table, base, gate, tracer := l.table, l.base, l.o.Gate, l.o.Tracer
	options := delta.CheckpointOptions{Drop: func(r *action.Remove) bool { return l.written.obsolete(base, r) }}
	c.aside = l.beside(func() {
		c.err = Caught(func() (err error) {
			if gate != nil {
				leave, err := gate.Enter(ctx, CheckpointWork)
				if err != nil {
					return err
				}
				defer leave()
			}
			return traced(tracer, CheckpointStage, func(s *Stretch) error {
				if s != nil {
					s.Version = base.Version()
				}
				c.result, err = table.Checkpoint(ctx, base, options)
				return err
			})
		})
	})
	l.checkpointing = c
	return nil
}

// settleCheckpoint waits for the checkpoint that is being written, if one is.
func (l *Lane) settleCheckpoint() error {
	c := l.checkpointing
	if c == nil {
		return nil
	}
	c.wait()
	c.cancel()
	l.checkpointing = nil
	if c.err == nil {
		l.lastCheckpoint = c.result.Snapshot.Version()
		if l.base != nil {
			l.base = c.result.Carry(l.base) // without the tombstones that have expired
		}
		return nil
	}
	if errors.Is(c.err, context.Canceled) {
		return nil // the lane ends, which its own context tells
	}
	return l.checkpointFailed(c.err)
}

// dropCheckpoint ends the one that is being written, where the lane ends with an error.
func (l *Lane) dropCheckpoint() {
	if c := l.checkpointing; c != nil {
		c.cancel()
		c.wait()
		l.checkpointing = nil
	}
}

// checkpoint writes one of the newest version, and returns when it is there.
func (l *Lane) checkpoint() error {
	if err := l.settleCheckpoint(); err != nil {
		return err
	}
	base := l.base
	done, err := l.table.Checkpoint(l.ctx, base, delta.CheckpointOptions{Drop: func(r *action.Remove) bool { return l.written.obsolete(base, r) }})
	if err != nil {
		return l.checkpointFailed(err)
	}
	l.base = done.Snapshot
	l.lastCheckpoint = l.base.Version()
	return nil
}

// checkpointFailed logs the fault; its own error is that of a lane that ends, or of a
// fault of the program.
func (l *Lane) checkpointFailed(err error) error {
	if broken := (*PanicError)(nil); l.ctx.Err() != nil && errors.Is(err, l.ctx.Err()) || errors.As(err, &broken) {
		return err
	}
	l.o.Log.Warn("a checkpoint was not written", zap.String("table", l.o.Name), zap.String("err", err.Error()))
	return nil
}

// written remembers when this process stored the objects of a commit. It is safe for
// concurrent use.
type written struct {
	mu sync.Mutex
	at map[string]int64 // milliseconds, by path or pathOrInlineDv
}

// shortLife is how soon after it was written an object must have been removed
// for its tombstone to say nothing that the object's own age does not say: other
// engines keep what is younger than the table's retention, tombstone or not.
const shortLife = 30 * 24 * time.Hour

// maxWritten bounds what is remembered; what is forgotten keeps its tombstone.
const maxWritten = 200_000

func (w *written) add(names []string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at == nil || len(w.at) > maxWritten {
		w.at = map[string]int64{}
	}
	for _, n := range names {
		w.at[n] = now.UnixMilli()
	}
}

// obsolete reports whether a tombstone of a version protects nothing: what it refers to
// is live there, or was written so shortly before that its age protects it as long.
func (w *written) obsolete(s *delta.Snapshot, r *action.Remove) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	short := func(name string) bool {
		at, ok := w.at[name]
		return ok && r.DeletionTimestamp-at < shortLife.Milliseconds()
	}
	if _, live := s.File(r.Path); !live && !short(r.Path) {
		return false
	}
	return r.DeletionVector == nil || short(r.DeletionVector.PathOrInlineDV)
}
