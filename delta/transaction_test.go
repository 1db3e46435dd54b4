package delta_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore"
)

func TestCommitWritesWhatTheSnapshotSays(t *testing.T) {
	c := newClock()
	store, table, s := newTable(t, c)
	x := delta.NewTransaction(table, s)
	x.Add(add("a.parquet"))
	x.Add(add("b.parquet"))
	x.SetTxn("gscd", delta.OwnVersion)
	x.SetTxn("gscd.seal/2024-03-01", -4)
	x.SetCommitInfo("UPSERT", map[string]string{"label": "2024-03-01"}, map[string]string{"numOutputRows": "20"},
		map[string]any{"gscd": json.RawMessage(`{"open": "2024-03-01",
		"offsets":[1,2]}`), "operation": "is not overridden"})
	s = commit(t, x)
	if got := files(s); s.Version() != 1 || got != "a.parquet b.parquet" {
		t.Fatalf("version %d: %s", s.Version(), got)
	}
	if txn, _ := s.Txn("gscd"); txn.Version != 1 || *txn.LastUpdated != c.at.UnixMilli() {
		t.Errorf("txn %+v", txn)
	}
	data, err := store.Get(ctx, "_delta_log/00000000000000000001.json")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	wantInfo := fmt.Sprintf(`{"commitInfo":{"timestamp":1709294400000,"operation":"UPSERT","operationParameters":{"label":"2024-03-01"},"readVersion":0,`+
		`"isolationLevel":"Serializable","isBlindAppend":false,"operationMetrics":{"numOutputRows":"20"},"engineInfo":"gscd/test","txnId":"%s",`+
		`"gscd":{"open":"2024-03-01","offsets":[1,2]},"sha256":"`, x.TxnID())
	if !strings.HasPrefix(lines[0], wantInfo) || len(lines[0]) != len(wantInfo)+64+len(`"}}`) {
		t.Errorf("commitInfo\n%s\nwant\n%s", lines[0], wantInfo)
	}
	want := []string{
		`{"txn":{"appId":"gscd","version":1,"lastUpdated":1709294400000}}`,
		`{"txn":{"appId":"gscd.seal/2024-03-01","version":-4,"lastUpdated":1709294400000}}`,
		`{"add":{"path":"a.parquet","partitionValues":{},"size":9,"modificationTime":1,"dataChange":true,"stats":"{\"numRecords\":10}"}}`,
		`{"add":{"path":"b.parquet","partitionValues":{},"size":9,"modificationTime":1,"dataChange":true,"stats":"{\"numRecords\":10}"}}`,
	}
	if !slices.Equal(lines[1:], want) {
		t.Errorf("actions\n%s", strings.Join(lines[1:], "\n"))
	}
	info, err := table.CommitInfo(ctx, 1)
	if err != nil || !strings.Contains(string(info), `"offsets":[1,2]`) {
		t.Errorf("commitInfo %s, %v", info, err)
	}
	reopened, err := table.Snapshot(ctx)
	if err != nil || state(reopened) != state(s) {
		t.Errorf("reopened %s, %v", state(reopened), err)
	}
	if at, err := table.CommitTime(ctx, 1); err != nil || !at.Equal(c.at.Add(time.Millisecond)) {
		t.Errorf("time %v, %v: the store's, made rising", at, err)
	}
}

func TestAFileKeepsItsPlaceUnderANewVector(t *testing.T) {
	_, table, s := newTable(t, newClock())
	x := delta.NewTransaction(table, s)
	for _, p := range []string{"c", "a", "b"} {
		x.Add(add(p))
	}
	s = commit(t, x)
	a, _ := s.File("a")
	x = delta.NewTransaction(table, s)
	x.Add(withVector(a, 1))
	x.Remove(delta.RemoveOf(a, time.UnixMilli(5), true))
	x.Add(add("d"))
	next := commit(t, x)
	if files(next) != "c a(1) b d" || files(s) != "c a b" {
		t.Errorf("now %s, before %s", files(next), files(s))
	}
	a, _ = next.File("a")
	x = delta.NewTransaction(table, next)
	x.Remove(delta.RemoveOf(a, time.UnixMilli(6), true))
	last := commit(t, x)
	if files(last) != "c b d" {
		t.Errorf("last %s", files(last))
	}
	var dead []string
	for _, r := range last.Tombstones() {
		dead = append(dead, r.Path+r.DeletionVector.UniqueID())
	}
	if want := []string{"a", "au" + vectorPath(1) + "@1"}; !slices.Equal(dead, want) {
		t.Errorf("tombstones %q, want %q", dead, want)
	}
	// Restoring the first brings (a, no vector) back; its tombstone is none then.
	adds, removes := delta.DiffForRestore(last, s, time.UnixMilli(7))
	x = delta.NewTransaction(table, last)
	for _, a := range adds {
		x.Add(a)
	}
	for _, r := range removes {
		x.Remove(r)
	}
	restored := commit(t, x)
	if files(restored) != "c b a" || len(removes) != 1 || removes[0].Path != "d" {
		t.Errorf("restored %s, removed %d", files(restored), len(removes))
	}
	for _, r := range restored.Tombstones() {
		if r.Path == "a" && r.DeletionVector == nil {
			t.Error("a live file has a tombstone")
		}
	}
}

func TestIllegalTransactionsWriteNothing(t *testing.T) {
	store, table, s := newTable(t, newClock())
	x := delta.NewTransaction(table, s)
	x.Add(add("live"))
	s = commit(t, x)
	live, _ := s.File("live")
	before := keys(t, store, "")
	for name, c := range map[string]struct {
		fill func(x *delta.Transaction)
		want string
		is   error
	}{
		"remove of nothing":       {func(x *delta.Transaction) { x.Remove(delta.RemoveOf(add("gone"), time.Now(), true)) }, "not live", nil},
		"remove without vector":   {func(x *delta.Transaction) { x.Remove(delta.RemoveOf(withVector(live, 1), time.Now(), true)) }, "not live", nil},
		"two removes":             {func(x *delta.Transaction) { r := delta.RemoveOf(live, time.Now(), true); x.Remove(r); x.Remove(r) }, "two removes", nil},
		"two adds":                {func(x *delta.Transaction) { x.Add(add("n")); x.Add(withVector(add("n"), 1)) }, "two adds", nil},
		"add of a live file":      {func(x *delta.Transaction) { x.Add(withVector(live, 1)) }, "without its remove", nil},
		"path escapes":            {func(x *delta.Transaction) { x.Add(add("../x")) }, "leaves the table", delta.ErrPathEscapes},
		"absolute path":           {func(x *delta.Transaction) { x.Add(add("s3://b/x")) }, "absolute", delta.ErrAbsolutePath},
		"partition value missing": {func(x *delta.Transaction) { a := add("n"); a.PartitionValues = map[string]*string{"p": nil}; x.Add(a) }, "1 partition values for 0", nil},
		"vector without count":    {func(x *delta.Transaction) { a := withVector(add("n"), 1); a.Stats = `{}`; x.Add(a) }, "numRecords", nil},
		"no schema":               {func(x *delta.Transaction) { m := metadata("m"); m.SchemaString = "{"; x.SetMetadata(m) }, "schemaString", nil},
		"ntz without feature": {func(x *delta.Transaction) {
			m := metadata("m")
			m.SchemaString = strings.Replace(idSchema, `"long"`, `{"type":"array","elementType":"timestamp_ntz","containsNull":true}`, 1)
			x.SetMetadata(m)
		}, "timestampNtz", nil},
		"cdf without feature": {func(x *delta.Transaction) {
			m := metadata("m")
			m.Configuration[delta.PropertyChangeDataFeed] = "true"
			x.SetMetadata(m)
		}, "changeDataFeed", nil},
		"domain": {func(x *delta.Transaction) { x.SetDomain(action.DomainMetadata{Domain: "d"}) }, "domainMetadata", nil},
		"reader feature only": {func(x *delta.Transaction) {
			p := delta.ProtocolFor(delta.FeatureDeletionVectors)
			p.ReaderFeatures = append(p.ReaderFeatures, delta.FeatureTimestampNTZ)
			x.SetProtocol(p)
		}, "no writer feature", nil},
		"bad extra": {func(x *delta.Transaction) {
			x.SetCommitInfo("X", nil, nil, map[string]any{"gscd": json.RawMessage(`{`)})
		}, "commitInfo.gscd", nil},
	} {
		x := delta.NewTransaction(table, s)
		c.fill(x)
		out, err := x.Commit(ctx)
		if out.Committed || !errors.Is(err, delta.ErrInvalidTransaction) || !strings.Contains(fmt.Sprint(err), c.want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
	if after := keys(t, store, ""); !slices.Equal(before, after) {
		t.Errorf("files %v", after)
	}
}

func TestAppendOnlyTablesLoseNoRows(t *testing.T) {
	_, table, s := newTable(t, newClock())
	x := delta.NewTransaction(table, s)
	x.Add(add("a"))
	m := metadata("table")
	m.Configuration[delta.PropertyAppendOnly] = "true"
	x.SetMetadata(m)
	s = commit(t, x)
	a, _ := s.File("a")
	x = delta.NewTransaction(table, s)
	x.Remove(delta.RemoveOf(a, time.Now(), true))
	if _, err := x.Commit(ctx); !errors.Is(err, delta.ErrInvalidTransaction) {
		t.Errorf("a removal: %v", err)
	}
	x.SetMetadata(metadata("table")) // nor in the commit that lifts the rule
	if _, err := x.Commit(ctx); !errors.Is(err, delta.ErrInvalidTransaction) {
		t.Errorf("a removal and the end of the rule: %v", err)
	}
	x = delta.NewTransaction(table, s)
	x.Remove(delta.RemoveOf(a, time.Now(), false))
	again := add("b")
	again.DataChange = false
	x.Add(again)
	if x.DataChange() {
		t.Error("a rewrite changes no data")
	}
	commit(t, x)
}

func TestUnknownWriterFeaturesRefuseWritingOnly(t *testing.T) {
	store, table, s := newTable(t, newClock())
	x := delta.NewTransaction(delta.New(store, delta.WithWriterFeatures("gscdSavepoints")), s)
	x.SetProtocol(delta.WithFeatures(*s.Protocol(), "gscdSavepoints"))
	commit(t, x)
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatalf("reading: %v", err)
	}
	x = delta.NewTransaction(table, s)
	x.Add(add("a"))
	_, err = x.Commit(ctx)
	var unsupported *delta.UnsupportedFeatureError
	if !errors.As(err, &unsupported) || unsupported.Feature != "gscdSavepoints" || unsupported.Reading {
		t.Errorf("writing: %v", err)
	}
	if _, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{}); !errors.Is(err, delta.ErrUnsupportedFeature) {
		t.Errorf("checkpoint: %v", err)
	}
	if _, err := delta.Vacuum(ctx, table, delta.VacuumOptions{}); !errors.Is(err, delta.ErrUnsupportedFeature) {
		t.Errorf("vacuum: %v", err)
	}
	if _, err := table.CleanLog(ctx, delta.CleanOptions{}); !errors.Is(err, delta.ErrUnsupportedFeature) {
		t.Errorf("clean: %v", err)
	}
}

func TestConflictsAreOutcomes(t *testing.T) {
	_, table, s := newTable(t, newClock())
	first, second := delta.NewTransaction(table, s), delta.NewTransaction(table, s)
	first.SetCommitInfo("MERGE", nil, nil, nil)
	first.Add(add("a"))
	second.Add(add("b"))
	commit(t, first)
	out, err := second.Commit(ctx)
	if err != nil || out.Committed || out.Version != 1 || out.Conflict == nil || out.Conflict.Operation != "MERGE" || out.Conflict.TxnID != first.TxnID() || out.Snapshot != nil {
		t.Fatalf("%+v, %v", out, err)
	}
	if out.Conflict.String() != "version 1: taken by MERGE" {
		t.Error(out.Conflict)
	}
	if _, err := first.Commit(ctx); !errors.Is(err, delta.ErrInvalidTransaction) {
		t.Errorf("committed twice: %v", err)
	}
	// The table is there: creating it is a conflict, whatever is left of its log.
	x := delta.NewTransaction(table, nil)
	x.SetMetadata(metadata("other"))
	x.SetProtocol(delta.ProtocolFor())
	if out, err := x.Commit(ctx); err != nil || out.Conflict == nil {
		t.Errorf("created again: %+v, %v", out, err)
	}
}

func TestRebaseRules(t *testing.T) {
	removeA := func(s *delta.Snapshot, dataChange bool) *action.Remove {
		a, _ := s.File("a")
		return delta.RemoveOf(a, time.UnixMilli(1), dataChange)
	}
	quiet := func(path string) *action.Add { a := add(path); a.DataChange = false; return a }
	for name, c := range map[string]struct {
		winner func(s *delta.Snapshot, x *delta.Transaction)
		rule   delta.Rule
	}{
		"txn of another": {func(_ *delta.Snapshot, x *delta.Transaction) { x.SetTxn("other", 1) }, ""},
		"compaction": {func(s *delta.Snapshot, x *delta.Transaction) {
			b, _ := s.File("b")
			x.Remove(delta.RemoveOf(b, time.UnixMilli(1), false))
			x.Add(quiet("b2"))
		}, ""},
		"append":   {func(_ *delta.Snapshot, x *delta.Transaction) { x.Add(add("n")) }, delta.RuleData},
		"delete":   {func(s *delta.Snapshot, x *delta.Transaction) { x.Remove(removeA(s, true)) }, delta.RuleData},
		"our file": {func(s *delta.Snapshot, x *delta.Transaction) { x.Remove(removeA(s, false)); x.Add(quiet("a2")) }, delta.RuleFile},
		"our txn":  {func(_ *delta.Snapshot, x *delta.Transaction) { x.SetTxn("gscd", 9) }, delta.RuleTxn},
		"metadata": {func(_ *delta.Snapshot, x *delta.Transaction) { x.SetMetadata(metadata("table")) }, delta.RuleMetadata},
		"protocol": {func(s *delta.Snapshot, x *delta.Transaction) {
			x.SetProtocol(delta.WithFeatures(*s.Protocol(), delta.FeatureTimestampNTZ))
		}, delta.RuleProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			_, table, s := newTable(t, newClock())
			x := delta.NewTransaction(table, s)
			x.Add(add("a"))
			x.Add(add("b"))
			s = commit(t, x)
			ours := delta.NewTransaction(table, s)
			ours.Remove(removeA(s, true))
			ours.Add(withVector(add("a"), 1))
			ours.SetTxn("gscd", delta.OwnVersion)
			winner := delta.NewTransaction(table, s)
			winner.SetCommitInfo("THEIRS", nil, nil, nil)
			c.winner(s, winner)
			commit(t, winner)
			if out, err := ours.Commit(ctx); err != nil || out.Conflict == nil {
				t.Fatalf("%+v, %v", out, err)
			}
			newer, err := table.Update(ctx, s)
			if err != nil {
				t.Fatal(err)
			}
			err = ours.Rebase(newer)
			if c.rule == "" {
				if err != nil {
					t.Fatal(err)
				}
				out := commit(t, ours)
				if txn, _ := out.Txn("gscd"); txn.Version != 3 || out.Version() != 3 {
					t.Errorf("version %d, txn %+v: not stamped anew", out.Version(), txn)
				}
				return
			}
			var conflict *delta.ConflictError
			if !errors.As(err, &conflict) || conflict.Rule != c.rule || conflict.Version != 2 || conflict.Operation != "THEIRS" || !errors.Is(err, delta.ErrConflict) {
				t.Errorf("%v, want rule %q", err, c.rule)
			}
		})
	}
}

func TestRebaseNeedsToKnowTheCommitsBetween(t *testing.T) {
	_, table, s := newTable(t, newClock())
	ours := delta.NewTransaction(table, s)
	ours.Add(add("a"))
	winner := delta.NewTransaction(table, s)
	winner.SetTxn("other", 1)
	commit(t, winner)
	reopened, err := table.Snapshot(ctx) // made of the log, not of s
	if err != nil {
		t.Fatal(err)
	}
	var conflict *delta.ConflictError
	if err := ours.Rebase(reopened); !errors.As(err, &conflict) || conflict.Rule != delta.RuleUnknown {
		t.Errorf("%v", err)
	}
	newer, err := table.Update(ctx, s)
	if err != nil || ours.Rebase(newer) != nil {
		t.Errorf("updated: %v", err)
	}
}

// TestLostAnswers: whatever the store does with the write whose answer it loses,
// a commit is written once and its outcome is found out.
func TestLostAnswers(t *testing.T) {
	lose := func(times int, apply bool) func(n int, op, key string) (bool, error) {
		return func(_ int, op, key string) (bool, error) {
			if op == "putIfAbsent" && times > 0 {
				times--
				return apply, fmt.Errorf("put %s: %w", key, objstore.ErrUnknownOutcome)
			}
			return false, nil
		}
	}
	t.Run("applied", func(t *testing.T) {
		store, _, s := newTable(t, newClock())
		table := delta.New(&flaky{Store: store, fail: lose(1, true)})
		x := delta.NewTransaction(table, s)
		x.Add(add("a"))
		if s := commit(t, x); s.Version() != 1 || files(s) != "a" {
			t.Error(s)
		}
	})
	t.Run("not applied", func(t *testing.T) {
		store, _, s := newTable(t, newClock())
		x := delta.NewTransaction(delta.New(&flaky{Store: store, fail: lose(2, false)}), s)
		x.Add(add("a"))
		if s := commit(t, x); s.Version() != 1 {
			t.Error(s)
		}
	})
	t.Run("taken by another meanwhile", func(t *testing.T) {
		store, table, s := newTable(t, newClock())
		other := delta.NewTransaction(table, s)
		other.SetTxn("other", 1)
		lost := lose(1, false)
		x := delta.NewTransaction(delta.New(&flaky{Store: store, fail: func(n int, op, key string) (bool, error) {
			apply, err := lost(n, op, key)
			if err != nil {
				commit(t, other)
			}
			return apply, err
		}}), s)
		x.Add(add("a"))
		out, err := x.Commit(ctx)
		if err != nil || out.Conflict == nil || out.Conflict.TxnID != other.TxnID() {
			t.Errorf("%+v, %v", out, err)
		}
	})
	t.Run("refused, and there", func(t *testing.T) {
		// A hard link over a network file system may fail and be made.
		store, _, s := newTable(t, newClock())
		x := delta.NewTransaction(delta.New(&flaky{Store: store, fail: func(_ int, op, key string) (bool, error) {
			if op == "putIfAbsent" {
				return true, fmt.Errorf("put %s: input/output error", key)
			}
			return false, nil
		}}), s)
		x.Add(add("a"))
		commit(t, x)
	})
	t.Run("refused, and not to be found out", func(t *testing.T) {
		store, _, s := newTable(t, newClock())
		x := delta.NewTransaction(delta.New(&flaky{Store: store, fail: func(_ int, op, key string) (bool, error) {
			if op == "putIfAbsent" || op == "get" {
				return true, fmt.Errorf("%s %s: input/output error", op, key)
			}
			return false, nil
		}}), s)
		x.Add(add("a"))
		if _, err := x.Commit(ctx); !errors.Is(err, objstore.ErrUnknownOutcome) {
			t.Errorf("who hears that nothing was written removes its files: %v", err)
		}
	})
	t.Run("exists, but it was us", func(t *testing.T) {
		// A store that retries by itself sees its own first attempt.
		store, _, s := newTable(t, newClock())
		x := delta.NewTransaction(delta.New(&flaky{Store: store, fail: func(_ int, op, key string) (bool, error) {
			if op == "putIfAbsent" {
				return true, fmt.Errorf("put %s: %w", key, objstore.ErrExist)
			}
			return false, nil
		}}), s)
		x.Add(add("a"))
		commit(t, x)
	})
	t.Run("never found out, then asked again", func(t *testing.T) {
		store, table, s := newTable(t, newClock())
		broken := true
		x := delta.NewTransaction(delta.New(&flaky{Store: store, fail: func(_ int, op, key string) (bool, error) {
			if broken && (op == "putIfAbsent" || op == "get") {
				return true, fmt.Errorf("%s %s: %w", op, key, objstore.ErrUnknownOutcome)
			}
			return false, nil
		}}), s)
		x.Add(add("a"))
		out, err := x.Commit(ctx)
		if out.Committed || !errors.Is(err, objstore.ErrUnknownOutcome) {
			t.Fatalf("%+v, %v", out, err)
		}
		// A reader that comes on the commit: it is ours.
		newer, err := table.Update(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		var conflict *delta.ConflictError
		if err := x.Rebase(newer); !errors.As(err, &conflict) || conflict.Rule != delta.RuleOwnCommit {
			t.Errorf("rebase: %v", err)
		}
		broken = false
		if s := commit(t, x); s.Version() != 1 || files(s) != "a" {
			t.Error(s)
		}
		if versions, err := table.Versions(ctx); err != nil || len(versions) != 2 {
			t.Errorf("%v, %v", versions, err)
		}
	})
}

// TestAStaleWriterFillsNoHole: after a log cleanup the commit file that would
// follow an old base is gone, and putting it there would succeed.
func TestAStaleWriterFillsNoHole(t *testing.T) {
	c := newClock()
	store, table, s := newTable(t, c)
	stale := delta.NewTransaction(table, s)
	stale.Add(add("stale"))
	last := s
	for i := range 5 {
		c.advance(time.Hour)
		x := delta.NewTransaction(table, last)
		x.Add(add(fmt.Sprint("f", i)))
		last = commit(t, x)
	}
	if _, err := table.Checkpoint(ctx, last, delta.CheckpointOptions{}); err != nil {
		t.Fatal(err)
	}
	c.advance(2 * time.Hour)
	if _, err := table.CleanLog(ctx, delta.CleanOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(ctx, deltalog.CommitKey(1)); !errors.Is(err, objstore.ErrNotExist) {
		t.Fatalf("version 1 is still there: %v", err)
	}
	out, err := stale.Commit(ctx)
	if err != nil || out.Conflict == nil || out.Conflict.Version != 5 {
		t.Errorf("%+v, %v", out, err)
	}
	if newer, err := table.Update(ctx, s); err != nil || newer.Version() != 5 || files(newer) != files(last) {
		t.Errorf("update of the stale snapshot: %v, %v", newer, err)
	}
	create := delta.NewTransaction(table, nil)
	create.SetMetadata(metadata("again"))
	create.SetProtocol(delta.ProtocolFor())
	if out, err := create.Commit(ctx); err != nil || out.Conflict == nil {
		t.Errorf("created over it: %+v, %v", out, err)
	}
}

func TestUpdateReadsOnlyWhatIsNew(t *testing.T) {
	store, table, s := newTable(t, newClock())
	x := delta.NewTransaction(table, s)
	x.Add(add("a"))
	commit(t, x)
	var ops []string
	counted := delta.New(&flaky{Store: store, fail: func(_ int, op, key string) (bool, error) {
		ops = append(ops, op+" "+strings.TrimPrefix(key, deltalog.Dir))
		return false, nil
	}}, delta.WithClock(newClock().now))
	newer, err := counted.Update(ctx, s)
	if err != nil || files(newer) != "a" {
		t.Fatalf("%v, %v", newer, err)
	}
	if want := []string{"get 00000000000000000001.json", "list "}; !slices.Equal(ops, want) {
		t.Errorf("calls %q", ops)
	}
	ops = nil
	same, err := counted.Update(ctx, newer)
	if err != nil || same != newer {
		t.Errorf("%v, %v", same, err)
	}
	if want := []string{"get 00000000000000000002.json"}; !slices.Equal(ops, want) {
		t.Errorf("calls %q", ops)
	}
}

func TestADamagedCommitIsNamed(t *testing.T) {
	store, table, _ := newTable(t, newClock())
	if err := store.Put(ctx, deltalog.CommitKey(1), []byte(`{"add":{"path":"a","size":`)); err != nil {
		t.Fatal(err)
	}
	_, err := table.Snapshot(ctx)
	if !errors.Is(err, delta.ErrCorrupt) || !strings.Contains(fmt.Sprint(err), "00000000000000000001.json: corrupt Delta log: line 1") {
		t.Errorf("%v", err)
	}
}
