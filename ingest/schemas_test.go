package ingest_test

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/deadletter"
	"github.com/gscd-io/gscd/ingest/decode"
)

const avroEnvelope = `{"type":"record","name":"Envelope","fields":[
	{"name":"before","type":["null",{"type":"record","name":"Value","fields":[{"name":"id","type":"long"},{"name":"v","type":"string"}]}]},
	{"name":"after","type":["null","Value"]},
	{"name":"source","type":{"type":"record","name":"Source","fields":[{"name":"ts_ms","type":"long"},{"name":"file","type":"string"},{"name":"pos","type":"long"}]}},
	{"name":"op","type":"string"}]}`

// avroLine is a line of a recording: an insert under a schema, in Confluent's frame.
func avroLine(offset int, schema uint32, id int64) string {
	text := func(b []byte, s string) []byte { return append(binary.AppendVarint(b, int64(len(s))), s...) }
	b := binary.BigEndian.AppendUint32([]byte{0}, schema)
	b = append(b, 0, 2) // before is null, after is not
	b = text(binary.AppendVarint(b, id), "v")
	b = binary.AppendVarint(text(binary.AppendVarint(b, 1657940400000), "bin.000001"), 1000+id)
	b = text(b, "c")
	return fmt.Sprintf(`{"topic":"t","partition":0,"offset":%d,"ts":1657940400000,"payload_b64":%q}`+"\n", offset, base64.StdEncoding.EncodeToString(b))
}

// registry fails some times before it answers.
type registry struct {
	left  atomic.Int64
	fault *decode.SchemaError
}

func (r *registry) Schema(id decode.SchemaID) ([]string, error) {
	switch {
	case r.left.Add(-1) >= 0:
		return nil, r.fault
	case id.ID == 1:
		return []string{avroEnvelope}, nil
	}
	return nil, fmt.Errorf("%w: Schema not found", decode.ErrNoSchema)
}

// A registry that is away is waited for; a record whose schema it does not know is a
// dead letter; one that refuses the login stops the table and writes nothing.
func TestSchemas(t *testing.T) {
	lines := avroLine(0, 1, 1) + avroLine(1, 7, 2) + avroLine(2, 1, 3)
	for _, format := range []string{decode.DebeziumAvro, decode.Auto} {
		for _, c := range []struct {
			name  string
			fault decode.SchemaError
			times int64
			stops bool
		}{
			{"there", decode.SchemaError{}, 0, false},
			{"away", decode.SchemaError{Retryable: true, Err: errors.New("connection refused")}, 3, false},
			{"refused", decode.SchemaError{Err: errors.New("401 Unauthorized")}, 1 << 30, true},
		} {
			t.Run(format+" "+c.name, func(t *testing.T) {
				schemas := &registry{fault: &c.fault}
				schemas.left.Store(c.times)
				store, dead := mem.New(), mem.New()
				err := runRecording(t, lines, ingest.Options{
					Store: store, DeadLetterStore: dead, Format: format, Key: []string{"id"},
					Decode: decode.Options{Schemas: schemas, KeyColumns: []string{"id"}},
				})
				var source *ingest.SourceError
				if c.stops {
					if !errors.As(err, &source) || source.Retryable || !strings.Contains(err.Error(), "t/0 from offset 0 on: schema 1: 401 Unauthorized") {
						t.Fatal(err)
					}
					if table, err := delta.Open(t.Context(), store); err == nil {
						t.Errorf("a table was written: %v", table)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				table, err := delta.Open(t.Context(), store)
				if err != nil {
					t.Fatal(err)
				}
				snap, err := table.Snapshot(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				rows, err := rowsOf(store, snap, "id", "v")
				if slices.Sort(rows); err != nil || len(rows) != 2 {
					t.Errorf("rows %q, %v", rows, err)
				}
				var letters []string
				err = deadletter.Open(dead).Each(t.Context(), func(e deadletter.Entry) error {
					letters = append(letters, fmt.Sprint(e.Offset, " ", e.Reason, " ", e.Detail))
					return nil
				})
				if want := []string{"1 schema schema: schema 7: there is no such schema: Schema not found"}; err != nil || !slices.Equal(letters, want) {
					t.Errorf("dead letters %q, %v", letters, err)
				}
			})
		}
	}
}
