package delta_test

import (
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/objstore/mem"
)

// TestCheckpointsOfGoldenTables: what other engines wrote reads the same from a
// checkpoint of ours, with the log before it gone.
func TestCheckpointsOfGoldenTables(t *testing.T) {
	dir, tables := goldenTables(t)
	checked := 0
	for _, g := range tables {
		if _, no := refused[g.Table]; no || g.Error != "" || g.Version == nil {
			continue
		}
		from, err := local.New(filepath.Join(dir, g.Table), local.Options{})
		if err != nil {
			t.Fatal(err)
		}
		store := mem.New()
		for o, err := range from.List(ctx, deltalog.Dir, "") {
			if err != nil {
				t.Fatal(err)
			}
			data, err := from.Get(ctx, o.Key)
			if err == nil {
				err = store.Put(ctx, o.Key, data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		table := delta.New(store)
		s, err := table.Snapshot(ctx)
		if err != nil {
			t.Fatal(g.Table, err)
		}
		result, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{})
		if errors.Is(err, delta.ErrUnsupportedFeature) {
			continue
		}
		if err != nil || !result.Published {
			t.Errorf("%s: %+v, %v", g.Table, result, err)
			continue
		}
		for v := range s.Version() {
			_ = store.Delete(ctx, deltalog.CommitKey(v))
			_ = store.Delete(ctx, deltalog.CheckpointKey(v))
		}
		back, err := table.Snapshot(ctx)
		if err != nil || fullState(back) != fullState(s) {
			t.Errorf("%s:\n%s\n%s\n%v", g.Table, fullState(s), fullState(back), err)
		}
		checked++
	}
	if checked < 100 {
		t.Errorf("only %d tables", checked)
	}
}

// fullState is state with every field of the adds.
func fullState(s *delta.Snapshot) string {
	if s == nil {
		return "none"
	}
	c := &action.Commit{}
	for _, a := range s.Files() {
		still := *a
		still.DataChange = false
		c.Adds = append(c.Adds, &still)
	}
	c.Domains = s.Domains()
	m := *s.Metadata()
	c.Metadata = &m
	return state(s) + "\n" + string(c.Append(nil))
}

func TestCheckpointHoldsEverything(t *testing.T) {
	c := newClock()
	store, table, s := newTable(t, c)
	x := delta.NewTransaction(table, s)
	m := metadata("table")
	m.Name, m.Description, m.CreatedTime = "orders", "of the shop", pointer(int64(7))
	m.SchemaString = strings.Replace(idSchema, `}]}`, `},{"name":"p","type":"string","nullable":true,"metadata":{}}]}`, 1)
	m.PartitionColumns = []string{"p"}
	x.SetMetadata(m)
	x.SetProtocol(delta.WithFeatures(*s.Protocol(), delta.FeatureDomainMetadata))
	for i, value := range []*string{nil, pointer("a"), pointer("ä/b")} {
		a := add(fmt.Sprintf("p=%d/f.parquet", i))
		a.PartitionValues = map[string]*string{"p": value}
		x.Add(a)
	}
	tagged := withVector(add("p=x/tagged.parquet"), 3)
	tagged.PartitionValues = map[string]*string{"p": pointer("x")}
	tagged.Tags = map[string]string{"k": "v"}
	x.Add(tagged)
	x.SetTxn("gscd", delta.OwnVersion)
	x.SetTxn("low", -3)
	x.SetDomain(action.DomainMetadata{Domain: "kept", Configuration: "{}"})
	s = commit(t, x)
	x = delta.NewTransaction(table, s)
	x.Remove(delta.RemoveOf(tagged, c.at, true))
	x.SetDomain(action.DomainMetadata{Domain: "ended", Configuration: "{}", Removed: true})
	s = commit(t, x)

	result, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want := 2 + 3 + 1 + 1 + 1 + 1; result.Actions != int64(want) || !result.Written || !result.Published || result.Tombstones != 1 {
		t.Errorf("%+v, want %d actions", result, want)
	}
	hint, err := store.Get(ctx, deltalog.HintKey)
	want := fmt.Sprintf(`"numOfAddFiles"=3,"size"=9,"sizeInBytes"=%d,"version"=2`, result.Bytes) // Delta protocol, "JSON checksum"
	if sum := md5.Sum([]byte(want)); err != nil || string(hint) != fmt.Sprintf(`{"version":2,"size":9,"sizeInBytes":%d,"numOfAddFiles":3,"checksum":"%x"}`, result.Bytes, sum) {
		t.Errorf("hint %s, its checksum is to be the MD5 of %s", hint, want)
	}
	// The log before is not needed any more.
	for v := range int64(2) {
		if err := store.Delete(ctx, deltalog.CommitKey(v)); err != nil {
			t.Fatal(err)
		}
	}
	back, err := table.Snapshot(ctx)
	if err != nil || fullState(back) != fullState(s) {
		t.Fatalf("%v\n%s\n%s", err, fullState(s), fullState(back))
	}
	dead := back.Tombstones()
	if len(dead) != 1 || dead[0].Key() != tagged.Key() || *dead[0].Size != tagged.Size || *dead[0].PartitionValues["p"] != "x" || dead[0].DeletionTimestamp != c.at.UnixMilli() || dead[0].DataChange {
		t.Errorf("tombstones %+v", dead)
	}
	if txn, _ := back.Txn("low"); txn.Version != -3 || *txn.LastUpdated != c.at.UnixMilli() {
		t.Errorf("txn %+v", txn)
	}
	// Once more: it is there.
	again, err := table.Checkpoint(ctx, back, delta.CheckpointOptions{})
	if err != nil || again.Written || !again.Published {
		t.Errorf("again %+v, %v", again, err)
	}
}

func TestTombstonesExpire(t *testing.T) {
	c := newClock()
	_, table, s := newTable(t, c)
	x := delta.NewTransaction(table, s)
	m := metadata("table")
	m.Configuration[delta.PropertyDeletedFileRetention] = "interval 2 days"
	x.SetMetadata(m)
	for _, p := range []string{"old", "young", "dropped"} {
		x.Add(add(p))
	}
	s = commit(t, x)
	for _, p := range []string{"old", "young", "dropped"} {
		a, _ := s.File(p)
		x = delta.NewTransaction(table, s)
		x.Remove(delta.RemoveOf(a, c.at, true))
		s = commit(t, x)
		c.advance(36 * time.Hour)
	}
	result, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{Drop: func(r *action.Remove) bool { return r.Path == "dropped" }})
	if err != nil || result.Tombstones != 0 || result.Dropped != 3 {
		t.Fatalf("4.5 days after: %+v, %v", result, err)
	}
	c.at = newClock().at.Add(60 * time.Hour)
	result, err = table.Checkpoint(ctx, s, delta.CheckpointOptions{Drop: func(r *action.Remove) bool { return r.Path == "dropped" }})
	if err != nil || result.Tombstones != 1 || result.Dropped != 2 || !result.Written {
		t.Fatalf("%+v, %v", result, err)
	}
	for _, s := range []*delta.Snapshot{result.Snapshot, reopen(t, table)} {
		if dead := s.Tombstones(); len(dead) != 1 || dead[0].Path != "young" {
			t.Errorf("tombstones %+v", dead)
		}
	}
	if len(s.Tombstones()) != 3 {
		t.Error("the snapshot itself changed")
	}
}

// TestTombstonesAreCarried: a writer that went on while the checkpoint was written loses
// the tombstones that it left out, and keeps those that came since.
func TestTombstonesAreCarried(t *testing.T) {
	c := newClock()
	_, table, s := newTable(t, c)
	remove := func(s *delta.Snapshot, path string) *delta.Snapshot {
		x := delta.NewTransaction(table, s)
		x.Add(add(path))
		s = commit(t, x)
		a, _ := s.File(path)
		x = delta.NewTransaction(table, s)
		x.Remove(delta.RemoveOf(a, c.at, true))
		return commit(t, x)
	}
	paths := func(s *delta.Snapshot) (list []string) {
		for _, r := range s.Tombstones() {
			list = append(list, r.Path)
		}
		return list
	}
	before := s
	s = remove(remove(s, "dropped"), "kept")
	later := remove(s, "later")
	result, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{Drop: func(r *action.Remove) bool { return r.Path == "dropped" }})
	if err != nil {
		t.Fatal(err)
	}
	if got := paths(result.Carry(later)); !slices.Equal(got, []string{"kept", "later"}) {
		t.Errorf("carried to a later version: %v", got)
	}
	if got := paths(result.Carry(s)); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("carried to its own version: %v", got)
	}
	other := reopen(t, table)
	if got := paths(result.Carry(other)); result.Carry(other) != other || !slices.Equal(got, []string{"dropped", "kept", "later"}) && !slices.Equal(got, []string{"kept", "later"}) {
		t.Errorf("a snapshot that was read anew became one with %v", got)
	}
	if result.Carry(before) != before || len(paths(later)) != 3 {
		t.Error("a snapshot itself changed")
	}
	next := remove(result.Carry(later), "next")
	if got := paths(next); !slices.Equal(got, []string{"kept", "later", "next"}) {
		t.Errorf("behind the next commit: %v", got)
	}
}

func reopen(t tester, table *delta.Table) *delta.Snapshot {
	t.Helper()
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatalf("reopen: %v", err)
	}
	return s
}

func TestTheHintNeverGoesBack(t *testing.T) {
	store, table, s := newTable(t, newClock())
	snapshots := []*delta.Snapshot{s}
	for i := range 4 {
		x := delta.NewTransaction(table, s)
		x.Add(add(fmt.Sprint(i)))
		s = commit(t, x)
		snapshots = append(snapshots, s)
	}
	checkpoint := func(version int, options delta.CheckpointOptions) bool {
		result, err := table.Checkpoint(ctx, snapshots[version], options)
		if err != nil {
			t.Fatal(err)
		}
		return result.Published
	}
	if !checkpoint(3, delta.CheckpointOptions{}) || checkpoint(2, delta.CheckpointOptions{}) || checkpoint(4, delta.CheckpointOptions{Island: true}) {
		t.Error("published the wrong ones")
	}
	if hint, ok, err := deltalog.ReadHint(ctx, store); err != nil || !ok || hint.Version != 3 {
		t.Errorf("hint %+v", hint)
	}
	// A hint to what is gone is repaired by an older one.
	if err := store.Delete(ctx, deltalog.CheckpointKey(3)); err != nil {
		t.Fatal(err)
	}
	if !checkpoint(2, delta.CheckpointOptions{}) {
		t.Error("the hint still names what is gone")
	}
}

func TestADamagedCheckpointIsGoneRound(t *testing.T) {
	store, table, s := newTable(t, newClock())
	for i := range 3 {
		x := delta.NewTransaction(table, s)
		x.Add(add(fmt.Sprint(i)))
		s = commit(t, x)
		if i != 1 {
			if _, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, damage := range []string{"", "PAR1", "garbage"} {
		if err := store.Put(ctx, deltalog.CheckpointKey(3), []byte(damage)); err != nil {
			t.Fatal(err)
		}
		if got := reopen(t, table); files(got) != "0 1 2" {
			t.Errorf("%q: %s", damage, files(got))
		}
	}
	// Without the commits around it there is no way round.
	for v := range int64(4) {
		if err := store.Delete(ctx, deltalog.CommitKey(v)); err != nil && v != 3 {
			t.Fatal(err)
		}
	}
	if err := store.Delete(ctx, deltalog.CheckpointKey(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := table.Snapshot(ctx); !errors.Is(err, delta.ErrCorrupt) || !strings.Contains(fmt.Sprint(err), "00000000000000000003.checkpoint.parquet") {
		t.Errorf("%v", err)
	}
	// Written again from the snapshot in hand, it is good.
	if result, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{}); err != nil || !result.Written {
		t.Errorf("%+v, %v", result, err)
	}
	if got := reopen(t, table); files(got) != "0 1 2" {
		t.Error(files(got))
	}
}

// TestAnUnverifiedCheckpointIsNotPublished: what the store gives back decides.
func TestAnUnverifiedCheckpointIsNotPublished(t *testing.T) {
	store, _, s := newTable(t, newClock())
	table := delta.New(&torn{store})
	if _, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{}); !errors.Is(err, delta.ErrCorrupt) {
		t.Errorf("%v", err)
	}
	if slices.Contains(keys(t, store, deltalog.Dir), "_last_checkpoint") {
		t.Error("published")
	}
}

// torn loses the end of every checkpoint it is given.
type torn struct{ objstore.Store }

func (s *torn) Put(ctx context.Context, key string, data []byte) error {
	return s.Store.Put(ctx, key, data[:len(data)-20])
}
