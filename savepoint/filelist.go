package savepoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/clone"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/stats"
)

// FileListFolder is where the lists of the files of sealed versions lie, for engines to
// which the log is too slow or unknown.
const FileListFolder = "_delta_log/_gscd/files/"

// latestList names the newest list. It is written last: where it names a version, what
// belongs to that is there.
const latestList = FileListFolder + "latest.json"

// ListKind says what is written at a seal for engines that do not read the log.
type ListKind string

// The kinds of lists.
const (
	// NoList: nothing.
	NoList ListKind = "none"
	// FileList: the list of files.
	FileList ListKind = "files"
	// SymlinkList: besides it manifests for SymlinkTextInputFormat. Their readers know
	// no deletion vectors.
	SymlinkList ListKind = "symlink"
)

// LatestList is what latest.json says.
type LatestList struct {
	Version int64    `json:"version"`
	Label   string   `json:"label"`
	Kind    ListKind `json:"manifest"`
	// Files is the name of the list beside it.
	Files string `json:"files"`
}

// listedFile is a line of a list.
type listedFile struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
	// Rows are those in the file, deleted ones among them; null where the log does not say.
	Rows      *int64             `json:"rows"`
	Partition map[string]*string `json:"partition_values,omitempty"`
	Vector    *listedVector      `json:"deletion_vector,omitempty"`
}

type listedVector struct {
	Path        string `json:"path,omitempty"`
	Inline      string `json:"inline,omitempty"`
	Offset      int32  `json:"offset"`
	Size        int32  `json:"size"`
	Cardinality int64  `json:"cardinality"`
}

func fileListKey(version int64) string { return fmt.Sprintf("%s%020d.jsonl", FileListFolder, version) }

// fileList is the text of a version's list: a line for each live file, in the log's order.
func fileList(s *delta.Snapshot) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, add := range s.Files() {
		line := listedFile{Size: add.Size}
		var err error
		if line.Path, err = listedPath(add.Path); err != nil {
			return nil, err
		}
		if rows, known := stats.NumRecords(add.Stats); known {
			line.Rows = &rows
		}
		if len(add.PartitionValues) > 0 {
			line.Partition = add.PartitionValues
		}
		if d := add.DeletionVector; d != nil {
			v := &listedVector{Size: d.SizeInBytes, Cardinality: d.Cardinality}
			if d.Offset != nil {
				v.Offset = *d.Offset
			}
			switch d.StorageType {
			case "i":
				v.Inline = d.PathOrInlineDV
			case "p":
				v.Path, err = listedPath(d.PathOrInlineDV)
			default:
				v.Path, _, err = delta.VectorKey(d)
			}
			if err != nil {
				return nil, err
			}
			line.Vector = v
		}
		if err := e.Encode(line); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// listedPath is a path of the log, decoded: below the root, or absolute.
func listedPath(encoded string) (string, error) {
	key, err := action.Key(encoded)
	if errors.Is(err, action.ErrAbsolutePath) {
		return action.AbsolutePath(encoded)
	}
	return key, err
}

// WriteLists writes the lists of a sealed version, and says of it that it is the latest.
// Lists of other versions stay until their savepoint is given up; the manifests of
// SymlinkList are of one version alone. The error wraps clone.ErrVectors where there
// can't be such.
func WriteLists(ctx context.Context, table *delta.Table, s *delta.Snapshot, kind ListKind) error {
	fault := func(err error) error {
		return fmt.Errorf("list the files of version %d of %s: %w", s.Version(), table.Store(), err)
	}
	p, err := progressAt(ctx, table, s.Version())
	if err != nil {
		return fault(err)
	}
	if len(p.Seals) == 0 {
		return fault(fmt.Errorf("version %d is no seal", s.Version()))
	}
	text, err := fileList(s)
	if err != nil {
		return fault(err)
	}
	if kind == SymlinkList {
		if _, err := clone.Manifest(ctx, table, s); err != nil {
			return err
		}
	}
	if err := table.Store().Put(ctx, fileListKey(s.Version()), text); err != nil {
		return fault(err)
	}
	latest, err := json.Marshal(LatestList{s.Version(), p.Seals[len(p.Seals)-1].Name, kind, path.Base(fileListKey(s.Version()))})
	if err != nil {
		return fault(err)
	}
	if err := table.Store().Put(ctx, latestList, append(latest, '\n')); err != nil {
		return fault(err)
	}
	return nil
}

// ReadLatestList gives what the newest lists are of; ok is false where there are none. One
// that can't be understood is of version -1.
func ReadLatestList(ctx context.Context, store objstore.Store) (latest LatestList, ok bool, err error) {
	data, err := store.Get(ctx, latestList)
	if errors.Is(err, objstore.ErrNotExist) {
		return latest, false, nil
	}
	if err != nil {
		return latest, false, err
	}
	if json.Unmarshal(data, &latest) != nil {
		return LatestList{Version: -1}, true, nil
	}
	return latest, true, nil
}

// keepsFileList keeps the lists of pinned versions, of one that was sealed since, and the
// name of the newest.
func (v *vacuum) keepsFileList(key string) bool {
	digits, ok := strings.CutSuffix(strings.TrimPrefix(key, FileListFolder), ".jsonl")
	version, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || version > v.newest.Version() {
		return true
	}
	for _, p := range v.pins {
		if p.Version == version {
			return true
		}
	}
	return false
}

// checkLists looks whether the lists are those of the newest seal. Where there are none,
// none were asked for.
func (c *checker) checkLists(ctx context.Context) error {
	latest, ok, err := ReadLatestList(ctx, c.store)
	if err != nil || !ok || c.labels == nil || c.labels.Progress.LastSeal < 0 {
		return err
	}
	sealed := c.labels.Progress.LastSeal
	s, err := c.table.SnapshotAt(ctx, sealed)
	if err != nil {
		if isDamage(err) { // a fault already, where it is pinned
			return nil
		}
		return err
	}
	wrong, file := "", latestList
	if latest.Version != sealed {
		wrong = fmt.Sprintf("the lists of files are of version %d, the newest seal is version %d", latest.Version, sealed)
	} else if file, err = c.listThatDiffers(ctx, s, latest.Kind); err != nil {
		return err
	} else if file != "" {
		wrong = "the list of the newest seal's files is missing, or is not what the version says"
	}
	if wrong == "" {
		return nil
	}
	f := Fault{Check: "list", Severity: SeverityWarning, Version: sealed, File: file, Message: wrong,
		Repair: "the next start or seal with seal.manifest writes it, as does `gscd check --repair`; delete " + FileListFolder + " where no lists are wanted any more"}
	if c.Repair {
		kind := latest.Kind
		if kind != SymlinkList {
			kind = FileList
		}
		if err := WriteLists(ctx, c.table, s, kind); err != nil {
			return err
		}
		f.Repaired, f.Repair = true, "done: written again"
	}
	c.fault(f)
	return nil
}

// listThatDiffers gives the key of the first list that is not what a version says, "" for
// none.
func (c *checker) listThatDiffers(ctx context.Context, s *delta.Snapshot, kind ListKind) (string, error) {
	list, err := fileList(s)
	if err != nil {
		return "", err
	}
	want := map[string]string{fileListKey(s.Version()): string(list)}
	if p := c.progress[s.Version()]; p != nil && len(p.Seals) > 0 {
		latest, err := json.Marshal(LatestList{s.Version(), p.Seals[len(p.Seals)-1].Name, kind, path.Base(fileListKey(s.Version()))})
		if err != nil {
			return "", err
		}
		if want[latestList] = string(latest) + "\n"; kind != FileList && kind != SymlinkList {
			return latestList, nil
		}
	}
	if kind == SymlinkList {
		manifests, err := clone.ManifestFiles(c.store, s)
		if err != nil {
			return latestList, nil // of a version that can't have any
		}
		for key, text := range manifests {
			want[key] = text
		}
		for key := range c.objects {
			if _, ok := want[key]; !ok && strings.HasPrefix(key, clone.ManifestFolder) && strings.HasSuffix(key, "/manifest") {
				return key, nil
			}
		}
	}
	for key, text := range want {
		got, err := c.store.Get(ctx, key)
		if err != nil && !errors.Is(err, objstore.ErrNotExist) {
			return "", err
		}
		if err != nil || string(got) != text {
			return key, nil
		}
	}
	return "", nil
}
