package ingest

import (
	"encoding/json"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/snapshotter"
)

// A heartbeat topic shows that the source lives while its tables are silent.
// Its partitions take part in the seal rule and in the pause; its records have
// no label, change nothing and don't count. A source that sends heartbeats on the
// table's own partitions, as TiCDC does, moves those.

func (l *Lane) isHeartbeat(id change.PartitionID) bool {
	return l.o.HeartbeatTopic != "" && id.Topic == l.o.HeartbeatTopic
}

// addPartition registers a partition that starts at an offset.
func (l *Lane) addPartition(id change.PartitionID, start int64) *snapshotter.Partition {
	p := l.state().AddPartition(id, start)
	p.Heartbeat = l.isHeartbeat(id)
	return p
}

// takeHeartbeat moves the partition's watermark. It makes no commit due: what
// was not committed is read again after a restart, and says the same.
func (l *Lane) takeHeartbeat(p *snapshotter.Partition, r *change.Record, t int64) {
	p.Next = r.Offset + 1
	l.moveWatermark(p, r, t)
}

// moveWatermark moves a partition's watermark to a time that is no record's of the
// table, not past the broker's.
func (l *Lane) moveWatermark(p *snapshotter.Partition, r *change.Record, t int64) {
	if r.Timestamp > 0 {
		t = min(t, r.Timestamp*1000+l.o.MaxClockSkew.Microseconds())
	}
	p.Watermark = max(p.Watermark, t)
}

// heartbeat is what Debezium sends: {"ts_ms": …}, or the change of a heartbeat
// table, whose source has a time of its own; each with its schema or without.
type heartbeat struct {
	TsMs   int64 `json:"ts_ms"`
	Source struct {
		TsMs int64 `json:"ts_ms"`
	} `json:"source"`
	Payload *heartbeat `json:"payload"`
}

// heartbeatTime is the time that a heartbeat shows, in microseconds: that of
// its source, else its own, else the broker's. c is what was decoded of one that is
// no JSON.
func heartbeatTime(r *change.Record, c *change.Change) int64 {
	var h heartbeat
	if json.Unmarshal(r.Value, &h) == nil {
		if h.Payload != nil {
			h = *h.Payload
		}
		for _, ms := range []int64{h.Source.TsMs, h.TsMs} {
			if t := ms * 1000; t >= earliestTime {
				return t
			}
		}
	}
	for _, t := range []int64{c.EventTime, c.ProcessingTime * 1000} {
		if t >= earliestTime {
			return t
		}
	}
	if r.Timestamp > 0 {
		return r.Timestamp * 1000
	}
	return snapshotter.NoTime
}
