package integration

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/progress"
)

// largeNote is what the placeholder of case 18 stands for.
const largeNote = 12 << 20

func fillLarge(records []*change.Record) {
	for _, r := range records {
		r.Value = bytes.Replace(r.Value, []byte("<12 MiB of 'x'>"), bytes.Repeat([]byte("x"), largeNote), 1)
	}
}

// noteLengths replaces long texts of a column by their length.
func noteLengths(rows []row) (out []int) {
	for _, r := range rows {
		if text, ok := r["note"].(string); ok {
			out = append(out, len(text))
		}
	}
	return out
}

func TestCase18UnreadableAndLarge(t *testing.T) {
	c := theCase(t, 18)
	steps := c.steps("Input")
	records := recordsOf(steps)
	fillLarge(records)
	byDefault := func(e *expectation) bool { return e.text("mode") == "default" }
	check := func(t *testing.T, r *rig) {
		t.Helper()
		for _, e := range c.expect(byDefault, "mode", "as_of", "ids") {
			rows := r.mustAsOf(e.text("as_of"))
			sameList(t, "as of "+e.text("as_of"), ids(rows), e.ids(t, "ids"))
			sameList(t, "length of the large text", noteLengths(rows), []int{largeNote})
		}
		for _, e := range c.expect(byDefault, "mode", "dead_letter") {
			c.checkDeadLetters(t, r, e)
		}
	}
	c.everyWay(func(t *testing.T, r *rig) {
		r.play(steps, nil)
		check(t, r)
		r.checkVersions(false)
	})
	c.Run("strict", func(t *testing.T) {
		e := c.expect(func(e *expectation) bool { return e.text("mode") == "strict" }, "mode", "exit", "next_offset")[0]
		r := newRig(t, newTopic(0), func(o *ingest.Options) { o.DeadLetterFraction = -1 })
		r.send(records...)
		r.clock = instant(t, "2022-07-17T00:20:00+08:00")
		err := r.work()
		if !errors.Is(err, ingest.ErrTooManyDeadLetters) {
			t.Fatalf("strict: %v", err)
		}
		says(t, err, "partition 0", "offset 1")
		c.checkNextOffset(t, r, e)
		equal(t, "dead letters", len(r.deadLetters()), 0)
		sameList(t, "ids", ids(r.current()), []string{"1"})
		sameList(t, "sealed", r.sealed(), nil)
	})
	small := func(t *testing.T, change ...func(*ingest.Options)) *rig {
		r := newRig(t, newTopic(0), change...)
		r.send(records[:4]...)
		r.clock = instant(t, "2022-07-17T00:20:00+08:00")
		return r
	}
	c.theMust(1, func(t *testing.T) {
		r := small(t)
		var order []string
		watch := func(name string) func(call, key string) error {
			return func(call, key string) error {
				if isWrite(call) && isCommit(key) {
					order = append(order, name)
				}
				return nil
			}
		}
		r.store.hooks(nil, watch("table"))
		r.dead.hooks(nil, watch("dead letters"))
		r.mustWork()
		if len(order) < 2 || order[0] != "dead letters" || order[1] != "table" || slices.Contains(order[2:], "dead letters") {
			t.Errorf("commits: %v", order)
		}
	})
	c.theMust(2, func(t *testing.T) {
		points := killedEverywhere(t, func() *rig { return small(t) }, func(r *rig) error { return r.work() }, func(t *testing.T, r *rig) {
			t.Helper()
			for _, e := range c.expect(byDefault, "mode", "dead_letter") {
				c.checkDeadLetters(t, r, e)
			}
			dead := r.deadLetters()
			equal(t, "bytes", string(dead[0].Value), `{"op":"u","bef`)
			equal(t, "key", string(dead[0].Key), `{"id":2}`)
			equal(t, "reason", dead[0].Reason, "decode")
			equal(t, "reason", dead[1].Reason, "key")
			equal(t, "bytes", string(dead[1].Value), string(records[2].Value))
			equal(t, "totals", r.progress().Totals, progress.Totals{Taken: 4, Applied: 2, DeadLetters: 2})
		})
		if points < 4 {
			t.Errorf("only %d writes to be killed at", points)
		}
	})
	c.theMust(3, func(t *testing.T) {
		r := small(t)
		r.mustWork()
		equal(t, "dead letters of the day", r.progress().DeadLetters["2022-07-16"], 2)
		// 100 of at most 10,000 records, and more than 1 % of them, are too many.
		many := newRig(t, newTopic(0))
		many.send(records[0])
		for i := range 150 {
			many.send(edited(t, records[1], int64(1+i), 0))
		}
		err := many.work()
		if !errors.Is(err, ingest.ErrTooManyDeadLetters) {
			t.Fatalf("150 bad records of 151: %v", err)
		}
		says(t, err, "partition 0", "offset 100", "100 of the last 101")
		equal(t, "next offset", many.next(0), 100)
	})
	c.theMust(4, func(t *testing.T) {
		integer, err := decode.ParseColumnType("integer")
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range []bool{true, false} {
			r := newRig(t, newTopic(0), func(o *ingest.Options) {
				if declared {
					o.Columns = map[string]schema.Type{"level": integer.Type}
					o.Decode.Columns = map[string]decode.ColumnSpec{"level": integer}
				}
			})
			r.send(records[0])
			r.send(edited(t, records[3], 1, 0, `"level":1`, `"level":"many"`))
			r.mustWork()
			sameList(t, "ids", ids(r.current()), []string{"1"})
			dead := r.deadLetters()
			if len(dead) != 1 || dead[0].Offset != 1 || dead[0].Reason != "value" || dead[0].Column != "level" {
				t.Errorf("dead letters %+v", dead)
			}
		}
	})
	c.theMust(5, func(t *testing.T) {
		// Above the promised size: by coordinates, length and first MiB.
		r := newRig(t, newTopic(0), func(o *ingest.Options) { o.MaxRecord = 8 << 20 })
		r.topic.maxRecord = 8 << 20
		r.send(records...)
		r.workAt("2022-07-17T00:20:00+08:00")
		sameList(t, "ids", ids(r.mustAsOf("2022-07-16")), []string{"1", "3"})
		dead := r.deadLetters()
		if len(dead) != 3 {
			t.Fatalf("%d dead letters", len(dead))
		}
		last := dead[2]
		equal(t, "offset", last.Offset, 4)
		equal(t, "reason", last.Reason, "oversize")
		equal(t, "length", last.Length, int64(len(records[4].Key)+len(records[4].Value)))
		equal(t, "kept", len(last.Value), 1<<20)
		if !strings.Contains(last.Detail, fmt.Sprint(last.Length)) {
			t.Errorf("detail %q", last.Detail)
		}
	})
	c.theChoice(1, func(t *testing.T) {
		// The default is the dead letter; dead_letter.limit 0 is the strict mode.
		o := ingest.Options{}
		equal(t, "limit", o.DeadLetterFraction, 0)
		r := small(t)
		r.mustWork()
		equal(t, "dead letters", len(r.deadLetters()), 2)
	})
}

func TestCase23ColumnAppears(t *testing.T) {
	c := theCase(t, 23)
	steps := c.steps("Input")
	records := recordsOf(steps)
	c.everyWay(func(t *testing.T, r *rig) {
		r.play(steps, nil)
		c.checkAsOf(t, r)
		for _, e := range c.expect(nil, "as_of", "columns") {
			for _, row := range r.mustAsOf(e.text("as_of")) {
				if v, there := row["email"]; there && v != nil {
					t.Errorf("as of %s: email %v", e.text("as_of"), v)
				}
			}
			equal(t, "rows", len(r.mustAsOf(e.text("as_of"))), 2)
		}
		r.checkVersions(false)
		r.checkHistoryRows(c)
	})
	r := newRig(t, newTopic(0))
	r.play(steps, nil)
	c.theMust(1, func(t *testing.T) {
		changed := 0
		for _, v := range r.log() {
			if v.Metadata == nil || v.version == 0 {
				continue
			}
			changed++
			s, err := schema.Parse(v.Metadata.SchemaString)
			if err != nil {
				t.Fatal(err)
			}
			f := s.Fields[s.Index("email")]
			if !f.Nullable || f.Type != schema.Of(schema.StringType) {
				t.Errorf("field %+v", f)
			}
			equal(t, "label", v.progress.Label, "2022-07-16")
			if len(v.Adds) == 0 || !v.changesData() {
				t.Errorf("version %d changes the schema without data", v.version)
			}
		}
		equal(t, "versions that change the schema", changed, 1)
		// The day before has the schema that it had.
		at, err := r.table().SnapshotAt(ctx, r.labels().Entries[0].Version)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "email in the schema of the 15th", at.Schema().Index("email"), -1)
	})
	c.theMust(2, func(t *testing.T) { r.checkHistoryRows(c) })
	c.leaveMust(3, "hashes are of the columns of both schemas; that key 9 has no second history row shows it")
	c.theMust(4, func(t *testing.T) {
		r := newRig(t, newTopic(0))
		r.play(steps, nil)
		update := edited(t, records[2], 4, instant(t, "2022-07-17T10:00:00+08:00").UnixMilli(),
			`"ts_ms":1657936800000`, `"ts_ms":1658023200000`, `"pos":200`, `"pos":400`, `"level":1},"after"`, `"level":1,"email":"u1@x.example"},"after"`,
			`,"email":"u1@x.example"},"source"`, `},"source"`, `"after":{"id":1,"name":"A"`, `"after":{"id":1,"name":"Anna"`)
		r.send(update)
		r.mustWork()
		equal(t, "dead letters", len(r.deadLetters()), 0)
		for _, row := range r.current() {
			if fmt.Sprint(row["id"]) == "1" {
				equal(t, "name", fmt.Sprint(row["name"]), "Anna")
				equal(t, "email", fmt.Sprint(row["email"]), "u1@x.example")
			}
		}
	})
	c.theChoice(1, func(t *testing.T) {
		r := newRig(t, newTopic(0), func(o *ingest.Options) { o.NewColumn = ingest.Fail })
		r.play(steps[:3], nil)
		versions := len(r.log())
		r.send(records[2:]...)
		r.clock = instant(t, "2022-07-17T00:20:00+08:00")
		err := r.work()
		if !errors.Is(err, ingest.ErrRefused) {
			t.Fatalf("new_column: fail: %v", err)
		}
		says(t, err, "email", "partition 0", "offset 2")
		equal(t, "next offset", r.next(0), 2)
		for _, v := range r.log()[versions:] {
			if v.changesData() || v.Metadata != nil {
				t.Errorf("version %d was committed", v.version)
			}
		}
	})
}
