package delta_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/checkpoint"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore/mem"
)

const checkpointID = "80a083e8-7026-4e79-81be-64bd76c43a11"

// grow makes n more versions, each with a file of its number.
func grow(t tester, table *delta.Table, s *delta.Snapshot, n int) *delta.Snapshot {
	t.Helper()
	for range n {
		x := delta.NewTransaction(table, s)
		x.Add(add(fmt.Sprint(s.Version() + 1)))
		s = commit(t, x)
	}
	return s
}

// putV2 writes a v2 checkpoint of a snapshot with two sidecars; the manifest is
// JSON lines or Parquet.
func putV2(t *testing.T, store *mem.Store, s *delta.Snapshot, form string, edit func(manifest string) string) {
	t.Helper()
	put := func(key string, data []byte) {
		if err := store.Put(ctx, key, data); err != nil {
			t.Fatal(err)
		}
	}
	manifest := &action.Commit{Protocol: s.Protocol(), Metadata: s.Metadata()}
	for txn := range s.Txns() {
		manifest.Txns = append(manifest.Txns, txn)
	}
	lines := fmt.Sprintf("{\"checkpointMetadata\":{\"version\":%d}}\n", s.Version()) + string(manifest.Append(nil))
	all, half := s.Files(), len(s.Files())/2
	for i, part := range [][]*action.Add{all[:half], all[half:]} {
		data, err := checkpoint.Encode(&action.Commit{Adds: part})
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("s%d.parquet", i)
		put(deltalog.Dir+"_sidecars/"+name, data)
		path := []string{name, "file:/elsewhere/_delta_log/_sidecars/" + name}[i]
		lines += fmt.Sprintf("{\"sidecar\":{\"path\":%q,\"sizeInBytes\":%d,\"modificationTime\":1,\"tags\":{}}}\n", path, len(data))
	}
	if edit != nil {
		lines = edit(lines)
	}
	put(fmt.Sprintf("%s%020d.checkpoint.%s.%s", deltalog.Dir, s.Version(), checkpointID, form), []byte(lines))
}

func TestV2CheckpointsAreRead(t *testing.T) {
	store, table, s := newTable(t, newClock())
	s = grow(t, table, s, 4)
	putV2(t, store, s, "json", nil)
	s = grow(t, table, s, 1)
	want := state(s)
	for v := range int64(5) {
		if err := store.Delete(ctx, deltalog.CommitKey(v)); err != nil {
			t.Fatal(err)
		}
	}
	if got := state(reopen(t, table)); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	var fileSet []*action.Add
	err := table.EachFileSet(ctx, []int64{5}, func(_ int64, files []*action.Add, err error) error {
		fileSet = files
		return err
	})
	if err != nil || len(fileSet) != 5 {
		t.Errorf("%d files, %v", len(fileSet), err)
	}
}

// A v2 checkpoint that is damaged in any part is gone round, by another one of
// the same version or by the commits, and is an error where there is no way round.
func TestADamagedV2CheckpointIsGoneRound(t *testing.T) {
	for name, edit := range map[string]func(string) string{
		"a size that lies":     func(m string) string { return strings.Replace(m, `"sizeInBytes":`, `"sizeInBytes":1`, 1) },
		"a sidecar twice":      func(m string) string { return strings.Replace(m, "s1.parquet", "s0.parquet", 1) },
		"a missing sidecar":    func(m string) string { return strings.Replace(m, "s1.parquet", "s2.parquet", 1) },
		"a way out":            func(m string) string { return strings.Replace(m, `"s0.parquet"`, `"..%2F0.json"`, 1) },
		"no name":              func(m string) string { return strings.Replace(m, `"s0.parquet"`, `".."`, 1) },
		"of another version":   func(m string) string { return strings.Replace(m, `"version":4`, `"version":3`, 1) },
		"cut off":              func(m string) string { return m[:len(m)-5] },
		"no JSON":              func(string) string { return "PAR1" },
		"without a path":       func(m string) string { return strings.Replace(m, `"path":"s0.parquet",`, "", 1) },
		"nested without limit": func(m string) string { return m + `{"x":` + strings.Repeat("[", 1<<20) },
	} {
		t.Run(name, func(t *testing.T) {
			store, table, s := newTable(t, newClock())
			s = grow(t, table, s, 4)
			putV2(t, store, s, "json", edit)
			if got, want := files(reopen(t, table)), files(s); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if err := store.Delete(ctx, deltalog.CommitKey(0)); err != nil {
				t.Fatal(err)
			}
			if _, err := table.Snapshot(ctx); !errors.Is(err, delta.ErrCorrupt) {
				t.Errorf("no way round: %v", err)
			}
			if _, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{Island: true}); err != nil {
				t.Fatal(err)
			}
			if got, want := files(reopen(t, table)), files(s); got != want {
				t.Errorf("beside a classic one: got %s, want %s", got, want)
			}
		})
	}
}

// compaction is the reconciled content of the commits of a snapshot's table from
// version 1 on.
func compaction(s *delta.Snapshot) []byte {
	c := &action.Commit{Adds: s.Files(), Removes: s.Tombstones()}
	return c.Append(nil)
}

func TestCompactionFilesStandForTheirCommits(t *testing.T) {
	store, table, s := newTable(t, newClock())
	s = grow(t, table, s, 3)
	x := delta.NewTransaction(table, s)
	x.Remove(&action.Remove{Path: "2", DeletionTimestamp: 1, DataChange: true})
	x.Add(withVector(add("9"), 3))
	s = commit(t, x)
	key := fmt.Sprintf("%s%020d.%020d.compacted.json", deltalog.Dir, 1, 4)
	damaged := map[string]string{
		"good":           string(compaction(s)),
		"damaged":        string(compaction(s))[1:],
		"empty":          "",
		"not reconciled": string(compaction(s)) + `{"add":{"path":"2","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}` + "\n",
	}
	for name, content := range damaged {
		if err := store.Put(ctx, key, []byte(content)); err != nil {
			t.Fatal(err)
		}
		counted := &flaky{Store: store, fail: func(_ int, op, key string) (bool, error) { return false, nil }}
		got, err := delta.New(counted).Snapshot(ctx)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if files(got) != "1 3 9(3)" || len(got.Tombstones()) != 1 || got.Tombstones()[0].Path != "2" {
			t.Errorf("%s: %s, tombstones %v", name, files(got), got.Tombstones())
		}
		if name == "good" && counted.calls > 4 { // hint, list, version 0, compaction
			t.Errorf("%d requests", counted.calls)
		}
		at, err := delta.New(store).SnapshotAt(ctx, 3)
		if err != nil || files(at) != "1 2 3" {
			t.Errorf("%s: version 3: %v, %v", name, at, err)
		}
	}
}
