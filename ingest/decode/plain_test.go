package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

// checkPlain decodes a record without types and compares every cell with what
// encoding/json reads. It gives the change.
func checkPlain(t *testing.T, d Decoder, key, value []byte) (change.Change, error) {
	t.Helper()
	var c change.Change
	if err := d.Decode(&change.Record{Key: key, Value: value}, &change.Arena{}, &c); err != nil {
		return c, err
	}
	type row = map[string]json.RawMessage
	var keyRow row
	var envelope struct{ Before, After row }
	payload := func(raw []byte) []byte {
		var w struct{ Payload json.RawMessage }
		if json.Unmarshal(raw, &w) == nil && w.Payload != nil {
			return w.Payload
		}
		return raw
	}
	if c.Key != nil {
		if err := json.Unmarshal(payload(key), &keyRow); err != nil {
			t.Fatal(err)
		}
	}
	if value != nil {
		if err := json.Unmarshal(payload(value), &envelope); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []struct {
		cols  *change.Columns
		cells []schema.Value
		want  row
	}{{c.Columns, c.After, envelope.After}, {c.BeforeColumns, c.Before, envelope.Before}, {c.KeyColumns, c.Key, keyRow}} {
		if part.cols == nil {
			continue
		}
		if len(part.cols.List) != len(part.want) {
			t.Errorf("%s: %d columns, want %d", value, len(part.cols.List), len(part.want))
		}
		for i, col := range part.cols.List {
			v := part.cells[i]
			if col.Type.Primitive != schema.Unknown || v.Kind == schema.Unavailable {
				continue
			}
			if got, want := plainJSON(t, v, part.want[col.Name]); !reflect.DeepEqual(got, want) {
				t.Errorf("column %s: %#v, want %#v", col.Name, got, want)
			}
		}
	}
	return c, nil
}

// TestCases decodes every record of the cases from practice. Only the two
// that are no records of the format are errors.
func TestCases(t *testing.T) {
	d, err := New("debezium-json", Options{})
	if err != nil {
		t.Fatal(err)
	}
	faults, decoded := 0, map[change.Op]int{}
	for _, line := range lines(t, sharedFile(t, "cases/GIVEN.md")) {
		var rec struct {
			Partition *int
			Key       json.RawMessage
			Value     json.RawMessage
			Raw       *string `json:"raw_value"`
		}
		if !bytes.HasPrefix(line, []byte(`{"partition"`)) || json.Unmarshal(line, &rec) != nil || rec.Partition == nil || rec.Value == nil && rec.Raw == nil {
			continue
		}
		if rec.Raw != nil {
			rec.Value = json.RawMessage(*rec.Raw)
		}
		if string(rec.Value) == "null" {
			rec.Value = nil
		}
		c, err := checkPlain(t, d, rec.Key, rec.Value)
		var e *Error
		if errors.As(err, &e) && e.Reason == ReasonDecode && rec.Raw != nil {
			faults++
		} else if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		decoded[c.Op]++
	}
	if faults != 1 || decoded[change.Insert] < 50 || decoded[change.Update] < 20 || decoded[change.Delete] < 3 || decoded[change.Read] != 5 || decoded[change.Tombstone] != 2 {
		t.Errorf("%d faults, decoded %v", faults, decoded)
	}
}

// TestSamples decodes what there is of Debezium JSON without looking at types;
// files that hold something else are named.
func TestSamples(t *testing.T) {
	none := map[string]bool{ // two envelopes inside another object; not messages
		"debezium-data-schema-exclude.jsonl": true, "debezium-data-schema-include.jsonl": true,
	}
	root := cdcFile(t, "debezium-json")
	seen := 0
	for _, pattern := range []string{"*/*.jsonl", "*/*/*/*.jsonl", "*/*/*/*/*.jsonl"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			rel := strings.TrimPrefix(name, root)
			for _, rec := range records(t, "debezium-json"+rel) {
				d, err := New("debezium-json", Options{})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := checkPlain(t, d, rec.Key, rec.Value); (err != nil) != none[filepath.Base(name)] {
					t.Errorf("%s line %d: %v", rel, rec.Offset+1, err)
				}
				seen++
			}
		}
	}
	if seen < 90 {
		t.Errorf("%d samples", seen)
	}
	d, err := New("debezium-json", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range recorded(t, "s1.shop.orders.jsonl", "s1.shop.stock.jsonl", "s1.shop.nokey.jsonl", "s1.shop.odd_name.x.jsonl") {
		if _, err := checkPlain(t, d, rec.Key, rec.Value); err != nil {
			t.Errorf("%s partition %d offset %d: %v", rec.Topic, rec.Partition, rec.Offset, err)
		}
	}
}
