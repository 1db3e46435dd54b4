package clone

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
)

// ManifestFolder is where manifests lie, in folders as those of the partitions.
const ManifestFolder = "_symlink_format_manifest/"

// ErrVectors: a version has deletion vectors, which readers of manifests don't know.
var ErrVectors = errors.New("the version has deletion vectors, and who reads manifests would see deleted rows")

// Manifest writes for each partition of a version a text file of the paths of its data
// files (SymlinkTextInputFormat of Hive), and removes those of partitions that have none
// any more. It gives the keys that it wrote. The error wraps ErrVectors before anything
// is written. Partitions change one after the other: readers may see some of them old.
func Manifest(ctx context.Context, table *delta.Table, s *delta.Snapshot) ([]string, error) {
	fault := func(err error) ([]string, error) {
		return nil, fmt.Errorf("write manifests of version %d of %s: %w", s.Version(), table.Store(), err)
	}
	lines := map[string][]string{}
	if len(s.Metadata().PartitionColumns) == 0 {
		lines[ManifestFolder+"manifest"] = nil
	}
	for _, add := range s.Files() {
		if add.DeletionVector != nil {
			return fault(fmt.Errorf("%w: purge them first (gscd optimize --purge)", ErrVectors))
		}
		path, err := plainPath(table.Store().String(), add.Path)
		if err != nil {
			return fault(err)
		}
		key := ManifestFolder + folderOf(s, add) + "manifest"
		lines[key] = append(lines[key], path)
	}
	keys := slices.Sorted(maps.Keys(lines))
	for _, key := range keys {
		slices.Sort(lines[key])
		text := strings.Join(lines[key], "\n")
		if text != "" {
			text += "\n"
		}
		if err := table.Store().Put(ctx, key, []byte(text)); err != nil {
			return fault(err)
		}
	}
	var stale []string
	for object, err := range table.Store().List(ctx, ManifestFolder, "") {
		if err != nil {
			return fault(err)
		}
		if _, ok := lines[object.Key]; !ok && strings.HasSuffix(object.Key, "/manifest") {
			stale = append(stale, object.Key)
		}
	}
	for _, key := range stale {
		if err := table.Store().Delete(ctx, key); err != nil {
			return fault(err)
		}
	}
	return keys, nil
}

// plainPath is the absolute path of a file as Hadoop writes it: not encoded.
func plainPath(root, path string) (string, error) {
	key, err := action.Key(path)
	if errors.Is(err, action.ErrAbsolutePath) {
		return action.AbsolutePath(path)
	}
	if err != nil {
		return "", err
	}
	if !strings.Contains(root, "://") {
		root = "file:" + root
	}
	return strings.TrimSuffix(root, "/") + "/" + key, nil
}

// folderOf is the folder of a file's partition, by its values.
func folderOf(s *delta.Snapshot, add *action.Add) string {
	var b strings.Builder
	for _, name := range s.Metadata().PartitionColumns {
		stored := name
		if at := s.Schema().Index(name); at >= 0 {
			stored = s.Schema().Fields[at].Stored()
		}
		b.WriteString(action.PartitionFolder(name, add.PartitionValues[stored]))
		b.WriteByte('/')
	}
	return b.String()
}
