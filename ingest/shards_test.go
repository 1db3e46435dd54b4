package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/ingest/recording"
	"github.com/gscd-io/gscd/ingest/transform"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// TestShards: two shards whose servers have one name and number, and whose positions
// overlap, are two: no change of one is taken for a repeat of the other's, and the
// TRUNCATE of one is refused.
func TestShards(t *testing.T) {
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2022, 7, 16, 12, 0, 0, 0, time.UTC).UnixMilli()
	offsets := map[string]int{}
	line := func(topic, table, op string, pos int, rest string) string {
		offset := offsets[topic]
		offsets[topic]++
		return fmt.Sprintf(`{"topic":%q,"partition":0,"offset":%d,"ts":%d,"key":{"id":1},"value":{"op":%q,%s"source":{"name":"app","server_id":1,"file":"b.000001","pos":%d,"ts_ms":%d,"db":"shop","table":%q}}}`,
			topic, offset, at+int64(pos), op, rest, pos, at+int64(pos), table)
	}
	row := func(id, v int) string { return fmt.Sprintf(`"after":{"id":%d,"v":%d},`, id, v) }
	lines := []string{
		line("east", "orders_00", "c", 900, row(1, 10)),
		line("west", "orders_00", "c", 100, row(1, 20)), // below the other's position
		line("west", "orders_00", "c", 100, row(1, 20)), // sent twice
		line("east", "orders_01", "c", 901, row(1, 30)),
		line("west", "orders_00", "u", 200, row(1, 21)),
		line("west", "other", "c", 300, row(1, 99)),
		line("east", "orders_01", "d", 902, `"before":{"id":1,"v":30},`),
		line("east", "orders_01", "c", 903, row(2, 31)),
	}
	run := func(lines []string, from string, key ...string) (string, error) {
		file := filepath.Join(t.TempDir(), "shards.jsonl")
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		source, err := recording.Open([]string{file}, recording.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer source.Close()
		rules, err := transform.New(transform.Settings{Shard: &transform.Shard{Column: "shard", From: from}, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		store := mem.New()
		o := ingest.Options{
			Name: "t", Store: store, DeadLetterStore: mem.New(), Calendar: cal, UntilEnd: true, Format: "auto", Transform: rules, Key: key,
			Decode: decode.Options{Source: "shop.orders_*"}, Now: func() time.Time { return time.UnixMilli(at + 2000) },
		}
		lane, err := ingest.New(o, source)
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		if err := lane.Run(ctx); err != nil {
			return "", err
		}
		table, snap, cells := newestRows(t, store)
		var rows []string
		for _, row := range cells {
			rows = append(rows, fmt.Sprintf("%s/%d=%d", row[0].S, row[1].I, row[2].I))
		}
		slices.Sort(rows)
		p, err := savepoint.ProgressOf(ctx, table, snap)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s; %d lines, %d duplicates, %d filtered", strings.Join(rows, " "), len(p.State.Lines), p.Totals.Duplicates, p.Totals.Filtered), nil
	}
	// By topic the tables of one shard are one: the insert of orders_01 is an update.
	for _, c := range []struct{ from, want string }{
		{"topic", "east/2=31 west/1=21; 2 lines, 1 duplicates, 1 filtered"},
		{"table", "orders_00/1=10 orders_01/2=31; 2 lines, 0 duplicates, 0 filtered"},
	} {
		for _, key := range [][]string{nil, {"shard", "id"}} {
			lines := lines
			if c.from == "table" { // of one server
				lines = slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !strings.Contains(line, "east") })
			}
			got, err := run(lines, c.from, key...)
			if err != nil || got != c.want {
				t.Errorf("from %s, key %v: %s, %v; want %s", c.from, key, got, err, c.want)
			}
		}
	}
	_, err = run(append(slices.Clone(lines), line("west", "orders_00", "t", 400, "")), "topic")
	if !errors.Is(err, ingest.ErrRefused) || !strings.Contains(err.Error(), "TRUNCATE of shard west") {
		t.Errorf("a TRUNCATE: %v", err)
	}
	for _, s := range []transform.Settings{
		{Shard: &transform.Shard{Column: "shard", From: "topic"}, Key: []string{"id"}},
		{Shard: &transform.Shard{From: "topic"}}, {Shard: &transform.Shard{Column: "shard", From: "moon"}},
	} {
		if _, err := transform.New(s); err == nil {
			t.Errorf("%+v: taken", s)
		}
	}
}
