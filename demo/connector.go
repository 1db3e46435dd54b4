package demo

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gscd-io/gscd/ingest/change"
)

// The topic, named as Debezium does: connector, database, table.
const (
	connectorName = "app"
	database      = "shop"
	topic         = connectorName + "." + database + "." + TableName
	partitions    = 3
)

// connector turns binlog events into the records that Debezium 3 writes for
// MySQL without GTIDs, as JSON without schemas.
type connector struct {
	partitioner kgo.TopicPartitioner
}

func newConnector() *connector {
	// Kafka's own partitioner for keyed records: murmur2 of the key.
	return &connector{kgo.StickyKeyPartitioner(nil).ForTopic(topic)}
}

// envelope has Debezium's members in Debezium's order.
type envelope struct {
	Before      *user  `json:"before"`
	After       *user  `json:"after"`
	Source      source `json:"source"`
	Transaction any    `json:"transaction"`
	Op          string `json:"op"`
	TsMs        int64  `json:"ts_ms"`
	TsUs        int64  `json:"ts_us"`
	TsNs        int64  `json:"ts_ns"`
}

type source struct {
	Version   string `json:"version"`
	Connector string `json:"connector"`
	Name      string `json:"name"`
	TsMs      int64  `json:"ts_ms"`
	Snapshot  string `json:"snapshot"`
	DB        string `json:"db"`
	Sequence  any    `json:"sequence"`
	TsUs      int64  `json:"ts_us"`
	TsNs      int64  `json:"ts_ns"`
	Table     string `json:"table"`
	ServerID  int64  `json:"server_id"`
	GTID      any    `json:"gtid"`
	File      string `json:"file"`
	Pos       int64  `json:"pos"`
	Row       int32  `json:"row"`
	Thread    *int64 `json:"thread"`
	Query     any    `json:"query"`
}

// records gives what the connector sends for the events at a time: a record
// each, and a tombstone behind a delete.
func (c *connector) records(at time.Time, events ...logged) ([]*change.Record, error) {
	var out []*change.Record
	for _, e := range events {
		row := e.after
		if row == nil {
			row = e.before
		}
		key := fmt.Appendf(nil, `{"id":%d}`, row.ID)
		value, err := json.Marshal(e.envelope(at))
		if err != nil {
			return nil, fmt.Errorf("encode the event of user %d: %w", row.ID, err)
		}
		r := &change.Record{
			Topic: topic, Partition: int32(c.partitioner.Partition(&kgo.Record{Key: key}, partitions)),
			Timestamp: at.UnixMilli(), Key: key, Value: value,
		}
		out = append(out, r)
		if e.op == "d" {
			tombstone := *r
			tombstone.Value = nil
			out = append(out, &tombstone)
		}
	}
	return out, nil
}

func (e *logged) envelope(at time.Time) envelope {
	thread := int64(41)
	src := source{
		Version: "3.1.2.Final", Connector: "mysql", Name: connectorName,
		TsMs: e.begun.UnixMilli(), TsUs: e.begun.UnixMicro(), TsNs: e.begun.UnixNano(),
		Snapshot: e.snapshot, DB: database, Table: TableName,
		ServerID: 223344, File: binlogFile, Pos: e.pos, Thread: &thread,
	}
	if e.op == "r" { // reads come from no server's binlog
		src.ServerID, src.Thread = 0, nil
	}
	return envelope{
		Before: e.before, After: e.after, Source: src, Op: e.op,
		TsMs: at.UnixMilli(), TsUs: at.UnixMicro(), TsNs: at.UnixNano(),
	}
}

// cutOff gives the record with the second half of its value missing.
func cutOff(r *change.Record) *change.Record {
	cut := *r
	cut.Value = r.Value[:len(r.Value)/2]
	return &cut
}
