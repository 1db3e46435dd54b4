package ingest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
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
	table, err := delta.Open(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	newest, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	reading, err := scan.New(store, newest, scan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range reading.Rows(ctx) {
		if err != nil {
			t.Fatal(err)
		}
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
