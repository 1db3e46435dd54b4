package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/progress"
)

// recordsOf gives the records among steps.
func recordsOf(steps []step) []*change.Record {
	var out []*change.Record
	for _, s := range steps {
		if s.record != nil {
			out = append(out, s.record)
		}
	}
	return out
}

// edited gives a copy of a record with a piece of its value replaced, which
// must be there, at an offset and a broker timestamp (0: as it was).
func edited(t testing.TB, r *change.Record, offset, ts int64, pairs ...string) *change.Record {
	t.Helper()
	out := *r
	value := string(r.Value)
	for i := 0; i+1 < len(pairs); i += 2 {
		if !strings.Contains(value, pairs[i]) {
			t.Fatalf("no %s in %s", pairs[i], value)
		}
		value = strings.Replace(value, pairs[i], pairs[i+1], 1)
	}
	out.Value, out.Offset = []byte(value), offset
	if ts != 0 {
		out.Timestamp = ts
	}
	return &out
}

// writtenRows counts the rows of all data files that were ever added.
func (r *rig) writtenRows() (rows, deleted int64) {
	r.t.Helper()
	for _, c := range r.log() {
		for _, a := range c.Adds {
			if a.DeletionVector != nil {
				deleted = max(deleted, a.DeletionVector.Cardinality)
				continue
			}
			rows += int64(len(r.origins(a)))
		}
	}
	return rows, deleted
}

func TestCase01OneKeyManyChanges(t *testing.T) {
	c := theCase(t, 1)
	c.everyWay(func(t *testing.T, r *rig) {
		r.play(c.steps("Input"), nil)
		c.checkAsOf(t, r)
		c.checkVersionsOf(t, r)
		equal(t, "applied", r.progress().Totals.Applied, 8)
	})
	inBatchesOf := func(t *testing.T, n int) *rig {
		r := newRig(t, newTopic(0), func(o *ingest.Options) { o.BatchRows, o.PollRecords = n, n })
		r.play(c.steps("Input"), nil)
		return r
	}
	c.theMust(1, func(t *testing.T) {
		inBatchesOf(t, 8).checkVersions(false)
	})
	c.theMust(2, func(t *testing.T) {
		for _, n := range []int{1, 2, 3, 8} {
			t.Run(fmt.Sprint("batches of ", n), func(t *testing.T) {
				r := inBatchesOf(t, n)
				c.checkAsOf(t, r)
				batches := 0
				for _, v := range r.log() {
					if v.progress.Kind == progress.Batch {
						batches++
					}
				}
				if want := (8 + n - 1) / n; batches != want {
					t.Errorf("%d commits, want %d", batches, want)
				}
			})
		}
	})
	c.theMust(3, func(t *testing.T) {
		r := inBatchesOf(t, 8)
		if rows, deleted := r.writtenRows(); rows != 2 || deleted != 0 {
			t.Errorf("%d rows written, %d deleted; only the two live ones were to be", rows, deleted)
		}
		for _, v := range r.log() {
			if len(v.Removes) > 0 {
				t.Errorf("version %d removes a file of a row that was never there", v.version)
			}
		}
	})
}

func TestCase02SameSecond(t *testing.T) {
	c := theCase(t, 2)
	c.everyWay(func(t *testing.T, r *rig) {
		asked := 0
		r.play(c.steps("Input"), func(s step) {
			if s.kind == "cli" {
				asked++
				e := c.expect(nil, "after_offset", "current")[0]
				equal(t, "next offset", r.next(0), e.fieldInt("after_offset")+1)
				sameRows(t, "after "+s.text("cmd"), r.current(), e.rows(t, "current"))
			}
		})
		equal(t, "queries", asked, 1)
		c.checkAsOf(t, r)
		for _, e := range c.expect(nil, "applied", "duplicates") {
			ev := r.evidence("2022-07-16")
			equal(t, "applied", ev.Counts.Applied(), e.fieldInt("applied"))
			equal(t, "duplicates", ev.Counts.Duplicates, e.fieldInt("duplicates"))
			equal(t, "duplicates in all", r.progress().Totals.Duplicates, e.fieldInt("duplicates"))
		}
		r.checkVersions(false)
	})
	city := func(r *rig, id string) string {
		for _, row := range r.current() {
			if fmt.Sprint(row["id"]) == id {
				return fmt.Sprint(row["city"])
			}
		}
		return ""
	}
	records := recordsOf(c.steps("Input"))
	c.theMust(1, func(t *testing.T) {
		r := newRig(t, newTopic(0))
		r.send(records[:3]...)
		r.mustWork()
		equal(t, "city", city(r, "1"), "Suzhou")
	})
	c.theMust(2, func(t *testing.T) {
		// Also where nothing but the position tells the two apart: on two partitions.
		r := newRig(t, newTopic(0, 1))
		r.send(records[0])
		newer, older := *records[4], *records[3]
		newer.Partition, newer.Offset = 1, 0
		older.Offset = 1
		r.send(&newer)
		r.mustWork()
		r.send(&older)
		r.mustWork()
		equal(t, "city", city(r, "1"), "Wuhan")
		equal(t, "superseded", r.progress().Totals.Superseded, 1)
	})
	c.theMust(3, func(t *testing.T) {
		r := newRig(t, newTopic(0))
		r.send(records...)
		r.mustWork()
		equal(t, "totals", r.progress().Totals, progress.Totals{Taken: 9, Applied: 7, Duplicates: 2})
	})
	c.theMust(4, func(t *testing.T) {
		r := newRig(t, newTopic(0))
		r.send(records...)
		r.mustWork()
		before := r.current()
		for i, rec := range records[6:9] {
			r.send(edited(t, rec, int64(9+i), 0))
		}
		r.mustWork()
		sameRows(t, "after the same batch again", r.current(), before)
		equal(t, "totals", r.progress().Totals, progress.Totals{Taken: 12, Applied: 7, Duplicates: 5})
	})
	c.theMust(5, func(t *testing.T) {
		r := newRig(t, newTopic(0))
		row := regexp.MustCompile(`,"row":[0-2]`)
		for i, rec := range records[6:9] {
			without := edited(t, rec, int64(i), 0)
			without.Value = row.ReplaceAll(without.Value, nil)
			if bytes.Contains(without.Value, []byte(`"row"`)) {
				t.Fatal("the row is still there")
			}
			r.send(without)
		}
		r.mustWork()
		sameList(t, "ids", ids(r.current()), []string{"11", "12", "13"})
		equal(t, "duplicates", r.progress().Totals.Duplicates, 0)
	})
}

func (e *expectation) fieldInt(name string) int64 { return step{fields: e.fields}.int(name) }

func TestCase03SnapshotReadAfterChanges(t *testing.T) {
	c := theCase(t, 3)
	c.everyWay(func(t *testing.T, r *rig) {
		r.play(c.steps("Input"), nil)
		c.checkAsOf(t, r)
		r.checkVersions(false)
	})
	r := newRig(t, newTopic(0))
	r.play(c.steps("Input"), nil)
	level := func(r *rig, id string) string {
		for _, row := range r.current() {
			if fmt.Sprint(row["id"]) == id {
				return fmt.Sprint(row["level"])
			}
		}
		return "none"
	}
	c.theMust(1, func(t *testing.T) { equal(t, "level", level(r, "1"), "510") })
	c.theMust(2, func(t *testing.T) {
		equal(t, "level of the deleted key", level(r, "2"), "none")
		// The read comes in a later life of the process, and two labels later.
		r := newRig(t, newTopic(0))
		r.freshLanes = true
		records := recordsOf(c.steps("Input"))
		r.send(records[:4]...)
		r.workAt("2022-07-18T00:20:00+08:00")
		sameList(t, "sealed", r.sealed(), []string{"2022-07-16", "2022-07-17"})
		late := r.clock.UnixMilli()
		for i, rec := range records[4:] {
			r.send(edited(t, rec, int64(4+i), late, `"ts_ms":1657932287000`, fmt.Sprintf(`"ts_ms":%d`, late-1000)))
		}
		r.mustWork()
		equal(t, "level of the deleted key", level(r, "2"), "none")
		equal(t, "level of key 1", level(r, "1"), "510")
		equal(t, "level of key 3", level(r, "3"), "9")
	})
	c.theMust(3, func(t *testing.T) {
		equal(t, "level of the missing key", level(r, "3"), "9")
		equal(t, "duplicates", r.progress().Totals.Duplicates, 0)
	})
	c.theChoice(1, func(t *testing.T) {
		r := newRig(t, newTopic(0))
		records := recordsOf(c.steps("Input"))
		r.send(records...)
		r.send(edited(t, records[4], 7, 0, `"pos":850`, `"pos":950`, `"level":70`, `"level":600`, `"snapshot":"true"`, `"snapshot":"incremental"`))
		r.mustWork()
		equal(t, "level", level(r, "1"), "600")
	})
}

func TestCase04DeleteTombstoneKeyChange(t *testing.T) {
	c := theCase(t, 4)
	c.everyWay(func(t *testing.T, r *rig) {
		r.play(c.steps("Input"), nil)
		c.checkAsOf(t, r)
		for _, e := range c.expect(nil, "next_offset") {
			c.checkNextOffset(t, r, e)
		}
		for _, e := range c.expect(nil, "tombstones_seen") {
			equal(t, "tombstones", r.progress().Totals.Tombstones, e.fieldInt("tombstones_seen"))
		}
		r.checkVersions(false)
	})
	records := recordsOf(c.steps("Input"))
	c.theMust(1, func(t *testing.T) {
		r := newRig(t, newTopic(0))
		r.send(records...)
		r.mustWork()
		equal(t, "dead letters", len(r.deadLetters()), 0)
	})
	c.theMust(2, func(t *testing.T) {
		r := newRig(t, newTopic(0))
		r.send(records[:5]...) // the newest record is a tombstone
		r.mustWork()
		equal(t, "next offset", r.next(0), 5)
	})
	c.theMust(3, func(t *testing.T) {
		r := newRig(t, newTopic(0))
		r.send(records[:4]...)
		r.mustWork()
		before := r.progress().State.Partitions[0].Watermark
		tombstone := *records[4]
		tombstone.Timestamp = instant(t, "2022-07-17T09:00:00+08:00").UnixMilli()
		r.topic.send(&tombstone)
		r.mustWork()
		after := r.progress()
		equal(t, "watermark", after.State.Partitions[0].Watermark, before)
		equal(t, "open label", after.Label, "2022-07-16")
		equal(t, "replaced times", after.Counts.Replaced, 0)
	})
	c.theChoice(1, func(t *testing.T) {
		for setting, want := range map[string][]string{ingest.Ignore: {"1"}, ingest.DeleteIt: {}} {
			r := newRig(t, newTopic(0), func(o *ingest.Options) { o.Tombstones, o.Decode.Tombstones = setting, setting })
			deletion := *records[2] // the tombstone of key 1, alone
			deletion.Offset, deletion.Timestamp = 1, records[0].Timestamp+1
			r.send(records[0], &deletion)
			r.mustWork()
			sameList(t, "tombstones: "+setting, ids(r.current()), want)
		}
	})
}

// checkNextOffset asserts {"0":6}: the next offset of each partition.
func (c *given) checkNextOffset(t testing.TB, r *rig, e *expectation) {
	t.Helper()
	var want map[string]int64
	e.into(t, "next_offset", &want)
	got := map[string]int64{}
	for _, p := range r.progress().State.Partitions {
		got[fmt.Sprint(p.Kafka)] = p.Next
	}
	equal(t, "next offsets", fmt.Sprint(got), fmt.Sprint(want))
}

func TestCase05ExactValues(t *testing.T) {
	c := theCase(t, 5)
	c.everyWay(func(t *testing.T, r *rig) {
		r.play(c.steps("Input"), nil)
		c.checkAsOf(t, r)
		r.checkVersions(false)
	})
	records := recordsOf(c.steps("Input"))
	r := newRig(t, newTopic(0))
	r.send(records...)
	r.mustWork()
	c.theMust(1, func(t *testing.T) { equal(t, "rows", len(r.current()), 2) })
	c.theMust(2, func(t *testing.T) {
		r := newRig(t, newTopic(0))
		r.send(records...)
		// An update of each key, with its row before.
		for i, rec := range records {
			var v struct{ After json.RawMessage }
			if err := json.Unmarshal(rec.Value, &v); err != nil {
				t.Fatal(err)
			}
			r.send(edited(t, rec, int64(2+i), 0, `"op":"c"`, `"op":"u"`, `"before":null`, `"before":`+string(v.After), `"pos":`, `"pos":9`))
		}
		deletion := edited(t, records[1], 4, 0, `"op":"c"`, `"op":"d"`, `"pos":`, `"pos":99`, `"before":null`, `"before":{"id":9007199254740993}`)
		deletion.Value = regexp.MustCompile(`"after":\{[^}]*\}`).ReplaceAll(deletion.Value, []byte(`"after":null`))
		r.send(deletion)
		r.mustWork()
		sameList(t, "ids", ids(r.current()), []string{"9007199254740992"})
		equal(t, "totals", r.progress().Totals, progress.Totals{Taken: 5, Applied: 5})
	})
	c.theMust(3, func(t *testing.T) {
		printed := ""
		for _, row := range r.current() {
			printed += fmt.Sprint(row["id"], " ", row["token"], " ", row["amount"], "\n")
		}
		for _, digits := range []string{"9007199254740992", "9007199254740993", "18446744073709551615", "9223372036854775808", "12345678901234567890.12", "0.10"} {
			if !strings.Contains(printed, digits) {
				t.Errorf("%q does not have %s", printed, digits)
			}
		}
	})
	c.theChoice(1, func(t *testing.T) {
		s, err := r.table().Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "type of token", s.Schema().Fields[s.Schema().Index("token")].Type, schema.Decimal(20, 0))
		// In a signed column neither value fits: a dead letter that names it, never a wrapped number.
		long, err := decode.ParseColumnType("long")
		if err != nil {
			t.Fatal(err)
		}
		signed := newRig(t, newTopic(0), func(o *ingest.Options) {
			o.Columns = map[string]schema.Type{"token": long.Type}
			o.Decode.Columns = map[string]decode.ColumnSpec{"token": long}
		})
		signed.send(records...)
		signed.send(edited(t, records[0], 2, 0, `"token":18446744073709551615`, `"token":7`, `"pos":100`, `"pos":300`))
		signed.mustWork()
		dead := signed.deadLetters()
		if len(dead) != 2 || dead[0].Reason != "value" || dead[1].Column != "token" {
			t.Errorf("dead letters %+v", dead)
		}
		rows := signed.current()
		if len(rows) != 1 || fmt.Sprint(rows[0]["token"]) != "7" {
			t.Errorf("rows %v", rows)
		}
	})
}
