package ingest_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// A TRUNCATE has a label and no key: a table made of it alone could never take a row.
func TestFirstRecordWithoutKey(t *testing.T) {
	cal, err := snapshotter.NewCalendar("day", "Asia/Shanghai", "")
	if err != nil {
		t.Fatal(err)
	}
	s := newSource(rand.New(rand.NewPCG(1, 1)), features{partitions: 1}, cal, time.Date(2022, 7, 16, 4, 0, 0, 0, time.UTC).UnixMicro())
	s.truncate()
	s.change()
	events, _ := s.deliver()
	for n := 1; n <= 2; n++ {
		store := mem.New()
		lane, err := ingest.New(ingest.Options{Name: "t", Store: store, Calendar: cal, UntilEnd: true},
			newFeed(rand.New(rand.NewPCG(1, 1)), map[int32][]*event{0: events[:n]}, s.now, 10))
		if err != nil {
			t.Fatal(err)
		}
		err = lane.Run(ctx)
		_, noTable := delta.Open(ctx, store)
		if n == 1 && (!errors.Is(err, ingest.ErrNoKey) || !strings.Contains(err.Error(), "--key") || !errors.Is(noTable, delta.ErrNotATable)) {
			t.Errorf("a TRUNCATE alone: %v, %v", err, noTable)
		}
		if n == 2 && (err != nil || noTable != nil) {
			t.Errorf("a row behind it names the key: %v, %v", err, noTable)
		}
	}
}

// Flattened records whose deletes come as tombstones, or not at all: the table does
// not begin before it was said what tombstones do.
func TestTombstonesMustBeChosen(t *testing.T) {
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	record := func(offset int64, id, value string) *change.Record {
		r := &change.Record{Topic: "log", Offset: offset, Timestamp: 1657936801000, Key: []byte(`{"id":` + id + `}`)}
		if value != "" {
			r.Value = []byte(value)
		}
		return r
	}
	log := []*change.Record{
		record(0, "1", ""),
		record(1, "1", `{"id":1,"__op":"c","__source_ts_ms":1657936800000}`),
		record(2, "2", `{"id":2,"__op":"c","__source_ts_ms":1657936800000}`),
		record(3, "2", ""),
	}
	for _, format := range []string{decode.Auto, decode.DebeziumFlat} {
		for choice, rows := range map[string]int64{"": -1, ingest.Ignore: 2, ingest.DeleteIt: 1} {
			store := mem.New()
			lane, err := ingest.New(ingest.Options{Name: "t", Store: store, DeadLetterStore: mem.New(), Calendar: cal, Format: format, UntilEnd: true,
				Tombstones: choice, Decode: decode.Options{Tombstones: choice}}, &fixed{records: log})
			if err != nil {
				t.Fatal(err)
			}
			err = lane.Run(ctx)
			table, openErr := delta.Open(ctx, store)
			if rows < 0 {
				if !errors.Is(err, ingest.ErrRefused) || !strings.Contains(err.Error(), "set tombstones: delete, or ignore") || !errors.Is(openErr, delta.ErrNotATable) {
					t.Errorf("%s without a choice: %v, %v", format, err, openErr)
				}
				continue
			}
			if err != nil || openErr != nil {
				t.Fatalf("%s, %s: %v, %v", format, choice, err, openErr)
			}
			newest, err := table.Snapshot(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if p, err := savepoint.ProgressOf(ctx, table, newest); err != nil || p.Rows != rows {
				t.Errorf("%s, %s: %v, %+v, want %d rows", format, choice, err, p, rows)
			}
		}
	}
}
