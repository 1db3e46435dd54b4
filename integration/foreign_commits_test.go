//go:build integration

package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
)

// startSpark starts Spark and has it done its first statements, which take long.
func startSpark(t testing.TB) *engine {
	t.Helper()
	e := startEngine(t, "Spark")
	scratch := filepath.Join(t.TempDir(), "scratch")
	for _, text := range []string{"CREATE TABLE {path} USING delta AS SELECT 1 AS id", "INSERT INTO {path} VALUES (2)", "UPDATE {path} SET id = 3 WHERE id = 2"} {
		if _, err := e.ask(t, request{"do": "sql", "path": scratch, "text": text}); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// user is an event of a user: op, id, city, the day and hour of July 2022 in
// Shanghai, and the position. The topic has one partition.
func user(topic *topicLog, op string, id int, city, at string, pos int) {
	when, err := time.Parse("2006-01-02T15 -0700", "2022-07-"+at+" +0800")
	if err != nil {
		panic(err)
	}
	image := fmt.Sprintf(`{"id":%d,"name":"n%d","city":%q,"level":1}`, id, id, city)
	before, after := "null", image
	if op == "d" {
		before, after = image, "null"
	}
	ms := when.UnixMilli()
	end := topic.partition(0).end
	topic.send(&change.Record{
		Topic: topicName, Offset: end, Timestamp: ms, Key: fmt.Appendf(nil, `{"id":%d}`, id),
		Value: fmt.Appendf(nil, `{"op":%q,"before":%s,"after":%s,"source":{"name":"s","server_id":1,"file":"b.000001","pos":%d,"row":0,"ts_ms":%d,"db":"shop","table":"user_dim"},"ts_ms":%d}`,
			op, before, after, pos, ms, ms),
	})
}

// usersRig has a sealed 16th of July and a 17th that has begun.
func usersRig(t *testing.T) (*rig, *topicLog) {
	topic := newTopic(0)
	return users(localRig(t, topic), topic), topic
}

func users(r *rig, topic *topicLog) *rig {
	for id := 1; id <= 4; id++ {
		user(topic, "c", id, "Wuhan", "16T08", 10*id)
	}
	r.workAt("2022-07-16T09:00:00+08:00")
	user(topic, "u", 4, "Wuxi", "16T10", 60)
	r.workAt("2022-07-17T08:00:00+08:00")
	user(topic, "u", 1, "Suzhou", "17T08", 100)
	user(topic, "c", 5, "Suzhou", "17T08", 110)
	r.workAt("2022-07-17T09:00:00+08:00")
	return r
}

// goOn lets the 17th go to its end.
func goOn(topic *topicLog) {
	user(topic, "u", 2, "Hangzhou", "17T10", 200)
	user(topic, "d", 3, "Wuhan", "17T11", 210)
	user(topic, "c", 6, "Hangzhou", "17T12", 220)
}

const usersOf16 = "1 Wuhan, 2 Wuhan, 3 Wuhan, 4 Wuxi"

// cities gives id and city of a version's rows.
func cities(t *testing.T, r *rig, version int64) string {
	t.Helper()
	rows, err := r.rowsAt(version)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, row := range rows {
		out = append(out, fmt.Sprintf("%v %v", row["id"], row["city"]))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// TestDeltaRSCommits lets delta-rs change a table between two commits of gscd, before
// a process starts and under one that runs: each change has the stated outcome, the
// days are right, and delta-rs reads the same.
func TestDeltaRSCommits(t *testing.T) {
	t.Parallel()
	foreignCommits(t, startEngine(t, "delta-rs"), false, true)
}

// TestSparkCommits does the same with Spark, under a process that runs.
func TestSparkCommits(t *testing.T) {
	t.Parallel()
	e := startSpark(t)
	foreignCommits(t, e, true)
	t.Run("lock", func(t *testing.T) { lockedFor(t, e) })
}

func foreignCommits(t *testing.T, w *engine, lives ...bool) {
	reader := startEngine(t, "delta-rs")
	const plain = "1 Suzhou, 2 Hangzhou, 4 Wuxi, 5 Suzhou, 6 Hangzhou"
	for _, c := range []struct {
		name string
		do   func(t *testing.T, w *engine, r *rig)
		by   string // those that can do it; all have ""
		// rows are those of the 17th; foreign is the operation that its seal lists.
		rows, foreign string
		// stops is what the error says; repair what it says to do.
		stops, repair string
	}{
		{name: "append", do: one(request{"do": "append", "rows": [][]any{{70, "f", "Foshan", 7}}}), rows: plain + ", 70 Foshan", foreign: "WRITE"},
		{name: "delete", do: one(request{"do": "delete", "where": "id = 4"}), rows: "1 Suzhou, 2 Hangzhou, 5 Suzhou, 6 Hangzhou", foreign: "DELETE"},
		{name: "update", do: one(request{"do": "update", "set": map[string]string{"city": "'Foshan'"}, "where": "id in (2, 4)"}), rows: "1 Suzhou, 2 Hangzhou, 4 Foshan, 5 Suzhou, 6 Hangzhou", foreign: "UPDATE"},
		{name: "optimize", do: one(request{"do": "optimize"}), rows: plain},
		{name: "update and optimize", do: func(t *testing.T, w *engine, r *rig) {
			w.do(t, r, request{"do": "update", "set": map[string]string{"city": "'Foshan'"}, "where": "id = 4"})
			w.do(t, r, request{"do": "optimize"})
		}, rows: "1 Suzhou, 2 Hangzhou, 4 Foshan, 5 Suzhou, 6 Hangzhou", foreign: "UPDATE"},
		{name: "merge", by: "delta-rs, Spark", do: one(request{"do": "merge", "columns": []string{"id", "name", "city", "level"}, "rows": [][]any{{4, "f", "Foshan", 7}, {70, "f", "Foshan", 7}}}),
			rows: "1 Suzhou, 2 Hangzhou, 4 Foshan, 5 Suzhou, 6 Hangzhou, 70 Foshan", foreign: "MERGE"},
		{name: "z-order", by: "delta-rs", do: one(request{"do": "zorder", "column": "id"}), rows: plain},
		{name: "z-order", by: "Spark", do: statement("OPTIMIZE {path} ZORDER BY (id)"), rows: plain},
		{name: "purge", by: "Spark", do: statement("REORG TABLE {path} APPLY (PURGE)"), rows: plain},
		{name: "comment", do: one(request{"do": "comment", "text": "users"}), rows: plain},
		{name: "property", by: "delta-rs", do: one(request{"do": "properties", "set": map[string]string{"delta.checkpointInterval": "50"}}), rows: plain},
		{name: "property", by: "Spark", do: statement("ALTER TABLE {path} SET TBLPROPERTIES ('delta.checkpointInterval' = '50')"), rows: plain},
		{name: "protection shortened", by: "delta-rs", do: one(request{"do": "properties", "set": map[string]string{"delta.logRetentionDuration": "interval 30 days", "delta.deletedFileRetentionDuration": "interval 7 days"}}), rows: plain},
		{name: "protection unset", by: "Spark", do: statement("ALTER TABLE {path} UNSET TBLPROPERTIES ('delta.logRetentionDuration', 'delta.deletedFileRetentionDuration', 'delta.enableExpiredLogCleanup')"), rows: plain},
		{name: "deletion vectors off", by: "Spark", do: statement("ALTER TABLE {path} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')"), stops: "delta.enableDeletionVectors is no longer true", repair: "properties"},
		{name: "forgets transactions", by: "Spark", do: statement("ALTER TABLE {path} SET TBLPROPERTIES ('delta.setTransactionRetentionDuration' = 'interval 1 days')"),
			stops: "delta.setTransactionRetentionDuration is set", repair: "unset"},
		{name: "add column", do: one(request{"do": "add", "column": "note"}), rows: plain},
		{name: "rename column", by: "Spark", do: one(request{"do": "rename", "from": "city", "to": "town"}), stops: "the column city is gone", repair: "restore"},
		{name: "drop column", by: "Spark", do: func(t *testing.T, w *engine, r *rig) {
			statement("ALTER TABLE {path} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")(t, w, r)
			statement("ALTER TABLE {path} DROP COLUMN level")(t, w, r)
		}, stops: "the column level is gone", repair: "restore"},
		{name: "restore to the seal", by: "Spark, delta-rs", do: func(t *testing.T, w *engine, r *rig) {
			w.do(t, r, request{"do": "restore", "version": r.progress().LastSeal})
		}, stops: "made rows of an older version live again", repair: "rollback"},
		{name: "restore to before the seal", by: "Spark, delta-rs", do: one(request{"do": "restore", "version": 0}), stops: "made rows of an older version live again", repair: "restore"},
		{name: "overwrite", by: "Spark, delta-rs", do: one(request{"do": "overwrite", "rows": [][]any{{70, "f", "Foshan", 7}}}), stops: "overwrote rows", repair: "rollback"},
		{name: "replace", by: "Spark", do: one(request{"do": "replace", "rows": [][]any{{70, "f", "Foshan", 7}}}), stops: "its properties gscd.* are gone", repair: "check"},
		{name: "key twice", do: one(request{"do": "append", "rows": [][]any{{2, "f", "Foshan", 7}}}), stops: "a key is live twice: key id=2", repair: "delete"},
	} {
		if c.by != "" && !strings.Contains(c.by, w.name) {
			continue
		}
		if w.name == "Trino" && (c.foreign == "DELETE" || c.foreign == "UPDATE") {
			c.foreign = "MERGE" // its one name of these
		}
		for _, running := range lives {
			t.Run(fmt.Sprintf("%s, %s, running %v", c.name, w.name, running), func(t *testing.T) {
				topic := newTopic(0)
				r := users(w.rig(t, topic), topic)
				last := r.progress()
				r.restart()
				if running {
					r.under(func() { c.do(t, w, r) })
				} else {
					c.do(t, w, r)
				}
				goOn(topic)
				r.clock = instant(t, "2022-07-18T01:00:00+08:00")
				err := r.work()
				rows := c.rows
				if c.stops == "" && err != nil {
					t.Fatal(err)
				}
				if c.stops != "" {
					if err == nil || !strings.Contains(err.Error(), c.stops) {
						t.Fatalf("error %v, want %q", err, c.stops)
					}
					t.Log(err)
					r.putRight(t, w, c.repair, err, last)
					r.restart()
					r.mustWork()
					rows = plain
				}
				m := r.labels()
				for label, want := range map[string]string{"2022-07-16": usersOf16, "2022-07-17": rows} {
					resolved, err := m.Resolve(label, true)
					if err != nil {
						t.Fatal(err)
					}
					if got := cities(t, r, resolved.Entry.Version); got != want {
						t.Errorf("%s is %s, want %s", label, got, want)
					}
					s, err := r.table().SnapshotAt(ctx, resolved.Entry.Version)
					if err != nil {
						t.Fatal(err)
					}
					own := ownContent(t, r.store.Store, s, nil)
					got, err := reader.read(t, r.store.Store.String(), resolved.Entry.Version, "true", own)
					if err != nil {
						t.Error(err)
					} else if d := got.differs(own); d != "" {
						t.Errorf("%s: delta-rs reads other rows: %s", label, d)
					}
				}
				if weak := savepoint.Weakened(r.newest()); len(weak) > 0 {
					t.Errorf("the protection was not set again: %v", weak)
				}
				// And so does the next day.
				user(topic, "d", 5, "Suzhou", "18T10", 300)
				r.workAt("2022-07-19T01:00:00+08:00")
				resolved, err := r.labels().Resolve("2022-07-18", true)
				if err != nil {
					t.Fatal(err)
				}
				equal(t, "the 18th", cities(t, r, resolved.Entry.Version), strings.Replace(rows, ", 5 Suzhou", "", 1))
				if ev := r.evidence("2022-07-18"); len(ev.Foreign) > 0 {
					t.Errorf("the 18th lists %+v", ev.Foreign)
				}
				if ev := r.evidence("2022-07-17"); c.stops == "" {
					if marked := slices.Contains(ev.Attributes, "foreign"); marked != (c.foreign != "") {
						t.Errorf("attributes %v", ev.Attributes)
					}
					if c.foreign != "" && (len(ev.Foreign) != 1 || ev.Foreign[0].Operation != c.foreign || ev.Foreign[0].Engine == "") {
						t.Errorf("the seal lists %+v", ev.Foreign)
					}
				}
				gscd(t, "check", "--table", r.store.Store.String(), "--deep")
			})
		}
	}
}

// rig makes an empty table where the engine can write.
func (e *engine) rig(t testing.TB, topic *topicLog, change ...func(*ingest.Options)) *rig {
	t.Helper()
	if e.gateway == nil {
		return localRig(t, topic, change...)
	}
	dir, err := os.MkdirTemp(filepath.Join(e.gateway.dir, gatewayBucket), "table")
	if err != nil {
		t.Fatal(err)
	}
	return rigOn(t, localStore(t, filepath.Join(dir, "users")), localStore(t, filepath.Join(dir, "dead")), topic, change...)
}

// one is a change of one request.
func one(q request) func(*testing.T, *engine, *rig) {
	return func(t *testing.T, w *engine, r *rig) { w.do(t, r, q) }
}

// statement is a change by a statement.
func statement(text string) func(*testing.T, *engine, *rig) {
	return one(request{"do": "sql", "text": text})
}

// under does something just before the next commit of gscd's is written.
func (r *rig) under(do func()) {
	done := false
	r.store.hooks(func(call, key string) error {
		if call == "put if absent" && isCommit(key) && !done {
			done = true
			do()
		}
		return nil
	}, nil)
}

// putRight does what the error says.
func (r *rig) putRight(t *testing.T, w *engine, how string, err error, last *progress.Progress) {
	t.Helper()
	if how != "delete" && !errors.Is(err, ingest.ErrForeignCommit) {
		t.Errorf("%v wraps no sentinel", err)
	}
	switch how {
	case "rollback":
		if !strings.Contains(err.Error(), "`gscd rollback --to 2022-07-16`") {
			t.Errorf("the error names no rollback: %v", err)
		}
		gscd(t, "rollback", "--table", r.store.Store.String(), "--to", "2022-07-16", "--yes")
	case "restore":
		_, rest, ok := strings.Cut(err.Error(), "TO VERSION AS OF ")
		version := int64(-1)
		if _, scanErr := fmt.Sscanf(rest, "%d", &version); !ok || scanErr != nil {
			t.Fatalf("the error names no version: %v", err)
		}
		w.do(t, r, request{"do": "restore", "version": version})
	case "check":
		gscd(t, "check", "--table", r.store.Store.String(), "--repair")
		if _, err := savepoint.Rollback(ctx, r.table(), "2022-07-16", savepoint.RollbackOptions{Now: time.Now()}); err != nil {
			t.Fatal(err)
		}
	case "properties":
		gscd(t, "check", "--table", r.store.Store.String(), "--repair")
	case "unset":
		statement("ALTER TABLE {path} UNSET TBLPROPERTIES ('delta.setTransactionRetentionDuration')")(t, w, r)
	case "delete":
		w.do(t, r, request{"do": "delete", "where": "id = 2 and city = 'Foshan'"})
	}
}

// TestCase22CompactionAndIngest is the given case with delta-rs as the compactor, in
// both orders: it compacts under the ingester's commit, and the ingester commits first.
func TestCase22CompactionAndIngest(t *testing.T) {
	w := startEngine(t, "delta-rs")
	c := theCase(t, 22)
	var want []string
	c.expect(nil, "snapshots")[0].into(t, "snapshots", &want)
	var removed, taken, dataChanges, kept int
	for _, order := range []string{"compaction first", "ingest first"} {
		t.Run(order, func(t *testing.T) {
			topic := newTopic(0)
			r := localRig(t, topic, func(o *ingest.Options) { o.BatchRows = 1 }) // two files on the first day
			r.play(c.steps("Input"), func(s step) {
				switch {
				case s.kind == "pause" && order == "compaction first":
					// What the ingester has planned for this commit rests on the files of now.
					r.under(func() { w.do(t, r, request{"do": "optimize"}) })
				case s.kind == "resume" && order == "ingest first":
					w.do(t, r, request{"do": "optimize"})
				}
			})
			c.checkAsOf(t, r)
			for _, label := range []string{"2022-07-15", "2022-07-16"} {
				resolved, err := r.labels().Resolve(label, true)
				if err != nil {
					t.Fatal(err)
				}
				s, err := r.table().SnapshotAt(ctx, resolved.Entry.Version)
				if err != nil {
					t.Fatal(err)
				}
				own := ownContent(t, r.store.Store, s, nil)
				got, err := w.read(t, r.store.Store.String(), resolved.Entry.Version, "true", own)
				if err != nil {
					t.Fatal(err)
				}
				if d := got.differs(own); d != "" {
					t.Errorf("%s: delta-rs reads other rows: %s", label, d)
				}
				if ev := r.evidence(label); len(ev.Foreign) > 0 {
					t.Errorf("%s lists the compaction as a change of rows: %+v", label, ev.Foreign)
				}
			}
			sameList(t, "sealed", r.sealed(), want)
			live := map[string]bool{}
			for _, v := range r.everyVersion() {
				commit, err := r.table().Commit(ctx, v)
				if err != nil {
					t.Fatal(err)
				}
				own := strings.Contains(string(commit.Info), `"gscd"`)
				for _, f := range commit.Removes {
					if own && !live[f.Path] {
						removed++ // planned on a file that was gone
					}
					live[f.Path] = false
				}
				for _, a := range commit.Adds {
					live[a.Path] = true
					if !own && a.DataChange {
						dataChanges++
					}
				}
				if !own {
					kept++
				}
			}
			if p := r.progress(); p.Totals.Taken == 3 && p.Totals.Duplicates == 0 && p.Totals.Missing() == 0 {
				taken++
			}
			gscd(t, "vacuum", "--table", r.store.Store.String(), "--retain", "0s", "--grace", "0s")
			c.checkAsOf(t, r)
			gscd(t, "check", "--table", r.store.Store.String(), "--deep")
		})
	}
	c.theMust(1, func(t *testing.T) { equal(t, "files that were removed and not live", removed, 0) })
	// That tries are bounded is ingest's own test: TestConflictsAreBounded.
	c.theMust(2, func(t *testing.T) { equal(t, "orders in which each record was taken once", taken, 2) })
	c.theMust(3, func(t *testing.T) { equal(t, "files of compactions that say that data changed", dataChanges, 0) })
	c.theMust(4, func(*testing.T) {}) // checkAsOf behind the vacuum
	c.theChoice(1, func(t *testing.T) { equal(t, "compactions that stand: none had to yield", kept, 2) })
}
