package decode

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

// oneCell decodes a row of one column and gives its type and cell, or the fault.
func oneCell(t *testing.T, opts Options, schemaPart, value string) (string, string) {
	t.Helper()
	envelope := `{"op":"c","after":{"x":` + value + `},` + src + `}`
	if schemaPart != "" {
		envelope = `{"schema":{"type":"struct","fields":[{"type":"struct","field":"after","fields":[` + schemaPart + `]}]},"payload":` + envelope + `}`
	}
	c, err := decodeOne(t, opts, "", envelope)
	var e *Error
	switch {
	case errors.As(err, &e) && e.Reason == ReasonValue && e.Column == "x":
		return "", "error: " + e.Err.Error()
	case err != nil:
		t.Fatalf("%s %s: %v", schemaPart, value, err)
	}
	cell := typed{c.After[0], c.Columns.List[0].Type}
	if kind := schema.KindOf(cell.t); cell.v.Kind != kind && !cell.v.IsNull() && cell.v.Kind != schema.Unavailable && kind != schema.Null {
		t.Fatalf("%s %s: kind %d in a column of type %s", schemaPart, value, cell.v.Kind, cell.t)
	}
	return cell.t.String(), show(cell)
}

// TestConnectTypes is the table of types of records with schemas.
func TestConnectTypes(t *testing.T) {
	field := func(base, name, parameters string) string {
		s := `{"type":"` + base + `","optional":true,"field":"x"`
		if name != "" {
			s += `,"name":"` + name + `","version":1`
		}
		if parameters != "" {
			s += `,"parameters":{` + parameters + `}`
		}
		return s + `}`
	}
	const decimal = "org.apache.kafka.connect.data.Decimal"
	point := `{"type":"struct","name":"io.debezium.data.geometry.Point","field":"x","fields":[{"type":"double","field":"x"},{"type":"bytes","field":"wkb"}]}`
	for _, c := range []struct{ field, value, typ, want string }{
		{field("boolean", "", ""), `true`, "boolean", "true"},
		{field("boolean", "", ""), `1`, "", "error: no boolean: 1 is no boolean"},
		{field("int8", "", ""), `-128`, "byte", "-128"},
		{field("int8", "", ""), `128`, "", "error: no byte: too large for the column"},
		{field("int16", "", ""), `32767`, "short", "32767"},
		{field("int16", "", ""), `true`, "", "error: no short: true where an integer belongs"},
		{field("int32", "", ""), `2147483648`, "", "error: no integer: too large for the column"},
		{field("int32", "", ""), `1.0`, "integer", "1"},
		{field("int32", "", ""), `1e3`, "integer", "1000"},
		{field("int64", "", ""), `-9223372036854775808`, "long", "-9223372036854775808"},
		{field("int64", "", ""), `9223372036854775808`, "", "error: no long: too large for the column"},
		{field("int64", "", ""), `-1`, "long", "-1"}, // perhaps a wrapped unsigned one: nothing tells
		{field("float", "", ""), `5.170000076293945`, "float", "5.17"},
		{field("float32", "", ""), `3.4e+38`, "float", "3.4e+38"},
		{field("float", "", ""), `3.5e38`, "", "error: no float: too large for the column"},
		{field("float64", "", ""), `1.7976931348623157e308`, "double", "1.7976931348623157e+308"},
		{field("double", "", ""), `1e309`, "", "error: no double: too large for the column"},
		{field("double", "", ""), `"NaN"`, "double", "NaN"},
		{field("double", "", ""), `"1.5"`, "", "error: no double: a string where a number belongs"},
		{field("string", "", ""), `"a\u00e4\n"`, "string", "aä\n"},
		{field("string", "", ""), `1`, "", "error: no string: a number where a string belongs"},
		{field("string", "", ""), `null`, "string", `\N`},
		{field("bytes", "", ""), `"AQIDBA=="`, "binary", "0x01020304"},
		{field("bytes", "", ""), `"\/w=="`, "binary", "0xff"},
		{field("bytes", "", ""), `""`, "binary", "0x"},
		{field("bytes", "", ""), `"AQIDBA="`, "", "error: no binary: not base64"},
		{field("bytes", "", ""), `"AQIDBB=="`, "", "error: no binary: not base64"},
		{field("bytes", "", ""), `"AQID\nBA=="`, "", "error: no binary: not base64"},
		{field("bytes", "", ""), `"AQ-_"`, "", "error: no binary: not base64"},
		{field("bytes", "", ""), `"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="`, "binary", "(unavailable)"},
		{field("int64", "io.debezium.time.MicroTimestamp", ""), `"__debezium_unavailable_value"`, "timestamp_ntz", "(unavailable)"},

		{field("bytes", decimal, `"scale":"2","connect.decimal.precision":"5"`), `"MDk="`, "decimal(5,2)", "123.45"},
		{field("bytes", decimal, `"scale":"2","connect.decimal.precision":"5"`), `"AYag"`, "", "error: no decimal(5,2): too large for decimal(5,2)"},
		{field("bytes", decimal, `"scale":2,"connect.decimal.precision":5`), `"z8c="`, "decimal(5,2)", "-123.45"},
		{field("bytes", decimal, `"scale":"4","connect.decimal.precision":"18"`), `"8h9JTFicAAE="`, "decimal(18,4)", "-99999999999999.9999"},
		{field("bytes", decimal, `"scale":"10","connect.decimal.precision":"38"`), `"SztMqFqGxHoJiiI//////w=="`, "decimal(38,10)", "9999999999999999999999999999.9999999999"},
		{field("bytes", decimal, `"scale":"10","connect.decimal.precision":"38"`), `-1E-10`, "decimal(38,10)", "-0.0000000001"},
		{field("bytes", decimal, `"scale":"2","connect.decimal.precision":"10"`), `99999999.99`, "decimal(10,2)", "99999999.99"},
		{field("bytes", decimal, `"scale":"2","connect.decimal.precision":"10"`), `0.001`, "", "error: no decimal(10,2): more digits behind the point than the type has"},
		{field("bytes", decimal, `"scale":"2","connect.decimal.precision":"10"`), `""`, "", "error: no decimal(10,2): not a decimal number"},
		{field("bytes", decimal, `"scale":"0"`), `"AP//////////"`, "decimal(20,0)", "18446744073709551615"},
		{field("bytes", decimal, `"scale":"0"`), `987654321`, "decimal(20,0)", "987654321"},
		{field("bytes", decimal, `"scale":"3"`), `"AA=="`, "decimal(38,3)", "0.000"},
		{field("bytes", decimal, `"scale":"30","connect.decimal.precision":"65"`), `"AQ=="`, "string", "0.000000000000000000000000000001"},
		{field("bytes", decimal, `"scale":"0","connect.decimal.precision":"65"`), `-99999999999999999999999999999999999999999999999999999999999999999`, "string", "-" + strings.Repeat("9", 65)},
		{field("bytes", decimal, `"scale":"65","connect.decimal.precision":"1"`), `"FJqkSQ=="`, "string", "0." + strings.Repeat("0", 56) + "345678921"},

		{field("bytes", "io.debezium.data.Bits", `"length":"12"`), `"/w8="`, "long", "4095"},
		{field("bytes", "io.debezium.data.Bits", `"length":"12"`), `"/x8="`, "", "error: no long: too large for the column"},
		{field("bytes", "io.debezium.data.Bits", `"length":"60"`), `"EAAAAAAAAAA="`, "long", "16"},
		{field("bytes", "io.debezium.data.Bits", `"length":"64"`), `"//////////8="`, "decimal(20,0)", "18446744073709551615"},
		{field("bytes", "io.debezium.data.Bits", `"length":"5"`), `16`, "long", "16"},
		{field("bytes", "io.debezium.data.Bits", `"length":"70"`), `"AQ=="`, "binary", "0x01"},

		{field("int32", "io.debezium.time.Date", ""), `-354285`, "date", "1000-01-01"},
		{field("int32", "org.apache.kafka.connect.data.Date", ""), `2932896`, "date", "9999-12-31"},
		{field("int32", "io.debezium.time.Date", ""), `4294967296`, "", "error: no date: the time is out of range"},
		{field("string", "io.debezium.time.IsoDate", ""), `"2017-09-15Z"`, "date", "2017-09-15"},
		{field("int32", "io.debezium.time.Time", ""), `1001`, "long", "1001000"},
		{field("int32", "org.apache.kafka.connect.data.Time", ""), `1001`, "long", "1001000"},
		{field("int64", "io.debezium.time.MicroTime", ""), `-3020399000000`, "long", "-3020399000000"},
		{field("int64", "io.debezium.time.NanoTime", ""), `1001000`, "long", "1001"},
		{field("int64", "io.debezium.time.NanoTime", ""), `1001001`, "", "error: no long: more than microseconds"},
		{field("string", "io.debezium.time.IsoTime", ""), `"10:00:00.123Z"`, "long", "36000123000"},
		{field("int64", "io.debezium.time.Timestamp", ""), `1577891410123`, "timestamp_ntz", "2020-01-01 15:10:10.123"},
		{field("int64", "org.apache.kafka.connect.data.Timestamp", ""), `-30610224000000`, "timestamp_ntz", "1000-01-01 00:00:00"},
		{field("int64", "io.debezium.time.MicroTimestamp", ""), `253402300799999999`, "timestamp_ntz", "9999-12-31 23:59:59.999999"},
		{field("int64", "io.debezium.time.NanoTimestamp", ""), `1577891410123456000`, "timestamp_ntz", "2020-01-01 15:10:10.123456"},
		{field("int64", "io.debezium.time.Timestamp", ""), `9223372036854775807`, "", "error: no timestamp_ntz: the time is out of range"},
		{field("string", "io.debezium.time.IsoTimestamp", ""), `"2020-01-01T15:10:10.5Z"`, "timestamp_ntz", "2020-01-01 15:10:10.5"},
		{field("string", "io.debezium.time.ZonedTimestamp", ""), `"2022-07-15T06:33:02.325Z"`, "timestamp", "2022-07-15T06:33:02.325Z"},
		{field("string", "io.debezium.time.ZonedTimestamp", ""), `"2022-07-15T06:33:02+08:00"`, "timestamp", "2022-07-14T22:33:02Z"},
		{field("string", "io.debezium.time.ZonedTimestamp", ""), `"2022-07-15T06:33:02"`, "", "error: no timestamp: a timestamp's text needs a zone (Z or +08:00)"},
		{field("string", "io.debezium.time.ZonedTimestamp", ""), `1657866782325`, "", "error: no timestamp: nothing tells whether the integer is milliseconds or microseconds: configure datetime(3) or datetime(6)"},
		{field("int32", "io.debezium.time.Year", ""), `0`, "integer", "0"},

		{field("string", "io.debezium.data.Enum", `"allowed":"one,two\\, with comma"`), `"two, with comma"`, "string", "two, with comma"},
		{field("string", "io.debezium.data.EnumSet", `"allowed":"a,b"`), `"a,b"`, "string", "a,b"},
		{field("string", "io.debezium.data.Json", ""), `"{\"a\": 1}"`, "string", `{"a": 1}`},
		{field("string", "io.debezium.data.Xml", ""), `"<a/>"`, "string", "<a/>"},
		{field("string", "io.debezium.data.Uuid", ""), `"ffffffff-ffff-4fff-bfff-ffffffffffff"`, "string", "ffffffff-ffff-4fff-bfff-ffffffffffff"},
		{point, `{"x":1.5,"y":-2.5,"wkb":"AQEAAAAAAAAAAAD4PwAAAAAAAATA","srid":null}`, "binary", "0x0101000000000000000000f83f00000000000004c0"},
		{point, `{"x":1.5,"y":-2.5,"wkb":null,"srid":null}`, "", "error: no binary: no wkb in the geometry"},
		{point, `"POINT(1 1)"`, "", "error: no binary: a string where an object belongs"},
		{field("struct", "io.debezium.data.VariableScaleDecimal", ""), `{"scale":3,"value":"MDk="}`, "string", "12.345"},
		{field("struct", "io.debezium.data.VariableScaleDecimal", ""), `{"scale":-3,"value":"MDk="}`, "", "error: no string: not a decimal number"},
		{field("struct", "x.Unknown", ""), `{"a" : [1, 2.50]}`, "string", `{"a":[1,2.50]}`},
		{field("array", "io.debezium.data.FloatVector", ""), `[1.0, 2.5]`, "string", "[1.0,2.5]"},
		{field("map", "", ""), `{}`, "string", "{}"},
	} {
		if typ, got := oneCell(t, Options{}, c.field, c.value); typ != c.typ || got != c.want {
			t.Errorf("%s %s: %s %s, want %s %s", c.field, c.value, typ, got, c.typ, c.want)
		}
	}
}

// TestColumnTypes is the table of configured types, for records without schemas.
func TestColumnTypes(t *testing.T) {
	b64 := Debezium{Decimals: "base64", Unsigned: "long", Binary: "base64"}
	text := Debezium{}
	for _, c := range []struct {
		text  string
		hints Debezium
		value string
		typ   string
		want  string
	}{
		{"tinyint(1)", text, `1`, "byte", "1"},
		{"tinyint(1)", text, `true`, "byte", "1"},
		{"TINYINT", text, `127`, "byte", "127"},
		{"bool", text, `2`, "byte", "2"},
		{"boolean", text, `1`, "boolean", "true"},
		{"boolean", text, `2`, "", "error: no boolean: 2 is no boolean"},
		{"tinyint unsigned", text, `255`, "short", "255"},
		{"tinyint unsigned", text, `-1`, "", "error: no short: too small for the column"},
		{"smallint(5) unsigned zerofill", text, `65535`, "integer", "65535"},
		{"mediumint", text, `8388608`, "", "error: no integer: too large for the column"},
		{"int(11)", text, `true`, "", "error: no integer: true where an integer belongs"},
		{"int unsigned", text, `4294967295`, "long", "4294967295"},
		{"bigint", text, `9007199254740993`, "long", "9007199254740993"},
		{"bigint unsigned", text, `-1`, "decimal(20,0)", "18446744073709551615"},
		{"bigint unsigned", text, `-9223372036854775808`, "decimal(20,0)", "9223372036854775808"},
		{"bigint(20) unsigned", text, `18446744073709551615`, "decimal(20,0)", "18446744073709551615"},
		{"bigint unsigned", text, `18446744073709551616`, "", "error: no decimal(20,0): too large for the column"},
		{"bigint unsigned", text, `-9223372036854775809`, "", "error: no decimal(20,0): too small for the column"},
		{"bigint unsigned", b64, `"AP//////////"`, "decimal(20,0)", "18446744073709551615"},
		{"serial", text, `5`, "decimal(20,0)", "5"},
		{"decimal(20,0)", text, `-1`, "decimal(20,0)", "-1"},
		{"decimal(20,0)", b64, `-1`, "decimal(20,0)", "18446744073709551615"},
		{"decimal(12,2)", text, `"-0.10"`, "decimal(12,2)", "-0.10"},
		{"decimal(12,2)", text, `1234`, "decimal(12,2)", "1234.00"},
		{"decimal(12,2)", text, `"1234"`, "decimal(12,2)", "1234.00"},
		{"decimal(12,2)", b64, `"1234"`, "decimal(12,2)", "-26588.24"},
		{"decimal(12,2)", text, `"AehI"`, "", "error: no decimal(12,2): not a decimal number; if the connector writes base64, set debezium: {decimals: base64}"},
		{"decimal(22,2)", text, `"12345678901234567890.12"`, "decimal(22,2)", "12345678901234567890.12"},
		{"numeric", text, `5`, "decimal(10,0)", "5"},
		{"decimal(65,30)", text, `"1.5"`, "string", "1.500000000000000000000000000000"},
		{"decimal(65,30)", b64, `"/w=="`, "string", "-0.000000000000000000000000000001"},
		{"float", text, `0.1`, "float", "0.1"},
		{"float(23)", text, `1`, "float", "1"},
		{"float(24)", text, `0.1`, "double", "0.1"},
		{"float(7,3)", text, `0.1`, "float", "0.1"},
		{"double precision", text, `-2.5E-300`, "double", "-2.5e-300"},
		{"real", text, `1`, "double", "1"},
		{"bit", text, `true`, "boolean", "true"},
		{"bit(1)", text, `0`, "boolean", "false"},
		{"bit(12)", text, `"qgo="`, "long", "2730"},
		{"bit(12)", text, `4096`, "", "error: no long: too large for the column"},
		{"bit(64)", text, `"//////////8="`, "decimal(20,0)", "18446744073709551615"},
		{"date", text, `2932896`, "date", "9999-12-31"},
		{"date", text, `"2022-07-15"`, "date", "2022-07-15"},
		{"date", text, `"0000-00-00"`, "date", `\N`},
		{"date", text, `"2000-00-10"`, "date", `\N`},
		{"date", text, `"2022-02-29"`, "", "error: no date: not a date (2022-07-16)"},
		{"datetime", text, `1577891410123`, "timestamp_ntz", "2020-01-01 15:10:10.123"},
		{"datetime(3)", text, `1577891410123`, "timestamp_ntz", "2020-01-01 15:10:10.123"},
		{"datetime(3)", text, `1577891410123456`, "", "error: no timestamp_ntz: the time is out of range"},
		{"datetime(4)", text, `1577891410123456`, "timestamp_ntz", "2020-01-01 15:10:10.123456"},
		{"datetime(6)", text, `"2017-03-12 02:30:00"`, "timestamp_ntz", "2017-03-12 02:30:00"},
		{"datetime(6)", text, `"1950-01-01 01:00:00.999999"`, "timestamp_ntz", "1950-01-01 01:00:00.999999"},
		{"datetime", text, `"0000-00-00 00:00:00"`, "timestamp_ntz", `\N`},
		{"timestamp_ntz", text, `1`, "", "error: no timestamp_ntz: nothing tells whether the integer is milliseconds or microseconds: configure datetime(3) or datetime(6)"},
		{"timestamp(6)", text, `"2038-01-19T03:14:07.999999Z"`, "timestamp", "2038-01-19T03:14:07.999999Z"},
		{"timestamp", text, `1657866782325`, "timestamp", "2022-07-15T06:33:02.325Z"},
		{"time(6)", text, `-45000500000`, "long", "-45000500000"},
		{"time", text, `"-838:59:59.000000"`, "long", "-3020399000000"},
		{"time", text, `"-00:00:01"`, "long", "-1000000"},
		{"year(4)", text, `2155`, "integer", "2155"},
		{"enum('a','b,)c')", text, `"b,)c"`, "string", "b,)c"},
		{"set('x')", text, `""`, "string", ""},
		{"json", text, `{"a": 1}`, "string", `{"a":1}`},
		{"varchar(100) character set utf8mb4 collate utf8mb4_bin", text, `"ä"`, "string", "ä"},
		{"longtext", text, `12.50`, "string", "12.50"},
		{"string", text, `true`, "string", "true"},
		{"binary(4)", text, `"AQ=="`, "binary", "0x01000000"},
		{"binary(4)", text, `"AQIDBAU="`, "", "error: no binary: too large for the column"},
		{"binary", text, `"AQ=="`, "binary", "0x01"},
		{"varbinary(16)", text, `"/wA="`, "binary", "0xff00"},
		{"blob", text, `"not base64"`, "", "error: no binary: not base64"},
		{"point", text, `{"x":0,"y":0,"wkb":"AQ==","srid":null}`, "binary", "0x01"},
		{"long", text, `5`, "long", "5"}, {"short", text, `5`, "short", "5"}, {"byte", text, `5`, "byte", "5"},
		{"uuid", text, `"u"`, "string", "u"},
	} {
		spec, err := ParseColumnType(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if spec.String() != c.text {
			t.Errorf("%s prints as %s", c.text, spec)
		}
		opts := Options{Columns: map[string]ColumnSpec{"X": spec}, Debezium: c.hints}
		if typ, got := oneCell(t, opts, "", c.value); typ != c.typ || got != c.want {
			t.Errorf("%s %s: %s %s, want %s %s", c.text, c.value, typ, got, c.typ, c.want)
		}
		if c.typ != "" && spec.Type.String() != c.typ {
			t.Errorf("%s has type %s, want %s", c.text, spec.Type, c.typ)
		}
	}
	for _, text := range []string{"", "number", "int(", "int(x)", "int(1,2)", "int unsinged", "decimal(66,2)", "decimal(5,6)", "decimal(0)", "decimal(3,2,1)",
		"bit(0)", "bit(65)", "float(54)", "datetime(7)", "enum", "enum('a'", "text('a')", "varchar(10) character set", "varchar(5) collate", "date(3)", "array<int>"} {
		if spec, err := ParseColumnType(text); !errors.Is(err, ErrColumnType) {
			t.Errorf("%q: %v, %v", text, spec, err)
		}
	}
}

// TestConfiguredTypes: what the configuration adds to a record's schema.
func TestConfiguredTypes(t *testing.T) {
	for _, c := range []struct{ field, text, value, typ, want string }{
		{`{"type":"int64","field":"x"}`, "bigint unsigned", `-1`, "decimal(20,0)", "18446744073709551615"},
		{`{"type":"int64","field":"x"}`, "decimal(20,0)", `-1`, "decimal(20,0)", "-1"},
		{`{"type":"int16","field":"x"}`, "tinyint(1)", `1`, "byte", "1"},
		{`{"type":"int16","field":"x"}`, "boolean", `1`, "boolean", "true"},
		{`{"type":"int16","field":"x"}`, "boolean", `2`, "", "error: no boolean: the value does not fit the column of type boolean: another kind of value"},
		{`{"type":"boolean","field":"x"}`, "tinyint(1)", `true`, "byte", "1"},
		{`{"type":"int32","field":"x"}`, "long", `5`, "long", "5"},
		{`{"type":"int64","field":"x"}`, "int", `2147483648`, "", "error: no integer: too large for the column"},
		{`{"type":"double","field":"x"}`, "decimal(12,5)", `12345.12345`, "decimal(12,5)", "12345.12345"},
		{`{"type":"string","field":"x"}`, "decimal(12,5)", `"1.5"`, "decimal(12,5)", "1.50000"},
		{`{"type":"string","field":"x"}`, "varbinary(4)", `"Zm9v"`, "binary", "0x666f6f"},
		{`{"type":"bytes","field":"x"}`, "binary(4)", `"AQ=="`, "binary", "0x01000000"},
		{`{"type":"string","field":"x"}`, "datetime", `"2022-07-15 01:02:03"`, "timestamp_ntz", "2022-07-15 01:02:03"},
		{`{"type":"int64","name":"io.debezium.time.MicroTimestamp","field":"x"}`, "datetime(3)", `1577891410123456`, "timestamp_ntz", "2020-01-01 15:10:10.123456"},
		{`{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2","connect.decimal.precision":"5"},"field":"x"}`, "decimal(10,4)", `"MDk="`, "decimal(10,4)", "123.4500"},
		{`{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2","connect.decimal.precision":"5"},"field":"x"}`, "string", `"MDk="`, "string", "123.45"},
		{`{"type":"bytes","field":"x"}`, "bit(12)", `"/w8="`, "long", "4095"},
		{`{"type":"int64","name":"io.debezium.time.MicroTimestamp","field":"x"}`, "timestamp", `1`, "", "error: no timestamp: the value does not fit the column of type timestamp: another kind of value: a timestamp_ntz"},
	} {
		spec, err := ParseColumnType(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if typ, got := oneCell(t, Options{Columns: map[string]ColumnSpec{"x": spec}}, c.field, c.value); typ != c.typ || got != c.want {
			t.Errorf("%s as %s, %s: %s %s, want %s %s", c.field, c.text, c.value, typ, got, c.typ, c.want)
		}
	}
}

func TestUnavailableValue(t *testing.T) {
	opts := Options{UnavailableValue: "(none)"}
	for value, want := range map[string]string{`"(none)"`: "(unavailable)", `"KG5vbmUp"`: "(unavailable)", `"` + DefaultUnavailable + `"`: DefaultUnavailable} {
		if _, got := oneCell(t, opts, "", value); got != want {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
	}
}

func TestFit(t *testing.T) {
	unknown := schema.Type{}
	of := func(s string) schema.Type {
		if s == "" {
			return unknown
		}
		typ, err := schema.ParsePrimitive(s)
		if err != nil {
			t.Fatal(err)
		}
		return typ
	}
	num := func(s string) schema.Value { return schema.Value{Kind: schema.Number, S: s} }
	dec := func(n int64) schema.Value { return schema.Value{Kind: schema.Dec, I: n} }
	for _, c := range []struct {
		v        schema.Value
		from, to string
		want     string // empty: an error
	}{
		{schema.IntValue(5), "", "long", "5"},
		{schema.IntValue(5), "short", "byte", "5"},
		{schema.IntValue(128), "", "byte", ""},
		{schema.IntValue(-32769), "", "short", ""},
		{schema.IntValue(math.MaxInt32), "", "integer", "2147483647"},
		{schema.IntValue(math.MaxInt32 + 1), "long", "integer", ""},
		{num("1.0"), "", "integer", "1"},
		{num("9223372036854775807.0"), "", "long", "9223372036854775807"},
		{num("9223372036854775808"), "", "long", ""},
		{num("1.5"), "", "long", ""},
		{dec(100), "decimal(10,2)", "long", "1"},
		{dec(101), "decimal(10,2)", "long", ""},
		{schema.BoolValue(true), "boolean", "byte", "1"},
		{schema.BoolValue(true), "", "long", "1"},
		{schema.IntValue(1), "short", "boolean", "true"},
		{schema.IntValue(2), "", "boolean", ""},
		{schema.StringValue("1"), "", "long", ""},
		{schema.IntValue(1), "date", "long", ""},
		{schema.IntValue(1), "long", "date", ""},
		{schema.IntValue(1), "", "timestamp", ""},
		{schema.IntValue(1), "timestamp", "timestamp_ntz", ""},
		{schema.IntValue(1), "date", "date", "1970-01-02"},
		{schema.IntValue(1 << 24), "", "float", "1.6777216e+07"},
		{schema.IntValue(1<<24 + 1), "", "float", ""},
		{schema.IntValue(1 << 53), "", "double", "9.007199254740992e+15"},
		{schema.IntValue(1<<53 + 1), "", "double", ""},
		{num("18446744073709551615"), "", "double", ""},
		{num("0.1"), "", "double", "0.1"},
		{num("1e400"), "", "double", ""},
		{schema.FloatValue(0.1), "float", "double", "0.10000000149011612"},
		{schema.DoubleValue(5.170000076293945), "double", "float", "5.17"},
		{schema.DoubleValue(0.1), "double", "float", ""},
		{dec(15), "decimal(10,1)", "double", "1.5"},
		{dec(1), "decimal(10,1)", "double", ""},
		{schema.DoubleValue(1), "double", "decimal(10,0)", ""},
		{schema.IntValue(-5), "", "decimal(20,0)", "-5"},
		{schema.IntValue(100), "long", "decimal(4,2)", ""},
		{schema.IntValue(99), "long", "decimal(4,2)", "99.00"},
		{num("18446744073709551615"), "", "decimal(20,0)", "18446744073709551615"},
		{num("12345678901234567890.12"), "", "decimal(22,2)", "12345678901234567890.12"},
		{num("1e37"), "", "decimal(38,0)", "1" + strings.Repeat("0", 37)},
		{num("1e38"), "", "decimal(38,0)", ""},
		{num("1e-999999999999"), "", "decimal(38,2)", ""},
		{num("0e999999999999"), "", "decimal(38,2)", "0.00"},
		{dec(12345), "decimal(5,2)", "decimal(6,3)", "123.450"},
		{dec(12345), "decimal(5,2)", "decimal(5,3)", ""},
		{dec(12340), "decimal(5,2)", "decimal(5,1)", "123.4"},
		{dec(12345), "decimal(5,2)", "decimal(5,1)", ""},
		{schema.StringValue("-0.10"), "", "decimal(4,2)", "-0.10"},
		{schema.StringValue(" 1"), "", "decimal(4,2)", ""},
		{schema.StringValue("x"), "string", "decimal(4,2)", ""},
		{schema.StringValue("2022-07-16"), "", "date", "2022-07-16"},
		{schema.StringValue("2022-07-16 01:02:03"), "", "date", ""},
		{schema.StringValue("0000-00-00"), "", "date", `\N`},
		{schema.StringValue("2022-07-16T01:02:03Z"), "", "timestamp", "2022-07-16T01:02:03Z"},
		{schema.StringValue("2022-07-16 01:02:03"), "", "timestamp", ""},
		{schema.StringValue("2022-07-16 01:02:03.5"), "", "timestamp_ntz", "2022-07-16 01:02:03.5"},
		{schema.StringValue("2022-07-16 01:02:03+02:00"), "", "timestamp_ntz", ""},
		{num("0.10"), "", "string", "0.10"},
		{schema.IntValue(7), "", "string", "7"},
		{schema.IntValue(7), "date", "string", ""},
		{dec(-5), "decimal(4,2)", "string", "-0.05"},
		{schema.BoolValue(false), "", "string", "false"},
		{schema.BoolValue(false), "boolean", "string", ""},
		{schema.DoubleValue(1), "double", "string", ""},
		{schema.StringValue("YQ=="), "", "binary", ""},
		{schema.BinaryValue("a"), "binary", "string", ""},
		{schema.NullValue(), "", "long", `\N`},
		{schema.Value{Kind: schema.Unavailable}, "", "long", "(unavailable)"},
	} {
		to := of(c.to)
		got, err := Fit(c.v, of(c.from), to)
		switch {
		case c.want == "":
			if !errors.Is(err, ErrFit) {
				t.Errorf("%v of %q as %s: %v, %v; want an error", c.v, c.from, c.to, show(typed{got, to}), err)
			}
		case err != nil || show(typed{got, to}) != c.want:
			t.Errorf("%v of %q as %s: %v, %v; want %s", c.v, c.from, c.to, show(typed{got, to}), err, c.want)
		case !got.IsNull() && got.Kind != schema.Unavailable && got.Kind != schema.KindOf(to):
			t.Errorf("%v as %s has kind %d", c.v, c.to, got.Kind)
		}
	}
}

// TestTypeOf: a new column's type takes the cell that it was made for.
func TestTypeOf(t *testing.T) {
	for _, c := range []struct {
		v    schema.Value
		want string
	}{
		{schema.IntValue(1), "long"},
		{schema.Value{Kind: schema.Number, S: "9223372036854775808"}, "decimal(20,0)"},
		{schema.Value{Kind: schema.Number, S: "-99999999999999999999"}, "decimal(20,0)"},
		{schema.Value{Kind: schema.Number, S: "100000000000000000000"}, "decimal(38,0)"},
		{schema.Value{Kind: schema.Number, S: strings.Repeat("9", 39)}, "string"},
		{schema.Value{Kind: schema.Number, S: "1.0"}, "double"},
		{schema.Value{Kind: schema.Number, S: "-1e5"}, "double"},
		{schema.StringValue(""), "string"},
		{schema.BoolValue(true), "boolean"},
		{schema.BinaryValue(""), "binary"},
		{schema.FloatValue(1), "float"},
		{schema.DoubleValue(1), "double"},
		{schema.NullValue(), "unknown"},
		{schema.Value{Kind: schema.Unavailable}, "unknown"},
		{schema.Value{Kind: schema.Dec, I: 1}, "unknown"},
	} {
		got := TypeOf(c.v)
		if got.String() != c.want {
			t.Errorf("%v: %s, want %s", c.v, got, c.want)
		}
		if got.Primitive != schema.Unknown {
			if _, err := Fit(c.v, schema.Type{}, got); err != nil {
				t.Errorf("%v does not fit its own type: %v", c.v, err)
			}
		}
	}
}

func ExampleParseColumnType() {
	for _, text := range []string{"bigint unsigned", "DATETIME(6)", "decimal(12,2)", "bit(12)", "enum('new','paid')"} {
		spec, err := ParseColumnType(text)
		fmt.Println(spec, "->", spec.Type, err)
	}
	// Output:
	// bigint unsigned -> decimal(20,0) <nil>
	// DATETIME(6) -> timestamp_ntz <nil>
	// decimal(12,2) -> decimal(12,2) <nil>
	// bit(12) -> long <nil>
	// enum('new','paid') -> string <nil>
}

// TestShares notes that decoded text lives in the record or the arena only.
func TestShares(t *testing.T) {
	value := []byte(`{"op":"c","after":{"a":"plain text","b":"with \n escape","c":"__debezium_unavailable_value"},` + src + `}`)
	d, err := New("debezium-json", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var c change.Change
	if err := d.Decode(&change.Record{Value: value}, &change.Arena{}, &c); err != nil {
		t.Fatal(err)
	}
	clear(value)
	if c.After[0].S == "plain text" || c.After[1].S != "with \n escape" || c.Server.Name != "s" || c.Columns.List[0].Name != "a" {
		t.Errorf("after the record is gone: %+v, server %q", c.After, c.Server.Name)
	}
}
