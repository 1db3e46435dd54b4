package delta_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore/mem"
)

// logTable is a table of some commits that add, remove and mark files, with txns.
func logTable(t *testing.T, v2 bool, commits int) (*delta.Table, *delta.Snapshot) {
	t.Helper()
	table := delta.New(mem.New())
	m := action.Metadata{ID: "id", Format: action.Format{Provider: "parquet"}, SchemaString: `{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}}]}`,
		PartitionColumns: []string{}, Configuration: map[string]string{delta.PropertyDeletionVectors: "true"}}
	features := []string{delta.FeatureDeletionVectors}
	if v2 {
		m.Configuration[delta.PropertyCheckpointPolicy] = "v2"
		features = append(features, delta.FeatureV2Checkpoint)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var s *delta.Snapshot
	for v := range commits {
		tx := delta.NewTransaction(table, s)
		if v == 0 {
			tx.SetMetadata(m)
			tx.SetProtocol(delta.ProtocolFor(features...))
		}
		tx.SetTxn(fmt.Sprint("app", v%3), int64(v))
		for i := range 4 {
			tx.Add(&action.Add{Path: fmt.Sprintf("%d-%d.parquet", 9-v%10, v*10+i), PartitionValues: map[string]*string{}, Size: int64(v + 1), DataChange: true, Stats: `{"numRecords":5}`})
		}
		if s != nil {
			for i, add := range s.Files() {
				switch n := random.IntN(10); {
				case n == 0 && add.DeletionVector == nil && i%2 == 0:
					again := *add
					offset := int32(1)
					again.DeletionVector = &action.DeletionVector{StorageType: "u", PathOrInlineDV: fmt.Sprintf("abcdefghij%010d", v), Offset: &offset, SizeInBytes: 1, Cardinality: 1}
					tx.Remove(delta.RemoveOf(add, time.Now(), true))
					tx.Add(&again)
				case n == 1:
					tx.Remove(delta.RemoveOf(add, time.Now(), true))
				}
			}
		}
		outcome, err := tx.Commit(ctx)
		if err != nil || !outcome.Committed {
			t.Fatal(outcome, err)
		}
		s = outcome.Snapshot
	}
	return table, s
}

// sameState compares what two snapshots hold.
func sameState(t *testing.T, what string, got, want *delta.Snapshot) {
	t.Helper()
	if got.String() != want.String() || got.Metadata().SchemaString != want.Metadata().SchemaString {
		t.Errorf("%s: %v, want %v", what, got, want)
		return
	}
	for i, add := range want.Files() {
		if b := got.Files()[i]; b.Key() != add.Key() || b.Size != add.Size || b.Stats != add.Stats {
			t.Errorf("%s: file %d is %+v, want %+v", what, i, b, add)
			return
		}
	}
	for txn := range want.Txns() {
		if g, _ := got.Txn(txn.AppID); g.Version != txn.Version {
			t.Errorf("%s: txn %s is %d, want %d", what, txn.AppID, g.Version, txn.Version)
		}
	}
	if a, b := len(got.Tombstones()), len(want.Tombstones()); a != b {
		t.Errorf("%s: %d tombstones, want %d", what, a, b)
	}
}

// dropBelow deletes the commits below a version.
func dropBelow(t *testing.T, table *delta.Table, version int64) {
	t.Helper()
	for v := range version {
		if err := table.Store().Delete(ctx, deltalog.CommitKey(v)); err != nil {
			t.Fatal(err)
		}
	}
}

func keysBelow(t *testing.T, table *delta.Table, prefix string) (keys []string) {
	t.Helper()
	for o, err := range table.Store().List(ctx, prefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, o.Key)
	}
	return keys
}

// A v2 checkpoint, whose sidecars hold the files, stands for the log before it, and a
// second one of the same version is not written.
func TestCheckpointV2(t *testing.T) {
	table, want := logTable(t, true, 30)
	result, err := table.Checkpoint(ctx, want, delta.CheckpointOptions{PartActions: 20})
	if err != nil || !result.Written || !result.Published {
		t.Fatal(result, err)
	}
	sidecars := keysBelow(t, table, "_delta_log/_sidecars/")
	files := want.NumFiles() + len(want.Tombstones())
	if !strings.HasPrefix(result.Key, "_delta_log/00000000000000000029.checkpoint.") || len(sidecars) != (files+19)/20 {
		t.Errorf("key %s, %d sidecars of %d file actions", result.Key, len(sidecars), files)
	}
	hint, ok, err := deltalog.ReadHint(ctx, table.Store())
	if err != nil || !ok || hint.V2 == nil || deltalog.Dir+hint.V2.Path != result.Key || hint.V2.SizeInBytes <= 0 || hint.V2.ModificationTime <= 0 {
		t.Errorf("the hint is %+v, %v", hint, err)
	}
	if again, err := table.Checkpoint(ctx, want, delta.CheckpointOptions{}); err != nil || again.Written || again.Key != result.Key {
		t.Errorf("again: %+v, %v", again, err)
	}
	dropBelow(t, table, 29)
	got, err := delta.New(table.Store()).Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	sameState(t, "v2", got, want)
	// An island has the name that is known.
	island, err := table.Checkpoint(ctx, want, delta.CheckpointOptions{Island: true})
	if err != nil || island.Key != deltalog.CheckpointKey(29) || island.Published {
		t.Errorf("island: %+v, %v", island, err)
	}
}

// Without the feature, or the policy, nothing of the kind is written.
func TestCheckpointPolicy(t *testing.T) {
	table, s := logTable(t, false, 3)
	if result, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{}); err != nil || result.Key != deltalog.CheckpointKey(2) {
		t.Errorf("%+v, %v", result, err)
	}
	tx := delta.NewTransaction(table, s)
	m := *s.Metadata()
	m.Configuration = map[string]string{delta.PropertyCheckpointPolicy: "v2"}
	tx.SetMetadata(m)
	if _, err := tx.Commit(ctx); err == nil || !strings.Contains(err.Error(), "v2Checkpoint") {
		t.Errorf("the policy without the feature: %v", err)
	}
	table, s = logTable(t, true, 3)
	if result, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{PartActions: 1, Island: true}); err != nil || result.Key != deltalog.CheckpointKey(2) {
		t.Errorf("parts of a table with v2Checkpoint: %+v, %v", result, err)
	}
}

// A checkpoint in parts is one where a size is asked for.
func TestCheckpointInParts(t *testing.T) {
	table, want := logTable(t, false, 30)
	result, err := table.Checkpoint(ctx, want, delta.CheckpointOptions{PartActions: 25})
	if err != nil {
		t.Fatal(err)
	}
	parts := (want.NumFiles() + len(want.Tombstones()) + 24) / 25
	if keys := keysBelow(t, table, "_delta_log/00000000000000000029.checkpoint."); len(keys) != parts || parts < 3 || keys[0] != result.Key {
		t.Errorf("%d parts, want %d: %q", len(keys), parts, keys)
	}
	hint, ok, err := deltalog.ReadHint(ctx, table.Store())
	if err != nil || !ok || hint.Parts != int64(parts) || hint.NumOfAddFiles != int64(want.NumFiles()) {
		t.Errorf("hint %+v, %v", hint, err)
	}
	dropBelow(t, table, 29)
	got, err := delta.New(table.Store()).Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	sameState(t, "parts", got, want)
}

// What commits come to is read in their place, and says the same.
func TestCompactLog(t *testing.T) {
	table, want := logTable(t, false, 20)
	for _, r := range [][2]int64{{3, 9}, {10, 18}} {
		key, err := table.CompactLog(ctx, r[0], r[1])
		if err != nil || key != deltalog.CompactedKey(r[0], r[1]) {
			t.Fatal(key, err)
		}
		for v := r[0]; v <= r[1]; v++ { // who reads the commits all the same fails
			data, err := table.Store().Get(ctx, deltalog.CommitKey(v))
			if err == nil && v > r[0] {
				err = table.Store().Put(ctx, deltalog.CommitKey(v), data[:len(data)/2])
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := delta.New(table.Store()).Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	sameState(t, "compacted", got, want)
	for _, r := range [][2]int64{{5, 5}, {-1, 4}, {15, 99}} {
		if _, err := table.CompactLog(ctx, r[0], r[1]); err == nil {
			t.Errorf("versions %v were compacted", r)
		}
	}
}

// The checksum file says what the version is.
func TestWriteChecksum(t *testing.T) {
	table, s := logTable(t, false, 5)
	if err := table.WriteChecksum(ctx, s); err != nil {
		t.Fatal(err)
	}
	data, err := table.Store().Get(ctx, deltalog.ChecksumKey(4))
	if err != nil {
		t.Fatal(err)
	}
	var sum struct {
		TableSizeBytes, NumFiles, NumMetadata, NumProtocol int64
		Metadata                                           struct{ ID string }
		Protocol                                           struct{ MinReaderVersion int }
	}
	if err := json.Unmarshal(data, &sum); err != nil {
		t.Fatal(err)
	}
	var size int64
	for _, add := range s.Files() {
		size += add.Size
	}
	if sum.TableSizeBytes != size || sum.NumFiles != int64(s.NumFiles()) || sum.NumMetadata != 1 || sum.NumProtocol != 1 || sum.Metadata.ID != "id" || sum.Protocol.MinReaderVersion != 3 {
		t.Errorf("%s", data)
	}
	if err := table.WriteChecksum(ctx, s); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

// Cleaning takes v2 checkpoints and the sidecars that nobody names any more, and no
// others.
func TestCleanLogOfV2(t *testing.T) {
	table, _ := logTable(t, true, 12)
	at := func(version int64) *delta.Snapshot {
		t.Helper()
		s, err := table.SnapshotAt(ctx, version)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, v := range []int64{3, 6, 11} {
		if _, err := table.Checkpoint(ctx, at(v), delta.CheckpointOptions{PartActions: 10}); err != nil {
			t.Fatal(err)
		}
	}
	pinned, newest := at(6), at(11)
	before := keysBelow(t, table, "_delta_log/_sidecars/")
	report, err := table.CleanLog(ctx, delta.CleanOptions{Pinned: []int64{6}, Now: time.Now().Add(48 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	after := keysBelow(t, table, "_delta_log/_sidecars/")
	gone := 0
	for _, key := range report.Deleted {
		if strings.HasPrefix(key, "_delta_log/_sidecars/") {
			gone++
		}
	}
	if len(report.Deleted) < 12 || gone == 0 || len(before)-len(after) != gone || report.Start != 11 {
		t.Errorf("%d sidecars before, %d after, %d reported: %+v", len(before), len(after), gone, report)
	}
	sameState(t, "pinned", at(6), pinned)
	sameState(t, "newest", at(11), newest)
	if _, err := table.SnapshotAt(ctx, 3); err == nil {
		t.Error("version 3 is still there")
	}
}
