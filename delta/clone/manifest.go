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
	"github.com/gscd-io/gscd/delta/objstore"
)

// ManifestFolder is where manifests lie, in folders as those of the partitions.
const ManifestFolder = "_symlink_format_manifest/"

// ErrVectors: a version has deletion vectors, which readers of manifests don't know.
var ErrVectors = errors.New("the version has deletion vectors, and who reads manifests would see deleted rows")

// ManifestFiles gives the manifests of a version by key: for each partition the paths of
// its data files, a line each (SymlinkTextInputFormat of Hive). The error wraps
// ErrVectors. store is the table's.
func ManifestFiles(store objstore.Store, s *delta.Snapshot) (map[string]string, error) {
	lines := map[string][]string{}
	if len(s.Metadata().PartitionColumns) == 0 {
		lines[ManifestFolder+"manifest"] = nil
	}
	for _, add := range s.Files() {
		if add.DeletionVector != nil {
			return nil, fmt.Errorf("%w: purge them first (gscd optimize --purge)", ErrVectors)
		}
		path, err := plainPath(store.String(), add.Path)
		if err != nil {
			return nil, err
		}
		key := ManifestFolder + folderOf(s, add) + "manifest"
		lines[key] = append(lines[key], path+"\n")
	}
	texts := make(map[string]string, len(lines))
	for key, paths := range lines {
		slices.Sort(paths)
		texts[key] = strings.Join(paths, "")
	}
	return texts, nil
}

// Manifest writes the manifests of a version, and removes those of partitions that have
// none any more. It gives the keys that it wrote. The error wraps ErrVectors before
// anything is written. Partitions change one after the other: readers may see some of
// them old.
func Manifest(ctx context.Context, table *delta.Table, s *delta.Snapshot) ([]string, error) {
	fault := func(err error) ([]string, error) {
		return nil, fmt.Errorf("write manifests of version %d of %s: %w", s.Version(), table.Store(), err)
	}
	texts, err := ManifestFiles(table.Store(), s)
	if err != nil {
		return fault(err)
	}
	keys := slices.Sorted(maps.Keys(texts))
	for _, key := range keys {
		if err := table.Store().Put(ctx, key, []byte(texts[key])); err != nil {
			return fault(err)
		}
	}
	var stale []string
	for object, err := range table.Store().List(ctx, ManifestFolder, "") {
		if err != nil {
			return fault(err)
		}
		if _, ok := texts[object.Key]; !ok && strings.HasSuffix(object.Key, "/manifest") {
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
