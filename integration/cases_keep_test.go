package integration

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/savepoint"
)

// vacuum runs `gscd vacuum`.
func (r *rig) vacuum(o savepoint.VacuumOptions) *savepoint.VacuumReport {
	r.t.Helper()
	if o.Grace == 0 {
		o.Grace = time.Hour
	}
	if o.RolledBack == 0 {
		o.RolledBack = 30 * 24 * time.Hour
	}
	report, err := savepoint.Vacuum(ctx, r.table(), o)
	if err != nil {
		r.t.Fatalf("vacuum: %v", err)
	}
	return report
}

// checkFaults runs `gscd check`.
func (r *rig) checkFaults() []savepoint.Fault {
	r.t.Helper()
	report, err := savepoint.Check(ctx, r.table(), savepoint.CheckOptions{Now: time.Now()})
	if err != nil {
		r.t.Fatal(err)
	}
	return report.Faults
}

func deletedKeys(report *savepoint.VacuumReport) []string {
	var keys []string
	for _, g := range report.Deleted {
		keys = append(keys, g.Key)
	}
	slices.Sort(keys)
	return keys
}

// objectsOf lists the data files and deletion vectors that a version refers to.
func (r *rig) objectsOf(version int64) map[string]bool {
	r.t.Helper()
	s, err := r.table().SnapshotAt(ctx, version)
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string]bool{}
	for _, a := range s.Files() {
		out[a.Path] = true
		if a.DeletionVector == nil {
			continue
		}
		key, stored, err := delta.VectorKey(a.DeletionVector)
		if err != nil {
			r.t.Fatal(err)
		}
		if stored {
			out[key] = true
		}
	}
	return out
}

// twentyRows gives the records of case 19: twenty rows on the first day, and one
// of them changed on each day.
func twentyRows(t testing.TB, days []string) []*change.Record {
	t.Helper()
	records := numbered(t, 0, 0, 20, days[0]+"T09:00:00+08:00")
	for i, day := range days {
		at := instant(t, day+"T12:00:00+08:00").UnixMilli()
		offset := int64(len(records))
		from := records[i+1]
		records = append(records, edited(t, from, offset, at+400,
			`"op":"c"`, `"op":"u"`, `"level":1`, fmt.Sprintf(`"level":%d`, 2+i), fmt.Sprintf(`"pos":%d`, 100+100*(i+1)), fmt.Sprintf(`"pos":%d`, 90000+i),
			fmt.Sprintf(`"ts_ms":%d,"file"`, from.Timestamp-400), fmt.Sprintf(`"ts_ms":%d,"file"`, at)))
	}
	return records
}

func daysBetween(t testing.TB, first, last string) (days []string) {
	t.Helper()
	for day := instant(t, first+"T00:00:00Z"); !day.After(instant(t, last+"T00:00:00Z")); day = day.AddDate(0, 0, 1) {
		days = append(days, day.Format("2006-01-02"))
	}
	return days
}

// otherVacuums plays case 19 with the VACUUM of other engines, on tables that prepare
// makes, "merge on read" or "copy on write", with the rows as of each day. It is nil
// where there are no other engines.
var otherVacuums func(t *testing.T, prepare func(t *testing.T, mode string) (*rig, map[string][]row))

func TestCase19VacuumKeepsDays(t *testing.T) {
	t.Parallel()
	c := theCase(t, 19)
	var days, commands []string
	for _, s := range c.steps("Input") {
		switch s.kind {
		case "days":
			days = daysBetween(t, s.text("first"), s.text("last"))
		case "cli":
			command, _, _ := strings.Cut(s.text("cmd"), "#")
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	equal(t, "days", len(days), 7)
	sameList(t, "commands", commands, []string{
		"gscd optimize", "for d in 10..16: gscd query --as-of 2022-07-$d > before.$d", "gscd vacuum --retain 24h --dry-run", "gscd vacuum --retain 24h",
		"for d in 10..16: gscd query --as-of 2022-07-$d > after.$d", "gscd savepoint delete 2022-07-12 && gscd vacuum --retain 24h",
		"rm <one data file used only by 2022-07-13> ; gscd query --as-of 2022-07-13 ; gscd check",
	})
	localRig := func(t *testing.T, change ...func(*ingest.Options)) *rig {
		dir := t.TempDir()
		store, err := local.New(dir, local.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		return rigOn(t, store, mem.New(), newTopic(0), change...)
	}
	modes := map[string]func(*ingest.Options){
		"merge on read": func(*ingest.Options) {},
		"copy on write": func(o *ingest.Options) { o.CopyOnWrite = true },
	}
	// prepare gives the table of the case, and its rows as of each day.
	prepare := func(t *testing.T, mode func(*ingest.Options)) (*rig, map[string][]row) {
		r := localRig(t, mode)
		r.send(twentyRows(t, days)...)
		r.workAt("2022-07-17T00:20:00+08:00")
		sameList(t, "sealed", r.sealed(), days)
		live := r.current()
		report, err := layout.Optimize(ctx, r.table(), ingest.Layout(r.progress())) // `gscd optimize`
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "the version of the optimize", report.Snapshot.Version(), r.progress().LastSeal+1)
		equal(t, "files after the optimize", report.Snapshot.NumFiles(), 1)
		sameRows(t, "rows after the optimize", r.current(), live)
		before := map[string][]row{}
		for _, day := range days {
			before[day] = r.mustAsOf(day)
			equal(t, "rows of "+day, len(before[day]), 20)
		}
		return r, before
	}
	later := time.Now().AddDate(0, 0, 31) // objects have the time at which they were written
	same := func(t *testing.T, r *rig, days []string, before map[string][]row) {
		t.Helper()
		for _, day := range days {
			sameRows(t, "as of "+day, r.mustAsOf(day), before[day])
		}
	}
	for name, mode := range modes {
		c.Run(name, func(t *testing.T) {
			r, before := prepare(t, mode)
			there := r.objects()
			dry := r.vacuum(savepoint.VacuumOptions{Retain: 24 * time.Hour, Now: later, DryRun: true})
			sameList(t, "objects after a dry run", r.objects(), there)
			wet := r.vacuum(savepoint.VacuumOptions{Retain: 24 * time.Hour, Now: later})
			sameList(t, "deleted", deletedKeys(wet), deletedKeys(dry))
			for range c.expect(nil, "compare") {
				same(t, r, days, before)
			}
			equal(t, "faults after vacuum", len(r.checkFaults()), 0)

			after := step{fields: step{fields: c.expect(nil, "after_drop")[0].fields}.object("after_drop")}
			dropped := after.text("as_of")
			if _, err := savepoint.Delete(ctx, r.table(), dropped, time.Now()); err != nil {
				t.Fatal(err)
			}
			r.vacuum(savepoint.VacuumOptions{Retain: 24 * time.Hour, Now: later.AddDate(0, 0, 1)})
			_, _, err := r.asOf(dropped)
			if !errors.Is(err, savepoint.ErrDeleted) {
				t.Errorf("as of %s: %v", dropped, err)
			}
			says(t, err, after.text("says"))
			kept := slices.DeleteFunc(slices.Clone(days), func(d string) bool { return d == dropped })
			same(t, r, kept, before)

			// One object that the 13th alone refers to goes.
			const damaged = "2022-07-13"
			only, own := map[string]bool{}, int64(0)
			for _, e := range r.labels().Entries {
				if e.Name == damaged {
					only, own = r.objectsOf(e.Version), e.Version
				}
			}
			for _, e := range r.labels().Entries {
				if e.Version != own && (e.State == savepoint.Sealed || e.State == savepoint.Open) {
					for key := range r.objectsOf(e.Version) {
						delete(only, key)
					}
				}
			}
			if len(only) == 0 {
				t.Fatal("no object is the 13th's alone")
			}
			gone := slices.Sorted(maps.Keys(only))[0]
			if err := r.store.Store.Delete(ctx, gone); err != nil {
				t.Fatal(err)
			}
			for range c.expect(nil, "after_rm") {
				rows, _, err := r.asOf(damaged)
				if !errors.Is(err, scan.ErrFileMissing) {
					t.Errorf("as of %s: %d rows, %v", damaged, len(rows), err)
				}
				says(t, err, "file", "missing", gone)
				found := slices.ContainsFunc(r.checkFaults(), func(f savepoint.Fault) bool {
					return f.File == gone && f.Label == damaged && f.Severity == savepoint.SeverityError
				})
				if !found {
					t.Errorf("gscd check does not find %s: %+v", gone, r.checkFaults())
				}
			}
			same(t, r, slices.DeleteFunc(kept, func(d string) bool { return d == damaged }), before)
		})
	}
	c.theMust(1, func(t *testing.T) {
		// Three versions of the open day, each of which rewrites the one file.
		r := localRig(t, modes["copy on write"])
		first := numbered(t, 0, 0, 1, "2022-07-16T09:00:00+08:00")[0]
		for i := range 3 {
			r.send(edited(t, first, int64(i), 0, `"pos":100`, fmt.Sprintf(`"pos":%d`, 100+i), `"level":1`, fmt.Sprintf(`"level":%d`, i)))
			r.mustWork()
		}
		want := r.current()
		old := time.Now().AddDate(0, 0, -60)
		for _, key := range r.objects() {
			if strings.HasSuffix(key, ".parquet") && !strings.HasPrefix(key, "_delta_log/") {
				if err := os.Chtimes(filepath.Join(r.store.Store.String(), key), old, old); err != nil {
					t.Fatal(err)
				}
			}
		}
		in1h := r.vacuum(savepoint.VacuumOptions{Retain: 24 * time.Hour, Now: time.Now().Add(time.Hour + time.Minute)})
		sameList(t, "deleted an hour after the files were replaced", deletedKeys(in1h), nil)
		in25h := r.vacuum(savepoint.VacuumOptions{Retain: 24 * time.Hour, Now: time.Now().Add(25 * time.Hour)})
		equal(t, "data files deleted a day later", in25h.ByKind[delta.KindData].Files, 2)
		sameRows(t, "rows", r.current(), want)
	})
	c.theMust(2, func(t *testing.T) {
		// With a day's savepoint given up there is something to delete.
		r, _ := prepare(t, modes["copy on write"])
		if _, err := savepoint.Delete(ctx, r.table(), "2022-07-12", time.Now()); err != nil {
			t.Fatal(err)
		}
		there := r.objects()
		dry := deletedKeys(r.vacuum(savepoint.VacuumOptions{Retain: 24 * time.Hour, Now: later, DryRun: true}))
		r.vacuum(savepoint.VacuumOptions{Retain: 24 * time.Hour, Now: later})
		left := r.objects()
		gone := slices.DeleteFunc(there, func(key string) bool { return slices.Contains(left, key) })
		sameList(t, "gone from the store", gone, dry)
		if !slices.ContainsFunc(gone, func(key string) bool { return !strings.HasPrefix(key, "_delta_log/") }) {
			t.Errorf("no data file went: %v", gone)
		}
	})
	c.theMust(3, func(t *testing.T) {
		r, _ := prepare(t, modes["copy on write"])
		s, err := r.table().Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range delta.ProtectiveProperties(3650) {
			got, _ := s.Property(name)
			equal(t, name, got, value)
		}
		live := r.current()
		// A vacuum that overrides them keeps the files of the newest version alone.
		newest := r.objectsOf(s.Version())
		for _, key := range r.objects() {
			if !strings.HasPrefix(key, "_delta_log/") && !newest[key] {
				if err := r.store.Store.Delete(ctx, key); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, day := range days {
			if rows, _, err := r.asOf(day); !errors.Is(err, scan.ErrFileMissing) {
				t.Errorf("as of %s: %d rows, %v", day, len(rows), err)
			}
		}
		sameRows(t, "rows of the newest version", r.current(), live)
		if otherVacuums == nil {
			t.Log("left out: other engines' VACUUM, which needs them (build tag integration)")
			return
		}
		otherVacuums(t, func(t *testing.T, mode string) (*rig, map[string][]row) { return prepare(t, modes[mode]) })
	})
	c.theMust(4, func(t *testing.T) {
		r, _ := prepare(t, modes["merge on read"])
		there := slices.DeleteFunc(r.objects(), func(key string) bool { return strings.HasPrefix(key, "_delta_log/") })
		version, err := savepoint.Delete(ctx, r.table(), "2022-07-12", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "the newest version", r.log()[len(r.log())-1].version, version)
		left := slices.DeleteFunc(r.objects(), func(key string) bool { return strings.HasPrefix(key, "_delta_log/") })
		sameList(t, "files after the entry has gone", left, there)
	})
}

func TestCase20LogCleanupKeepsCheckpoint(t *testing.T) {
	c := theCase(t, 20)
	var versions step
	var now time.Time
	for _, s := range c.steps("Input") {
		switch s.kind {
		case "versions":
			versions = s
		case "clock":
			now = instant(t, s.text("now"))
		}
	}
	last, every := versions.int("last"), versions.int("checkpoint_every")
	const day, pinned = "2022-07-16", int64(17)
	if !strings.Contains(string(versions.fields["savepoints"]), fmt.Sprintf(`"%s":%d`, day, pinned)) {
		t.Fatalf("savepoints %s", versions.fields["savepoints"])
	}
	// One record a version: 0 to 16 are of the day, 17 is its seal.
	build := func(t *testing.T, expired int64) *rig {
		r := newRig(t, newTopic(0), func(o *ingest.Options) { o.BatchRows, o.PollRecords, o.CheckpointEvery = 1, 1, every })
		// Three keys in turn: so few live files are not joined.
		r.send(inTurn(numbered(t, 0, 0, int(pinned), day+"T09:00:00+08:00"), 3)...)
		r.workAt("2022-07-17T00:20:00+08:00")
		r.send(inTurn(numbered(t, 0, int(pinned), int(last-pinned), "2022-07-17T09:00:00+08:00"), 3)...)
		r.clock = instant(t, "2022-07-17T12:00:00+08:00")
		r.mustWork()
		equal(t, "versions", int64(len(r.log())), last+1)
		equal(t, "version of the savepoint", r.labels().Entries[0].Version, pinned)
		for _, key := range r.objects() {
			at := now.AddDate(0, -2, 0)
			var v int64
			if isCommit(key) {
				fmt.Sscanf(key, "_delta_log/%d.json", &v)
				if at = at.Add(time.Duration(v) * time.Minute); v >= expired {
					at = now.Add(-time.Hour * time.Duration(48-v))
				}
			}
			if err := r.store.Store.(*mem.Store).SetModified(key, at); err != nil {
				t.Fatal(err)
			}
		}
		return r
	}
	clean := savepoint.VacuumOptions{Retain: 7 * 24 * time.Hour, Now: now}
	whole := build(t, 20)
	want := whole.mustAsOf(day)
	r := rigOn(t, whole.store.Store.(*mem.Store).Clone(), mem.New(), whole.topic)
	report := r.vacuum(clean)
	for _, e := range c.expect(nil, "kept", "or_kept") {
		equal(t, "the second form", fmt.Sprint(e.strings(t, "or_kept")), "[checkpoint 17 entry 17]")
		names := r.logNames()
		for _, name := range []string{logName(pinned, ".checkpoint.parquet"), logName(pinned, ".json")} {
			if !slices.Contains(names, name) {
				t.Errorf("%s is gone: %v", name, names)
			}
		}
		for v := range pinned {
			if slices.Contains(names, logName(v, ".json")) {
				t.Errorf("entry %d has expired and stays", v)
			}
		}
		if len(report.Deleted) == 0 {
			t.Error("nothing was deleted")
		}
	}
	for _, e := range c.expect(nil, "as_of", "opens") {
		sameRows(t, "as of "+e.text("as_of"), r.mustAsOf(e.text("as_of")), want)
		equal(t, "faults", len(r.checkFaults()), 0)
	}
	for range c.expect(nil, "history") {
		checkHistory(t, r, pinned, 20, last)
	}
	c.theMust(1, func(t *testing.T) {
		there := r.objects()
		for key := range r.objectsOf(pinned) {
			if !slices.Contains(there, key) {
				t.Errorf("%s of version %d is gone", key, pinned)
			}
		}
		sameList(t, "pinned", r.labels().Pinned(), []int64{pinned})
	})
	c.theMust(2, func(t *testing.T) {
		// What a reader of the protocol starts from: the version's own commit and
		// checkpoint, and a hint that names one that is there.
		hint, err := r.store.Store.Get(ctx, "_delta_log/_last_checkpoint")
		if err != nil {
			t.Fatal(err)
		}
		named := parseRow(t, hint)
		if v := fmt.Sprint(named["version"]); !slices.ContainsFunc(r.logNames(), func(n string) bool {
			return strings.HasPrefix(n, fmt.Sprintf("%020s.checkpoint", v))
		}) {
			t.Errorf("the hint names checkpoint %s: %v", v, r.logNames())
		}
		t.Log("left out: other engines themselves")
	})
	c.theMust(3, func(t *testing.T) {
		deaths := 0
		for k := int64(0); ; k++ {
			r := rigOn(t, whole.store.Store.(*mem.Store).Clone(), mem.New(), whole.topic)
			r.killAfter(k)
			table, err := delta.Open(ctx, r.store)
			if err != nil {
				t.Fatal(err)
			}
			o := clean
			o.Grace, o.RolledBack = time.Hour, 24*time.Hour
			_, err = savepoint.Vacuum(ctx, table, o)
			r.store.hooks(nil, nil)
			sameRows(t, "as of "+day, r.mustAsOf(day), want)
			equal(t, "rows", len(r.current()), 3)
			checkHistory(t, r, pinned, 20, last)
			if t.Failed() {
				t.Fatalf("killed after %d writes", k)
			}
			if err == nil {
				break
			}
			if !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			deaths++
		}
		if deaths < 17 {
			t.Errorf("only %d deletes to be killed at", deaths)
		}
	})
	c.theMust(4, func(t *testing.T) {
		fresh := func() *rig {
			r := newRig(t, newTopic(0), func(o *ingest.Options) { o.BatchRows, o.PollRecords, o.CheckpointEvery = 1, 1, 2 })
			r.send(numbered(t, 0, 0, 6, day+"T09:00:00+08:00")...)
			r.clock = instant(t, "2022-07-17T12:00:00+08:00")
			return r
		}
		for k := int64(0); ; k++ {
			r := fresh()
			r.killAfter(k)
			err := r.work()
			r.store.hooks(nil, nil)
			if r.exists() {
				equal(t, fmt.Sprintf("killed after %d writes: rows", k), int64(len(r.current())), r.progress().Rows)
			}
			if err == nil {
				break
			}
		}
	})
}

// inTurn makes of creates of many keys changes of so few, each a level of its own.
func inTurn(records []*change.Record, keys int64) []*change.Record {
	for _, r := range records {
		id := fmt.Sprintf(`"id":%d`, r.Offset)
		for _, part := range []*[]byte{&r.Key, &r.Value} {
			*part = []byte(strings.ReplaceAll(string(*part), id, fmt.Sprintf(`"id":%d`, r.Offset%keys)))
		}
		r.Value = []byte(strings.Replace(string(r.Value), `"level":1`, fmt.Sprintf(`"level":%d`, r.Offset), 1))
	}
	return records
}

// checkHistory holds that every version that is listed opens, and that the
// pinned one and those since the retention are among them.
func checkHistory(t testing.TB, r *rig, pinned, since, last int64) {
	t.Helper()
	listed, err := r.table().Versions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range listed {
		if _, err := r.table().SnapshotAt(ctx, v); err != nil {
			t.Errorf("version %d is listed: %v", v, err)
		}
	}
	for v := since; v <= last; v++ {
		if !slices.Contains(listed, v) {
			t.Errorf("version %d is not listed: %v", v, listed)
		}
	}
	if !slices.Contains(listed, pinned) {
		t.Errorf("version %d is not listed: %v", pinned, listed)
	}
}

func logName(version int64, suffix string) string { return fmt.Sprintf("%020d%s", version, suffix) }

// logNames lists `_delta_log`.
func (r *rig) logNames() []string {
	r.t.Helper()
	var names []string
	for _, key := range r.objects() {
		if name, ok := strings.CutPrefix(key, "_delta_log/"); ok {
			names = append(names, name)
		}
	}
	return names
}
