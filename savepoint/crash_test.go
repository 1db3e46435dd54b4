package savepoint_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/faulty"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/savepoint"
)

// Whatever write a vacuum, a rollback, a pin or a repair ends with: what is pinned reads as
// before, check finds nothing, and the same again comes to its end.
func TestCrashAnywhere(t *testing.T) {
	g := fiveDays(t)
	g.rollback("2022-07-03", savepoint.RollbackOptions{})
	g.ingest()
	if _, err := savepoint.Delete(ctx, g.table(), "2022-07-02", time.Now()); err != nil {
		t.Fatal(err)
	}
	now := time.Now().Add(time.Hour)
	before := g.pinned()
	for name, do := range map[string]func(*delta.Table) error{
		"vacuum": func(table *delta.Table) error {
			_, err := savepoint.Vacuum(ctx, table, savepoint.VacuumOptions{RolledBack: time.Minute, Now: now})
			return err
		},
		"rollback": func(table *delta.Table) error {
			_, err := savepoint.Rollback(ctx, table, "2022-07-01", savepoint.RollbackOptions{Now: now})
			return err
		},
		"create": func(table *delta.Table) error {
			_, err := savepoint.CreateNamed(ctx, table, "here", -1)
			return err
		},
		"policy": func(table *delta.Table) error {
			_, _, err := savepoint.ApplyPolicy(ctx, table, savepoint.Policy{Text: "keep 1 day", Keep: savepoint.Span{N: 1, Unit: "day"}}, now)
			return err
		},
		"repair": func(table *delta.Table) error {
			_, err := savepoint.Check(ctx, table, savepoint.CheckOptions{Repair: true, Now: now})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(rules ...faulty.Rule) (*mem.Store, *faulty.Store, error) {
				store := g.store.Clone()
				if name == "repair" {
					damageSome(t, store)
				}
				failing := faulty.New(store, rules...)
				return store, failing, do(delta.New(failing))
			}
			_, sound, err := run()
			if err != nil {
				t.Fatal(err)
			}
			writes := sound.Count(faulty.Put, faulty.PutIfAbsent, faulty.Delete)
			if writes == 0 {
				t.Fatal("nothing was written")
			}
			for n := range writes {
				left := &rig{t: t}
				left.store, _, _ = run(crashAtWrite(int(n)))
				if name == "repair" {
					if err := do(delta.New(left.store)); err != nil {
						t.Fatalf("write %d: %v", n, err)
					}
				}
				left.check()
				compare(t, before, left.pinned(), name)
				if err := do(delta.New(left.store)); err != nil {
					t.Fatalf("write %d: the same again: %v", n, err)
				}
				left.check()
				compare(t, before, left.pinned(), name)
				if t.Failed() {
					t.Fatalf("crashed at write %d of %d", n, writes)
				}
			}
		})
	}
}

// crashAtWrite ends the store before its n-th write, counted from 0.
func crashAtWrite(n int) faulty.Rule {
	return faulty.After(n, func(c faulty.Call) *faulty.Fault {
		switch c.Op {
		case faulty.Put, faulty.PutIfAbsent, faulty.Delete:
			return &faulty.Fault{Crash: true}
		}
		return nil
	})
}

// compare wants the rows of what is still pinned; only a rollback moves the newest.
func compare(t *testing.T, before, now map[string]string, what string) {
	t.Helper()
	for name, rows := range now {
		was, pinned := before[name]
		switch {
		case name == "newest" && what == "rollback" && rows == before["2022-07-01"]:
		case strings.HasPrefix(name, "here"):
		case !pinned && strings.Contains(name, "@"):
			if label, _, _ := strings.Cut(name, "@"); rows != before[label] {
				t.Errorf("%s: %s", name, rows)
			}
		case rows != was:
			t.Errorf("%s: %s\nwant %s", name, rows, was)
		}
	}
	for name := range maps.Keys(before) {
		if _, pinned := now[name]; !pinned && what != "rollback" && what != "policy" && !strings.Contains(name, "@") {
			t.Errorf("%s is gone", name)
		}
	}
}

// damageSome is damage that a repair mends by several writes.
func damageSome(t *testing.T, store *mem.Store) {
	weaken(t, store)
	for _, key := range []string{"_delta_log/00000000000000000001.json", "_delta_log/_last_checkpoint", "_delta_log/00000000000000000005.checkpoint.parquet"} {
		if err := store.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
}
