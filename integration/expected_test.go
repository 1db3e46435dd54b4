package integration

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/ingest/recording"
)

// expectedEntry is a line of shared/cdc/expected.jsonl: the state after all
// changes of some files.
type expectedEntry struct {
	File      any             `json:"file"`
	Format    string          `json:"format"`
	Table     string          `json:"table"`
	Keys      []string        `json:"keys"`
	FinalRows json.RawMessage `json:"final_rows"`
}

func (e expectedEntry) files() []string {
	if name, ok := e.File.(string); ok {
		return []string{name}
	}
	var out []string
	for _, name := range e.File.([]any) {
		out = append(out, name.(string))
	}
	return out
}

func linesOf(t testing.TB, path string) [][]byte {
	t.Helper()
	var out [][]byte
	s := bufio.NewScanner(bytes.NewReader(readFile(t, path)))
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		if len(bytes.TrimSpace(s.Bytes())) > 0 {
			out = append(out, bytes.Clone(s.Bytes()))
		}
	}
	return out
}

// sampleTime is the broker timestamp of samples, which have none: behind every
// event time in them.
var sampleTime = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// sampleRecords gives the records of the files of values, or of keys and values.
func (e expectedEntry) sampleRecords(t testing.TB) (out []*change.Record) {
	t.Helper()
	for _, name := range e.files() {
		path := sharedFile(t, "cdc/"+name)
		values := linesOf(t, path)
		if strings.HasSuffix(name, ".pretty.json") {
			values = [][]byte{readFile(t, path)}
		}
		for _, value := range values {
			rec := &change.Record{Topic: topicName, Offset: int64(len(out)), Timestamp: sampleTime.UnixMilli(), Value: value}
			var pair struct{ Key, Value json.RawMessage }
			if bytes.HasPrefix(value, []byte(`{"key"`)) && json.Unmarshal(value, &pair) == nil {
				rec.Key, rec.Value = pair.Key, pair.Value
			}
			if string(rec.Value) == "null" {
				rec.Value = nil
			}
			out = append(out, rec)
		}
	}
	return out
}

// writeRecording writes a recording in one of its two forms.
func writeRecording(t testing.TB, form recording.Form, records []*change.Record) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "recording.jsonl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := recording.NewWriter(f, form)
	for _, r := range records {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// openRecording opens recordings as one, for one table.
func openRecording(t testing.TB, paths ...string) *recording.Recording {
	t.Helper()
	rec, err := recording.Open(paths, recording.Options{Topic: topicName})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rec.Close() })
	return rec
}

// typed is a cell with its column's type.
type typed struct {
	v schema.Value
	t schema.Type
}

// typedRows reads the newest rows of the table, or those of a version.
func (r *rig) typedRows(version int64) (rows []map[string]typed) {
	r.t.Helper()
	table := r.table()
	s, err := table.Snapshot(ctx)
	if err == nil && version >= 0 {
		s, err = table.SnapshotAt(ctx, version)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	err = eachRow(r.store.Store, s, func(columns []schema.Field, cells []schema.Value) {
		row := map[string]typed{}
		for i, v := range cells {
			v.S = strings.Clone(v.S)
			row[columns[i].Name] = typed{v, columns[i].Type}
		}
		rows = append(rows, row)
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return rows
}

// TestExpectedStates takes every Debezium sample with a known outcome from a
// recording to the rows of a query.
func TestExpectedStates(t *testing.T) {
	entries := 0
	for _, line := range linesOf(t, sharedFile(t, "cdc/expected.jsonl")) {
		var e expectedEntry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(e.Format, "debezium-json") || e.FinalRows == nil {
			continue
		}
		entries++
		t.Run(e.files()[0]+"/"+e.Table, func(t *testing.T) {
			t.Parallel() // most of it is waiting for the end of the recording
			records := e.sampleRecords(t)
			for _, v := range variants {
				t.Run(v.name, func(t *testing.T) {
					t.Parallel()
					form := recording.Readable
					if v.fresh {
						form = recording.Kcat
					}
					r := rigOn(t, mem.New(), mem.New(), openRecording(t, writeRecording(t, form, records)), func(o *ingest.Options) {
						o.Calendar, o.Key, o.Format = calendar(t, "day", "UTC"), e.Keys, decode.Auto
						o.Decode = decode.Options{Source: e.Table, KeyColumns: e.Keys}
					}, v.change)
					r.clock = sampleTime.Add(time.Hour)
					r.mustWork()
					e.check(t, r.typedRows(-1))
					for _, d := range r.deadLetters() {
						t.Errorf("dead letter at offset %d: %s: %s", d.Offset, d.Reason, d.Detail)
					}
					equal(t, "records taken", r.progress().Totals.Taken, int64(len(records)))
					equal(t, "missing fates", r.progress().Totals.Missing(), 0)
				})
			}
		})
	}
	if entries != 26 {
		t.Errorf("%d entries of Debezium JSON, 26 were there", entries)
	}
}

func (e expectedEntry) check(t *testing.T, got []map[string]typed) {
	t.Helper()
	var want []map[string]any
	exact := json.NewDecoder(bytes.NewReader(e.FinalRows))
	exact.UseNumber()
	if err := exact.Decode(&want); err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
	for _, w := range want {
		at := slices.IndexFunc(got, func(row map[string]typed) bool {
			return !slices.ContainsFunc(e.Keys, func(k string) bool { return !sameCell(row[k], w[k]) })
		})
		if at < 0 {
			t.Errorf("no row %v", w)
			continue
		}
		for name, cell := range w {
			g, there := got[at][name]
			if !there && cell != nil {
				t.Errorf("no column %s", name)
			} else if !sameCell(g, cell) {
				t.Errorf("column %s: %s %s, want %v", name, g.t, g, cell)
			}
		}
		for name, g := range got[at] {
			if _, there := w[name]; !there && !g.v.IsNull() {
				t.Errorf("column %s was not expected", name)
			}
		}
	}
}

// sameCell compares a cell with an expected JSON value, by the cell's type.
func sameCell(got typed, want any) bool {
	if want == nil || got.v.IsNull() {
		return want == nil && got.v.IsNull()
	}
	switch w := want.(type) {
	case bool:
		return got.v == schema.BoolValue(w)
	case json.Number:
		return got.isNumber(w.String())
	case string:
		switch {
		case got.v.Kind == schema.String:
			return got.v.S == w
		case got.v.Kind == schema.Dec:
			return got.isNumber(w)
		case got.t.Primitive == schema.Long && strings.Contains(w, ":"):
			return clockText(got.v.I) == w
		}
		return got.String() == w
	case map[string]any:
		if b64, ok := w["b64"].(string); ok {
			raw, err := base64.StdEncoding.DecodeString(b64)
			return err == nil && got.v.Kind == schema.Binary && got.v.S == string(raw)
		}
		if bits, ok := w["bits"].(json.Number); ok {
			return got.isNumber(bits.String())
		}
		var nested map[string]any
		return got.v.Kind == schema.String && json.Unmarshal([]byte(got.v.S), &nested) == nil && reflect.DeepEqual(nested, w)
	}
	return false
}

func (c typed) isNumber(want string) bool {
	switch c.v.Kind {
	case schema.Float:
		w, err := strconv.ParseFloat(want, 32)
		return err == nil && c.v.Float32() == float32(w)
	case schema.Double:
		w, err := strconv.ParseFloat(want, 64)
		return err == nil && c.v.Float64() == w
	}
	g, ok1 := new(big.Rat).SetString(c.String())
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
	if rest := micros % 1_000_000; rest != 0 {
		text += strings.TrimRight(fmt.Sprintf(".%06d", rest), "0")
	}
	return text
}

// String prints a cell as MySQL would, with the digits that it has.
func (c typed) String() string {
	switch c.v.Kind {
	case schema.Null:
		return `\N`
	case schema.Dec:
		return c.v.DecimalText(c.t.Scale)
	case schema.Float:
		return strconv.FormatFloat(float64(c.v.Float32()), 'g', -1, 32)
	case schema.Double:
		return strconv.FormatFloat(c.v.Float64(), 'g', -1, 64)
	case schema.Bool:
		return strconv.FormatBool(c.v.I == 1)
	case schema.String:
		return c.v.S
	case schema.Binary:
		return fmt.Sprintf("0x%x", c.v.S)
	}
	switch c.t.Primitive {
	case schema.Date:
		return time.Unix(c.v.I*86400, 0).UTC().Format("2006-01-02")
	case schema.TimestampNTZ:
		return time.UnixMicro(c.v.I).UTC().Format("2006-01-02 15:04:05.999999")
	case schema.Timestamp:
		return time.UnixMicro(c.v.I).UTC().Format("2006-01-02T15:04:05.999999Z")
	}
	return strconv.FormatInt(c.v.I, 10)
}
