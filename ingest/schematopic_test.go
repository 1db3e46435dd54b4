package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/snapshotter"
)

// ddlTopic is a schema topic of which more is there each time that it is asked.
type ddlTopic struct {
	records  []*change.Record
	shown    []int // records, by how often it was asked
	asked    int
	earliest int64
	parts    int
	next     int64
}

func (d *ddlTopic) end() int64 {
	return int64(d.shown[min(max(d.asked-1, 0), len(d.shown)-1)])
}

func (d *ddlTopic) Partitions(context.Context) ([]change.PartitionState, time.Time, error) {
	d.asked++
	var out []change.PartitionState
	for n := range d.parts {
		out = append(out, change.PartitionState{ID: change.PartitionID{Topic: "app", Partition: int32(n)}, Earliest: d.earliest, End: d.end()})
	}
	return out, time.Now(), nil
}

func (d *ddlTopic) Assign(_ context.Context, at map[change.PartitionID]int64) error {
	d.next = at[change.PartitionID{Topic: "app"}]
	return nil
}

func (d *ddlTopic) Poll(context.Context, int) ([]change.Block, error) {
	if d.next >= d.end() {
		return nil, nil
	}
	b := change.Block{ID: change.PartitionID{Topic: "app"}, Records: d.records[d.next:d.end()], Next: d.end()}
	d.next = b.Next
	return []change.Block{b}, nil
}

func (d *ddlTopic) Pause(...change.PartitionID)  {}
func (d *ddlTopic) Resume(...change.PartitionID) {}
func (d *ddlTopic) Close() error                 { return nil }

// TestSchemaTopicLate: whenever the statements arrive, in front of the rows or behind
// them, the rows are the same; a topic that lacks something is refused.
func TestSchemaTopicLate(t *testing.T) {
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2022, 7, 16, 12, 0, 0, 0, time.UTC).UnixMilli()
	define := func(n, pos int64, columns string) *change.Record {
		return &change.Record{Topic: "app", Offset: n, Value: fmt.Appendf(nil,
			`{"source":{"name":"app","server_id":1,"file":"b.000001","pos":%d,"ts_ms":%d},"databaseName":"d","ddl":"x","tableChanges":[{"type":"ALTER","id":"\"d\".\"t\"","table":{"columns":[{"name":"id","typeName":"INT"},%s]}}]}`, pos, at, columns)}
	}
	row := func(n, pos int64, cells string) *change.Record {
		return &change.Record{Topic: "log", Offset: n, Timestamp: at + 100, Key: fmt.Appendf(nil, `{"id":%d}`, n), Value: fmt.Appendf(nil,
			`{"op":"c","after":{"id":%d,%s},"source":{"name":"app","server_id":1,"file":"b.000001","pos":%d,"ts_ms":%d,"db":"d","table":"t"}}`, n, cells, pos, at)}
	}
	ddl := []*change.Record{
		define(0, 10, `{"name":"v","typeName":"DECIMAL","length":10,"scale":2}`),
		define(1, 200, `{"name":"v","typeName":"DECIMAL","length":10,"scale":4}`), // the same base64 is another number
		define(2, 400, `{"name":"v","typeName":"DECIMAL","length":10,"scale":4},{"name":"w","typeName":"DATE"}`),
	}
	rows := []*change.Record{row(0, 100, `"v":"AfQ="`), row(1, 300, `"v":"AfQ="`), row(2, 500, `"v":"AfQ=","w":1`)}
	run := func(d *ddlTopic) (string, int64, error) {
		store := mem.New()
		lane, err := ingest.New(ingest.Options{
			Name: "t", Store: store, DeadLetterStore: mem.New(), Calendar: cal, UntilEnd: true, Format: "auto",
			Now: func() time.Time { return time.UnixMilli(at + 1000) },
			SchemaTopic: &ingest.SchemaTopic{Topic: "app", Open: func(context.Context) (ingest.Source, io.Closer, error) {
				return d, d, nil
			}},
		}, &fixed{records: rows})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		if err := lane.Run(ctx); err != nil {
			return "", 0, err
		}
		_, snap, cells := newestRows(t, store)
		var out []string
		for _, row := range cells {
			text := fmt.Sprint(row[0].I)
			for i, f := range snap.Schema().Fields[1:] {
				if f.Name == "v" {
					text += " " + row[i+1].DecimalText(f.Type.Scale) + " " + f.Type.String()
				}
			}
			out = append(out, text)
		}
		return strings.Join(out, ", "), snap.Version(), nil
	}
	want, _, err := run(&ddlTopic{records: ddl, shown: []int{3}, parts: 1})
	if err != nil || !strings.HasPrefix(want, "0 5.00 ") {
		t.Fatalf("%s, %v", want, err)
	}
	for _, shown := range [][]int{{1, 1, 2, 3}, {1, 1, 3}, {1, 2, 3}, {1, 3}} {
		got, version, err := run(&ddlTopic{records: ddl, shown: shown, parts: 1})
		if err != nil || got != want || version != 0 {
			t.Errorf("shown %v: %s in version %d, %v; want %s in 0", shown, got, version, err, want)
		}
	}
	for _, c := range []struct {
		d     *ddlTopic
		fault string
	}{
		{&ddlTopic{records: ddl, shown: []int{3}}, "no such topic"},
		{&ddlTopic{records: ddl, shown: []int{3}, parts: 2}, "2 partitions"},
		{&ddlTopic{records: ddl, shown: []int{3}, parts: 1, earliest: 2}, "first 2 records were removed"},
		{&ddlTopic{records: ddl, shown: []int{3, 1}, parts: 1}, "made anew"},
		{&ddlTopic{records: rows, shown: []int{1}, parts: 1}, "no record of a Debezium schema change topic"},
	} {
		if _, _, err := run(c.d); !errors.Is(err, ingest.ErrRefused) || !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%v, want %q", err, c.fault)
		}
	}
}
