package decode

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

// expectation is an entry of expected.jsonl.
type expectation struct {
	File      any             `json:"file"`
	Format    string          `json:"format"`
	Table     string          `json:"table"`
	Keys      []string        `json:"keys"`
	FinalRows json.RawMessage `json:"final_rows"`
	// Error tells that no record of the file is one.
	Error bool `json:"error"`
}

func (e expectation) files() []string {
	if name, ok := e.File.(string); ok {
		return []string{name}
	}
	var out []string
	for _, name := range e.File.([]any) {
		out = append(out, name.(string))
	}
	return out
}

// records gives the records of a file of values, or of keys and values.
func records(t *testing.T, name string) []change.Record {
	path := cdcFile(t, name)
	values := lines(t, path)
	if strings.HasSuffix(name, ".pretty.json") {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		values = [][]byte{raw}
	}
	var out []change.Record
	for i, value := range values {
		rec := change.Record{Offset: int64(i), Value: value}
		var pair struct{ Key, Value json.RawMessage }
		if bytes.HasPrefix(value, []byte(`{"key"`)) && json.Unmarshal(value, &pair) == nil {
			rec.Key, rec.Value = pair.Key, pair.Value
		}
		out = append(out, rec)
	}
	return out
}

// TestExpected decodes every sample with a known outcome and folds it.
func TestExpected(t *testing.T) {
	formats := map[string]string{"debezium-json": "debezium-json", "flink-cdc debezium-json": "debezium-json",
		"flink-cdc debezium-json-with-schema": "debezium-json", "maxwell-json": "maxwell",
		"canal-json": CanalJSON, "flink-cdc canal-json": CanalJSON, "ticdc canal-json": CanalJSON,
		"aws-dms": AWSDMS}
	entries := map[string]int{}
	for _, line := range lines(t, cdcFile(t, "expected.jsonl")) {
		var e expectation
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		format := formats[e.Format]
		if format == "" { // ticdc open-protocol and binlog are read elsewhere
			continue
		}
		entries[format]++
		t.Run(e.files()[0]+"/"+e.Table, func(t *testing.T) { e.check(t, format) })
	}
	if want := map[string]int{"debezium-json": 26, "maxwell": 21, CanalJSON: 28, AWSDMS: 14}; !reflect.DeepEqual(entries, want) {
		t.Errorf("entries by format: %v, %v were there", entries, want)
	}
}

func (e expectation) check(t *testing.T, format string) {
	if e.Error {
		e.checkFaults(t, format)
		return
	}
	var rows []map[string]any
	exact := json.NewDecoder(bytes.NewReader(e.FinalRows))
	exact.UseNumber()
	if err := exact.Decode(&rows); err != nil {
		t.Fatal(err)
	}
	opts := Options{Source: e.Table, Canal: Canal{Timezone: time.UTC}}
	switch e.Table {
	case "mydb.project": // the messages call a column of texts an int
		spec, err := ParseColumnType("string")
		if err != nil {
			t.Fatal(err)
		}
		opts.Columns = map[string]ColumnSpec{"id": spec}
	case "paimon_sync_table.computed_column_with_case_insensitive":
		// The entry has the key in lower case and so finds none, and one row left.
		// Its note has both.
		e.Keys = []string{"_ID"}
		rows = append(rows, map[string]any{"_ID": json.Number("1"), "_DATE": "2023-03-23"})
	}
	d, err := New("auto", opts)
	if err != nil {
		t.Fatal(err)
	}
	arena, table := &change.Arena{}, newFold(e.Keys...)
	table.bag = format == CanalJSON && len(e.Keys) == 0 && e.Table == "non_pk.t"
	for _, name := range e.files() {
		for _, rec := range records(t, name) {
			rec.Rows = int32(d.Rows(&rec))
			for ; rec.Row == 0 || rec.Row < rec.Rows; rec.Row++ {
				var c change.Change
				if err := d.Decode(&rec, arena, &c); err != nil {
					t.Fatalf("%s line %d: %v", name, rec.Offset+1, err)
				}
				table.apply(t, &c)
			}
		}
	}
	if d.Format() != format {
		t.Errorf("decided format %q", d.Format())
	}
	if len(table.rows) != len(rows) {
		t.Errorf("%d rows, want %d", len(table.rows), len(rows))
	}
	for _, want := range rows {
		row := table.lookup(want)
		if row == nil {
			t.Errorf("no row %v", want)
			continue
		}
		for name, w := range want {
			got, there := row[name]
			if !there && w != nil {
				t.Errorf("no column %s", name)
			}
			if !same(got, w) {
				t.Errorf("column %s: %s %v, want %v", name, got.t, show(got), w)
			}
		}
		for name, got := range row {
			if _, there := want[name]; !there && !got.v.IsNull() {
				t.Errorf("column %s was not expected", name)
			}
		}
	}
}

// checkFaults: every record is an *Error, by its format and by none.
func (e expectation) checkFaults(t *testing.T, format string) {
	for _, name := range []string{format, Auto} {
		d, err := New(name, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range e.files() {
			for _, rec := range records(t, file) {
				var c change.Change
				var fault *Error
				if err := d.Decode(&rec, &change.Arena{}, &c); !errors.As(err, &fault) || fault.Reason != ReasonDecode {
					t.Errorf("%s: %s is %v, %v", name, rec.Value, c.Op, err)
				}
			}
		}
	}
}

// lookup finds the row with the wanted key columns.
func (f *fold) lookup(want map[string]any) map[string]typed {
	for _, row := range f.rows {
		if !slices.ContainsFunc(f.keys, func(k string) bool { return !same(row[k], want[k]) }) {
			return row
		}
	}
	return nil
}

// same compares a cell with an expected value, by the cell's type.
func same(got typed, want any) bool {
	if want == nil || got.v.IsNull() {
		return want == nil && got.v.IsNull()
	}
	switch w := want.(type) {
	case bool:
		return got.v == schema.BoolValue(w)
	case []any: // a set as Maxwell writes it
		text, err := json.Marshal(w)
		return err == nil && got.v == schema.StringValue(string(text))
	case json.Number:
		return sameNumber(got, string(w))
	case string:
		if got.v.Kind == schema.String {
			return got.v.S == w
		}
		if got.v.Kind == schema.Dec || got.v.Kind == schema.Number {
			return sameNumber(got, w)
		}
		if got.t.Primitive == schema.Long && strings.Contains(w, ":") {
			return clockText(got.v.I) == w
		}
		if got.t.Primitive == schema.Timestamp {
			return strings.NewReplacer("T", " ", "Z", "").Replace(show(got)) == strings.NewReplacer("T", " ", "Z", "").Replace(w)
		}
		return show(got) == w
	case map[string]any:
		if b64, ok := w["b64"]; ok {
			raw, _ := base64.StdEncoding.DecodeString(b64.(string))
			return got.v.Kind == schema.Binary && got.v.S == string(raw)
		}
		if bits, ok := w["bits"]; ok {
			return sameNumber(got, bits.(json.Number).String())
		}
		var nested map[string]any
		return got.v.Kind == schema.String && json.Unmarshal([]byte(got.v.S), &nested) == nil && reflect.DeepEqual(nested, w)
	}
	return false
}

func sameNumber(got typed, want string) bool {
	switch got.v.Kind {
	case schema.Float:
		w, err := strconv.ParseFloat(want, 32)
		return err == nil && got.v.Float32() == float32(w)
	case schema.Double:
		w, err := strconv.ParseFloat(want, 64)
		return err == nil && got.v.Float64() == w
	}
	g, ok1 := new(big.Rat).SetString(show(got))
	w, ok2 := new(big.Rat).SetString(want)
	return ok1 && ok2 && g.Cmp(w) == 0
}

// clockText prints a TIME of so many microseconds, with the digits that it has.
func clockText(micros int64) string {
	sign := ""
	if micros < 0 {
		sign, micros = "-", -micros
	}
	d := time.Duration(micros) * time.Microsecond
	text := fmt.Sprintf("%s%02d:%02d:%02d", sign, int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
	if rest := micros % microsPerSecond; rest != 0 {
		text += strings.TrimRight(fmt.Sprintf(".%06d", rest), "0")
	}
	return text
}

// show prints a cell as MySQL would, with the digits that it has.
func show(c typed) string {
	switch c.v.Kind {
	case schema.Null:
		return `\N`
	case schema.Unavailable:
		return "(unavailable)"
	case schema.Dec:
		return c.v.DecimalText(c.t.Scale)
	case schema.Float:
		return strconv.FormatFloat(float64(c.v.Float32()), 'g', -1, 32)
	case schema.Double:
		return strconv.FormatFloat(c.v.Float64(), 'g', -1, 64)
	case schema.Bool:
		return strconv.FormatBool(c.v.I == 1)
	case schema.String, schema.Number:
		return c.v.S
	case schema.Binary:
		return fmt.Sprintf("0x%x", c.v.S)
	}
	switch c.t.Primitive {
	case schema.Date:
		return time.UnixMicro(c.v.I * microsPerDay).UTC().Format("2006-01-02")
	case schema.TimestampNTZ:
		return time.UnixMicro(c.v.I).UTC().Format("2006-01-02 15:04:05.999999")
	case schema.Timestamp:
		return time.UnixMicro(c.v.I).UTC().Format("2006-01-02T15:04:05.999999Z")
	}
	return strconv.FormatInt(c.v.I, 10)
}
