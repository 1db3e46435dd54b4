package decode

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

// testdataDir is where the shared test data should be.
func testdataDir() string {
	if dir := os.Getenv("GSCD_TESTDATA"); dir != "" {
		return dir
	}
	here, err := os.Getwd()
	for ; err == nil && here != "/"; here = filepath.Dir(here) {
		if _, err := os.Stat(filepath.Join(here, "go.mod")); err == nil {
			return filepath.Join(here, "..", "shared")
		}
	}
	return ""
}

// sharedFile gives the path of a file of the shared test data, or skips the test.
func sharedFile(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(testdataDir(), name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no shared test data (%v): set GSCD_TESTDATA", err)
	}
	return path
}

func cdcFile(t testing.TB, name string) string { return sharedFile(t, "cdc/"+name) }

func lines(t testing.TB, path string) [][]byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	s := bufio.NewScanner(bytes.NewReader(raw))
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		if len(bytes.TrimSpace(s.Bytes())) > 0 {
			out = append(out, bytes.Clone(s.Bytes()))
		}
	}
	return out
}

// recorded reads a recording as kcat -J writes it.
func recorded(t testing.TB, names ...string) []change.Record {
	t.Helper()
	var out []change.Record
	for _, name := range names {
		for _, line := range lines(t, cdcFile(t, "recorded/"+name)) {
			var r struct {
				Topic        string
				Partition    int32
				Offset, TS   int64
				Headers      []*string
				Key, Payload *string
				Key64        []byte `json:"key_b64"`
				Payload64    []byte `json:"payload_b64"`
			}
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatal(err)
			}
			rec := change.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.TS, Key: r.Key64, Value: r.Payload64}
			for i := 0; i+1 < len(r.Headers); i += 2 {
				rec.Headers = append(rec.Headers, change.Header{Key: *r.Headers[i], Value: []byte(*r.Headers[i+1])})
			}
			if r.Key != nil {
				rec.Key = []byte(*r.Key)
			}
			if r.Payload != nil {
				rec.Value = []byte(*r.Payload)
			}
			out = append(out, rec)
		}
	}
	return out
}

// typed is a cell with its column's type.
type typed struct {
	v schema.Value
	t schema.Type
}

// fold is the naive table: rows by key, the newest change wins, by arrival.
type fold struct {
	keys []string
	// bag keeps rows without a key, however alike.
	bag  bool
	rows map[string]map[string]typed
}

func newFold(keys ...string) *fold { return &fold{keys: keys, rows: map[string]map[string]typed{}} }

func named(cols *change.Columns, cells []schema.Value) map[string]typed {
	if cols == nil {
		return nil
	}
	row := map[string]typed{}
	for i, c := range cols.List {
		row[c.Name] = typed{cells[i], c.Type}
	}
	return row
}

func (f *fold) key(row map[string]typed) (string, bool) {
	if f.bag {
		return strconv.Itoa(len(f.rows)), row != nil
	}
	var key []byte
	for _, k := range f.keys {
		c, ok := row[k]
		if !ok {
			return "", false
		}
		key = c.v.AppendEncoded(key)
	}
	return string(key), true
}

func (f *fold) apply(t testing.TB, c *change.Change) {
	t.Helper()
	after, before, key := named(c.Columns, c.After), named(c.BeforeColumns, c.Before), named(c.KeyColumns, c.Key)
	if len(f.keys) == 0 && !f.bag && c.KeyColumns != nil { // those that the records name
		for _, k := range c.KeyColumns.List {
			f.keys = append(f.keys, k.Name)
		}
	}
	old, known := f.key(before)
	switch c.Op {
	case change.Tombstone, change.Filtered, change.Heartbeat:
	case change.Truncate:
		clear(f.rows)
	case change.Delete:
		if !known {
			if old, known = f.key(key); !known {
				t.Fatal("a delete without key")
			}
		}
		delete(f.rows, old)
	default:
		now, ok := f.key(after)
		if !ok {
			t.Fatalf("no key in %v", after)
		}
		if c.Op == change.Update && known && old != now {
			delete(f.rows, old)
		}
		f.rows[now] = after
	}
}
