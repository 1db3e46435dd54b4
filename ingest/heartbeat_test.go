package ingest

import (
	"testing"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/snapshotter"
)

// The time of a heartbeat is its source's, else its own, else the broker's; of one
// that is no JSON the decoder has said it.
func TestHeartbeatTime(t *testing.T) {
	const ms = 1657943100000
	for name, c := range map[string]struct {
		r    change.Record
		c    change.Change
		want int64
	}{
		"its own":         {change.Record{Value: []byte(`{"ts_ms":1657943100000}`), Timestamp: ms + 9}, change.Change{}, ms},
		"its source's":    {change.Record{Value: []byte(`{"payload":{"ts_ms":5,"source":{"ts_ms":1657943100000}}}`), Timestamp: ms + 9}, change.Change{}, ms},
		"in Avro":         {change.Record{Value: []byte{0, 0, 0, 0, 1, 2}, Timestamp: ms + 9}, change.Change{Op: change.Filtered, ProcessingTime: ms}, ms},
		"a row in Avro":   {change.Record{Value: []byte{0, 0, 0, 0, 1, 2}, Timestamp: ms + 9}, change.Change{Op: change.Update, EventTime: ms * 1000, ProcessingTime: ms + 5}, ms},
		"the broker's":    {change.Record{Value: []byte(`x`), Timestamp: ms}, change.Change{}, ms},
		"before 1990":     {change.Record{Value: []byte(`{"ts_ms":5}`), Timestamp: ms}, change.Change{ProcessingTime: 5}, ms},
		"none whatsoever": {change.Record{Value: []byte(`x`)}, change.Change{}, snapshotter.NoTime / 1000},
	} {
		got := heartbeatTime(&c.r, &c.c)
		if got != c.want*1000 && !(got == snapshotter.NoTime && c.want == snapshotter.NoTime/1000) {
			t.Errorf("%s: %d, want %d", name, got, c.want*1000)
		}
	}
}
