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
