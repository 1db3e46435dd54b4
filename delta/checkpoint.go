package delta

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

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
	// PartActions asks for several files with so many file actions each: parts of a
	// classic checkpoint, where there are more actions, or sidecars of a v2 one. 0: one
	// file, and sidecars of checkpoint.DefaultSidecarActions. Parts are deprecated, and
	// are never written to a table that lists v2Checkpoint.
	PartActions int
}

// CheckpointResult says what Checkpoint did.
type CheckpointResult struct {
	// Key is that of the file, of the first part, or of the manifest.
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
	of       *Snapshot
}

// Carry gives a version that commits have made of the one of the checkpoint, without
// the tombstones that the checkpoint left out: for a writer that has gone on while the
// checkpoint was written. A snapshot that was not made so comes back as it is.
func (r CheckpointResult) Carry(s *Snapshot) *Snapshot {
	if r.of == nil || r.of.removed == nil {
		return s
	}
	var since []*removed // newest first
	for node := s.removed; node != r.of.removed; node = node.before {
		if node == nil {
			return s
		}
		since = append(since, node)
	}
	chain := r.Snapshot.removed
	for _, node := range slices.Backward(since) {
		chain = &removed{node.removes, chain}
	}
	same := s.confirmedAt(s.confirmed)
	same.removed = chain
	return same
}

// Checkpoint writes the checkpoint of a snapshot, reads it back and then points
// _last_checkpoint at it, unless that names a newer one that is there. It is a classic
// one, or of the v2 form where delta.checkpointPolicy says so; an island is always
// classic, since its name is known. It is safe at any time: an interrupted one leaves a table as readable
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
	form := t.formOf(s, state, options)
	result := CheckpointResult{Tombstones: len(kept), Dropped: dropped, Snapshot: s.withTombstones(kept), of: s}
	var written checkpoint.Written
	var there bool
	if result.Key, written, there, err = t.existing(ctx, s.version, form, state); err != nil {
		return fault(err)
	}
	if !there {
		if result.Key, written, err = t.writeCheckpoint(ctx, s.version, form, state, options); err != nil {
			return fault(err)
		}
	}
	result.Written, result.Bytes, result.Actions = !there, written.Bytes, written.Actions
	if !options.Island {
		if result.Published, err = t.publish(ctx, s.version, result.Key, written, form); err != nil {
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

// form is how a checkpoint lies in files.
type form struct {
	v2    bool
	parts int // of a classic one
}

func (t *Table) formOf(s *Snapshot, state *action.Commit, options CheckpointOptions) form {
	supported := slices.Contains(FeaturesOf(s.protocol), FeatureV2Checkpoint)
	policy, _ := s.Property(PropertyCheckpointPolicy)
	f := form{v2: supported && policy == "v2" && !options.Island, parts: 1}
	if files := len(state.Adds) + len(state.Removes); options.PartActions > 0 && !supported && !options.Island && files > options.PartActions {
		f.parts = (files + options.PartActions - 1) / options.PartActions
	}
	return f
}

func (t *Table) writeCheckpoint(ctx context.Context, version int64, f form, state *action.Commit, options CheckpointOptions) (key string, w checkpoint.Written, err error) {
	switch {
	case f.v2:
		key = deltalog.V2CheckpointKey(version, uuid.NewString())
		w, err = checkpoint.WriteV2(ctx, t.store, key, version, state, options.PartActions, t.now())
	case f.parts > 1:
		keys := deltalog.PartKeys(version, f.parts)
		key = keys[0]
		w, err = checkpoint.WriteParts(ctx, t.store, keys, state)
	default:
		key = deltalog.CheckpointKey(version)
		w, err = checkpoint.Write(ctx, t.store, key, state)
	}
	return key, w, err
}

// existing looks for a checkpoint of the same form and content, which is then not
// written again.
func (t *Table) existing(ctx context.Context, version int64, f form, state *action.Commit) (string, checkpoint.Written, bool, error) {
	none := checkpoint.Written{}
	listing, err := deltalog.List(ctx, t.store, version)
	if err != nil {
		return "", none, false, err
	}
	for _, c := range listing.Checkpoints {
		if c.Version != version || len(c.Parts) != f.parts {
			continue
		}
		kind := deltalog.ParseName(strings.TrimPrefix(c.Parts[0].Key, deltalog.Dir)).Kind
		if f.v2 != (kind == deltalog.UUIDCheckpoint) {
			continue
		}
		keys, w := make([]string, len(c.Parts)), checkpoint.Written{}
		for i, p := range c.Parts {
			keys[i] = p.Key
			w.Bytes += p.Size
		}
		there, err := checkpoint.Read(ctx, t.store, keys...)
		switch {
		case errors.Is(err, ErrCorrupt), errors.Is(err, objstore.ErrNotExist):
			continue
		case err != nil:
			return "", none, false, err
		}
		w.Actions, w.Adds = int64(checkpoint.Actions(there)), int64(len(there.Adds))
		if checkpoint.Same(state, there) == nil {
			return keys[0], w, true, nil
		}
	}
	return "", none, false, nil
}

// publish points the hint at a checkpoint that is there, unless it names a newer
// one that is there too.
func (t *Table) publish(ctx context.Context, version int64, key string, w checkpoint.Written, f form) (bool, error) {
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
	h := deltalog.Hint{Version: version, Size: w.Actions, SizeInBytes: w.Bytes, NumOfAddFiles: w.Adds}
	if f.parts > 1 {
		h.Parts = int64(f.parts)
	}
	if f.v2 {
		top, err := t.store.Head(ctx, key)
		if err != nil {
			return false, fmt.Errorf("look at %s: %w", key, err)
		}
		h.V2 = &deltalog.V2Hint{Path: strings.TrimPrefix(key, deltalog.Dir), SizeInBytes: top.Size, ModificationTime: top.Modified.UnixMilli()}
	}
	return true, deltalog.WriteHint(ctx, t.store, h)
}
