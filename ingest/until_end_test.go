package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/recording"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// slowTopic brings nothing at the first polls, as a broker that is just being
// connected to, and keeps back what stands at or behind an offset of partition 0
// as if it were of an open transaction.
type slowTopic struct {
	*recording.Recording
	slow    int
	settled int64
}

func (s *slowTopic) Poll(ctx context.Context, n int) ([]change.Block, error) {
	if s.slow > 0 {
		s.slow--
		return nil, ctx.Err()
	}
	blocks, err := s.Recording.Poll(ctx, n)
	for i := range blocks {
		b := &blocks[i]
		for len(b.Records) > 0 && b.Records[len(b.Records)-1].Offset >= s.settled {
			b.Records = b.Records[:len(b.Records)-1]
		}
		b.Next = min(b.Next, s.settled)
	}
	return blocks, err
}

func (s *slowTopic) SettledEnds(context.Context) (map[change.PartitionID]int64, error) {
	return map[change.PartitionID]int64{{Topic: "t", Partition: 0}: s.settled}, nil
}

// runRecording ingests lines of a recording whole, under the options given and a
// clock of two days later.
func runRecording(t *testing.T, lines string, o ingest.Options) error {
	t.Helper()
	r := openRecording(t, lines)
	o.Name, o.UntilEnd = "t", true
	o.Now = func() time.Time { return time.Date(2022, 7, 18, 1, 0, 0, 0, time.UTC) }
	var err error
	if o.Calendar, err = snapshotter.NewCalendar("day", "UTC", ""); err != nil {
		t.Fatal(err)
	}
	lane, err := ingest.New(o, r)
	if err != nil {
		t.Fatal(err)
	}
	return lane.Run(t.Context())
}

func openRecording(t *testing.T, lines string) *recording.Recording {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.jsonl")
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := recording.Open([]string{path}, recording.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func TestUntilEndWaitsForWhatIsThere(t *testing.T) {
	var lines strings.Builder
	for i := range 10 {
		ms := 1657958400000 + int64(i)*1000
		fmt.Fprintf(&lines, `{"topic":"t","partition":0,"offset":%d,"ts":%d,"key":{"id":%d},"value":{"op":"c","after":{"id":%d},"source":{"ts_ms":%d,"name":"s","server_id":1,"file":"b.000001","pos":%d,"row":0},"ts_ms":%d}}`+"\n",
			i, ms, i, i, ms, 100+i, ms)
	}
	calendar, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		slow    int
		settled int64
		taken   int64
		sealed  int // the clock has passed two days
	}{
		{slow: 0, settled: 10, taken: 10, sealed: 2},
		{slow: 5, settled: 10, taken: 10, sealed: 2},
		{slow: 5, settled: 7, taken: 7, sealed: 0}, // what is open may be of the first day
		{slow: 5, settled: 0, taken: 0, sealed: 0},
	} {
		r := openRecording(t, lines.String())
		store := mem.New()
		lane, err := ingest.New(ingest.Options{
			Name: "t", Store: store, Calendar: calendar, UntilEnd: true,
			Now: func() time.Time { return time.Date(2022, 7, 18, 1, 0, 0, 0, time.UTC) },
		}, &slowTopic{r, c.slow, c.settled})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := lane.Run(ctx); err != nil || ctx.Err() != nil {
			t.Fatalf("%+v: %v, %v", c, err, ctx.Err())
		}
		p, sealed := &progress.Progress{}, 0
		table, err := delta.Open(ctx, store)
		if err == nil {
			s, err := table.Snapshot(ctx)
			if err != nil {
				t.Fatal(err)
			}
			m, err := savepoint.Read(ctx, table, s)
			if err != nil {
				t.Fatal(err)
			}
			p = m.Progress
			for _, e := range m.Entries {
				if e.State == savepoint.Sealed {
					sealed++
				}
			}
		} else if !errors.Is(err, delta.ErrNotATable) {
			t.Fatal(err)
		}
		if p.Totals.Taken != c.taken || sealed != c.sealed {
			t.Errorf("%+v: %d records taken, %d labels sealed", c, p.Totals.Taken, sealed)
		}
	}
}
