package recording

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/gscd-io/gscd/ingest/change"
)

// testdata finds the shared test data, or skips.
func testdata(t *testing.T) string {
	dir := os.Getenv("GSCD_TESTDATA")
	if dir == "" {
		at, err := os.Getwd()
		for err == nil && dir == "" {
			if _, e := os.Stat(filepath.Join(at, "go.mod")); e == nil {
				dir = filepath.Join(filepath.Dir(at), "shared")
			} else if up := filepath.Dir(at); up == at {
				break
			} else {
				at = up
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "cdc", "recorded")); err != nil {
		t.Skip("no shared test data: set GSCD_TESTDATA")
	}
	return dir
}

// TestRecorded reads recordings of a real broker and compares every record
// with what encoding/json makes of its line.
func TestRecorded(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata(t), "cdc", "recorded", "*.jsonl"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	records := 0
	for _, f := range files {
		content, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		r := open(t, Options{}, f)
		assignAll(t, r)
		got := drain(t, r, 7)
		for _, text := range bytes.Split(bytes.TrimSpace(content), []byte("\n")) {
			var l struct {
				Topic                string
				Partition            int32
				Offset, Ts           int64
				Headers              []*string
				Key, Payload         *string
				Key_b64, Payload_b64 *[]byte
			}
			if err := json.Unmarshal(text, &l); err != nil {
				t.Fatal(err)
			}
			want := &change.Record{Topic: l.Topic, Partition: l.Partition, Offset: l.Offset, Timestamp: l.Ts, Key: either(l.Key, l.Key_b64), Value: either(l.Payload, l.Payload_b64)}
			for i := 0; i < len(l.Headers); i += 2 {
				want.Headers = append(want.Headers, change.Header{Key: *l.Headers[i], Value: either(l.Headers[i+1], nil)})
			}
			id := change.PartitionID{Topic: l.Topic, Partition: l.Partition}
			if len(got[id]) == 0 || show(got[id][0]) != show(want) {
				t.Fatalf("%s: not what the line says:\n%.300s", f, text)
			}
			got[id] = got[id][1:]
			records++
		}
	}
	if records < 300 {
		t.Errorf("only %d records", records)
	}
}

func either(s *string, b *[]byte) []byte {
	if s != nil {
		return []byte(*s)
	}
	if b != nil {
		return *b
	}
	return nil
}
