package deadletter

import "github.com/gscd-io/gscd/ingest/change"

// Entry is one record that could not be applied. Topic, Partition and Offset
// identify it: an entry that is there already is not entered again.
type Entry struct {
	Topic     string
	Partition int32
	Offset    int64
	// Timestamp is the broker timestamp in milliseconds, -1 where there is none.
	Timestamp int64
	// Reason is a stable word: decode, key, value, future, time, late, partial,
	// null_key, oversize. Detail says more, for people; Column names the column.
	Reason, Detail, Column string
	// Label is the label that the entry counts in, OpenLabel the one that was
	// open when the record was taken; both by name.
	Label, OpenLabel string
	// Key and Value are the record's bytes (the first MiB of a record over the
	// limit); nil where it has none. Length is the length of the whole record.
	Key, Value []byte
	Length     int64
	Headers    []change.Header
}

// Of makes an entry of a record; the caller sets reason and labels.
func Of(r *change.Record) Entry {
	length := int64(len(r.Key) + len(r.Value))
	if r.Oversize > 0 {
		length = r.Oversize
	}
	return Entry{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp,
		Key: r.Key, Value: r.Value, Length: length, Headers: r.Headers,
	}
}
