package bench

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"time"

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
		Key: append(strconv.AppendInt([]byte(`{"id":`), id, 10), '}'), Value: value,
	}
}

var cities = [...]string{"Beijing", "Hangzhou", "Wuhan", "Shanghai", "Chengdu", "Nanjing", "Xi'an", "Suzhou"}

// cells are a row's values, which follow from key and version and do not
// compress better than a shop's would.
type cells struct {
	customer, amount, quantity int64
	price                      float64
	status, city, name         string
	updated                    string
}

func cellsOf(id, version int64) cells {
	k, v := mix(uint64(id)), mix(uint64(id)<<32^uint64(version))
	return cells{
		customer: int64(k % 100_000), amount: int64(v % 1_000_000), quantity: int64(v >> 20 % 50),
		price: float64(v>>26%10_000_00) / 100, status: [...]string{"new", "paid", "sent", "done"}[v>>46%4],
		city: cities[k>>17%8], name: "customer " + strconv.FormatUint(k>>20%1_000_000, 36),
		updated: time.UnixMicro(start*1000 + version*100_000 + int64(v>>48)).UTC().Format("2006-01-02T15:04:05.000000Z"),
	}
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// appendRow writes a row image.
func appendRow(b []byte, id, version int64) []byte {
	c := cellsOf(id, version)
	b = append(b, `{"id":`...)
	b = strconv.AppendInt(b, id, 10)
	b = append(b, `,"customer":`...)
	b = strconv.AppendInt(b, c.customer, 10)
	b = append(b, `,"status":"`...)
	b = append(b, c.status...)
	b = append(b, `","city":"`...)
	b = append(b, c.city...)
	b = append(b, `","amount":`...)
	b = strconv.AppendInt(b, c.amount, 10)
	b = append(b, `,"price":`...)
	b = strconv.AppendFloat(b, c.price, 'f', 2, 64)
	b = append(b, `,"name":"`...)
	b = append(b, c.name...)
	b = append(b, `","note":null,"quantity":`...)
	b = strconv.AppendInt(b, c.quantity, 10)
	b = append(b, `,"updated_at":"`...)
	b = append(b, c.updated...)
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
