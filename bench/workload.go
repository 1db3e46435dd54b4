package bench

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

// Topic is the workload's topic.
const Topic = "shop.shop.orders"

// start is 2022-07-16T08:00:00 UTC in milliseconds.
const start = 1657958400000

// Workload makes change events of a table of ten columns with uniform keys:
// 30 % inserts, 60 % updates, 10 % deletes.
type Workload struct {
	rng *rand.Rand
	// live are the keys that can be updated or deleted; next is the next new one.
	live []int64
	next int64
	n    int64
	buf  []byte
}

// NewWorkload makes a workload on a table that has the keys 1 to rows.
func NewWorkload(rows int64) *Workload {
	w := &Workload{rng: rand.New(rand.NewPCG(20220716, uint64(rows))), next: rows + 1}
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

func (w *Workload) record(op byte, id int64) *change.Record {
	n := w.n
	w.n++
	ms := start + n/10
	b := append(w.buf[:0], `{"before":`...)
	if op == 'c' {
		b = append(b, "null"...)
	} else {
		b = appendRow(b, id, n-1)
	}
	b = append(b, `,"after":`...)
	if op == 'd' {
		b = append(b, "null"...)
	} else {
		b = appendRow(b, id, n)
	}
	b = append(b, `,"source":{"version":"3.0.0.Final","connector":"mysql","name":"shop","ts_ms":`...)
	b = strconv.AppendInt(b, ms/1000*1000, 10)
	b = append(b, `,"snapshot":"false","db":"shop","sequence":null,"ts_us":`...)
	b = strconv.AppendInt(b, ms/1000*1000000, 10)
	b = append(b, `,"ts_ns":`...)
	b = strconv.AppendInt(b, ms/1000*1000000000, 10)
	b = append(b, `,"table":"orders","server_id":223344,"gtid":null,"file":"mysql-bin.000007","pos":`...)
	b = strconv.AppendInt(b, 1000+n*300, 10)
	b = append(b, `,"row":0,"thread":17,"query":null},"transaction":null,"op":"`...)
	b = append(b, op)
	b = append(b, `","ts_ms":`...)
	b = strconv.AppendInt(b, ms+150, 10)
	b = append(b, '}')
	w.buf = b
	value := make([]byte, len(b))
	copy(value, b)
	return &change.Record{
		Topic: Topic, Offset: n, Timestamp: ms + 200,
		Key: strconv.AppendInt([]byte(`{"id":`), id, 10), Value: value,
	}
}

var cities = [...]string{"Beijing", "Hangzhou", "Wuhan", "Shanghai", "Chengdu", "Nanjing", "Xi'an", "Suzhou"}

// appendRow writes a row image whose values follow from key and version.
func appendRow(b []byte, id, version int64) []byte {
	b = append(b, `{"id":`...)
	b = strconv.AppendInt(b, id, 10)
	b = append(b, `,"customer":`...)
	b = strconv.AppendInt(b, id*7919%100000, 10)
	b = append(b, `,"status":"`...)
	b = append(b, [...]string{"new", "paid", "sent", "done"}[uint64(version)%4]...)
	b = append(b, `","city":"`...)
	b = append(b, cities[uint64(id)%8]...)
	b = append(b, `","amount":`...)
	b = strconv.AppendInt(b, version%100000, 10)
	b = append(b, `,"price":`...)
	b = strconv.AppendInt(b, version%1000, 10)
	b = append(b, ".25"...)
	b = append(b, `,"name":"customer `...)
	b = strconv.AppendInt(b, id%5000, 10)
	b = append(b, `","note":null,"quantity":`...)
	b = strconv.AppendInt(b, version%50, 10)
	b = append(b, `,"updated_at":"2022-07-16T08:`...)
	b = append(b, fmt.Sprintf("%02d:%02d.%06dZ", version/60%60, version%60, version%1000000)...)
	return append(b, `"}`...)
}

// Columns are the workload's columns and types.
func Columns() map[string]schema.Type {
	return map[string]schema.Type{
		"id": schema.Of(schema.Long), "customer": schema.Of(schema.Long), "status": schema.Of(schema.StringType),
		"city": schema.Of(schema.StringType), "amount": schema.Of(schema.Long), "price": schema.Of(schema.DoubleType),
		"name": schema.Of(schema.StringType), "note": schema.Of(schema.StringType), "quantity": schema.Of(schema.Long),
		"updated_at": schema.Of(schema.StringType),
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
