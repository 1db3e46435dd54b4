package ingest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/deadletter"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/snapshotter"
)

// TestDMS: what AWS DMS leaves out of an update is NULL; a changed key takes its old row
// along where the row before is there, and is a dead letter where it is not.
func TestDMS(t *testing.T) {
	const day = `"commit-timestamp":"2022-07-16T%02d:00:00.000001Z"`
	var log []*change.Record
	add := func(operation, rest string) {
		at := fmt.Sprintf(day, len(log)+1)
		if operation == "load" {
			at = `"partition-key-type":"primary-key"`
		}
		log = append(log, &change.Record{Topic: "log", Offset: int64(len(log)), Timestamp: 1657929600_000 + int64(len(log)+1)*3600_000 + 500,
			Value: fmt.Appendf(nil, `{"metadata":{"record-type":"data","operation":%q,"schema-name":"shop","table-name":"t","timestamp":"2022-07-16T01:00:00Z",%s},%s}`, operation, at, rest)})
	}
	add("load", `"data":{"id":1,"a":"x","b":"y"}`)
	add("load", `"data":{"id":2,"a":"x"}`)
	add("insert", `"data":{"id":3,"a":"x","b":"y"}`)
	add("update", `"data":{"id":1,"a":"z"}`)                                        // b is NULL now
	add("update", `"data":{"id":5,"a":"moved"},"before-image":{"id":2,"a":"x"}`)    // 2 is 5 now
	add("update", `"data":{"id":6,"a":"lost"}`)                                     // of which row?
	add("update", `"data":{"id":3,"a":"x","b":"z","BI_id":3,"BI_a":"x","BI_b":""}`) // the same key
	add("delete", `"data":{"id":5,"a":null}`)
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, keyChanges := range []string{"", "none"} {
		store, dead := mem.New(), mem.New()
		lane, err := ingest.New(ingest.Options{Name: "t", Store: store, DeadLetterStore: dead, Calendar: cal, Key: []string{"id"}, Format: decode.Auto, UntilEnd: true,
			Decode: decode.Options{KeyColumns: []string{"id"}, DMS: decode.DMS{KeyChanges: keyChanges}}}, &fixed{records: log})
		if err != nil {
			t.Fatal(err)
		}
		if err := lane.Run(ctx); err != nil {
			t.Fatal(err)
		}
		want := []string{"1 z NULL", "3 x z"}
		if keyChanges == "none" {
			want = append(want, "6 lost NULL")
		}
		if got := rowTexts(t, store); !slices.Equal(got, want) {
			t.Errorf("key_changes %q: %v, want %v", keyChanges, got, want)
		}
		var entries []string
		err = deadletter.Open(dead).Each(ctx, func(e deadletter.Entry) error {
			entries = append(entries, fmt.Sprintf("%d %s %s", e.Offset, e.Reason, e.Detail))
			return nil
		})
		if err != nil || keyChanges == "" && (len(entries) != 1 || !strings.HasPrefix(entries[0], "5 key an update of a key that has no row")) || keyChanges == "none" && len(entries) != 0 {
			t.Errorf("key_changes %q: dead letters %q, %v", keyChanges, entries, err)
		}
	}
}

// rowTexts gives the newest rows as text, sorted.
func rowTexts(t *testing.T, store *mem.Store) (rows []string) {
	t.Helper()
	_, _, newest := newestRows(t, store)
	for _, row := range newest {
		cells := make([]string, len(row))
		for i, v := range row {
			switch v.Kind {
			case schema.Null:
				cells[i] = "NULL"
			case schema.String:
				cells[i] = v.S
			default:
				cells[i] = fmt.Sprint(v.I)
			}
		}
		rows = append(rows, strings.Join(cells, " "))
	}
	slices.Sort(rows)
	return rows
}

// TestTombstonesSentAgain: a stretch that Debezium sends again after a restart does not
// delete what was inserted since, wherever the process ends between.
func TestTombstonesSentAgain(t *testing.T) {
	event := func(op string, pos int) string {
		row := `"after":{"id":1,"a":"x"}`
		if op == "d" {
			row = `"before":{"id":1,"a":"x"}`
		}
		return fmt.Sprintf(`{"op":%q,%s,"source":{"name":"s","server_id":1,"file":"b.000001","pos":%d,"row":0,"ts_ms":1657936800000,"db":"d","table":"t"}}`, op, row, pos)
	}
	flat := func(op string) string {
		return fmt.Sprintf(`{"id":1,"a":"x","__op":%q,"__name":"s","__server_id":1,"__file":"b.000001","__pos":1,"__row":0,"__source_ts_ms":1657936800000}`, op)
	}
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		format string
		values []string
		want   int
	}{
		"sent again":        {"debezium-json", []string{event("c", 1), event("d", 2), "", event("c", 3), event("d", 2), "", event("c", 3)}, 1},
		"and again":         {"debezium-json", []string{event("c", 1), event("d", 2), "", event("c", 3), event("d", 2), "", event("d", 2), "", event("c", 3)}, 1},
		"a new one behind":  {"debezium-json", []string{event("c", 1), event("d", 2), "", event("c", 3), event("d", 2), "", event("c", 3), event("d", 4), ""}, 0},
		"a tombstone alone": {"debezium-json", []string{event("c", 1), event("d", 2), "", event("c", 3), event("c", 3), ""}, 0},
		"flattened":         {decode.DebeziumFlat, []string{flat("c"), "", flat("c"), flat("c"), "", flat("c")}, 1},
	} {
		for _, rows := range []int{1, 2, 100} {
			src := &fixed{}
			for i, v := range c.values {
				r := &change.Record{Topic: "log", Offset: int64(i), Timestamp: 1657936801000, Key: []byte(`{"id":1}`)}
				if v != "" {
					r.Value = []byte(v)
				}
				src.records = append(src.records, r)
			}
			store := mem.New()
			lane, err := ingest.New(ingest.Options{Name: "t", Store: store, DeadLetterStore: mem.New(), Calendar: cal, Format: c.format, UntilEnd: true, BatchRows: rows,
				Tombstones: ingest.DeleteIt, Decode: decode.Options{Tombstones: ingest.DeleteIt}}, src)
			if err != nil {
				t.Fatal(err)
			}
			if err := lane.Run(ctx); err != nil {
				t.Fatal(err)
			}
			if got := rowTexts(t, store); len(got) != c.want {
				t.Errorf("%s, batches of %d: %v, want %d rows", name, rows, got, c.want)
			}
		}
	}
}
