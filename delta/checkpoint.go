package delta

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/checkpoint"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore"
)

// CheckpointOptions say how Checkpoint writes.
type CheckpointOptions struct {
	// Island writes the checkpoint of an old version that shall stay readable by
	// itself; the hint to the newest checkpoint is not moved.
	Island bool
	// Drop says of a tombstone that it protects nothing any more and is left out
	// (VacuumReport.Obsolete is one). Expired ones are left out anyway. nil drops none.
	Drop func(*action.Remove) bool
}

// CheckpointResult says what Checkpoint did.
type CheckpointResult struct {
	Key string
	// Written is false where a good checkpoint of the same content was there.
	Written        bool
	Bytes, Actions int64
	// Tombstones are those in the checkpoint, Dropped those left out.
	Tombstones, Dropped int
	// Published says that _last_checkpoint names this checkpoint now.
	Published bool
	// Snapshot is the same version without the dropped tombstones. A writer goes
	// on with it, or it would gather them for ever.
	Snapshot *Snapshot
}

// Checkpoint writes the classic checkpoint of a snapshot, reads it back and
// then points _last_checkpoint at it, unless that names a newer one that is
// there. It is safe at any time: an interrupted one leaves a table as readable
// as before.
func (t *Table) Checkpoint(ctx context.Context, s *Snapshot, options CheckpointOptions) (CheckpointResult, error) {
	fault := func(err error) (CheckpointResult, error) {
		return CheckpointResult{}, fmt.Errorf("checkpoint version %d of %s: %w", s.version, t.store, err)
	}
	if err := t.checkMaintainable(s); err != nil {
		return fault(err)
	}
	kept, dropped, err := s.unexpired(t.now(), options.Drop)
	if err != nil {
		return fault(err)
	}
	state := s.state(kept)
	result := CheckpointResult{
		Key: deltalog.CheckpointKey(s.version), Tombstones: len(kept), Dropped: dropped, Snapshot: s.withTombstones(kept),
	}
	written, there, err := t.existing(ctx, result.Key, state)
	if err != nil {
		return fault(err)
	}
	if !there {
		if written, err = checkpoint.Write(ctx, t.store, result.Key, state); err != nil {
			return fault(err)
		}
	}
	result.Written, result.Bytes, result.Actions = !there, written.Bytes, written.Actions
	if !options.Island {
		if result.Published, err = t.publish(ctx, s.version, written); err != nil {
			return fault(err)
		}
	}
	return result, nil
}

// state gives what a checkpoint of the snapshot holds.
func (s *Snapshot) state(tombstones []*action.Remove) *action.Commit {
	c := &action.Commit{Protocol: s.protocol, Metadata: s.metadata, Domains: s.Domains(), Adds: s.Files(), Removes: tombstones}
	for txn := range s.Txns() {
		c.Txns = append(c.Txns, txn)
	}
	return c
}

// unexpired gives the tombstones that a checkpoint of now must hold.
func (s *Snapshot) unexpired(now time.Time, drop func(*action.Remove) bool) (kept []*action.Remove, dropped int, err error) {
	retention, err := s.fileRetention()
	if err != nil {
		return nil, 0, err
	}
	cutoff := now.Add(-retention).UnixMilli()
	for _, r := range s.Tombstones() {
		if r.DeletionTimestamp < cutoff || drop != nil && drop(r) {
			dropped++
			continue
		}
		kept = append(kept, r)
	}
	return kept, dropped, nil
}

func (s *Snapshot) withTombstones(kept []*action.Remove) *Snapshot {
	same := s.confirmedAt(s.confirmed)
	same.removed = &removed{removes: kept}
	return same
}

// existing looks for a checkpoint of the same content, which is then not
// written again.
func (t *Table) existing(ctx context.Context, key string, state *action.Commit) (checkpoint.Written, bool, error) {
	object, err := t.store.Head(ctx, key)
	if errors.Is(err, objstore.ErrNotExist) {
		return checkpoint.Written{}, false, nil
	}
	if err != nil {
		return checkpoint.Written{}, false, err
	}
	there, err := checkpoint.Read(ctx, t.store, key)
	switch {
	case errors.Is(err, ErrCorrupt), errors.Is(err, objstore.ErrNotExist):
		return checkpoint.Written{}, false, nil
	case err != nil:
		return checkpoint.Written{}, false, err
	}
	w := checkpoint.Written{Bytes: object.Size, Actions: int64(checkpoint.Actions(there)), Adds: int64(len(there.Adds))}
	return w, checkpoint.Same(state, there) == nil, nil
}

// publish points the hint at a checkpoint that is there, unless it names a newer
// one that is there too.
func (t *Table) publish(ctx context.Context, version int64, w checkpoint.Written) (bool, error) {
	hint, ok, err := deltalog.ReadHint(ctx, t.store)
	if err != nil {
		return false, err
	}
	if ok && hint.Version > version {
		listing, err := deltalog.List(ctx, t.store, hint.Version)
		if err != nil {
			return false, err
		}
		if _, there := listing.Checkpoint(hint.Version); there {
			return false, nil
		}
	}
	return true, deltalog.WriteHint(ctx, t.store, deltalog.Hint{
		Version: version, Size: w.Actions, SizeInBytes: w.Bytes, NumOfAddFiles: w.Adds,
	})
}
