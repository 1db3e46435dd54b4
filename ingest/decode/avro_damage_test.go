package decode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/ingest/change"
)

// avroZoo is an envelope whose rows have all that Avro has, also a list that has
// itself inside.
var avroZoo = avroEnvelope(`{"name":"id","type":"long"},{"name":"b","type":"boolean"},{"name":"i","type":["null","int"]},{"name":"f","type":"float"},{"name":"d","type":"double"},` +
	`{"name":"s","type":["null","string"]},{"name":"y","type":"bytes"},{"name":"x","type":{"type":"fixed","name":"X","size":2}},{"name":"e","type":{"type":"enum","name":"E","symbols":["p","q"]}},` +
	`{"name":"a","type":{"type":"array","items":["null","string"]}},{"name":"m","type":{"type":"map","values":"long"}},` +
	`{"name":"l","type":["null",{"type":"record","name":"L","fields":[{"name":"v","type":"int"},{"name":"next","type":["null","L"]}]}]},` +
	`{"name":"n","type":["null",{"type":"bytes","connect.name":"org.apache.kafka.connect.data.Decimal","connect.parameters":{"scale":"2","connect.decimal.precision":"20"}}]},` +
	`{"name":"w","type":["null",{"type":"record","name":"W","connect.name":"io.debezium.data.VariableScaleDecimal","fields":[{"name":"scale","type":"int"},{"name":"value","type":"bytes"}]}]},` +
	`{"name":"g","type":["null",{"type":"record","name":"G","connect.name":"io.debezium.data.geometry.Geometry","fields":[{"name":"wkb","type":"bytes"},{"name":"srid","type":["null","int"]}]}]},` +
	`{"name":"u","type":["null","int","string"]}`)

func zooRow(id int) map[string]any {
	return map[string]any{
		"id": id, "b": true, "i": -5, "f": 1.5, "d": 2.5, "s": "naïve", "y": []byte{1}, "x": []byte{1, 2}, "e": "q", "a": []any{"one", nil}, "m": map[string]any{"k": 1, "é": 2},
		"l": map[string]any{"v": 1, "next": map[string]any{"v": 2, "next": nil}}, "n": []byte{0x7b}, "w": map[string]any{"scale": 3, "value": []byte{0x7b}},
		"g": map[string]any{"wkb": []byte{1, 2}, "srid": 4326}, "u": branch{2, "x"},
	}
}

// avroSamples are records that can be read, with the registry that has their schemas:
// the recorded ones, and one of everything.
func avroSamples(t testing.TB) (fixedSchemas, []change.Record) {
	t.Helper()
	schemas, records := fixedSchemas{}, []change.Record(nil)
	if dir, err := os.Stat(testdataDir()); err == nil && dir.IsDir() {
		schemas = recordedSchemas(t)
		records = recorded(t, "a1.shop.orders.avro.jsonl", "a1.zoo.alltypes.avro.jsonl")
	}
	schemas[100] = []string{avroZoo}
	schemas[101] = []string{`{"type":"record","name":"Key","fields":[{"name":"id","type":"long"}]}`}
	zoo := change.Record{Key: confluentFrame(101, []byte{10}), Value: confluentFrame(100, appendAvro(nil, parsedAvro(t, avroZoo), avroChange("u", zooRow(1), zooRow(2))))}
	return schemas, append(records, zoo)
}

// avroFault decodes a record and checks that a fault is an *Error.
func avroFault(t testing.TB, d Decoder, arena *change.Arena, rec *change.Record) error {
	t.Helper()
	var c change.Change
	err := d.Decode(rec, arena, &c)
	if e := (*Error)(nil); err != nil && !errors.As(err, &e) {
		t.Fatalf("%x: %v is no *Error", rec.Value, err)
	}
	return err
}

// TestAvroTruncated: no record can be read that was cut off at any byte, and no key
// that was is taken for one.
func TestAvroTruncated(t *testing.T) {
	schemas, records := avroSamples(t)
	d := avroDecoder(t, Options{Schemas: schemas, Tombstones: "delete"})
	arena := &change.Arena{}
	cuts := 0
	for _, rec := range records {
		for n := range rec.Value {
			cut := rec
			cut.Value = rec.Value[:n:n]
			if err := avroFault(t, d, arena, &cut); err == nil {
				t.Errorf("%x of %x can be read", cut.Value, rec.Value)
			}
			cuts++
		}
		for n := range rec.Key {
			if err := avroFault(t, d, arena, &change.Record{Key: rec.Key[:n:n]}); err == nil {
				t.Errorf("the key %x of %x can be read", rec.Key[:n], rec.Key)
			}
			cuts++
		}
	}
	t.Logf("%d cuts of %d records", cuts, len(records))
}

// TestAvroFlipped: any bit of a record may be another one.
func TestAvroFlipped(t *testing.T) {
	schemas, records := avroSamples(t)
	d := avroDecoder(t, Options{Schemas: schemas, Tombstones: "delete", Columns: map[string]ColumnSpec{"s": specOf(t, "decimal(5,2)"), "y": specOf(t, "bit(9)")}})
	flips, faults := 0, 0
	for _, rec := range records {
		arena := &change.Arena{}
		for i := range rec.Value {
			for bit := range 8 {
				flipped := rec
				flipped.Value = bytes.Clone(rec.Value)
				flipped.Value[i] ^= 1 << bit
				if avroFault(t, d, arena, &flipped) != nil {
					faults++
				}
				flips++
			}
		}
		if size := arena.Size(); size > 16<<20 {
			t.Errorf("%d bytes of memory for flips of a record of %d", size, len(rec.Value))
		}
	}
	if faults == 0 || faults == flips {
		t.Errorf("%d of %d flips are faults", faults, flips)
	}
	t.Logf("%d of %d flips are faults", faults, flips)
}

// TestAvroHostile: lengths, counts, nesting and names that ask for more than there is.
func TestAvroHostile(t *testing.T) {
	long := func(n int64) []byte { return binary.AppendVarint(nil, n) }
	cat := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	nested := func(depth int) []byte { // of records {"v": 0, "next": …}
		return cat(bytes.Repeat([]byte{2, 0}, depth), []byte{0})
	}
	var doubled strings.Builder // R0 has two R1, which has two R2, …; the last one has nothing
	for i := 60; i >= 0; i-- {
		if i == 60 {
			doubled.WriteString(`{"type":"record","name":"R60","fields":[]}`)
			continue
		}
		inner := doubled.String()
		doubled.Reset()
		fmt.Fprintf(&doubled, `{"type":"record","name":"R%d","fields":[{"name":"a","type":%s},{"name":"b","type":"R%d"}]}`, i, inner, i+1)
	}
	list := `["null",{"type":"record","name":"L","fields":[{"name":"v","type":"int"},{"name":"next","type":["null","L"]}]}]`
	wide := `{"type":"array","items":{"type":"record","name":"N","fields":[{"name":"` + strings.Repeat("n", 10000) + `","type":"int"}]}}`
	for _, c := range []struct {
		name, typ string
		cell      []byte
		fault     string // "": it can be read
	}{
		{"a string of 1 GiB", `"string"`, cat(long(1<<30), []byte("x")), "a length of 1073741824 bytes where"},
		{"a string of 2^62", `"string"`, long(1 << 62), "a length of 4611686018427387904"},
		{"a negative length", `"bytes"`, long(-1), "a length of -1 bytes"},
		{"bytes of 1 GiB", `"bytes"`, long(1 << 30), "a length of 1073741824"},
		{"a fixed of 1 GiB", `{"type":"fixed","name":"F","size":1073741824}`, []byte{1}, "ends early"},
		{"an array of 2^40", `{"type":"array","items":"int"}`, cat(long(1<<40), []byte{1, 1}), "avro at byte"},
		{"2^40 times nothing", `{"type":"array","items":"null"}`, cat(long(1<<40), []byte{0}), "more values than"},
		{"2^40 empty records", `{"type":"array","items":{"type":"record","name":"R","fields":[]}}`, cat(long(1<<40), []byte{0}), "more values than"},
		{"a few times nothing", `{"type":"array","items":"null"}`, cat(long(1000), []byte{0}), ""},
		{"a block larger than the record", `{"type":"array","items":"int"}`, cat(long(-1), long(1<<30), []byte{1, 0}), "a block of"},
		{"a block of the smallest count", `{"type":"array","items":"int"}`, cat(long(-1<<63), long(1), []byte{1, 0}), "a block of"},
		{"a map of 2^40", `{"type":"map","values":"null"}`, long(1 << 40), "avro at byte"},
		{"nested 100", list, nested(100), ""},
		{"nested 200", list, nested(200), "nested more than 128 deep"},
		{"nested 100,000", list, nested(100000), "nested more than 128 deep"},
		{"a record in itself without end", `{"type":"record","name":"A","fields":[{"name":"a","type":"A"}]}`, nil, "nested more than 128 deep"},
		{"2^60 records of nothing", doubled.String(), nil, "more values than"},
		{"64 MiB of names", wide, cat(long(10000), bytes.Repeat([]byte{2}, 10000), []byte{0}), "larger than 64 MiB"},
		{"a branch too many", `["null","int"]`, long(2), "branch 2 of a union of 2"},
		{"a negative branch", `["null","int"]`, long(-1), "branch -1 of a union of 2"},
		{"a symbol too many", `{"type":"enum","name":"E","symbols":["a"]}`, long(1), "symbol 1 of an enum of 1"},
		{"an enum of nothing", `{"type":"enum","name":"E","symbols":[]}`, long(0), "symbol 0 of an enum of 0"},
		{"an int of 33 bits", `"int"`, long(1 << 32), "more than 32 bits"},
		{"an integer of 10 bytes and more", `"long"`, bytes.Repeat([]byte{0xff}, 11), "too many bytes"},
		{"an integer of 65 bits", `"long"`, cat(bytes.Repeat([]byte{0xff}, 9), []byte{2}), "too many bytes"},
		{"the smallest integer", `"long"`, cat(bytes.Repeat([]byte{0xff}, 9), []byte{1}), ""},
		{"a boolean of 2", `"boolean"`, []byte{2}, "neither 0 nor 1"},
		{"no UTF-8", `"string"`, []byte{4, 0xc3, 0x28}, "no valid UTF-8"},
		{"half of a surrogate pair", `"string"`, []byte{6, 0xed, 0xa0, 0x80}, "no valid UTF-8"},
		{"no UTF-8 in a map's key", `{"type":"map","values":"null"}`, []byte{2, 2, 0xff, 0}, "no valid UTF-8"},
	} {
		text := avroEnvelope(`{"name":"v","type":` + c.typ + `}`)
		typ := parsedAvro(t, text)
		value := cat([]byte{0, 2}, c.cell)
		for i, v := range []any{avroSourceOf(), nil, "c", nil} {
			value = appendAvro(value, typ.fields[i+2].typ, v)
		}
		d := avroDecoder(t, Options{}, text)
		rec := change.Record{Value: confluentFrame(1, value)}
		_ = d.Decode(&change.Record{Value: confluentFrame(1, nil)}, &change.Arena{}, &change.Change{}) // the schema is parsed
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := avroFault(t, d, &change.Arena{}, &rec)
		runtime.ReadMemStats(&after)
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, want %s", c.name, err, c.fault)
		}
		limit := uint64(8 << 20)
		if strings.HasPrefix(c.name, "64 MiB") {
			limit = 512 << 20 // a text that grows by doubling
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > limit {
			t.Errorf("%s: %d bytes of memory for a record of %d", c.name, used, len(rec.Value))
		}
	}
	// In a source block and in cells that are not looked at it is no better.
	typ := parsedAvro(t, avroEnvelope(avroRow2))
	for name, edit := range map[string]func(map[string]any){
		"source": func(v map[string]any) { v["source"].(map[string]any)["gtid"] = "\xff" },
		"before": func(v map[string]any) { v["before"] = row2(1, "\xff") },
		"op":     func(v map[string]any) { v["op"] = "\xff" },
	} {
		v := avroChange("u", nil, row2(1, nil))
		edit(v)
		err := avroFault(t, avroDecoder(t, Options{KeyColumns: []string{"id"}}, avroEnvelope(avroRow2)), &change.Arena{}, &change.Record{Value: confluentFrame(1, appendAvro(nil, typ, v))})
		if err == nil || !strings.Contains(err.Error(), "no valid UTF-8") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzAvro: whatever the bytes, a Change or an *Error, the same from a decoder that
// has seen much as from a new one.
func FuzzAvro(f *testing.F) {
	schemas, records := avroSamples(f)
	for _, rec := range records {
		f.Add(rec.Key, rec.Value)
	}
	f.Add([]byte(`{"id":1}`), apicurioFrame(100, []byte{0, 0}))
	warm := map[int]Decoder{}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		for i, o := range []Options{{}, {Tombstones: "delete", EventTime: "column:s", Columns: map[string]ColumnSpec{"s": specOf(t, "timestamp"), "y": specOf(t, "bit(9)"), "id": specOf(t, "bigint unsigned")}}, {Avro: Avro{ID: "content"}, KeyColumns: []string{"id"}}} {
			o.Schemas = schemas
			if warm[i] == nil {
				warm[i] = avroDecoder(t, o)
			}
			cold, arena := avroDecoder(t, o), &change.Arena{}
			rec := change.Record{Key: key, Value: bytes.Clone(value), Timestamp: 1}
			var a, b change.Change
			first, again := warm[i].Decode(&rec, arena, &a), cold.Decode(&rec, &change.Arena{}, &b)
			if (first == nil) != (again == nil) || first != nil && first.Error() != again.Error() || !sameChange(&a, &b) {
				t.Fatalf("a warm decoder gives %+v, %v; a cold one %+v, %v", a, first, b, again)
			}
			decodeAll(t, cold, &change.Arena{}, rec)
		}
	})
}

// FuzzAvroSchema: whatever the schema and the bytes under it.
func FuzzAvroSchema(f *testing.F) {
	value := appendAvro(nil, parsedAvro(f, avroZoo), avroChange("u", zooRow(1), zooRow(2)))
	f.Add(avroZoo, value)
	f.Add(avroEnvelope(avroRow2), []byte{0, 2, 2, 0})
	f.Add(`{"type":"record","name":"V","fields":[{"name":"id","type":"long"},{"name":"__deleted","type":"string"},{"name":"__file","type":"string"},{"name":"__pos","type":"int"}]}`, []byte("\x02\x02a\x06b.1\x02"))
	f.Add(`{"type":"record","name":"r","fields":[{"name":"after","type":{"type":"record","name":"A","fields":[{"name":"a","type":"A"}]}},{"name":"op","type":"string"}]}`, []byte{2})
	f.Fuzz(func(t *testing.T, text string, value []byte) {
		d := avroDecoder(t, Options{}, text)
		decodeAll(t, d, &change.Arena{}, change.Record{Key: confluentFrame(1, value), Value: confluentFrame(1, value)})
	})
}
