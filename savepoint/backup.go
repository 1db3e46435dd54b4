package savepoint

import (
	"context"
	"fmt"
	"strings"

	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore"
)

// BackupFolder is where copies of savepoints' checkpoints and commits lie, which
// no other engine's log cleanup touches.
const BackupFolder = "_delta_log/_gscd/backup/"

// islandFiles are the keys of the two files that make a version readable by number.
func islandFiles(version int64) []string {
	return []string{deltalog.CheckpointKey(version), deltalog.CommitKey(version)}
}

// backupKey is where the copy of a log file lies.
func backupKey(key string) string { return BackupFolder + strings.TrimPrefix(key, deltalog.Dir) }

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
