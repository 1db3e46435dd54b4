package decode

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/ingest/change"
)

// TestGuide: a decoder that has read other records before says of each what a new one
// says: what it remembers of names decides nothing.
func TestGuide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{}
		if rapid.Bool().Draw(t, "key columns") {
			o.KeyColumns = []string{"id"}
		}
		used, err := New("debezium-json", o)
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 12).Draw(t, "records") {
			value := []byte(`{"before":` + drawObject(t, rowNames) + `,"after":` + drawObject(t, rowNames) +
				`,"source":` + drawObject(t, sourceNames) + `,"op":"` + rapid.SampledFrom([]string{"c", "u", "u", "d"}).Draw(t, "op") + `"}`)
			switch rapid.IntRange(0, 15).Draw(t, "damage") {
			case 0:
				value = value[:rapid.IntRange(0, len(value)).Draw(t, "cut")]
			case 1:
				value[rapid.IntRange(0, len(value)-1).Draw(t, "at")] = rapid.SampledFrom([]byte(`"\,:{} x`)).Draw(t, "byte")
			case 2:
				value = bytes.ReplaceAll(value, []byte(","), []byte(" , "))
			case 3:
				value = bytes.ReplaceAll(value, []byte(":"), []byte(" :"))
			case 4, 5:
				value = bytes.ReplaceAll(value, []byte(":"), []byte(": "))
			}
			decodeBoth(t, used, "debezium-json", o, value)
		}
	})
}

// TestGuideOfFlatRows: a column payload with an object looks like a wrapped row until
// the next member.
func TestGuideOfFlatRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{Tombstones: "ignore"}
		used, err := New(DebeziumFlat, o)
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 12).Draw(t, "records") {
			value := drawObject(t, []string{"id", "name", "__op"})
			if rapid.Bool().Draw(t, "payload") {
				value = `{"payload":` + drawObject(t, []string{"a", "b"})
				for _, name := range rapid.SampledFrom([][]string{{}, {"schema"}, {"x"}, {""}, {"x", "y"}, {"__op"}, {"x", "__op"}}).Draw(t, "more") {
					value += fmt.Sprintf(`,"%s":null`, name)
				}
				value += "}"
			}
			decodeBoth(t, used, DebeziumFlat, o, []byte(value))
		}
	})
}

// decodeBoth compares a decoder that has read other records with a new one.
func decodeBoth(t *rapid.T, used Decoder, format string, o Options, value []byte) {
	rec := &change.Record{Key: []byte(`{"id":1}`), Value: value}
	fresh, err := New(format, o)
	if err != nil {
		t.Fatal(err)
	}
	var got, want change.Change
	gotErr, wantErr := used.Decode(rec, &change.Arena{}, &got), fresh.Decode(rec, &change.Arena{}, &want)
	if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) || !reflect.DeepEqual(got, want) {
		t.Fatalf("%s\nis %+v, %v\nnew: %+v, %v", value, got, gotErr, want, wantErr)
	}
}

var (
	rowNames    = []string{"id", "name", "n\\u0061me2", "größe", "x"}
	sourceNames = []string{"version", "name", "ts_ms", "db", "table", "file", "pos", "row", "server_id", "thread"}
)

// drawObject draws most often an object of all names, in their order.
func drawObject(t *rapid.T, names []string) string {
	names = append([]string{}, names...)
	switch rapid.IntRange(0, 8).Draw(t, "names") {
	case 0:
		i := rapid.IntRange(0, len(names)-1).Draw(t, "missing")
		names = append(names[:i], names[i+1:]...)
	case 1:
		i, j := rapid.IntRange(0, len(names)-1).Draw(t, "one"), rapid.IntRange(0, len(names)-1).Draw(t, "other")
		names[i], names[j] = names[j], names[i]
	case 2:
		names = append(names, rapid.SampledFrom([]string{"id", "more", ""}).Draw(t, "more"))
	case 3:
		names = names[:2]
	case 4:
		return "null"
	}
	var b strings.Builder
	for i, n := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		value := rapid.SampledFrom([]string{"1", "null", `"text"`, "-2.5", `"mysql-bin.000007"`, "{\"a\": 1}"}).Draw(t, "value")
		switch n {
		case "file":
			value = `"mysql-bin.000007"`
		case "pos", "row", "ts_ms", "server_id":
			value = "17"
		}
		fmt.Fprintf(&b, `"%s":%s`, n, value)
	}
	return "{" + b.String() + "}"
}
