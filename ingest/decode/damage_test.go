package decode

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/ingest/change"
)

// sampleDirs are the folders of the shared test data with records of each format.
var sampleDirs = map[string][]string{
	"debezium-json": {"debezium-json", "flink-cdc/debezium-json.jsonl", "flink-cdc/debezium-json-with-schema.jsonl", "ticdc/debezium"},
	"maxwell":       {"maxwell"},
	CanalJSON:       {"canal-json", "ticdc/canal-json", "flink-cdc/canal-json.jsonl"},
	AWSDMS:          {"aws-dms"},
	OGGJSON:         {"ogg-json"},
}

const gscdTail = `"server":223344,"file":"mysql-bin.000042","pos":468,"row":0,"gtid":"3e11fa47-71ca-11e1-9e33-c80aa9429562:23","ts_us":1657765200123456,"commit":true,"last":true}`

// madeSamples are records of formats of which there are no files.
var madeSamples = map[string][]string{
	GSCDJSON: {
		`{"v":1,"op":"u","name":"app","db":"shop","table":"t","columns":["id","name","w"],"types":["int(11)","varchar(64)","datetime(6)"],"key":[0],` +
			`"before":[4,"Zhao Lei","2022-07-16 08:00:00.000001"],"after":[4,"Zhao \u004cei",null],` + gscdTail,
		`{"v":1,"op":"c","name":"app","db":"shop","table":"t","columns":["id","b","s","j"],"types":["bigint unsigned","blob","set('a','b')","json"],"key":[0],"after":[18446744073709551615,"AAE=","a,b","{\"a\": 1}"],` + gscdTail,
		`{"v":1,"op":"d","name":"app","db":"shop","table":"t","columns":["id","v"],"types":["int(11)","decimal(30,4)"],"key":[0],"before":[4,"1.5000"],` + gscdTail,
		`{"v":1,"op":"r","name":"app","db":"shop","table":"t","columns":["id","v"],"types":["int(11)","bit(9)"],"key":[0],"after":[4,{}],"first":true,"last_of_table":true,` + gscdTail,
		`{"v":1,"op":"t","name":"app","db":"shop","table":"t","columns":["id"],"types":["int(11)"],"key":[0],"statement":"TRUNCATE t",` + gscdTail,
		`{"v":1,"op":"h","name":"app","ts_ms":1657765200123}`,
		`{"v":1,"op":"s","name":"app","statement":"ALTER TABLE t ADD x INT","old":null,"new":null,` + gscdTail,
	},
}

// samples gives records of a format: all that there are, and a few recorded ones.
func samples(t testing.TB, format string) (out []change.Record) {
	for _, dir := range sampleDirs[format] {
		err := filepath.WalkDir(cdcFile(t, dir), func(path string, _ fs.DirEntry, err error) error {
			switch {
			case err != nil:
			case strings.HasSuffix(path, ".jsonl"):
				for _, line := range lines(t, path) {
					out = append(out, change.Record{Value: bytes.TrimSpace(line)})
				}
			case strings.HasSuffix(path, "dbz.pretty.json"):
				var raw []byte
				if raw, err = os.ReadFile(path); err == nil {
					out = append(out, change.Record{Value: bytes.TrimSpace(raw)})
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, value := range madeSamples[format] {
		out = append(out, change.Record{Key: []byte(`{"table":"shop.t","key":{"id":4}}`), Value: []byte(value)})
	}
	if strings.HasPrefix(format, "debezium") {
		for _, file := range []string{"s1.shop.orders.jsonl", "s3.shop.stock.p1.jsonl", "t1.zoo.alltypes.jsonl"} {
			all := recorded(t, file)
			out = append(out, all[:min(len(all), 6)]...)
		}
	}
	return out
}

// typedOptions are settings under which cells are read as many types.
func typedOptions(t testing.TB) Options {
	return Options{KeyColumns: []string{"id"}, Tombstones: "delete", Canal: Canal{Timezone: time.UTC}, Columns: map[string]ColumnSpec{
		"id": specOf(t, "bigint unsigned"), "name": specOf(t, "varbinary(8)"), "description": specOf(t, "text"), "weight": specOf(t, "decimal(30,4)"),
		"age": specOf(t, "bit(9)"), "v": specOf(t, "decimal(38,10)"), "w": specOf(t, "timestamp"), "x": specOf(t, "set('a','b')"), "y": specOf(t, "float"),
	}}
}

// decodeAll decodes every row of a record and checks what comes out: cells of their
// columns' types, or an *Error. Rows that are kept alone say what they say here.
func decodeAll(t testing.TB, d Decoder, arena *change.Arena, rec change.Record) (rows int, fault error) {
	t.Helper()
	before := arena.Size()
	rec.Rows = int32(d.Rows(&rec))
	for ; rec.Row == 0 || rec.Row < rec.Rows; rec.Row++ {
		var c, again change.Change
		if err := d.Decode(&rec, arena, &c); err != nil {
			if e := (*Error)(nil); !errors.As(err, &e) {
				t.Fatalf("%.300s: %v is no *Error", rec.Value, err)
			}
			fault = err
			continue
		}
		rows++
		checkCells(t, c.Columns, c.After)
		checkCells(t, c.BeforeColumns, c.Before)
		checkCells(t, c.KeyColumns, c.Key)
		if rec.Rows > 1 {
			if err := d.Decode(d.Alone(&rec), arena, &again); err != nil || !sameChange(&c, &again) {
				t.Fatalf("%.300s: row %d alone: %+v, %v; want %+v", rec.Value, rec.Row, again, err, c)
			}
		}
	}
	if limit := int64(len(rec.Value)+len(rec.Key))*256 + 4<<20; arena.Size()-before > limit {
		t.Fatalf("%.300s: a record of %d bytes takes %d of memory", rec.Value, len(rec.Value), arena.Size()-before)
	}
	return rows, fault
}

// TestDamaged: every sample of every format that is JSON, cut at every byte and with a bit of
// every byte turned, is a Change or an *Error; cut, it is an *Error.
func TestDamaged(t *testing.T) {
	for _, format := range append(slices.Collect(maps.Keys(rowsOf)), GSCDJSON) {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			of := format
			if format == DebeziumFlat {
				of = "debezium-json"
			}
			all := samples(t, of)
			if len(all) < 15 && len(madeSamples[format]) == 0 {
				t.Fatalf("%d samples", len(all))
			}
			for _, opts := range []Options{{Tombstones: "ignore"}, typedOptions(t)} {
				d, err := New(format, opts)
				if err != nil {
					t.Fatal(err)
				}
				arena := &change.Arena{}
				budget := 24 << 20 // bytes to decode: what is long is cut at fewer places
				for _, rec := range all {
					if rec.Value == nil || rec.Value[0] != '{' {
						continue
					}
					if format == DebeziumFlat && bytes.Contains(rec.Value, []byte(`"after"`)) && bytes.Contains(rec.Value, []byte(`"source":{`)) {
						rec = flattened(t, rec)
					}
					if arena.Size() > 16<<20 {
						arena = &change.Arena{}
					}
					decodeAll(t, d, arena, rec)
					whole := rec.Value
					step := 1 + len(whole)*len(whole)*len(all)/budget
					for i := 0; i < len(whole); i += step {
						rec.Value = whole[:i:i]
						if rows, fault := decodeAll(t, d, arena, rec); rows > 0 || fault == nil {
							t.Fatalf("%s is a change", rec.Value)
						}
						rec.Value = bytes.Clone(whole)
						rec.Value[i] ^= 1 << (i % 8)
						decodeAll(t, d, arena, rec)
					}
				}
			}
		})
	}
}

// rowsOf are records of each format that is JSON with the row in the place of %s.
var rowsOf = map[string]string{
	"debezium-json": `{"op":"u","before":%[1]s,"after":%[1]s,"source":{"db":"d","table":"t","ts_ms":1,"file":"b.1","pos":4,"row":0}}`,
	DebeziumFlat:    `{"schema":null,"payload":%s}`,
	"maxwell":       `{"database":"d","table":"t","type":"update","ts":1,"data":%[1]s,"old":%[1]s}`,
	CanalJSON:       `{"database":"d","table":"t","type":"UPDATE","es":1,"pkNames":["id"],"mysqlType":{"id":"int","b":"blob"},"data":[%[1]s,{"id":"2"}],"old":[%[1]s]}`,
	AWSDMS:          `{"data":%[1]s,"before-image":%[1]s,"metadata":{"record-type":"data","operation":"update","schema-name":"d","table-name":"t","timestamp":"2024-10-27T12:39:03Z"}}`,
	OGGJSON:         `{"table":"d.t","op_type":"U","op_ts":"2020-05-13 15:40:06","pos":"1","primary_keys":["id"],"before":%[1]s,"after":%[1]s}`,
}

// TestHostile: what a sender should never write is an *Error, where it can't be told
// what it means, or what it says; and it costs no more than its length.
func TestHostile(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }
	nested := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat(`}`, n) }
	for _, c := range []struct {
		name, row string
		bad       bool
	}{
		{"NaN", `{"id":"1","n":NaN}`, true}, {"Infinity", `{"id":"1","n":Infinity}`, true}, {"-Infinity", `{"id":"1","n":-Infinity}`, true},
		{"no cell", `{"id":"1","n":}`, true}, {"+1", `{"id":"1","n":+1}`, true}, {"01", `{"id":"1","n":01}`, true}, {"0x1", `{"id":"1","n":0x1}`, true},
		{"a column twice", `{"id":"1","n":1,"n":2}`, true}, {"a column twice, escaped", `{"id":"1","n":1,"\u006e":2}`, true},
		{"a column without name", `{"id":"1","":2}`, true},
		{"no UTF-8", "{\"id\":\"1\",\"n\":\"\xc3\x28\"}", true}, {"no UTF-8 name", "{\"id\":\"1\",\"n\xff\":1}", true},
		{"half a surrogate", `{"id":"1","n":"\ud800"}`, true}, {"a control character", "{\"id\":\"1\",\"n\":\"\x01\"}", true},
		{"a comment", `{"id":"1"/**/}`, true}, {"a comma more", `{"id":"1",}`, true},
		{"nested 100", `{"id":"1","n":` + deep(100) + `}`, false},
		{"nested 200", `{"id":"1","n":` + deep(200) + `}`, true}, {"nested a million", `{"id":"1","n":` + deep(1_000_000) + `}`, true},
		{"objects nested a million", `{"id":"1","n":` + nested(1_000_000) + `}`, true}, {"open a million", `{"id":"1","n":` + strings.Repeat("[", 1_000_000), true},
		{"a large exponent", `{"id":"1","v":1e1073741824}`, true}, {"a small one", `{"id":"1","v":1e-1073741824}`, true},
		{"a large double", `{"id":"1","y":1e400}`, true},
		{"a million digits", `{"id":"1","v":` + strings.Repeat("9", 1_000_000) + `}`, true},
		{"a million zeros", `{"id":"1","v":0.` + strings.Repeat("0", 1_000_000) + `}`, false},
		{"a megabyte of text", `{"id":"1","n":"` + strings.Repeat("x", 1<<20) + `"}`, false},
		{"a megabyte of escapes", `{"id":"1","n":"` + strings.Repeat(`\u0041`, 1<<17) + `"}`, false},
		{"ten thousand columns", `{"id":"1"` + many(10_000) + `}`, false},
	} {
		for format := range rowsOf {
			opts := Options{Tombstones: "ignore", Columns: map[string]ColumnSpec{"v": specOf(t, "decimal(38,10)"), "y": specOf(t, "double")}}
			d, err := New(format, opts)
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			rows, fault := decodeAll(t, d, &change.Arena{}, change.Record{Value: fmt.Appendf(nil, rowsOf[format], c.row)})
			want := 1
			if format == CanalJSON {
				want = 2
			}
			if c.bad != (fault != nil) || !c.bad && rows != want {
				t.Errorf("%s: %s: %d rows, %v", format, c.name, rows, fault)
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("%s: %s took %s", format, c.name, took)
			}
		}
	}
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"c%d":%d`, i, i)
	}
	return b.String()
}

// fuzzFormat: whatever the bytes, Changes or an *Error, the same from a decoder that
// has seen much as from a new one.
func fuzzFormat(f *testing.F, format string, seeds ...string) {
	for _, seed := range seeds {
		f.Add([]byte(`{"id":1}`), []byte(seed))
	}
	for _, value := range madeSamples[format] {
		f.Add([]byte(nil), []byte(value))
	}
	for _, row := range []string{`{"id":1,"name":"0x41","w":"2022-07-16 08:00:00","v":"1.5","x":["a"]}`, `{"id":"2","b":"ÿ","x":"3","age":5,"y":"NaN"}`} {
		if of := rowsOf[format]; of != "" {
			f.Add([]byte(`{"schema":null,"payload":{"id":1}}`), fmt.Appendf(nil, of, row))
		}
	}
	if dir, err := os.Stat(testdataDir()); err == nil && dir.IsDir() {
		of := format
		if format == DebeziumFlat {
			of = "debezium-json"
		}
		for _, rec := range samples(f, of) {
			f.Add(rec.Key, rec.Value)
		}
	}
	warm := map[int]Decoder{}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		for i, opts := range []Options{{Tombstones: "ignore"}, typedOptions(t), {EventTime: "column:w", Source: "d.t", Tombstones: "ignore"}} {
			cold, err := New(format, opts)
			if err != nil {
				t.Fatal(err)
			}
			if warm[i] == nil {
				if warm[i], err = New(format, opts); err != nil {
					t.Fatal(err)
				}
			}
			rec := change.Record{Key: key, Value: bytes.Clone(value), Timestamp: 1}
			var a, b change.Change
			first := warm[i].Decode(&rec, &change.Arena{}, &a)
			again := cold.Decode(&rec, &change.Arena{}, &b)
			if (first == nil) != (again == nil) || first != nil && first.Error() != again.Error() || !sameChange(&a, &b) {
				t.Fatalf("a warm decoder gives %+v, %v; a cold one %+v, %v", a, first, b, again)
			}
			decodeAll(t, cold, &change.Arena{}, rec)
		}
	})
}

func FuzzMaxwell(f *testing.F) {
	fuzzFormat(f, "maxwell", `{"database":"d","table":"t","type":"delete","primary_key_columns":["id",1],"position":"b.1:4","data":{"id":1}}`)
}

func FuzzCanal(f *testing.F) {
	fuzzFormat(f, CanalJSON, canalOf("UPDATE", `"data":[{"id":"1","v":"a"},{"id":"7","v":null}],"old":[{"v":"b"},{"id":"2"}]`),
		`{"type":"INSERT","mysqlType":{"v":"set('a','b')","w":"binary(3)","x":"timestamp"},"old":[],"data":[{"v":"3","w":"ÿ","x":"2022-07-16 08:00:00"},{}]}`)
}

func FuzzDebeziumFlat(f *testing.F) {
	fuzzFormat(f, DebeziumFlat, `{"id":1,"n":"a","__op":"c","__deleted":"false",`+flatMeta+`}`, `{"id":1,"__deleted":"true","__snapshot":"last"}`)
}

func FuzzAWSDMS(f *testing.F) {
	fuzzFormat(f, AWSDMS, `{"control":{},"metadata":{"operation":"truncate-table","schema-name":"d","table-name":"t"}}`)
}

func FuzzOGG(f *testing.F) {
	fuzzFormat(f, OGGJSON, `{"table":"c.d.t","op_type":"T","op_ts":"2020-05-13T15:40:06.000000Z"}`)
}

func FuzzGSCD(f *testing.F) { fuzzFormat(f, GSCDJSON) }
