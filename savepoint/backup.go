package savepoint

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore"
)

// BackupFolder is where copies of savepoints' checkpoints and commits lie. Their names,
// v7.commit and v7.checkpoint, are none that a log has: delta-rs' log cleanup takes whatever
// lies anywhere below the log and ends like a file of it.
const BackupFolder = "_delta_log/_gscd/backup/"

// islandFiles are the keys of the two files that make a version readable by number.
func islandFiles(version int64) []string {
	return []string{deltalog.CheckpointKey(version), deltalog.CommitKey(version)}
}

const (
	commitCopy     = ".commit"
	checkpointCopy = ".checkpoint"
)

// backupKey is where the copy of a commit or of a checkpoint of one file lies.
func backupKey(key string) string {
	name := deltalog.ParseName(strings.TrimPrefix(key, deltalog.Dir))
	form := commitCopy
	if name.Kind != deltalog.CommitFile {
		form = checkpointCopy
	}
	return fmt.Sprintf("%sv%d%s", BackupFolder, name.Version, form)
}

// backedUp gives the log file that a key of BackupFolder is the copy of, and its version.
func backedUp(backup string) (key string, version int64, ok bool) {
	name, ok := strings.CutPrefix(backup, BackupFolder+"v")
	if !ok {
		return "", 0, false
	}
	number, form, _ := strings.Cut(name, ".")
	version, err := strconv.ParseInt(number, 10, 64)
	switch {
	case err != nil || version < 0:
		return "", 0, false
	case "."+form == commitCopy:
		return deltalog.CommitKey(version), version, true
	case "."+form == checkpointCopy:
		return deltalog.CheckpointKey(version), version, true
	}
	return "", 0, false
}

// Backup copies the checkpoint and the commit of a version.
func Backup(ctx context.Context, store objstore.Store, version int64) error {
	for _, key := range islandFiles(version) {
		data, err := store.Get(ctx, key)
		if err != nil {
			return fmt.Errorf("back up version %d: %w", version, err)
		}
		if err := store.Put(ctx, backupKey(key), data); err != nil {
			return fmt.Errorf("back up version %d: %w", version, err)
		}
	}
	return nil
}

// RestoreBackup puts a version's checkpoint and commit back from the backup,
// where they are missing. It gives the keys that it put back.
func RestoreBackup(ctx context.Context, store objstore.Store, version int64) ([]string, error) {
	var back []string
	for _, key := range islandFiles(version) {
		if _, err := store.Head(ctx, key); err == nil {
			continue
		}
		data, err := store.Get(ctx, backupKey(key))
		if err != nil {
			return back, fmt.Errorf("restore version %d: %w", version, err)
		}
		if err := store.PutIfAbsent(ctx, key, data); err != nil {
			return back, fmt.Errorf("restore version %d: %w", version, err)
		}
		back = append(back, key)
	}
	return back, nil
}
