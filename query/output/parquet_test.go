package output_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/output"
)

// Rows come back as they were, also where the writer's row is used again.
func TestParquetWriter(t *testing.T) {
	unknown := schema.Type{Primitive: schema.Variant}
	columns := []schema.Field{
		{Name: "id", Type: schema.Of(schema.Long)}, {Name: "name", Type: schema.Of(schema.StringType)},
		{Name: "none", Type: schema.Of(schema.Void)}, {Name: "v", Type: unknown},
	}
	var out bytes.Buffer
	w, err := output.NewParquetWriter(&out, columns)
	if err != nil {
		t.Fatal(err)
	}
	const n = 3000
	row := make([]schema.Value, len(columns))
	for i := range n {
		row[0], row[1] = schema.IntValue(int64(i)), schema.Value{}
		if i%7 != 0 {
			row[1] = schema.StringValue(fmt.Sprint("row ", i))
		}
		if err := w.Write(row); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenBytes(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	text := schema.Of(schema.StringType)
	asked := []parquet.Column{{Name: "id", Type: schema.Of(schema.Long)}, {Name: "name", Type: text}, {Name: "none", Type: text}, {Name: "v", Type: text}}
	i := 0
	for b, err := range f.Scan(context.Background(), asked, parquet.ScanOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		for r := range b.Rows {
			name := ""
			if i%7 != 0 {
				name = fmt.Sprint("row ", i)
			}
			if b.Columns[0][r].I != int64(i) || b.Columns[1][r].S != name || b.Columns[1][r].IsNull() != (name == "") || !b.Columns[2][r].IsNull() || !b.Columns[3][r].IsNull() {
				t.Fatalf("row %d: %+v", i, b.Columns)
			}
			i++
		}
	}
	if i != n {
		t.Errorf("%d rows", i)
	}
}
