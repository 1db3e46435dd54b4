//go:build integration

package integration

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/gscd-io/gscd/ingest/change"
)

// zoo is a source table with a column of every type that a connector gives. It
// makes change events with schemas as Debezium writes them.
type zoo struct {
	topic   *topicLog
	columns []zooColumn
	rng     *rand.Rand
	rows    map[int64]map[string]string // live rows: cells as JSON by column
	at      time.Time
	pos     int64
	offsets map[int32]int64
	last    *change.Record // the newest one sent
}

// zooColumn has its Connect schema, without the field's name, and random values as JSON.
type zooColumn struct {
	name, schema string
	value        func(r *rand.Rand) string
}

const zooPartitions = 2

func newZoo(seed uint64, columns []zooColumn, start time.Time) *zoo {
	return &zoo{
		topic: newTopic(0, 1), columns: columns, rng: rand.New(rand.NewPCG(seed, seed)),
		rows: map[int64]map[string]string{}, at: start, offsets: map[int32]int64{},
	}
}

// add gives the table a column from now on, in the way of an ALTER TABLE.
func (z *zoo) add(c zooColumn) { z.columns = append(z.columns, c) }

// insert brings n new keys, update changes n live ones (each some of its cells),
// remove deletes n, moveKeys gives n rows another key. Each event is a second later.
func (z *zoo) insert(n int) {
	for range n {
		id := int64(len(z.rows)) + z.pos
		for z.rows[id] != nil {
			id++
		}
		row := map[string]string{"id": strconv.FormatInt(id, 10)}
		for _, c := range z.columns {
			row[c.name] = z.cell(c)
		}
		z.send("c", id, nil, row)
		z.rows[id] = row
	}
}

func (z *zoo) update(n int) {
	for range n {
		id := z.pick()
		after := map[string]string{"id": z.rows[id]["id"]}
		for _, c := range z.columns {
			after[c.name] = z.rows[id][c.name]
			if after[c.name] == "" || z.rng.IntN(3) == 0 {
				after[c.name] = z.cell(c)
			}
		}
		z.send("u", id, z.rows[id], after)
		z.rows[id] = after
	}
}

func (z *zoo) remove(n int) {
	for range n {
		id := z.pick()
		z.send("d", id, z.rows[id], nil)
		delete(z.rows, id)
	}
}

func (z *zoo) pick() int64 {
	n := z.rng.IntN(len(z.rows))
	// Not by ranging over the map: the same seed gives the same table.
	for id := int64(0); ; id++ {
		if z.rows[id] != nil {
			if n == 0 {
				return id
			}
			n--
		}
	}
}

func (z *zoo) cell(c zooColumn) string {
	if z.rng.IntN(6) == 0 {
		return "null"
	}
	return c.value(z.rng)
}

func (z *zoo) send(op string, id int64, before, after map[string]string) {
	z.at = z.at.Add(time.Second)
	z.pos++
	p := int32(id % zooPartitions)
	ms := z.at.UnixMilli()
	fields := z.fields()
	value := fmt.Sprintf(`{"schema":{"type":"struct","fields":[{"type":"struct","fields":[%s],"optional":true,"field":"before"},`+
		`{"type":"struct","fields":[%s],"optional":true,"field":"after"}],"optional":false},"payload":{"before":%s,"after":%s,`+
		`"source":{"version":"3.5.0.Final","connector":"mysql","name":"zoo","ts_ms":%d,"snapshot":"false","db":"zoo","table":"animals",`+
		`"server_id":1,"gtid":null,"file":"mysql-bin.000001","pos":%d,"row":0},"op":"%s","ts_ms":%d}}`,
		fields, fields, z.image(before), z.image(after), ms, 1000+100*z.pos, op, ms)
	z.last = &change.Record{
		Topic: topicName, Partition: p, Offset: z.offsets[p], Timestamp: ms,
		Key:   []byte(fmt.Sprintf(`{"schema":{"type":"struct","fields":[{"type":"int64","optional":false,"field":"id"}],"optional":false},"payload":{"id":%d}}`, id)),
		Value: []byte(value),
	}
	z.topic.send(z.last)
	z.offsets[p]++
}

func (z *zoo) fields() string {
	b := strings.Builder{}
	b.WriteString(`{"type":"int64","optional":false,"field":"id"}`)
	for _, c := range z.columns {
		fmt.Fprintf(&b, `,{%s,"optional":true,"field":%q}`, c.schema, c.name)
	}
	return b.String()
}

func (z *zoo) image(row map[string]string) string {
	if row == nil {
		return "null"
	}
	b := strings.Builder{}
	b.WriteString(`{"id":` + row["id"])
	for _, c := range z.columns {
		cell := row[c.name]
		if cell == "" {
			cell = "null" // of before the column was there
		}
		fmt.Fprintf(&b, `,%q:%s`, c.name, cell)
	}
	return b.String() + "}"
}

// oneOf gives one of some values, mostly, or what more gives.
func oneOf(more func(r *rand.Rand) string, values ...string) func(r *rand.Rand) string {
	return func(r *rand.Rand) string {
		if i := r.IntN(2 * len(values)); i < len(values) || more == nil {
			return values[i%len(values)]
		}
		return more(r)
	}
}

func integers(lo, hi int64, more ...string) func(r *rand.Rand) string {
	span := uint64(hi) - uint64(lo)
	return oneOf(func(r *rand.Rand) string {
		n := uint64(lo) + r.Uint64N(max(span, 1))
		return strconv.FormatInt(int64(n), 10)
	}, append(more, strconv.FormatInt(lo, 10), strconv.FormatInt(hi, 10), "0")...)
}

func bytesOf(values ...[]byte) func(r *rand.Rand) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = strconv.Quote(base64.StdEncoding.EncodeToString(v))
	}
	return oneOf(func(r *rand.Rand) string {
		b := make([]byte, r.IntN(40))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return strconv.Quote(base64.StdEncoding.EncodeToString(b))
	}, texts...)
}

// decimals gives unscaled values of up to so many digits as base64.
func decimals(digits int) func(r *rand.Rand) string {
	largest := new(big.Int).Sub(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil), big.NewInt(1))
	encode := func(n *big.Int) string {
		var b []byte
		for size := n.BitLen()/8 + 1; len(b) < size; {
			shifted := new(big.Int).Rsh(n, uint(8*len(b)))
			b = append(b, byte(new(big.Int).And(shifted, big.NewInt(0xff)).Uint64()))
		}
		for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
			b[i], b[j] = b[j], b[i]
		}
		return strconv.Quote(base64.StdEncoding.EncodeToString(b))
	}
	return oneOf(func(r *rand.Rand) string {
		n := new(big.Int).Rem(new(big.Int).Mul(new(big.Int).SetUint64(r.Uint64()), new(big.Int).SetUint64(r.Uint64())), largest)
		if r.IntN(2) == 0 {
			n.Neg(n)
		}
		return encode(n)
	}, encode(largest), encode(new(big.Int).Neg(largest)), encode(big.NewInt(0)), encode(big.NewInt(-1)))
}

// oddTexts are strings that have broken a reader before.
var oddTexts = []string{
	`""`, `" "`, `"NULL"`, `"null"`, `"\\N"`, `"a\nb\tc\r"`, `"quote \" and ' and \\ and ` + "`" + `"`, `"äöü ß 日本語 😀"`, `"e\u0301 is not \u00e9"`,
	`"\u0000 and \u0001"`, `"100%_/=+ ?#&:;,"`, `"\ufeffbom"`, `"\u2028line\u2029"`, `"` + strings.Repeat("long ", 400) + `"`, `"\uffff"`, `"\ud83d\ude00\ud83d\ude00"`,
}

const connectDecimal = `"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{"scale":"%d","connect.decimal.precision":"%d"}`

// The first and last instants that MySQL's DATETIME holds, in milliseconds.
const (
	year1000 = -30610224000000
	year9999 = 253402300799000
)

func zooColumns() []zooColumn {
	text := oneOf(func(r *rand.Rand) string {
		return strconv.Quote(strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(20)))
	}, oddTexts...)
	timestamps := func(unit int64) func(r *rand.Rand) string {
		return integers(year1000*unit, year9999*unit+unit*999/1000, strconv.FormatInt(-1, 10), strconv.FormatInt(1657929599999*unit, 10))
	}
	return []zooColumn{
		{"c_boolean", `"type":"boolean"`, oneOf(nil, "true", "false")},
		{"c_int8", `"type":"int8"`, integers(math.MinInt8, math.MaxInt8)},
		{"c_int16", `"type":"int16"`, integers(math.MinInt16, math.MaxInt16)},
		{"c_int32", `"type":"int32"`, integers(math.MinInt32, math.MaxInt32)},
		{"c_int64", `"type":"int64"`, integers(math.MinInt64, math.MaxInt64, "9007199254740993")},
		{"c_float", `"type":"float"`, oneOf(nil, "0.1", "-0.0", "3.4028234663852886e38", "1.401298464324817e-45", `"NaN"`, "5.170000076293945")},
		{"c_double", `"type":"double"`, oneOf(nil, "0.1", "-0.0", "1.7976931348623157e308", "5e-324", `"NaN"`, "-2.5")},
		{"c_string", `"type":"string"`, text},
		{"c_bytes", `"type":"bytes"`, bytesOf([]byte{}, []byte{0}, []byte("\xff\xfe"), []byte("text"))},
		{"c_unsigned", fmt.Sprintf(connectDecimal, 0, 20), decimals(19)},
		{"c_dec9", fmt.Sprintf(connectDecimal, 2, 9), decimals(9)},
		{"c_dec18", fmt.Sprintf(connectDecimal, 6, 18), decimals(18)},
		{"c_dec38", fmt.Sprintf(connectDecimal, 10, 38), decimals(38)},
		{"c_dec38all", fmt.Sprintf(connectDecimal, 38, 38), decimals(38)},
		{"c_dec65", fmt.Sprintf(connectDecimal, 30, 65), decimals(65)},
		{"c_bits", `"type":"bytes","name":"io.debezium.data.Bits","version":1,"parameters":{"length":"12"}`, bytesOfBits},
		{"c_date", `"type":"int32","name":"io.debezium.time.Date","version":1`, integers(-354285, 2932896, "-1", "19189")},
		{"c_time", `"type":"int64","name":"io.debezium.time.MicroTime","version":1`, integers(-3020399000000, 3020399000000)},
		{"c_datetime3", `"type":"int64","name":"io.debezium.time.Timestamp","version":1`, timestamps(1)},
		{"c_datetime6", `"type":"int64","name":"io.debezium.time.MicroTimestamp","version":1`, timestamps(1000)},
		{"c_timestamp", `"type":"string","name":"io.debezium.time.ZonedTimestamp","version":1`, oneOf(nil,
			`"1970-01-01T00:00:01Z"`, `"2038-01-19T03:14:07.999999Z"`, `"2022-07-16T07:59:59.999999+08:00"`, `"2022-07-15T16:00:00Z"`, `"1969-12-31T23:59:59.999999Z"`)},
		{"c_year", `"type":"int32","name":"io.debezium.time.Year","version":1`, integers(1901, 2155)},
		{"c_enum", `"type":"string","name":"io.debezium.data.Enum","version":1,"parameters":{"allowed":"a,b\\, c"}`, oneOf(nil, `"a"`, `"b, c"`)},
		{"c_json", `"type":"string","name":"io.debezium.data.Json","version":1`, oneOf(nil, `"{\"a\": [1, 2.50, null, \"ü\"]}"`, `"[]"`, `"\"text\""`)},
		{"c_uuid", `"type":"string","name":"io.debezium.data.Uuid","version":1`, oneOf(nil, `"ffffffff-ffff-4fff-bfff-ffffffffffff"`)},
		{"c_variable", `"type":"struct","name":"io.debezium.data.VariableScaleDecimal","version":1,"fields":[{"type":"int32","optional":false,"field":"scale"},{"type":"bytes","optional":false,"field":"value"}]`,
			oneOf(nil, `{"scale":3,"value":"MDk="}`, `{"scale":0,"value":"AP//////////"}`)},
		{"c_point", `"type":"struct","name":"io.debezium.data.geometry.Point","version":1,"fields":[{"type":"double","optional":false,"field":"x"},{"type":"double","optional":false,"field":"y"},{"type":"bytes","optional":true,"field":"wkb"},{"type":"int32","optional":true,"field":"srid"}]`,
			oneOf(nil, `{"x":1.5,"y":-2.5,"wkb":"AQEAAAAAAAAAAAD4PwAAAAAAAATA","srid":null}`)},
		// A dot would be too much: DuckDB takes it for a path into a struct, where it filters.
		{"Odd Näme", `"type":"string"`, text},
	}
}

func bytesOfBits(r *rand.Rand) string {
	n := r.IntN(1 << 12)
	return strconv.Quote(base64.StdEncoding.EncodeToString([]byte{byte(n), byte(n >> 8)}))
}
