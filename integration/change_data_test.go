//go:build integration

package integration

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/savepoint"
)

// fed is a rig with change data: a sealed 16th, and a 17th that has begun.
func fed(t *testing.T, change ...func(*ingest.Options)) (*rig, *topicLog) {
	t.Helper()
	topic := newTopic(0)
	r := localRig(t, topic, append(change, func(o *ingest.Options) { o.ChangeData = true })...)
	for id := 1; id <= 4; id++ {
		user(topic, "c", id, "Wuhan", "16T08", 10*id)
	}
	r.workAt("2022-07-16T09:00:00+08:00")
	user(topic, "u", 4, "Wuxi", "16T10", 60)
	user(topic, "d", 2, "Wuhan", "16T10", 70)
	user(topic, "c", 7, "Wuxi", "16T10", 80)
	r.workAt("2022-07-17T08:00:00+08:00")
	user(topic, "u", 1, "Suzhou", "17T08", 100)
	user(topic, "c", 5, "Suzhou", "17T08", 110)
	user(topic, "d", 5, "Suzhou", "17T08", 120)
	r.workAt("2022-07-17T09:00:00+08:00")
	return r, topic
}

func (r *rig) newestVersion() int64 {
	r.t.Helper()
	s, err := r.table().Snapshot(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return s.Version()
}

// changesIn counts what changed in versions, by kind.
func (r *rig) changesIn(from, to int64) map[string]int {
	r.t.Helper()
	counts := map[string]int{}
	for b, err := range scan.Changes(ctx, r.table(), from, to, nil) {
		if err != nil {
			r.t.Fatal(err)
		}
		for _, k := range b.Kinds {
			counts[k]++
		}
	}
	return counts
}

// TestChangeDataElsewhere holds the change data of `gscd ingest` against Spark and
// delta-rs, over seals, an OPTIMIZE of Spark, and a rollback with what is read again; and
// has Spark read it as a stream, run by run.
func TestChangeDataElsewhere(t *testing.T) {
	t.Parallel()
	spark, rs := startSpark(t), startEngine(t, "delta-rs")
	for name, mode := range map[string]func(*ingest.Options){
		"merge-on-read": func(*ingest.Options) {},
		"copy-on-write, partitioned": func(o *ingest.Options) {
			o.CopyOnWrite, o.PartitionBy = true, []string{"city"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, topic := fed(t, mode)
			path, checkpoint := r.store.Store.String(), filepath.Join(t.TempDir(), "checkpoint")
			streamed := int64(-1)
			// stream has Spark read on, and compares it with the versions since.
			stream := func(what string) {
				t.Helper()
				newest := r.newestVersion()
				want := ownChanges(t, r.table(), [2]int64{streamed + 1, newest})
				got, err := spark.ask(t, request{"do": "stream", "path": path, "checkpoint": checkpoint})
				if err != nil {
					t.Fatalf("the stream over %s: %v", what, err)
				}
				if len(got.Rows) == 0 {
					got.Columns = want.Columns
				}
				if d := got.named(want.Columns).differs(want); d != "" {
					t.Errorf("the stream over %s: %s", what, d)
				}
				t.Logf("the stream over %s (versions %d to %d): %d changes", what, streamed+1, newest, len(got.Rows))
				streamed = newest
			}
			stream("a sealed day")
			goOn(topic)
			r.workAt("2022-07-18T09:00:00+08:00")
			stream("two seals")
			before := r.newestVersion()
			spark.do(t, r, request{"do": "optimize"})
			user(topic, "u", 1, "Wuhan", "18T08", 300)
			user(topic, "d", 4, "Wuxi", "18T08", 310)
			r.workAt("2022-07-18T10:00:00+08:00")
			equal(t, "changes behind an OPTIMIZE", fmt.Sprint(r.changesIn(before+1, r.newestVersion())), "map[delete:1 update_postimage:1 update_preimage:1]")
			stream("an OPTIMIZE")
			plan := r.rollback("2022-07-16")
			if plan.ChangeFiles == 0 {
				t.Errorf("the rollback: %+v", plan)
			}
			// 3 and 4 come back, 2 and 6 go; 1 is as it was, and has been moved since.
			equal(t, "changes of the rollback", fmt.Sprint(r.changesIn(plan.Committed, plan.Committed)), "map[delete:2 insert:2]")
			stream("a rollback")
			r.restart()
			r.workAt("2022-07-18T10:00:00+08:00")
			stream("what is read again")

			newest := r.newestVersion()
			for _, span := range [][2]int64{{0, newest}, {plan.Committed, plan.Committed}, {1, plan.Committed}} {
				want := ownChanges(t, r.table(), span)
				for _, e := range []*engine{spark, rs} {
					got, err := e.ask(t, request{"do": "read", "path": path, "changes": span})
					if err != nil {
						t.Errorf("%s, versions %v: %v", e.name, span, err)
					} else if d := got.named(want.Columns).differs(want); d != "" {
						t.Errorf("%s, versions %v: %s", e.name, span, d)
					}
				}
			}
			// A column appears between two runs.
			at := instant(t, "2022-07-18T09:30:00+08:00").UnixMilli()
			topic.send(&change.Record{Topic: topicName, Offset: topic.partition(0).end, Timestamp: at, Key: []byte(`{"id":1}`),
				Value: fmt.Appendf(nil, `{"op":"u","before":null,"after":{"id":1,"name":"n1","city":"Wuhan","level":1,"note":"new"},"source":{"name":"s","server_id":1,"file":"b.000001","pos":400,"row":0,"ts_ms":%d,"db":"shop","table":"user_dim"},"ts_ms":%d}`, at, at)})
			r.workAt("2022-07-18T10:00:00+08:00")
			stream("a column")
			now := time.Now().Add(48 * time.Hour)
			if _, err := savepoint.Vacuum(ctx, r.table(), savepoint.VacuumOptions{Retain: time.Minute, Grace: time.Minute, Now: now}); err != nil {
				t.Fatal(err)
			}
			if _, err := spark.ask(t, request{"do": "stream", "path": path, "checkpoint": checkpoint + "2"}); err == nil {
				t.Error("a stream from version 0 on, behind a vacuum, has no error")
			} else {
				t.Log(err)
			}
		})
	}
}
