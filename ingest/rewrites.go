package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/compact"
	"github.com/gscd-io/gscd/delta/upsert"
)

// Every batch brings a file and deletes rows of others. Which files are written anew for
// that, package compact decides; small ones are at once, others beside the batches, and
// their commit comes between two of them.

// Rewrites says how data files are written anew.
type Rewrites struct {
	compact.Limits
	// Inline reads and writes at once what is done beside the batches else, for tests: it is
	// committed behind the next batch all the same.
	Inline bool
}

const (
	// quietShare of the time is what a rewrite works at most, busyShare where rewrites have
	// fallen behind the batches.
	quietShare = .15
	busyShare  = .5
	// longestRest is until when a rewrite that rests looks whether it is in a hurry.
	longestRest = 200 * time.Millisecond
	// atOnce rewrites are at work in a process at most.
	atOnce = 2
)

// rewrites has the places of the rewrites that are at work.
var rewrites = make(chan struct{}, atOnce)

// rewriting is a Move at work.
type rewriting struct {
	move   *upsert.Move
	task   compact.Task
	schema string
	begun  time.Time
	hurry  atomic.Bool // nothing else is done until it is over
	behind atomic.Bool
	cancel context.CancelFunc
	done   chan error
}

// rewriteFiles commits what was written anew, and begins what is to be. It is called where
// nothing is taken that is not committed.
func (l *Lane) rewriteFiles() error {
	if l.base == nil {
		return nil
	}
	if err := l.putRewritten(false); err != nil {
		return err
	}
	for range maxByKey {
		task, s, ok, err := l.nextLayout(false)
		if err != nil || !ok {
			return err
		}
		if !task.ByKey {
			if l.rewriting != nil {
				l.rewriting.behind.Store(l.o.Rewrites.Behind(s))
				return nil
			}
			return l.beginRewrite(task, s)
		}
		if l.rewriting != nil && slices.ContainsFunc(task.Files, func(id uint32) bool { return slices.Contains(l.rewriting.task.Files, id) }) {
			return nil
		}
		if err := l.joinByKey(task); err != nil {
			return err
		}
	}
	return nil
}

// maxByKey bounds the joins between two batches: a table may have many partitions.
const maxByKey = 8

// rewriteBeforeSeal is rewriteFiles before a savepoint pins what there is: it waits for the
// rewrite at work, and joins all small files.
func (l *Lane) rewriteBeforeSeal() error {
	if l.base == nil {
		return nil
	}
	if err := l.putRewritten(true); err != nil {
		return err
	}
	for {
		before := l.base.NumFiles()
		task, s, ok, err := l.nextLayout(true)
		if err != nil || !ok {
			return err
		}
		if task.ByKey {
			err = l.joinByKey(task)
		} else if err = l.beginRewrite(task, s); err == nil {
			err = l.putRewritten(true)
		}
		if err != nil || l.base.NumFiles() >= before {
			return err // another engine is at it
		}
	}
}

// nextLayout asks the policy, and gives what it was asked of. What is pinned it learns only
// where there is something to do without: the savepoint is read for it.
func (l *Lane) nextLayout(sealing bool) (task compact.Task, s compact.State, ok bool, err error) {
	s, files := l.layoutState()
	limits := l.o.Rewrites.Limits
	ask := func() (compact.Task, bool) {
		if tasks := limits.Join(s, sealing); len(tasks) > 0 {
			return tasks[0], true
		}
		if sealing {
			return compact.Task{}, false
		}
		return limits.Clean(s)
	}
	if task, ok = ask(); !ok {
		return task, s, false, nil
	}
	pinned, err := l.pinnedFiles()
	if err != nil {
		return compact.Task{}, s, false, err
	}
	some := false
	for i, f := range files {
		s.Files[i].Pinned = pinned[f.Path]
		some = some || pinned[f.Path]
	}
	if some {
		task, ok = ask()
	}
	return task, s, ok, nil
}

// layoutState is the files that there are, none of them pinned.
func (l *Lane) layoutState() (s compact.State, files []upsert.FileInfo) {
	tracked, _ := l.base.Property(delta.PropertyRowTracking)
	files = l.writer.Files()
	s.Files = make([]compact.File, len(files))
	for i, f := range files {
		s.Files[i] = compact.File{
			ID: f.Segment, Folder: f.Folder, Size: f.Size, Rows: f.Rows, Dead: f.Dead,
			ByKey: f.Bare || tracked == "true" || len(l.p.Rewritten) > 0 && l.rewritten(f.Path) != nil,
		}
		if !f.Moved {
			s.BatchBytes, s.BatchRows = f.Size, f.Rows
		}
	}
	return s, files
}

// beginRewrite begins to write files anew, of those of s.
func (l *Lane) beginRewrite(task compact.Task, s compact.State) error {
	limits := l.o.Rewrites.Resolved()
	move, err := l.writer.PlanMove(task.Files, l.base.Schema(), l.o.PartitionBy, upsert.MoveOptions{
		Footer: l.mergedFacts(task.Files), Carry: task.Copy && !l.o.CopyOnWrite, FewRows: limits.TinyRows, FewBytes: limits.TinyBytes,
	})
	if err != nil {
		return fmt.Errorf("table %s: %w", l.o.Name, err)
	}
	ctx, cancel := context.WithCancel(l.ctx)
	r := &rewriting{
		move: move, task: task, schema: l.base.Metadata().SchemaString, begun: time.Now(), cancel: cancel, done: make(chan error, 1),
	}
	r.behind.Store(limits.Behind(s))
	l.rewriting = r
	if l.o.Rewrites.Inline || !l.running {
		r.done <- move.Run(ctx, nil)
		return nil
	}
	go func() {
		r.done <- Caught(func() error {
			if err := r.takePlace(ctx); err != nil {
				return err
			}
			defer func() { <-rewrites }()
			return move.Run(ctx, func(busy time.Duration) error { return r.rest(ctx, busy) })
		})
	}()
	return nil
}

func (r *rewriting) takePlace(ctx context.Context) error {
	select {
	case rewrites <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// rest lets the batches have their time.
func (r *rewriting) rest(ctx context.Context, busy time.Duration) error {
	share := quietShare
	if r.behind.Load() {
		share = busyShare
	}
	for left := time.Duration(float64(busy) * (1/share - 1)); left > 0 && !r.hurry.Load(); left -= longestRest {
		select {
		case <-time.After(min(left, longestRest)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// putRewritten commits a rewrite that is done; wait ends one that is not.
func (l *Lane) putRewritten(wait bool) error {
	r := l.rewriting
	if r == nil {
		return nil
	}
	var err error
	if wait {
		r.hurry.Store(true)
		err = <-r.done
	} else {
		select {
		case err = <-r.done:
		default:
			return nil
		}
	}
	l.rewriting = nil
	r.cancel()
	if err != nil {
		return fmt.Errorf("table %s: write files anew: %w", l.o.Name, err)
	}
	if l.base.Metadata().SchemaString != r.schema {
		return nil // what was written has the columns of before
	}
	l.writing = time.Now()
	tx := delta.NewTransaction(l.table, l.base)
	written, did, err := l.writer.Put(l.ctx, r.move, tx)
	if errors.Is(err, upsert.ErrMoved) {
		l.o.Log.Debug("files that were written anew are given up", l.fields("reason", err.Error())...)
		return nil
	}
	if err != nil {
		return fmt.Errorf("table %s: write files anew: %w", l.o.Name, err)
	}
	if committed, err := l.commitLayout(tx, r.task.Files, written); err != nil || !committed {
		return err
	}
	l.o.Log.Info("wrote files anew", zap.String("table", l.o.Name), zap.Int("files", did.Files), zap.Int64("rows", did.Rows), zap.Int64("rows_copied", did.Copied),
		zap.Int64("rows_dropped", r.task.Rows-did.Rows), zap.Int64("bytes_read", did.BytesRead), zap.Int64("bytes", did.Bytes),
		zap.Duration("took", time.Since(r.begun)), zap.Duration("stall", time.Since(l.writing)))
	return nil
}

// dropRewrite ends a rewrite that is at work. What it has stored is left to a vacuum.
func (l *Lane) dropRewrite() {
	if l.rewriting != nil {
		l.rewriting.cancel()
		<-l.rewriting.done
		l.rewriting = nil
	}
}
