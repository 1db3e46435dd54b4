package bench

import (
	"math"
	"strconv"
	"time"

	"github.com/gscd-io/gscd/delta/schema"
)

// Topic is the workload's topic.
const Topic = "shop.shop.orders"

// start is 2022-07-16T08:00:00 UTC in milliseconds.
const start = 1657958400000

// names are the first ten columns in order; more are attr_11, attr_12, ...
var names = []string{"id", "customer", "status", "city", "amount", "price", "name", "note", "quantity", "updated_at"}

var (
	cities   = [...]string{"Beijing", "Hangzhou", "Wuhan", "Shanghai", "Chengdu", "Nanjing", "Xi'an", "Suzhou"}
	statuses = [...]string{"new", "paid", "sent", "done"}
)

// cells are a row's values, which follow from key and version and do not
// compress better than a shop's would.
type cells struct {
	customer, amount, quantity int64
	price                      float64
	status, city               string
	name                       uint64 // "customer " and this, in base 36
	updated                    int64  // microseconds since 1970
}

func cellsOf(id, version int64) cells {
	k, v := mix(uint64(id)), mix(uint64(id)<<32^uint64(version))
	return cells{
		customer: int64(k % 100_000), amount: int64(v % 1_000_000), quantity: int64(v >> 20 % 50),
		price: float64(v>>26%10_000_00) / 100, status: statuses[v>>46%4],
		city: cities[k>>17%8], name: k >> 20 % 1_000_000,
		updated: start*1000 + version*100_000 + int64(v>>48),
	}
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// extra is what a column behind the first ten holds: of four columns one changes with the
// row's version, as most columns of wide tables don't.
func extra(column int, id, version int64) uint64 {
	if column%4 != 3 {
		version = 0
	}
	return mix(uint64(id)<<32 ^ uint64(version) ^ uint64(column)<<56)
}

// A column behind the first ten is a long, a double, or a text, in turn.
func extraType(column int) schema.Type {
	switch column % 3 {
	case 0:
		return schema.Of(schema.Long)
	case 1:
		return schema.Of(schema.DoubleType)
	}
	return schema.Of(schema.StringType)
}

func extraName(column int) string { return "attr_" + strconv.Itoa(column+1) }

// ColumnNames are the names of the first n columns of a table, in order.
func ColumnNames(n int) []string {
	out := append([]string{}, names...)
	for i := len(names); i < n; i++ {
		out = append(out, extraName(i))
	}
	return out[:n]
}

// Columns are the workload's ten columns and types.
func Columns() map[string]schema.Type { return ColumnTypes(len(names)) }

// ColumnTypes are the types of the first n columns of a table.
func ColumnTypes(n int) map[string]schema.Type {
	types := map[string]schema.Type{
		"id": schema.Of(schema.Long), "customer": schema.Of(schema.Long), "status": schema.Of(schema.StringType),
		"city": schema.Of(schema.StringType), "amount": schema.Of(schema.Long), "price": schema.Of(schema.DoubleType),
		"name": schema.Of(schema.StringType), "note": schema.Of(schema.StringType), "quantity": schema.Of(schema.Long),
		"updated_at": schema.Of(schema.StringType),
	}
	for i := len(names); i < n; i++ {
		types[extraName(i)] = extraType(i)
	}
	return types
}

// renderer writes rows as JSON. It keeps the text of the last date.
type renderer struct {
	columns int
	day     int64
	date    []byte
	extras  [][]byte // `,"attr_11":`
}

func newRenderer(columns int) *renderer {
	r := &renderer{columns: columns, day: math.MinInt64}
	for i := len(names); i < columns; i++ {
		r.extras = append(r.extras, []byte(`,"`+extraName(i)+`":`))
	}
	return r
}

// appendTime writes microseconds since 1970 as 2022-07-16T08:00:00.000000Z.
func (r *renderer) appendTime(b []byte, us int64) []byte {
	const dayMicros = 24 * 60 * 60 * 1_000_000
	day := us / dayMicros
	if day != r.day {
		r.day, r.date = day, time.UnixMicro(us).UTC().AppendFormat(nil, "2006-01-02T")
	}
	us -= day * dayMicros
	b = append(b, r.date...)
	b = appendPadded(b, us/3_600_000_000, 2)
	b = appendPadded(append(b, ':'), us/60_000_000%60, 2)
	b = appendPadded(append(b, ':'), us/1_000_000%60, 2)
	return append(appendPadded(append(b, '.'), us%1_000_000, 6), 'Z')
}

func appendPadded(b []byte, n int64, digits int) []byte {
	for range digits {
		b = append(b, '0')
	}
	for i := len(b) - 1; n > 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
	return b
}

// appendHundredths writes a price with two digits behind the point.
func appendHundredths(b []byte, price float64) []byte {
	n := int64(math.Round(price * 100))
	return appendPadded(append(strconv.AppendInt(b, n/100, 10), '.'), n%100, 2)
}

// appendRow writes a row image.
func (r *renderer) appendRow(b []byte, id, version int64) []byte {
	c := cellsOf(id, version)
	b = strconv.AppendInt(append(b, `{"id":`...), id, 10)
	b = strconv.AppendInt(append(b, `,"customer":`...), c.customer, 10)
	b = append(append(b, `,"status":"`...), c.status...)
	b = append(append(b, `","city":"`...), c.city...)
	b = strconv.AppendInt(append(b, `","amount":`...), c.amount, 10)
	b = appendHundredths(append(b, `,"price":`...), c.price)
	b = strconv.AppendUint(append(b, `,"name":"customer `...), c.name, 36)
	b = strconv.AppendInt(append(b, `","note":null,"quantity":`...), c.quantity, 10)
	b = r.appendTime(append(b, `,"updated_at":"`...), c.updated)
	b = append(b, '"')
	for i, name := range r.extras {
		column := len(names) + i
		v := extra(column, id, version)
		b = append(b, name...)
		switch column % 3 {
		case 0:
			b = strconv.AppendUint(b, v%1_000_000_000, 10)
		case 1:
			b = appendHundredths(b, float64(v%10_000_00)/100)
		default:
			b = append(strconv.AppendUint(append(b, '"'), v%1_000_000_000_000, 36), '"')
		}
	}
	return append(b, '}')
}

// Row is the row of a key at a version: the number of the event that wrote it, counted
// from 1, or 0 for a row of MakeTable. Its cells are in the order of ColumnNames.
func Row(columns int, id, version int64) []schema.Value {
	return appendCells(make([]schema.Value, 0, columns), newRenderer(columns), columns, id, version)
}

func appendCells(row []schema.Value, r *renderer, columns int, id, version int64) []schema.Value {
	text, c := schema.StringValue, cellsOf(id, version)
	row = append(row,
		schema.IntValue(id), schema.IntValue(c.customer), text(c.status), text(c.city), schema.IntValue(c.amount),
		schema.DoubleValue(c.price), text("customer "+strconv.FormatUint(c.name, 36)), schema.Value{}, schema.IntValue(c.quantity),
		text(string(r.appendTime(nil, c.updated))))
	for i := len(names); i < columns; i++ {
		v := extra(i, id, version)
		switch i % 3 {
		case 0:
			row = append(row, schema.IntValue(int64(v%1_000_000_000)))
		case 1:
			row = append(row, schema.DoubleValue(float64(v%10_000_00)/100))
		default:
			row = append(row, text(strconv.FormatUint(v%1_000_000_000_000, 36)))
		}
	}
	return row
}

// appendEvent writes a Debezium envelope: the number of the event tells its place in the
// source's log, its rows are those of the versions that are given.
func (r *renderer) appendEvent(b []byte, op byte, id, n, before, after, ms int64) []byte {
	b = append(b, `{"before":`...)
	if op == 'c' {
		b = append(b, "null"...)
	} else {
		b = r.appendRow(b, id, before)
	}
	b = append(b, `,"after":`...)
	if op == 'd' {
		b = append(b, "null"...)
	} else {
		b = r.appendRow(b, id, after)
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
	b = append(append(b, op), `","ts_ms":`...)
	return append(strconv.AppendInt(b, ms+150, 10), '}')
}
