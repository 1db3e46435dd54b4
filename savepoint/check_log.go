package savepoint

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/checkpoint"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/progress"
)

// checkIslands looks whether every pinned version is readable by itself: its
// commit, which holds its evidence, and a good checkpoint.
func (c *checker) checkIslands(ctx context.Context) error {
	if err := c.islands(ctx); err != nil {
		return err
	}
	if !c.Repair {
		return nil
	}
	return c.list(ctx) // what was put back is there now
}

func (c *checker) islands(ctx context.Context) error {
	var mu sync.Mutex
	var first error
	sideBySide(c.pins, func(p Pin) {
		if err := errors.Join(c.checkCommit(ctx, p), c.checkCheckpoint(ctx, p)); err != nil {
			mu.Lock()
			defer mu.Unlock()
			first = cmp.Or(first, err)
		}
	})
	for _, point := range c.listing.Checkpoints {
		if !slices.ContainsFunc(c.pins, func(p Pin) bool { return p.Version == point.Version }) {
			first = cmp.Or(first, c.checkCheckpoint(ctx, Pin{Version: point.Version}))
		}
	}
	return first
}

// checkCommit reads the commit of a pin.
func (c *checker) checkCommit(ctx context.Context, p Pin) error {
	key := deltalog.CommitKey(p.Version)
	commit, err := deltalog.ReadCommit(ctx, c.store, p.Version)
	if err == nil && p.Sealed {
		var at *progress.Progress
		if at, err = progress.Decode(orObject(commit.Info)); err == nil && at == nil {
			err = fmt.Errorf("%w: %s has no progress of gscd", delta.ErrCorrupt, key)
		}
	}
	if err == nil || !isDamage(err) {
		return err
	}
	f := faultOf(p, "island", SeverityError, "its commit is missing, and with it its evidence and what a rollback goes on from")
	f.File = key
	if !errors.Is(err, objstore.ErrNotExist) {
		f.Message = "its commit can't be read: " + err.Error()
	}
	return c.repairFromBackup(ctx, f)
}

// orObject is an empty object for a commit without commitInfo.
func orObject(info json.RawMessage) json.RawMessage {
	if len(info) == 0 {
		return json.RawMessage("{}")
	}
	return info
}

// checkCheckpoint reads the checkpoint of a pin (or of another version: without
// names). Without one the version may still be read through the commits before it.
func (c *checker) checkCheckpoint(ctx context.Context, p Pin) error {
	there, ok := c.listing.Checkpoint(p.Version)
	if !ok {
		if _, err := c.listing.Segment(p.Version); err == nil {
			return c.fortify(ctx, p)
		}
		f := faultOf(p, "island", SeverityError, "its checkpoint is missing, and the commits before it are cleaned: the version can't be read")
		f.File = deltalog.CheckpointKey(p.Version)
		return c.repairFromBackup(ctx, f)
	}
	keys := make([]string, len(there.Parts))
	for i, part := range there.Parts {
		keys[i] = part.Key
	}
	_, err := checkpoint.Read(ctx, c.store, keys...)
	if err == nil || !isDamage(err) {
		return err
	}
	f := faultOf(p, "checkpoint", SeverityError, "its checkpoint can't be read: "+err.Error())
	f.File = keys[0]
	if s, err := c.table.SnapshotAt(ctx, p.Version); err == nil { // round it, through older files
		f.Severity = SeverityWarning
		f.Repair = "`gscd check --repair` writes it again"
		if c.Repair {
			if _, err := c.table.Checkpoint(ctx, s, delta.CheckpointOptions{Island: true}); err != nil {
				return err
			}
			f.Repaired, f.Repair = true, "done: written again"
		}
		c.fault(f)
		return nil
	}
	return c.repairFromBackup(ctx, f)
}

// fortify notes a savepoint that has no checkpoint of its own, or writes it.
func (c *checker) fortify(ctx context.Context, p Pin) error {
	if c.Repair {
		s, err := c.table.SnapshotAt(ctx, p.Version)
		if err == nil {
			_, err = c.table.Checkpoint(ctx, s, delta.CheckpointOptions{Island: true})
		}
		if err == nil || !isDamage(err) {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Unfortified = append(c.report.Unfortified, p.Version)
	return nil
}

// repairFromBackup reports a fault of a log file, put right from its copy where
// that is good and repair is wanted.
func (c *checker) repairFromBackup(ctx context.Context, f Fault) error {
	data, err := c.backupOf(ctx, f.File)
	switch {
	case err != nil && !isDamage(err):
		return err
	case err != nil:
		f.Repair = fmt.Sprintf("there is no good backup of it (%v): bring it back from a copy of the storage, or give the savepoint up with `gscd savepoint delete %s`", err, f.Label)
	case !c.Repair:
		f.Repair = "`gscd check --repair` puts the backup back"
	default:
		if err := c.store.Put(ctx, f.File, data); err != nil {
			return fmt.Errorf("put the backup of %s back: %w", f.File, err)
		}
		f.Repaired, f.Repair = true, "done: the backup was put back"
	}
	c.fault(f)
	return nil
}

// backupOf reads the copy of a log file and makes sure that it can be read as one.
func (c *checker) backupOf(ctx context.Context, key string) ([]byte, error) {
	data, err := c.store.Get(ctx, backupKey(key))
	if err != nil {
		return nil, err
	}
	return data, readable(key, data)
}

// readable tells whether bytes can be read as the log file of a key.
func readable(key string, data []byte) error {
	if strings.HasSuffix(key, ".json") {
		commit, err := deltalog.DecodeCommit(data)
		if err != nil {
			return err
		}
		at, err := progress.Decode(orObject(commit.Info))
		if err == nil && at == nil {
			return fmt.Errorf("%w: it has no progress of gscd", delta.ErrCorrupt)
		}
		return err
	}
	_, err := checkpoint.Decode(data)
	return err
}

// restoreDamaged puts every log file back that can't be read, or is missing
// while its version is needed, and has a good copy.
func (c *checker) restoreDamaged(ctx context.Context) (back []string, err error) {
	for _, backup := range slices.Sorted(maps.Keys(c.objects)) {
		key, _, ok := backedUp(backup)
		if !ok {
			continue
		}
		data, err := c.store.Get(ctx, key)
		if err != nil && !errors.Is(err, objstore.ErrNotExist) {
			return back, err
		}
		if err == nil && readable(key, data) == nil {
			continue
		}
		copied, err := c.backupOf(ctx, key)
		if err != nil {
			if !isDamage(err) {
				return back, err
			}
			continue
		}
		if err := c.store.Put(ctx, key, copied); err != nil {
			return back, fmt.Errorf("put the backup of %s back: %w", key, err)
		}
		back = append(back, key)
	}
	return back, nil
}

// checkBackupsAhead finds backups of versions that the log does not have: what
// was sealed there is lost, and the table answers as if it had never been.
func (c *checker) checkBackupsAhead(ctx context.Context) error {
	ahead := int64(-1)
	for key := range c.objects {
		if _, version, ok := backedUp(key); ok {
			ahead = max(ahead, version)
		}
	}
	if ahead <= c.newest.Version() {
		return nil
	}
	f := Fault{
		Check: "log", Severity: SeverityError, Version: ahead, File: deltalog.CommitKey(ahead),
		Message: fmt.Sprintf("version %d was sealed and backed up, and the log ends at version %d: commits were lost", ahead, c.newest.Version()),
		Repair:  "stop the ingester before it writes these versions anew, then `gscd check --repair` puts the backup back",
	}
	if c.Repair {
		back, err := RestoreBackup(ctx, c.store, ahead)
		if err != nil && !isDamage(err) {
			return err
		}
		if err == nil {
			f.Repaired, f.Repair = true, "done: put back "+strings.Join(back, ", ")
			if c.newest, err = c.table.Snapshot(ctx); err != nil {
				return err
			}
			c.pins = PinsOf(c.newest)
			if err := c.list(ctx); err != nil {
				return err
			}
		}
	}
	c.fault(f)
	return nil
}

// checkHint looks whether _last_checkpoint names a checkpoint that is there:
// some engines find no table without it, and all read more.
func (c *checker) checkHint(ctx context.Context) error {
	hint, ok, err := deltalog.ReadHint(ctx, c.store)
	if err != nil {
		return err
	}
	_, stored := c.objects[deltalog.HintKey]
	message := ""
	switch {
	case ok:
		if _, there := c.listing.Checkpoint(hint.Version); !there {
			message = fmt.Sprintf("it names the checkpoint of version %d, which is not there", hint.Version)
		}
	case stored:
		message = "it can't be read"
	case len(c.listing.Checkpoints) == 1 && len(c.listing.Commits) > 0 && c.listing.Commits[0].Version == 0:
		// A writer ended between the table's first checkpoint and this: the next one writes it.
		if c.Repair {
			_, err = c.table.Checkpoint(ctx, c.newest, delta.CheckpointOptions{})
		}
		return err
	case len(c.listing.Checkpoints) > 0:
		message = "it is missing, and there are checkpoints"
	}
	if message == "" {
		return nil
	}
	f := Fault{Check: "checkpoint", Severity: SeverityWarning, Version: c.newest.Version(), File: deltalog.HintKey, Message: message,
		Repair: "`gscd check --repair` writes a checkpoint of the newest version, and it anew"}
	if c.Repair {
		if _, err := c.table.Checkpoint(ctx, c.newest, delta.CheckpointOptions{}); err != nil {
			return err
		}
		f.Repaired, f.Repair = true, "done: written anew"
	}
	c.fault(f)
	return nil
}
