package deadletter

import (
	"slices"
	"strconv"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/settled"
	"github.com/gscd-io/gscd/ingest/transform"
)

// Entry is one record that could not be applied. Topic, Partition, Offset and Row
// identify it: an entry that is there already is not entered again.
type Entry struct {
	Topic     string
	Partition int32
	Offset    int64
	// Row is 0 but for the further rows of a record that holds several.
	Row int32
	// Timestamp is the broker timestamp in milliseconds, -1 where there is none.
	Timestamp int64
	// Reason is a stable word: decode, schema, key, value, future, time, late, partial,
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
	// Made is the version of the table whose commit was to count the entry, -1
	// for one of a release that did not note it.
	Made int64
	// Copied is what the table's columns say became of it: see States for what is so.
	Copied settled.Resolution
}

// Place is where the record lies.
func (e *Entry) Place() settled.Place {
	return settled.Place{Topic: e.Topic, Partition: e.Partition, Offset: e.Offset, Row: e.Row}
}

// Whole tells that the record's bytes are all there.
func (e *Entry) Whole() bool { return e.Length <= int64(len(e.Key)+len(e.Value)) }

// Record is the record that an entry was made of. It is whole where the entry is.
func (e *Entry) Record() *change.Record {
	r := &change.Record{
		Topic: e.Topic, Partition: e.Partition, Offset: e.Offset, Row: e.Row, Timestamp: e.Timestamp,
		Key: e.Key, Value: e.Value, Headers: e.Headers, Stored: true,
	}
	if !e.Whole() {
		r.Oversize = e.Length
	}
	return r
}

// Of makes an entry of a record; the caller sets reason and labels.
func Of(r *change.Record) Entry {
	length := int64(len(r.Key) + len(r.Value))
	if r.Oversize > 0 {
		length = r.Oversize
	}
	return Entry{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Row: r.Row, Timestamp: r.Timestamp,
		Key: r.Key, Value: r.Value, Length: length, Headers: r.Headers,
		Made: -1, Copied: settled.Resolution{State: settled.Active},
	}
}

// Published is the record that tells another topic of the entry: key, value,
// headers and time as they came, and behind them what the entry says.
func (e *Entry) Published() *change.Record {
	r := e.Record()
	r.Oversize, r.Headers = 0, slices.Clone(e.Headers)
	for _, h := range [][2]string{
		{"gscd-topic", e.Topic}, {"gscd-partition", strconv.Itoa(int(e.Partition))}, {"gscd-offset", strconv.FormatInt(e.Offset, 10)},
		{"gscd-reason", e.Reason}, {"gscd-detail", e.Detail}, {"gscd-column", e.Column}, {"gscd-label", e.Label},
	} {
		r.Headers = append(r.Headers, change.Header{Key: h[0], Value: []byte(h[1])})
	}
	if e.Row != 0 {
		r.Headers = append(r.Headers, change.Header{Key: "gscd-row", Value: []byte(strconv.Itoa(int(e.Row)))})
	}
	if transform.IsSealed(r) {
		r.Headers = append(r.Headers, change.Header{Key: "gscd-encrypted", Value: []byte("1")})
	}
	if !e.Whole() {
		r.Headers = append(r.Headers, change.Header{Key: "gscd-length", Value: []byte(strconv.FormatInt(e.Length, 10))})
	}
	return r
}
