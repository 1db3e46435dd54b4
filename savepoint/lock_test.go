package savepoint_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/clone"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/savepoint"
)

// protect lets the rig's ingester have protect: lock or another one.
func (g *rig) protect(as string) {
	g.options = func(o *ingest.Options) {
		o.Protect, o.Backup = as, false
		o.Properties = map[string]string{savepoint.PropertyProtect: as}
	}
}

// lockedTable opens the rig's table as gscd's commands do.
func (g *rig) lockedTable() *delta.Table {
	g.t.Helper()
	table, err := savepoint.OpenTable(ctx, g.store)
	if err != nil {
		g.t.Fatal(err)
	}
	return table
}

func (g *rig) protocol() (reader, writer int32, features []string) {
	_, s, _ := g.newest()
	p := s.Protocol()
	return p.MinReaderVersion, p.MinWriterVersion, p.WriterFeatures
}

// Whoever does not know the feature writes nothing and removes nothing, and reads all;
// every command of gscd works, and leaves the feature there.
func TestLock(t *testing.T) {
	for _, copyOnWrite := range []bool{false, true} {
		g := newRig(t)
		g.protect("lock")
		as := g.options
		g.options = func(o *ingest.Options) { as(o); o.CopyOnWrite = copyOnWrite }
		for d := 1; d <= 5; d++ {
			g.day(d, 1, 2, 3, d)
			g.ingest()
		}
		reader, writer, features := g.protocol()
		wantReader, want := int32(1), []string{"gscdSavepoints", "appendOnly", "invariants"}
		if !copyOnWrite {
			wantReader, want = 3, []string{"gscdSavepoints", "deletionVectors", "appendOnly", "invariants"}
		}
		if reader != wantReader || writer != 7 || !slices.Equal(features, want) {
			t.Errorf("protocol %d, %d, %v; want %d, 7, %v", reader, writer, features, wantReader, want)
		}
		before := g.pinned()
		foreign, s, _ := g.newest()
		for what, do := range map[string]func(table *delta.Table) error{
			"vacuum": func(table *delta.Table) error {
				_, err := delta.Vacuum(ctx, table, delta.VacuumOptions{Grace: 1, Now: time.Now().Add(time.Hour)})
				return err
			},
			"clean log": func(table *delta.Table) error {
				_, err := table.CleanLog(ctx, delta.CleanOptions{Now: time.Now(), KeepSince: time.Now()})
				return err
			},
			"checkpoint": func(table *delta.Table) error {
				_, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{})
				return err
			},
			"optimize": func(table *delta.Table) error {
				_, err := layout.Optimize(ctx, table, layout.Options{})
				return err
			},
			"commit": func(table *delta.Table) error {
				tx := delta.NewTransaction(table, s)
				tx.SetMetadata(*s.Metadata())
				_, err := tx.Commit(ctx)
				return err
			},
		} {
			if err := do(foreign); !errors.Is(err, delta.ErrUnsupportedFeature) {
				t.Errorf("%s by who does not know the feature: %v", what, err)
			}
		}
		if err := func() error { _, err := layout.Optimize(ctx, g.lockedTable(), layout.Options{}); return err }(); err != nil {
			t.Error(err)
		}
		if _, err := savepoint.Vacuum(ctx, g.lockedTable(), savepoint.VacuumOptions{Now: time.Now().Add(time.Hour), Grace: 1}); err != nil {
			t.Error(err)
		}
		if _, err := savepoint.Rollback(ctx, g.lockedTable(), "2022-07-03", savepoint.RollbackOptions{Now: time.Now()}); err != nil {
			t.Error(err)
		}
		g.ingest()
		got := g.pinned()
		maps.DeleteFunc(got, func(name, _ string) bool { return strings.Contains(name, "@") }) // rolled back, and kept
		if !maps.Equal(got, before) {
			t.Errorf("behind all of that: %v\nwant %v", got, before)
		}
		if _, _, now := g.protocol(); !slices.Equal(now, want) {
			t.Errorf("features %v, want %v", now, want)
		}
		if report, err := savepoint.Check(ctx, g.lockedTable(), savepoint.CheckOptions{Deep: true, Now: time.Now()}); err != nil || len(report.Faults)+len(report.NotBackedUp) > 0 {
			t.Errorf("%+v, %v", report, err)
		}

		_, s, _ = g.newest()
		copied := mem.New()
		report, err := clone.Clone(ctx, foreign, s, delta.New(copied), clone.Options{Deep: true, LeaveFeatures: []string{savepoint.FeatureLock}})
		if err != nil {
			t.Fatal(err)
		}
		if p := report.Snapshot.Protocol(); slices.Contains(p.WriterFeatures, savepoint.FeatureLock) || copyOnWrite && p.MinWriterVersion != 2 {
			t.Errorf("the copy has %+v", p)
		}
	}
}

// The setting of the configuration is put into a table that is there, and taken out
// again, with nothing left of it. Without a setting the table keeps what it has.
func TestLockFollowsTheSetting(t *testing.T) {
	g := newRig(t)
	var began []string
	for i, step := range []struct {
		as     string
		locked bool
	}{{"backup", false}, {"lock", true}, {"", true}, {"none", false}, {"lock", true}, {"backup", false}} {
		g.protect(step.as)
		g.day(i+1, 1, 2, i)
		g.ingest()
		_, s, _ := g.newest()
		if savepoint.Locked(s) != step.locked {
			t.Errorf("protect %q: %+v", step.as, s.Protocol())
		}
		if protect, _ := s.Property(savepoint.PropertyProtect); step.as != "" && protect != step.as {
			t.Errorf("protect %q: the property is %q", step.as, protect)
		}
		if began == nil {
			began = s.Protocol().WriterFeatures
		} else if !step.locked && !slices.Equal(s.Protocol().WriterFeatures, began) {
			t.Errorf("protect %q leaves %v, at first it was %v", step.as, s.Protocol().WriterFeatures, began)
		}
		version := s.Version()
		g.ingest()
		if _, s, _ = g.newest(); s.Version() != version {
			t.Errorf("protect %q: started again, it commits anew", step.as)
		}
		report, err := savepoint.Check(ctx, g.lockedTable(), savepoint.CheckOptions{Now: time.Now()})
		if err != nil || len(report.Faults) > 0 {
			t.Errorf("protect %q: %+v, %v", step.as, report, err)
		}
	}
	// Days that were sealed while the setting asked for none have no backup.
	backups := keysWith(g.store, savepoint.BackupFolder, ".commit")
	if len(backups) != 4 {
		t.Errorf("backups of %d days: %v", len(backups), backups)
	}
}

// The feature and the setting contradict each other: check says so, and repairs it.
func TestCheckLock(t *testing.T) {
	for _, locked := range []bool{true, false} {
		g := newRig(t)
		g.protect("lock")
		g.day(1, 1, 2, 3)
		g.day(2, 1)
		g.ingest()
		table := g.lockedTable()
		s, err := table.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		tx := delta.NewTransaction(table, s)
		if locked {
			meta := *s.Metadata()
			meta.Configuration = maps.Clone(meta.Configuration)
			meta.Configuration[savepoint.PropertyProtect] = "backup"
			tx.SetMetadata(meta)
		} else {
			tx.SetProtocol(delta.WithoutFeature(*s.Protocol(), savepoint.FeatureLock))
		}
		if _, err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		found := func(o savepoint.CheckOptions) (list []savepoint.Fault) {
			report, err := savepoint.Check(ctx, table, o)
			if err != nil {
				t.Fatal(err)
			}
			return report.Faults
		}
		if list := found(savepoint.CheckOptions{}); len(list) != 1 || list[0].Check != "lock" || list[0].Repaired || list[0].Severity != savepoint.SeverityWarning {
			t.Errorf("locked %v: %+v", locked, list)
		}
		if list := found(savepoint.CheckOptions{Repair: true}); len(list) != 1 || !list[0].Repaired {
			t.Errorf("locked %v: %+v", locked, list)
		}
		if list := found(savepoint.CheckOptions{}); len(list) > 0 {
			t.Errorf("locked %v: after the repair %+v", locked, list)
		}
		if s, err = table.Snapshot(context.Background()); err != nil || savepoint.Locked(s) == locked {
			t.Errorf("locked %v: %+v, %v", locked, s.Protocol(), err)
		}
	}
}
