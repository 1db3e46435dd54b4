package ingest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/deadletter"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// canalRow is one row of a message of Canal.
type canalRow struct {
	kind      string // INSERT, UPDATE, DELETE
	at        int64  // event time in milliseconds
	data, old string
}

// canalRecord makes a record of rows of one kind and time.
func canalRecord(offset int64, rows []canalRow) *change.Record {
	var data, old []string
	for _, r := range rows {
		data, old = append(data, r.data), append(old, r.old)
	}
	olds := "null"
	if rows[0].kind == "UPDATE" {
		olds = "[" + strings.Join(old, ",") + "]"
	}
	return &change.Record{
		Topic: "log", Offset: offset, Timestamp: rows[0].at + 500,
		Value: fmt.Appendf(nil, `{"database":"d","table":"t","type":%q,"isDdl":false,"es":%d,"pkNames":["id"],"mysqlType":{"id":"int","v":"int"},"data":[%s],"old":%s}`,
			rows[0].kind, rows[0].at, strings.Join(data, ","), olds),
	}
}

// sealedRows gives the rows of every label, as text, and the totals.
func sealedRows(t *testing.T, store *mem.Store) (map[string][]string, string) {
	t.Helper()
	ctx := context.Background()
	table, err := delta.Open(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	newest, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	labels, err := savepoint.Read(ctx, table, newest)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, e := range labels.Entries {
		snap, err := table.SnapshotAt(ctx, e.Version)
		if err != nil {
			t.Fatal(err)
		}
		reading, err := scan.New(store, snap, scan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		rows := []string{}
		for row, err := range reading.Rows(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, fmt.Sprint(row[0].I, "=", row[1].I, row[1].Kind == schema.Null))
		}
		slices.Sort(rows)
		out[e.Name] = rows
	}
	p := labels.Progress
	if p.Totals.Missing() != 0 {
		t.Errorf("totals %+v: %d missing", p.Totals, p.Totals.Missing())
	}
	return out, fmt.Sprintf("applied %d, superseded %d, dead letters %d, holes %d", p.Totals.Applied, p.Totals.Superseded, p.Totals.DeadLetters, p.Totals.Holes)
}

// TestRowsOfOneRecord: rows that come many in a record lead to what they lead to
// one by one, however the process ends between, in what is held and in what is a
// dead letter too.
func TestRowsOfOneRecord(t *testing.T) {
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		// Messages over three days, dense around midnight; times step back a little.
		at := time.Date(2022, 7, 16, 23, 30, 0, 0, time.UTC).UnixMilli()
		var messages [][]canalRow
		live := map[int]bool{}
		for range 60 {
			at += r.Int64N(9 * 60_000)
			if r.IntN(12) == 0 {
				at += 20 * 3600_000
			}
			when := at - r.Int64N(3*60_000)
			kind := []string{"INSERT", "UPDATE", "DELETE"}[r.IntN(3)]
			var rows []canalRow
			for range 1 + r.IntN(5) {
				id, row := r.IntN(12), canalRow{kind: kind, at: when, old: "{}"}
				row.data = fmt.Sprintf(`{"id":"%d","v":"%d"}`, id, r.IntN(1000))
				switch {
				case kind == "UPDATE" && live[id] && r.IntN(3) == 0: // a key changes
					to := r.IntN(12)
					row.old = fmt.Sprintf(`{"id":"%d"}`, id)
					row.data = fmt.Sprintf(`{"id":"%d","v":"%d"}`, to, r.IntN(1000))
					delete(live, id)
					live[to] = true
				case kind == "DELETE":
					delete(live, id)
				case r.IntN(25) == 0:
					row.data = fmt.Sprintf(`{"id":"%d","v":"none"}`, id) // no integer
				default:
					live[id] = true
				}
				rows = append(rows, row)
			}
			messages = append(messages, rows)
		}
		var many, single []*change.Record
		for _, rows := range messages {
			many = append(many, canalRecord(int64(len(many)), rows))
			for _, row := range rows {
				single = append(single, canalRecord(int64(len(single)), []canalRow{row}))
			}
		}
		run := func(records []*change.Record, rowLimit int, stops ...int) (map[string][]string, string, int) {
			store, dead := mem.New(), mem.New()
			for _, n := range append(stops, len(records)) {
				lane, err := ingest.New(ingest.Options{
					Name: "t", Store: store, DeadLetterStore: dead, DeadLetterFloor: 1000, Calendar: cal, UntilEnd: true, Format: "auto",
					DriftWait: 10 * time.Minute, DriftIdle: 5 * time.Minute, MaxClockSkew: 5 * time.Minute, BatchRows: rowLimit,
					Now: func() time.Time { return time.UnixMilli(records[n-1].Timestamp) },
				}, &fixed{records: records[:n]})
				if err != nil {
					t.Fatal(err)
				}
				if err := lane.Run(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			rows, totals := sealedRows(t, store)
			entries := 0
			err := deadletter.Open(dead).Each(context.Background(), func(e deadletter.Entry) error {
				entries++
				if strings.Count(string(e.Value), `"id":`) > 2+1 { // data, old, mysqlType
					t.Errorf("an entry of several rows: %s", e.Value)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return rows, totals, entries
		}
		want, wantTotals, wantDead := run(single, 1000)
		if len(want) < 2 {
			t.Fatalf("seed %d: %d labels", seed, len(want))
		}
		for _, stops := range [][]int{nil, {1 + r.IntN(20), 30 + r.IntN(25)}} {
			got, totals, dead := run(many, 1+r.IntN(40), stops...)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("seed %d, stops %v:\n%v, want\n%v", seed, stops, got, want)
			}
			if totals != wantTotals || dead != wantDead {
				t.Errorf("seed %d, stops %v: %s, %d entries; want %s, %d", seed, stops, totals, dead, wantTotals, wantDead)
			}
		}
	}
}

// A table that tells rows apart by their records can't have several in one.
func TestAppendOfRows(t *testing.T) {
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ingest.New(ingest.Options{Store: mem.New(), Calendar: cal, Append: true, Format: "canal-json"}, &fixed{}); err == nil || !strings.Contains(err.Error(), "set a key") {
		t.Fatalf("mode append with canal-json: %v", err)
	}
}

// newestRows gives the rows of the newest version of a table.
func newestRows(t testing.TB, store objstore.Store) (*delta.Table, *delta.Snapshot, [][]schema.Value) {
	t.Helper()
	ctx := context.Background()
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
	var rows [][]schema.Value
	for row, err := range reading.Rows(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, slices.Clone(row))
	}
	return table, newest, rows
}
