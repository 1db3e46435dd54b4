package decode

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

// fixedSchemas is a registry of schemas by content id.
type fixedSchemas map[int64][]string

func (s fixedSchemas) Schema(id SchemaID) ([]string, error) {
	if texts, ok := s[id.ID]; ok && id.Kind == ContentID {
		return texts, nil
	}
	return nil, fmt.Errorf("%w: %s", ErrNoSchema, id)
}

// recordedSchemas are those of the recording in Avro.
func recordedSchemas(t testing.TB) fixedSchemas {
	t.Helper()
	raw, err := os.ReadFile(cdcFile(t, "recorded/a1.schemas.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		IDs map[int64]struct{ Schema string }
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	out := fixedSchemas{}
	for id, s := range doc.IDs {
		out[id] = []string{s.Schema}
	}
	return out
}

// TestRecordedAvro folds the recorded Avro streams into the tables as the server had
// them: at the end of the load, and behind the changes that came later, over two
// changes of the schema.
func TestRecordedAvro(t *testing.T) {
	spec, err := ParseColumnType("bigint unsigned") // what the schema can't tell
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file, format string
		columns      []string
		opts         Options
		states       map[int]string // by the number of records that lead to it
		shapes       int
	}{
		{"a1.shop.orders.avro.jsonl", DebeziumAvro, []string{"id", "big_u"}, Options{}, map[int]string{27: "2022-07-18-partial/orders.csv", 35: "2022-07-18-later/orders.csv"}, 3},
		{"a1.shop.orders.avro.jsonl", Auto, []string{"id", "big_u"}, Options{Source: "shop.orders", KeyColumns: []string{"ID"}}, map[int]string{35: "2022-07-18-later/orders.csv"}, 3},
		{"a1.zoo.alltypes.avro.jsonl", DebeziumAvro, []string{"c_ubig"}, Options{Avro: Avro{Frame: FrameConfluent}}, map[int]string{2: "2022-07-16-types-end/alltypes.csv"}, 1},
	} {
		t.Run(c.file+" "+c.format, func(t *testing.T) {
			c.opts.Schemas, c.opts.Columns = recordedSchemas(t), map[string]ColumnSpec{}
			for _, name := range c.columns {
				c.opts.Columns[name] = spec
			}
			d, err := New(c.format, c.opts)
			if err != nil {
				t.Fatal(err)
			}
			f, arena, shapes := newFold("id"), &change.Arena{}, map[*change.Columns]bool{}
			for i, rec := range recorded(t, c.file) {
				var ch change.Change
				if err := d.Decode(&rec, arena, &ch); err != nil {
					t.Fatalf("offset %d: %v", rec.Offset, err)
				}
				f.apply(t, &ch)
				if ch.Columns != nil {
					shapes[ch.Columns] = true
				}
				if name := c.states[i+1]; name == "2022-07-18-later/orders.csv" {
					f.altered().check(t, name)
				} else if name != "" {
					f.check(t, name)
				}
			}
			if len(shapes) != c.shapes {
				t.Errorf("%d shapes of rows, want %d", len(shapes), c.shapes)
			}
		})
	}
}

// altered gives the table with what two ALTERs did to rows that no record told of
// since: extra came with the default 'x', tags was dropped.
func (f *fold) altered() *fold {
	out := newFold(f.keys...)
	for key, row := range f.rows {
		row = maps.Clone(row)
		delete(row, "tags")
		if _, ok := row["extra"]; !ok {
			row["extra"] = typed{schema.StringValue("x"), schema.Of(schema.StringType)}
		}
		out.rows[key] = row
	}
	return out
}

// TestRecordedAvroOrigin checks what is said about where a change comes from.
func TestRecordedAvroOrigin(t *testing.T) {
	d, err := New(DebeziumAvro, Options{Schemas: recordedSchemas(t)})
	if err != nil {
		t.Fatal(err)
	}
	records := recorded(t, "a1.shop.orders.avro.jsonl")
	decode := func(i int) (c change.Change) {
		if err := d.Decode(&records[i], &change.Arena{}, &c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := decode(0); c.Op != change.Read || c.Load != change.FirstRead || c.EventTime != 1795982566000000 || c.Position != (change.Position{File: 1, Pos: 39784}) {
		t.Errorf("the first read: %+v", c)
	}
	if c := decode(26); c.Op != change.Read || c.Load != change.LastRead {
		t.Errorf("the last read: %+v", c)
	}
	c := decode(27)
	if c.Op != change.Update || c.EventTime != 1658134800000000 || c.EventTimeIsCommit || c.ProcessingTime != 1795982568644 ||
		c.Server != (change.Server{Name: "a1", ID: 184054}) || c.GTID != "0-184054-69" || c.Load != 0 ||
		!c.HasPosition || c.Position != (change.Position{File: 1, Pos: 40061}) {
		t.Errorf("got %+v", c)
	}
	if want := []change.Column{{Name: "id", Type: schema.Of(schema.Long)}}; !slices.Equal(c.KeyColumns.List, want) || c.Key[0] != schema.IntValue(3) {
		t.Errorf("key %v %v", c.KeyColumns.List, c.Key)
	}
	other, err := New(DebeziumAvro, Options{Schemas: recordedSchemas(t), Source: "shop.stock"})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Decode(&records[27], &change.Arena{}, &c); err != nil || c.Op != change.Filtered {
		t.Errorf("of another table: %s, %v", c.Op, err)
	}
}
