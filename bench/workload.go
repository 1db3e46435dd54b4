package bench

import (
	"bytes"
	"math/rand/v2"
	"strconv"

	"github.com/gscd-io/gscd/ingest/change"
)

// Workload makes change events of a table of ten columns with uniform keys:
// 30 % inserts, 60 % updates, 10 % deletes.
type Workload struct {
	rng *rand.Rand
	// live are the keys that can be updated or deleted; next is the next new one.
	live []int64
	next int64
	n    int64
	buf  []byte
	rows *renderer
}

// NewWorkload makes a workload on a table that has the keys 1 to rows.
func NewWorkload(rows int64) *Workload {
	w := &Workload{rng: rand.New(rand.NewPCG(20220716, uint64(rows))), next: rows + 1, rows: newRenderer(len(names))}
	w.live = make([]int64, rows)
	for i := range w.live {
		w.live[i] = int64(i) + 1
	}
	return w
}

// Next gives the next event as a record of partition 0.
func (w *Workload) Next() *change.Record {
	op, id := byte('c'), int64(0)
	switch p := w.rng.IntN(10); {
	case p < 3 || len(w.live) < 10:
		id = w.next
		w.next++
		w.live = append(w.live, id)
	case p < 9:
		op, id = 'u', w.live[w.rng.IntN(len(w.live))]
	default:
		op = 'd'
		i := w.rng.IntN(len(w.live))
		id = w.live[i]
		w.live[i] = w.live[len(w.live)-1]
		w.live = w.live[:len(w.live)-1]
	}
	return w.record(op, id)
}

// Update gives, as the event of an offset, an update of a key with an event time in
// milliseconds since 1970.
func (w *Workload) Update(offset, id, ms int64) *change.Record {
	w.n = offset
	r := w.record('u', id)
	r.Timestamp = ms + 200
	r.Value = replaceNumber(replaceNumber(r.Value, `"ts_ms":`, ms), `"ts_us":`, ms*1000)
	return r
}

func (w *Workload) record(op byte, id int64) *change.Record {
	n := w.n
	w.n++
	ms := start + n/10
	b := w.rows.appendEvent(w.buf[:0], op, id, n, n-1, n, ms)
	w.buf = b
	value := make([]byte, len(b))
	copy(value, b)
	return &change.Record{
		Topic: Topic, Offset: n, Timestamp: ms + 200,
		Key: append(strconv.AppendInt([]byte(`{"id":`), id, 10), '}'), Value: value,
	}
}

// replaceNumber sets the first number behind a member's name.
func replaceNumber(value []byte, name string, n int64) []byte {
	i := bytes.Index(value, []byte(name))
	if i < 0 {
		return value
	}
	from := i + len(name)
	to := from
	for to < len(value) && (value[to] == '-' || value[to] >= '0' && value[to] <= '9') {
		to++
	}
	out := append([]byte{}, value[:from]...)
	out = strconv.AppendInt(out, n, 10)
	return append(out, value[to:]...)
}
