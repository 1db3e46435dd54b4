package decode

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sourceTypes are the types of MySQL and MariaDB: what Debezium's schema says of each by
// its defaults, TiDB's code and flags for it (0: it has none), and what to set for another
// choice.
var sourceTypes = []struct {
	mysql   string
	connect string
	code    int64
	flags   int64
	choice  string
}{
	{"tinyint", `"type":"int16"`, 1, 0, ""},
	{"tinyint(1)", `"type":"int16"`, 1, 0, "a truth value: `columns: {c: boolean}`, where no cell has another number"},
	{"tinyint unsigned", `"type":"int16"`, 1, openUnsigned, ""},
	{"smallint", `"type":"int16"`, 2, 0, ""},
	{"smallint unsigned", `"type":"int32"`, 2, openUnsigned, ""},
	{"mediumint", `"type":"int32"`, 9, 0, ""},
	{"mediumint unsigned", `"type":"int32"`, 9, openUnsigned, ""},
	{"int", `"type":"int32"`, 3, 0, ""},
	{"int unsigned", `"type":"int64"`, 3, openUnsigned, ""},
	{"bigint", `"type":"int64"`, 8, 0, ""},
	{"bigint unsigned", `"type":"int64"`, 8, openUnsigned, "Debezium wraps it past 2^63: `columns: {c: bigint unsigned}`, or `bigint.unsigned.handling.mode: precise`"},
	{"decimal(12,2)", `"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2","connect.decimal.precision":"12"}`, 246, 0, "where the records lack the digits: `columns: {c: \"decimal(12,2)\"}`"},
	{"decimal(65,30)", `"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"30","connect.decimal.precision":"65"}`, 246, 0, "38 digits are the most of any Delta type: `columns: {c: \"decimal(38,10)\"}`, what does not fit is a dead letter"},
	{"float", `"type":"float"`, 4, 0, ""},
	{"double", `"type":"double"`, 5, 0, ""},
	{"bit(1)", `"type":"boolean"`, 16, 0, ""},
	{"bit(12)", `"type":"bytes","name":"io.debezium.data.Bits","parameters":{"length":"12"}`, 16, 0, ""},
	{"bit(64)", `"type":"bytes","name":"io.debezium.data.Bits","parameters":{"length":"64"}`, 16, 0, ""},
	{"date", `"type":"int32","name":"io.debezium.time.Date"`, 10, 0, "a zero date is NULL"},
	{"datetime", `"type":"int64","name":"io.debezium.time.Timestamp"`, 12, 0, "a zero date is NULL; never shifted by a zone"},
	{"datetime(6)", `"type":"int64","name":"io.debezium.time.MicroTimestamp"`, 12, 0, ""},
	{"timestamp", `"type":"string","name":"io.debezium.time.ZonedTimestamp"`, 7, 0, "Canal and TiCDC write the clock of a zone: `canal: {timezone: Z}`"},
	{"timestamp(6)", `"type":"string","name":"io.debezium.time.ZonedTimestamp"`, 7, 0, ""},
	{"time(6)", `"type":"int64","name":"io.debezium.time.MicroTime"`, 11, 0, "microseconds, signed, up to 838 hours: a duration, no time of day"},
	{"year", `"type":"int32","name":"io.debezium.time.Year"`, 13, 0, "0000 is 0"},
	{"char(9)", `"type":"string"`, 254, 0, ""},
	{"varchar(40)", `"type":"string"`, 15, 0, ""},
	{"text", `"type":"string"`, 252, 0, ""},
	{"enum('a','b')", `"type":"string","name":"io.debezium.data.Enum","parameters":{"allowed":"a,b"}`, 247, 0, "the label; what was no label is the empty text"},
	{"set('a','b')", `"type":"string","name":"io.debezium.data.EnumSet","parameters":{"allowed":"a,b"}`, 248, 0, "labels joined by commas"},
	{"json", `"type":"string","name":"io.debezium.data.Json"`, 245, 0, "the text as the source writes it: compare by value"},
	{"binary(16)", `"type":"bytes"`, 254, openBinary, "padded where the length is known: `columns: {c: \"binary(16)\"}`"},
	{"varbinary(16)", `"type":"bytes"`, 15, openBinary, ""},
	{"blob", `"type":"bytes"`, 252, openBinary, "Debezium with `binary.handling.mode: hex`: string"},
	{"geometry", `"type":"struct","name":"io.debezium.data.geometry.Geometry","fields":[{"type":"bytes","field":"wkb"},{"type":"int32","field":"srid"}]`, 0, 0, "the WKB; the SRID is dropped"},
	{"point", `"type":"struct","name":"io.debezium.data.geometry.Point","fields":[{"type":"double","field":"x"},{"type":"bytes","field":"wkb"}]`, 0, 0, ""},
	{"uuid", `"type":"string"`, 0, 0, "MariaDB"},
	{"inet6", `"type":"string"`, 0, 0, "MariaDB"},
}

// TestTypesPage: the table of docs/types.md says for every type and format what the code does.
func TestTypesPage(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "types.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sourceTypes {
		spec, err := ParseColumnType(s.mysql)
		if err != nil {
			t.Fatal(err)
		}
		var field connectField
		if err := json.Unmarshal([]byte(`{"field":"c",`+s.connect+`}`), &field); err != nil {
			t.Fatalf("%s: %v", s.mysql, err)
		}
		connect, err := field.codec()
		if err != nil {
			t.Fatalf("%s: %v", s.mysql, err)
		}
		canal := canalCodec(s.mysql, &Canal{})
		open := "–"
		if s.code != 0 {
			c := openColumn{typ: s.code, flags: s.flags, flagged: true}.codec("c", &Options{})
			open = c.result().String()
		}
		if own := gscdCodec(s.mysql); own.result().String() != spec.Type.String() {
			t.Errorf("%s: capture's form has %s, columns: %s", s.mysql, own.result(), spec.Type)
		}
		row := fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s |", s.mysql, spec.Type, connect.result(), canal.result(), open, s.choice)
		if !strings.Contains(string(raw), row+"\n") {
			t.Errorf("docs/types.md lacks\n%s", row)
		}
	}
}
