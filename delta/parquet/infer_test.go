package parquet_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
)

// The columns that are found in files of many writers can be read as what they are.
func TestFieldsOfOtherWriters(t *testing.T) {
	_, files := sharedFiles(t, ".parquet")
	read, refused, nested := 0, 0, 0
	for _, path := range files {
		if strings.Contains(path, "_delta_log") {
			continue
		}
		info, err := os.Stat(path)
		if err != nil || info.Size() > 100<<10 {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parquet.OpenBytes(data)
		if err != nil {
			continue
		}
		fields, err := f.Fields()
		if err != nil {
			if !errors.Is(err, parquet.ErrUnsupported) {
				t.Errorf("%s: %v", path, err)
			}
			refused++
			continue
		}
		columns := make([]parquet.Column, len(fields))
		for i := range fields {
			columns[i] = parquet.ColumnOf(&fields[i])
			if fields[i].Type.Nested != nil {
				nested++
			}
		}
		for _, err := range f.Scan(t.Context(), columns, parquet.ScanOptions{}) {
			if err != nil {
				t.Errorf("%s: %v", path, err)
				break
			}
		}
		read++
	}
	t.Logf("%d files read, %d refused, %d nested columns", read, refused, nested)
	if read < 300 || nested < 20 || refused > 10 {
		t.Errorf("%d files read, %d refused, %d nested columns", read, refused, nested)
	}
}

// What this package writes is found as what it was.
func TestFieldsOfOwn(t *testing.T) {
	var columns []parquet.Column
	for _, p := range []schema.Primitive{schema.Boolean, schema.Byte, schema.Short, schema.Integer, schema.Long, schema.FloatType, schema.DoubleType,
		schema.StringType, schema.BinaryType, schema.Date, schema.Timestamp, schema.TimestampNTZ} {
		columns = append(columns, parquet.Column{Name: schema.Of(p).String(), Type: schema.Of(p)})
	}
	for _, precision := range []uint8{5, 15, 38} {
		columns = append(columns, parquet.Column{Name: schema.Decimal(precision, 2).String(), Type: schema.Decimal(precision, 2)})
	}
	e, err := parquet.NewEncoder(columns, parquet.EncoderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data, _, err := e.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	fields, err := f.Fields()
	if err != nil || len(fields) != len(columns) {
		t.Fatalf("%v, %v", fields, err)
	}
	for i, field := range fields {
		if field.Name != columns[i].Name || field.Type != columns[i].Type || !field.Nullable {
			t.Errorf("%+v, want %+v", field, columns[i])
		}
	}
}
