//go:build integration

package integration

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/savepoint"
)

// refusal is a request that an engine must refuse on a locked table, and how it says so.
type refusal struct {
	request request
	words   string
	// idle: where it finds nothing to do it says nothing.
	idle bool
}

// refusalsOf are an engine's ways to write to a table, and to remove what is old.
func refusalsOf(engine string) (list []refusal) {
	say := map[string]string{
		"delta-rs": `Unsupported table features required: [Unknown("` + savepoint.FeatureLock + `")]`,
		"Spark":    "[DELTA_UNSUPPORTED_FEATURES_FOR_WRITE] Unsupported Delta write feature",
		"Trino":    "Unsupported writer features: [" + savepoint.FeatureLock,
	}[engine]
	add := func(requests ...request) {
		for _, q := range requests {
			list = append(list, refusal{request: q, words: say})
		}
	}
	sql := func(texts ...string) {
		for _, text := range texts {
			add(request{"do": "sql", "text": text})
		}
	}
	row := [][]any{{70, "f", "Foshan", 7}}
	add(request{"do": "append", "rows": row}, request{"do": "delete", "where": "id = 4"},
		request{"do": "update", "set": map[string]string{"city": "'Foshan'"}, "where": "id = 2"},
		request{"do": "merge", "columns": []string{"id", "name", "city", "level"}, "rows": row},
		request{"do": "optimize"}, request{"do": "comment", "text": "users"}, request{"do": "add", "column": "note"})
	switch engine {
	case "delta-rs":
		add(request{"do": "overwrite", "rows": row}, request{"do": "restore", "version": 0}, request{"do": "zorder", "column": "id"},
			request{"do": "vacuum", "hours": 0, "full": true},
			request{"do": "properties", "set": map[string]string{"delta.logRetentionDuration": "interval 1 days"}})
		list = append(list, refusal{request{"do": "vacuum"}, say, true}, refusal{request{"do": "vacuum", "hours": 0}, say, true})
	case "Spark":
		add(request{"do": "overwrite", "rows": row}, request{"do": "restore", "version": 0}, request{"do": "replace", "rows": row})
		sql("VACUUM {path}", "VACUUM {path} RETAIN 0 HOURS", "REORG TABLE {path} APPLY (PURGE)", "TRUNCATE TABLE {path}",
			"ALTER TABLE {path} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 1 days', 'delta.logRetentionDuration' = 'interval 1 days')",
		)
		list = append(list, refusal{request: request{"do": "sql", "text": "ALTER TABLE {path} DROP FEATURE " + savepoint.FeatureLock}, words: "[DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE]"})
	case "Trino":
		sql("TRUNCATE TABLE {path}")
		list = append(list, refusal{request: request{"do": "sql", "text": "CALL delta.system.vacuum('default', '{path}', '7d')"},
			words: "Cannot execute vacuum procedure with [" + savepoint.FeatureLock + "] writer features"})
	}
	return list
}

// lockedFor has an engine try to write to locked tables, and to clean them: it refuses,
// nothing of the table changes, and it and the readers read each day.
func lockedFor(t *testing.T, e *engine, readers ...*engine) {
	for _, mode := range []string{"merge-on-read", "copy-on-write"} {
		t.Run(mode, func(t *testing.T) {
			topic := newTopic(0)
			r := users(e.rig(t, topic, func(o *ingest.Options) {
				o.Protect, o.CopyOnWrite = savepoint.ProtectLock, mode == "copy-on-write"
			}), topic)
			goOn(topic)
			r.workAt("2022-07-18T09:00:00+08:00")
			user(topic, "u", 2, "Xiamen", "18T08", 300)
			user(topic, "d", 6, "Hangzhou", "18T08", 310)
			r.workAt("2022-07-18T10:00:00+08:00")
			objects := func() map[string]int64 {
				all := map[string]int64{}
				for o, err := range r.store.Store.List(ctx, "", "") {
					if err != nil {
						t.Fatal(err)
					}
					all[o.Key] = o.Size
				}
				return all
			}
			before := objects()
			for _, c := range refusalsOf(e.name) {
				c.request["path"] = e.address(t, r.store.Store.String())
				_, err := e.ask(t, c.request)
				if err == nil && !c.idle || err != nil && !strings.Contains(err.Error(), c.words) {
					t.Errorf("%v: %v, want %q", c.request, err, c.words)
				}
				after := objects()
				maps.DeleteFunc(after, func(key string, _ int64) bool { // Spark writes its files first, and leaves them to VACUUM
					_, known := before[key]
					return !known && !strings.HasPrefix(key, "_delta_log/")
				})
				if !maps.Equal(after, before) {
					t.Errorf("%v: the table has changed: %v, before %v", c.request, slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
					before = after
				}
			}
			readDays(t, r, map[string]string{
				"2022-07-16": usersOf16, "2022-07-17": "1 Suzhou, 2 Hangzhou, 4 Wuxi, 5 Suzhou, 6 Hangzhou",
				"2022-07-18": "1 Suzhou, 2 Xiamen, 4 Wuxi, 5 Suzhou",
			}, append(readers, e)...)
			gscd(t, "check", "--table", r.store.Store.String(), "--deep")
			copied := r.store.Store.String() + "_copy"
			gscd(t, "export", "--table", r.store.Store.String(), "--as-of", "2022-07-17", "--deep", "--to", copied)
			if _, err := e.ask(t, request{"do": "append", "path": e.address(t, copied), "rows": [][]any{{70, "f", "Foshan", 7}}}); err != nil {
				t.Errorf("a copy is locked too: %v", err)
			}
		})
	}
}

// readDays checks the rows of days, as id and city, and that engines read the same.
func readDays(t *testing.T, r *rig, days map[string]string, readers ...*engine) {
	t.Helper()
	m := r.labels()
	for label, want := range days {
		resolved, err := m.Resolve(label, false)
		if err != nil {
			t.Error(err)
			continue
		}
		version := resolved.Entry.Version
		if got := cities(t, r, version); got != want {
			t.Errorf("%s is %s, want %s", label, got, want)
		}
		s, err := r.table().SnapshotAt(ctx, version)
		if err != nil {
			t.Error(err)
			continue
		}
		own := ownContent(t, r.store.Store, s, nil)
		for _, e := range readers {
			got, err := e.read(t, e.address(t, r.store.Store.String()), version, "true", own)
			if err != nil {
				t.Errorf("%s: %v", label, err)
			} else if d := got.differs(own); d != "" {
				t.Errorf("%s: %s reads other rows: %s", label, e.name, d)
			}
		}
	}
}

// TestLockedTable has delta-rs try itself on locked tables, and five engines read them.
// Spark and Trino try it in TestSparkCommits and TestTrino.
func TestLockedTable(t *testing.T) {
	e := startEngine(t, "delta-rs")
	lockedFor(t, e, startEngine(t, "DuckDB"), startEngine(t, "Polars"), startEngine(t, "Delta Kernel"))
	t.Run("log", func(t *testing.T) { cleanedLockedLog(t, e) })
}

// cleanedLockedLog has delta-rs clean the log of a locked table, and write a checkpoint.
// These are no commits, and it does not look at features then: the properties, which
// the lock keeps it from changing, hold it off.
func cleanedLockedLog(t *testing.T, e *engine) {
	topic := newTopic(0)
	r := users(e.rig(t, topic, func(o *ingest.Options) { o.Protect = savepoint.ProtectLock }), topic)
	before := r.objects()
	for _, what := range []string{"cleanup", "checkpoint"} {
		if _, err := e.ask(t, request{"do": what, "path": r.store.Store.String()}); err != nil {
			t.Errorf("it refuses now: %v; so say in the documents", err)
		}
	}
	for _, key := range before {
		if !slices.Contains(r.objects(), key) {
			t.Errorf("%s is gone", key)
		}
	}
	if faults := r.checkFaults(); len(faults) > 0 {
		t.Error(faults)
	}
}

// pastTheLock has Trino do the two things for which it does not look at features. A
// property set leaves the table locked; a table that was replaced is brought back.
func pastTheLock(t *testing.T, e *engine) {
	for _, mode := range []string{"merge-on-read", "copy-on-write"} {
		t.Run(mode, func(t *testing.T) {
			topic := newTopic(0)
			r := users(e.rig(t, topic, func(o *ingest.Options) {
				o.Protect, o.CopyOnWrite = savepoint.ProtectLock, mode == "copy-on-write"
			}), topic)
			e.do(t, r, request{"do": "sql", "text": "ALTER TABLE {path} SET PROPERTIES change_data_feed_enabled = true"})
			gscd(t, "check", "--table", r.store.Store.String())
			goOn(topic)
			r.restart()
			r.workAt("2022-07-18T01:00:00+08:00")
			days := map[string]string{"2022-07-16": usersOf16, "2022-07-17": "1 Suzhou, 2 Hangzhou, 4 Wuxi, 5 Suzhou, 6 Hangzhou"}
			readDays(t, r, days, e)
			e.do(t, r, request{"do": "sql", "text": "CREATE OR REPLACE TABLE {path} AS SELECT 1 id"})
			for _, check := range []string{"settings", "properties"} {
				if !slices.ContainsFunc(r.checkFaults(), func(f savepoint.Fault) bool { return f.Check == check }) {
					t.Errorf("gscd check finds no fault of %s", check)
				}
			}
			gscd(t, "check", "--table", r.store.Store.String(), "--repair")
			gscd(t, "rollback", "--table", r.store.Store.String(), "--to", "2022-07-17", "--yes")
			r.restart()
			r.mustWork()
			readDays(t, r, days)
			if s, err := r.table().Snapshot(ctx); err != nil || !savepoint.Locked(s) {
				t.Errorf("it is not locked any more: %v", err)
			}
			gscd(t, "check", "--table", r.store.Store.String(), "--deep")
		})
	}
}
