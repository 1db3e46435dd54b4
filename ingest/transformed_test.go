package ingest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/transform"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// TestRowFilter: a table with a condition of rows has, at the end of every day, the
// rows that meet it of the table without one, however rows came in and left.
func TestRowFilter(t *testing.T) {
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 7))
		at := time.Date(2022, 7, 16, 20, 0, 0, 0, time.UTC).UnixMilli()
		live := map[int]int{}
		var records []*change.Record
		add := func(kind, data, old string) {
			records = append(records, canalRecord(int64(len(records)), []canalRow{{kind: kind, at: at, data: data, old: old}}))
		}
		row := func(id, v int) string { return fmt.Sprintf(`{"id":"%d","v":"%d"}`, id, v) }
		for range 200 {
			at += r.Int64N(12 * 60_000)
			id, v := r.IntN(10), r.IntN(20)
			was, there := live[id]
			switch {
			case !there:
				add("INSERT", row(id, v), "")
				live[id] = v
			case r.IntN(4) == 0:
				add("DELETE", row(id, was), "")
				delete(live, id)
			case r.IntN(4) == 0:
				to := r.IntN(10)
				if _, taken := live[to]; taken {
					continue
				}
				add("UPDATE", row(to, v), fmt.Sprintf(`{"id":"%d","v":"%d"}`, id, was))
				delete(live, id)
				live[to] = v
			default:
				add("UPDATE", row(id, v), fmt.Sprintf(`{"v":"%d"}`, was))
				live[id] = v
			}
		}
		run := func(where string) map[string][]string {
			rules, err := transform.New(transform.Settings{Where: where})
			if err != nil {
				t.Fatal(err)
			}
			store := mem.New()
			for _, n := range []int{70, len(records)} {
				lane, err := ingest.New(ingest.Options{
					Name: "t", Store: store, DeadLetterStore: mem.New(), Calendar: cal, UntilEnd: true, Format: "auto", Transform: rules, BatchRows: 1 + r.IntN(30),
					DriftWait: 10 * time.Minute, DriftIdle: 5 * time.Minute, MaxClockSkew: 5 * time.Minute,
					Now: func() time.Time { return time.UnixMilli(records[n-1].Timestamp).Add(time.Hour) },
				}, &fixed{records: records[:n]})
				if err != nil {
					t.Fatal(err)
				}
				if err := lane.Run(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			rows, _ := sealedRows(t, store)
			return rows
		}
		all, got := run(""), run("v < 10")
		want := map[string][]string{}
		for day, rows := range all {
			want[day] = slices.DeleteFunc(slices.Clone(rows), func(row string) bool {
				var id, v int
				fmt.Sscanf(strings.Replace(row, "=", " ", 1), "%d %d", &id, &v)
				return v >= 10
			})
		}
		for day := range want {
			if fmt.Sprint(got[day]) != fmt.Sprint(want[day]) {
				t.Errorf("seed %d, %s:\n%v, want\n%v of\n%v", seed, day, got[day], want[day], all[day])
			}
		}
	}
}

// TestTransformChanged: hashed keys find their rows again, and other settings are
// noticed: from then on labels are incomplete.
func TestTransformChanged(t *testing.T) {
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2022, 7, 16, 12, 0, 0, 0, time.UTC).UnixMilli()
	records := []*change.Record{
		canalRecord(0, []canalRow{{kind: "INSERT", at: at, data: `{"id":"1","v":"7"}`}, {kind: "INSERT", at: at, data: `{"id":"2","v":"8"}`}}),
		canalRecord(1, []canalRow{{kind: "UPDATE", at: at, data: `{"id":"1","v":"9"}`, old: `{"v":"7"}`}}),
		canalRecord(2, []canalRow{{kind: "DELETE", at: at, data: `{"id":"2","v":"8"}`}}),
	}
	store := mem.New()
	run := func(n int, s transform.Settings) (rows int, reason string) {
		rules, err := transform.New(s)
		if err != nil {
			t.Fatal(err)
		}
		lane, err := ingest.New(ingest.Options{
			Name: "t", Store: store, DeadLetterStore: mem.New(), Calendar: cal, UntilEnd: true, Format: "auto", Transform: rules,
			Now: func() time.Time { return time.UnixMilli(at + 1000) },
		}, &fixed{records: records[:n]})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		if err := lane.Run(ctx); err != nil {
			t.Fatal(err)
		}
		table, snap, cells := newestRows(t, store)
		for _, row := range cells {
			if rows++; len(row[0].S) != 64 {
				t.Errorf("key %q", row[0].S)
			}
		}
		p, err := savepoint.ProgressOf(ctx, table, snap)
		if err != nil {
			t.Fatal(err)
		}
		if p.Transform != rules.Fingerprint() {
			t.Errorf("transform %s", p.Transform)
		}
		if p.Incomplete != nil {
			reason = p.Incomplete.Reason
		}
		return rows, reason
	}
	hash := transform.Settings{Hash: []string{"id"}, Secret: []byte("sixteen bytes or more"), Key: []string{"id"}}
	if rows, reason := run(1, hash); rows != 2 || reason != "" {
		t.Fatalf("%d rows, incomplete: %s", rows, reason)
	}
	if rows, reason := run(2, hash); rows != 2 || reason != "" {
		t.Fatalf("%d rows, incomplete: %s", rows, reason)
	}
	hash.Where = "v > 0"
	if rows, reason := run(3, hash); rows != 1 || !strings.Contains(reason, `"where":"v > 0"`) {
		t.Fatalf("%d rows, incomplete: %s", rows, reason)
	}
}
