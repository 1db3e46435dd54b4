package savepoint_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/selfsum"
	"github.com/gscd-io/gscd/savepoint"
)

// damage is done to a store; it gives the key that the fault must name, "" for none.
type damage func(t *testing.T, s *mem.Store) (key string)

func remove(parts ...string) damage {
	return func(t *testing.T, s *mem.Store) string {
		key := first(t, s, parts...)
		if err := s.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
		return key
	}
}

// alter replaces the bytes of an object.
func alter(edit func([]byte) []byte, parts ...string) damage {
	return func(t *testing.T, s *mem.Store) string {
		key := first(t, s, parts...)
		data, err := s.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put(ctx, key, edit(data)); err != nil {
			t.Fatal(err)
		}
		return key
	}
}

func first(t *testing.T, s *mem.Store, parts ...string) string {
	t.Helper()
	if strings.HasPrefix(parts[0], deltalog.Dir) && len(parts) == 1 {
		return parts[0]
	}
	found := keysWith(s, parts...)
	if len(found) == 0 {
		t.Fatalf("no key with %v", parts)
	}
	return found[0]
}

// naming is damage of which the fault names another file than the one damaged.
func naming(key string, do damage) damage {
	return func(t *testing.T, s *mem.Store) string {
		do(t, s)
		return key
	}
}

func half(b []byte) []byte { return b[:len(b)/2] }

func flip(b []byte) []byte {
	b[min(len(b)/3, 100)] ^= 0x55 // in a data file: inside the first page
	return b
}

func garbled([]byte) []byte { return []byte("{\"garbled") }

// Every kind of damage is found, named, and put right where that is possible.
func TestCheckFindsDamage(t *testing.T) {
	g := fiveDays(t) // days sealed by 1, 3, 5, 7; 8 is the newest
	g.vacuum(savepoint.VacuumOptions{})
	table, s, _ := g.newest()
	if _, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{}); err != nil {
		t.Fatal(err)
	}
	before := g.pinned()
	commit, checkpoint := deltalog.CommitKey, deltalog.CheckpointKey
	for name, c := range map[string]struct {
		do       damage
		check    string
		severity savepoint.Severity
		deep     bool // found by --deep only
		repaired bool
	}{
		"data file missing":         {remove("part-"), "file", savepoint.SeverityError, false, false},
		"data file cut":             {alter(half, "part-"), "file", savepoint.SeverityError, false, false},
		"data file rotten":          {alter(flip, "part-"), "rows", savepoint.SeverityError, true, false},
		"deletion vector missing":   {remove("deletion_vector"), "file", savepoint.SeverityError, false, false},
		"deletion vector cut":       {alter(half, "deletion_vector"), "file", savepoint.SeverityError, false, false},
		"deletion vector rotten":    {alter(flip, "deletion_vector"), "rows", savepoint.SeverityError, true, false},
		"island's commit missing":   {remove(commit(3)), "island", savepoint.SeverityError, false, true},
		"island's commit torn":      {alter(half, commit(3)), "island", savepoint.SeverityError, false, true},
		"island's checkpoint gone":  {remove(checkpoint(3)), "island", savepoint.SeverityError, false, true},
		"island's checkpoint cut":   {alter(half, checkpoint(3)), "checkpoint", savepoint.SeverityError, false, true},
		"island's checkpoint empty": {alter(func([]byte) []byte { return nil }, checkpoint(3)), "checkpoint", savepoint.SeverityError, false, true},
		"newest checkpoint cut":     {alter(half, checkpoint(8)), "checkpoint", savepoint.SeverityWarning, false, true},
		"newest checkpoint missing": {naming(deltalog.HintKey, remove(checkpoint(8))), "checkpoint", savepoint.SeverityWarning, false, true},
		"newest commit torn":        {alter(half, commit(8)), "map", savepoint.SeverityError, false, false},
		"newest commit garbled":     {alter(garbled, commit(8)), "map", savepoint.SeverityError, false, false},
		"hint missing":              {remove(deltalog.HintKey), "checkpoint", savepoint.SeverityWarning, false, true},
		"hint garbled":              {alter(garbled, deltalog.HintKey), "checkpoint", savepoint.SeverityWarning, false, true},
		"hint to nowhere":           {alter(func([]byte) []byte { return []byte(`{"version":6,"size":3}`) }, deltalog.HintKey), "checkpoint", savepoint.SeverityWarning, false, true},
		"held changes missing":      {remove("/held/"), "held", savepoint.SeverityError, false, false},
		"held changes cut":          {alter(half, "/held/"), "held", savepoint.SeverityError, false, false},
		"held changes rotten":       {alter(flip, "/held/"), "held", savepoint.SeverityError, true, false},
		"delete markers missing":    {remove("/markers/"), "marker", savepoint.SeverityError, false, false},
		"delete markers rotten":     {alter(flip, "/markers/"), "marker", savepoint.SeverityError, true, false},
		"backup rotten":             {alter(half, savepoint.BackupFolder, "v5.checkpoint"), "backup", savepoint.SeverityWarning, true, true},
		"backup empty":              {alter(func([]byte) []byte { return nil }, savepoint.BackupFolder, "v5.commit"), "backup", savepoint.SeverityWarning, false, true},
		"seal of another label":     {naming("", alter(otherSeal, commit(3))), "seal", savepoint.SeverityError, false, false},
		"commit loses its txn":      {alter(lastLine, commit(3)), "island", savepoint.SeverityError, false, true},
		"commit without its txn":    {alter(func(b []byte) []byte { return signed(lastLine(b)) }, commit(3)), "backup", savepoint.SeverityWarning, false, false},
		"newest commit loses lines": {lastLines(func(b []byte) []byte { return b }), "log", savepoint.SeverityError, false, false},
		"newest commit lacks lines": {lastLines(signed), "savepoint", savepoint.SeverityError, false, false},
		"checkpoint of another day": {func(t *testing.T, s *mem.Store) string {
			data, err := s.Get(ctx, checkpoint(5))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Put(ctx, checkpoint(3), data); err != nil {
				t.Fatal(err)
			}
			return commit(3)
		}, "savepoint", savepoint.SeverityError, false, false},
		"properties weakened": {weaken, "properties", savepoint.SeverityWarning, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			store := g.store.Clone()
			key := c.do(t, store)
			shallow := faults(t, store, savepoint.CheckOptions{})
			if c.deep && len(shallow.Faults) > 0 {
				t.Errorf("found without reading: %+v", shallow.Faults)
			}
			found := faults(t, store, savepoint.CheckOptions{Deep: true})
			wanted := func(f savepoint.Fault) bool {
				return f.Check == c.check && f.Severity == c.severity && (key == "" || f.File == key || f.File == "" && strings.Contains(f.Message, key)) && f.Message != "" && f.Repair != "" && !f.Repaired
			}
			if !slices.ContainsFunc(found.Faults, wanted) {
				t.Errorf("want %s %s of %s, found %+v", c.severity, c.check, key, found.Faults)
			}
			if !c.deep && !slices.ContainsFunc(shallow.Faults, wanted) {
				t.Errorf("not found without --deep: %+v", shallow.Faults)
			}
			after := faults(t, store, savepoint.CheckOptions{Deep: true, Repair: true})
			if repaired := after.Open() == 0; repaired != c.repaired {
				t.Errorf("repaired: %v, want %v: %+v", repaired, c.repaired, after.Faults)
			}
			if !c.repaired {
				return
			}
			if left := faults(t, store, savepoint.CheckOptions{Deep: true}); len(left.Faults) > 0 {
				t.Errorf("left after the repair: %+v", left.Faults)
			}
			mended := &rig{t: t, store: store}
			if got := mended.pinned(); !maps.Equal(before, got) {
				t.Errorf("rows after the repair: %v\nwant %v", got, before)
			}
		})
	}
}

func faults(t *testing.T, store *mem.Store, o savepoint.CheckOptions) *savepoint.CheckReport {
	t.Helper()
	o.Now = time.Now()
	report, err := savepoint.Check(ctx, open(t, store), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// otherSeal makes a seal's commit one of another label.
func otherSeal(b []byte) []byte {
	return signed(bytes.Replace(b, []byte(`"seals":[{"label":`), []byte(`"seals":[{"label":9`), 1))
}

var sumOfCommit = regexp.MustCompile(`"sha256":"[0-9a-f]{64}"`)

// signed gives a commit that was changed the sum of its bytes: who changes one on
// purpose, or a program that does wrong, writes such ones.
func signed(b []byte) []byte {
	b = sumOfCommit.ReplaceAll(b, []byte(`"sha256":"`+selfsum.Zeros+`"`))
	selfsum.Commit.Set(b)
	return b
}

// lastLine cuts the last line off.
func lastLine(b []byte) []byte { return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1] }

// lastLines cuts the newest commit between two lines, and takes the checkpoint that
// would hide it.
func lastLines(then func([]byte) []byte) damage {
	return func(t *testing.T, store *mem.Store) string {
		if err := store.Delete(ctx, deltalog.CheckpointKey(8)); err != nil {
			t.Fatal(err)
		}
		return alter(func(b []byte) []byte { return then(lastLine(lastLine(b))) }, deltalog.CommitKey(8))(t, store)
	}
}

// weaken does what ALTER TABLE of another engine would do.
func weaken(t *testing.T, store *mem.Store) string {
	table := open(t, store)
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tx := delta.NewTransaction(table, s)
	meta := *s.Metadata()
	meta.Configuration = maps.Clone(meta.Configuration)
	meta.Configuration[delta.PropertyDeletedFileRetention] = "interval 7 days"
	delete(meta.Configuration, delta.PropertyExpiredLogCleanup)
	tx.SetMetadata(meta)
	tx.SetCommitInfo("SET TBLPROPERTIES", nil, nil, nil)
	if _, err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	return ""
}

// Both weakened properties are named, and set in one commit.
func TestCheckProperties(t *testing.T) {
	g := fiveDays(t)
	weaken(t, g.store)
	_, s, _ := g.newest()
	var said []string
	for _, f := range faults(t, g.store, savepoint.CheckOptions{Repair: true}).Faults {
		said = append(said, f.Message+" / "+f.Repair)
	}
	want := []string{
		fmt.Sprintf(`delta.deletedFileRetentionDuration: it is "interval 7 days"; less than 3650 days lets other engines remove files of savepoints / done: set by version %d`, s.Version()+1),
		fmt.Sprintf(`delta.enableExpiredLogCleanup: it is not set, not "false": other engines may clean the log that savepoints need / done: set by version %d`, s.Version()+1),
	}
	if !slices.Equal(said, want) {
		t.Errorf("said %q\nwant %q", said, want)
	}
	g.check()
	// Nine years on the properties do not reach the oldest savepoint for long.
	late := savepoint.CheckOptions{Now: time.Now().AddDate(9, 1, 0), Repair: true}
	report, err := savepoint.Check(ctx, g.table(), late)
	if err != nil || len(report.Faults) != 1 || !report.Faults[0].Repaired || !strings.Contains(report.Faults[0].Message, "2022-07-01 is 33") {
		t.Fatalf("nine years on: %+v, %v", report, err)
	}
	if report, err = savepoint.Check(ctx, g.table(), late); err != nil || len(report.Faults) > 0 {
		t.Errorf("after the repair: %+v, %v", report, err)
	}
}

// CREATE OR REPLACE of another engine takes the properties and the rows, and with Trino
// the protocol's features too. A repair brings them back, and with them the way back to
// the rows.
func TestCheckReplacedTable(t *testing.T) {
	for engine, c := range map[string]struct {
		configuration map[string]string
		protocol      *action.Protocol
		vectors       bool // removes name the deletion vectors
	}{
		"Spark": {map[string]string{}, nil, true},
		"Trino": {map[string]string{delta.PropertyDeletionVectors: "false"}, &action.Protocol{MinReaderVersion: 3, MinWriterVersion: 7}, false},
	} {
		t.Run(engine, func(t *testing.T) {
			g := fiveDays(t)
			before := g.pinned()
			_, s, _ := g.newest()
			meta := *s.Metadata()
			meta.Configuration = c.configuration
			commit := action.Commit{Info: json.RawMessage(`{"operation":"CREATE OR REPLACE TABLE AS SELECT"}`), Protocol: c.protocol, Metadata: &meta}
			for _, add := range s.Files() {
				r := delta.RemoveOf(add, time.Now(), true)
				if !c.vectors {
					r.DeletionVector = nil
				}
				commit.Removes = append(commit.Removes, r)
			}
			if err := g.store.PutIfAbsent(ctx, deltalog.CommitKey(s.Version()+1), commit.Append(nil)); err != nil {
				t.Fatal(err)
			}
			found := faults(t, g.store, savepoint.CheckOptions{Deep: true})
			for _, check := range []string{"settings", "properties"} {
				if !slices.ContainsFunc(found.Faults, func(f savepoint.Fault) bool { return f.Check == check && f.Repair != "" }) {
					t.Errorf("no fault of %s: %+v", check, found.Faults)
				}
			}
			if after := faults(t, g.store, savepoint.CheckOptions{Repair: true}); after.Open() > 0 {
				t.Errorf("not repaired: %+v", after.Faults)
			}
			g.check()
			g.rollback("2022-07-04", savepoint.RollbackOptions{})
			g.ingest()
			if got := g.pinned(); !maps.Equal(got, before) {
				t.Errorf("after the rollback and the replay: %v\nwant %v", got, before)
			}
			g.check()
		})
	}
}

// A table of another program is not a broken one of gscd.
func TestCheckForeign(t *testing.T) {
	store := mem.New()
	tx := delta.NewTransaction(delta.New(store), nil)
	tx.SetProtocol(delta.ProtocolFor())
	tx.SetMetadata(action.Metadata{ID: "other", Format: action.Format{Provider: "parquet"}, SchemaString: `{"type":"struct","fields":[]}`, PartitionColumns: []string{}, Configuration: map[string]string{}})
	if _, err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if report, err := savepoint.Check(ctx, open(t, store), savepoint.CheckOptions{Repair: true}); !errors.Is(err, savepoint.ErrForeign) {
		t.Errorf("%+v, %v; want ErrForeign", report, err)
	}
}

// The newest seal is lost with everything after it: the table answers as if it
// had never been, and only the backup tells.
func TestCheckLostCommits(t *testing.T) {
	g := fiveDays(t)
	before := g.pinned()
	for _, key := range []string{deltalog.CommitKey(7), deltalog.CheckpointKey(7), deltalog.CommitKey(8)} {
		if err := g.store.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	report := faults(t, g.store, savepoint.CheckOptions{})
	if !slices.ContainsFunc(report.Faults, func(f savepoint.Fault) bool {
		return f.Check == "log" && f.Version == 7 && strings.Contains(f.Message, "commits were lost")
	}) {
		t.Fatalf("found %+v", report.Faults)
	}
	if after := faults(t, g.store, savepoint.CheckOptions{Repair: true}); after.Open() > 0 {
		t.Fatalf("not repaired: %+v", after.Faults)
	}
	if got := g.pinned(); got["2022-07-04"] != before["2022-07-04"] {
		t.Errorf("rows of the label that was lost: %s", got["2022-07-04"])
	}
	g.ingest()
	if got := g.pinned(); !maps.Equal(got, before) {
		t.Errorf("after ingest: %v\nwant %v", got, before)
	}
	g.check()
}

// An ingester that dies between a seal and its checkpoint leaves no fault, and a
// repair writes what is missing.
func TestCheckUnfinishedSeal(t *testing.T) {
	g := fiveDays(t)
	for _, key := range append(keysWith(g.store, savepoint.BackupFolder, "v7."), deltalog.CheckpointKey(5)) {
		if err := g.store.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	report := faults(t, g.store, savepoint.CheckOptions{Deep: true})
	if len(report.Faults) > 0 || !slices.Equal(report.Unfortified, []int64{5}) || !slices.Equal(report.NotBackedUp, []int64{7}) {
		t.Errorf("found %+v", report)
	}
	faults(t, g.store, savepoint.CheckOptions{Repair: true})
	report = faults(t, g.store, savepoint.CheckOptions{Deep: true})
	if len(report.Faults)+len(report.Unfortified)+len(report.NotBackedUp) > 0 {
		t.Errorf("after the repair: %+v", report)
	}
}

// A writer that ends between the table's first checkpoint and _last_checkpoint leaves nothing
// to be put right; a repair writes it all the same.
func TestCheckFirstCheckpoint(t *testing.T) {
	g := fiveDays(t)
	for _, key := range keysWith(g.store, "_delta_log/0", ".checkpoint.")[1:] {
		if err := g.store.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.store.Delete(ctx, deltalog.HintKey); err != nil {
		t.Fatal(err)
	}
	if found := faults(t, g.store, savepoint.CheckOptions{Deep: true}); len(found.Faults) > 0 {
		t.Errorf("found %+v", found.Faults)
	}
	faults(t, g.store, savepoint.CheckOptions{Repair: true})
	if _, ok, err := deltalog.ReadHint(ctx, g.store); err != nil || !ok {
		t.Errorf("the repair left no hint: %v", err)
	}
}

// A label that no txn names is a gap, and the table must not answer around it.
func TestCheckGap(t *testing.T) {
	g := fiveDays(t)
	for _, key := range append(keysWith(g.store, "_delta_log/0", ".checkpoint."), deltalog.HintKey) {
		if err := g.store.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	alter(func(b []byte) []byte {
		return signed(bytes.ReplaceAll(b, []byte("gscd.seal/2022-07-02"), []byte("gscd.seal/2022-07-01")))
	}, deltalog.CommitKey(3))(t, g.store)
	found := faults(t, g.store, savepoint.CheckOptions{})
	if !slices.ContainsFunc(found.Faults, func(f savepoint.Fault) bool {
		return f.Check == "map" && strings.Contains(f.Message, "label 2022-07-02 lies between")
	}) {
		t.Errorf("found %+v", found.Faults)
	}
}

// The digest is of files and vectors alone, whatever their order.
func TestDigest(t *testing.T) {
	g := fiveDays(t)
	table, _, m := g.newest()
	for _, e := range m.Entries[:4] {
		ev, err := m.Evidence(ctx, table, e)
		if err != nil {
			t.Fatal(err)
		}
		s, err := table.SnapshotAt(ctx, e.Version)
		if err != nil {
			t.Fatal(err)
		}
		if got := savepoint.Digest(s); got != ev.Digest || len(got) != 64 {
			t.Errorf("%s: digest %s, the evidence says %s", e.Name, got, ev.Digest)
		}
	}
}

// Without a checkpoint of its own a newest version that can't be read is the one
// fault there is, and a backup may mend it.
func TestCheckNewest(t *testing.T) {
	g := fiveDays(t)
	before := g.pinned()
	store := g.store.Clone()
	key := alter(half, deltalog.CommitKey(8))(t, store)
	report := faults(t, store, savepoint.CheckOptions{Repair: true})
	if len(report.Faults) != 1 || report.Faults[0].Check != "log" || report.Open() != 1 || !strings.Contains(report.Faults[0].Message, key) {
		t.Errorf("a torn batch: %+v", report.Faults)
	}
	if err := g.store.Delete(ctx, deltalog.CommitKey(8)); err != nil { // so that the newest is a seal
		t.Fatal(err)
	}
	alter(half, deltalog.CheckpointKey(7))(t, g.store)
	key = alter(half, deltalog.CommitKey(7))(t, g.store)
	report = faults(t, g.store, savepoint.CheckOptions{})
	if len(report.Faults) != 1 || report.Faults[0].Check != "log" || !strings.Contains(report.Faults[0].Message, key) {
		t.Errorf("a torn seal: %+v", report.Faults)
	}
	report = faults(t, g.store, savepoint.CheckOptions{Repair: true})
	if report.Open() != 0 {
		t.Errorf("a torn seal that has a backup: %+v", report.Faults)
	}
	g.ingest()
	if got := g.pinned(); !maps.Equal(got, before) {
		t.Errorf("after the repair: %v\nwant %v", got, before)
	}
	g.check()
}
