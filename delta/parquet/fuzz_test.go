package parquet_test

import (
	"errors"
	"testing"

	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	pq "github.com/parquet-go/parquet-go"
)

// known tells that an error is one that callers decide on.
func known(err error) bool {
	return errors.Is(err, parquet.ErrCorrupt) || errors.Is(err, parquet.ErrUnsupported) ||
		errors.Is(err, parquet.ErrColumnType) || errors.Is(err, parquet.ErrNestedColumn)
}

// Any bytes give rows or a known error, by every way into a file.
func FuzzFile(f *testing.F) {
	rows := orderRows(20)
	for _, codec := range []parquet.Codec{parquet.Uncompressed, parquet.Snappy, parquet.Zstd} {
		data, _ := encodeRows(f, orders, rows, parquet.EncoderOptions{Codec: codec, RowGroupRows: 12})
		f.Add(data)
	}
	f.Add(encode(f, []everything{{S: "a", L: []string{"x", "y"}, M: map[string]string{"k": "v"}, InP: &inner{L: []int64{1}}}, {}}))
	f.Add(writeOracle(f, physicalRows(10), pq.Compression(&pq.Uncompressed)))
	f.Add(writeOracle(f, physicalRows(10), pq.DataPageVersion(1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if rows, err := parquet.DecodeStructs[everything](data); err != nil && !known(err) {
			t.Fatalf("structs: %d rows, %v", len(rows), err)
		}
		file, err := parquet.OpenBytes(data)
		if err != nil {
			if !known(err) {
				t.Fatal(err)
			}
			return
		}
		var columns []parquet.Column
		for i, c := range file.Columns() {
			if i == 20 {
				break
			}
			typ, ok := typeOf(c)
			if !ok {
				typ = schema.Of(schema.StringType)
			}
			columns = append(columns, column(c.Name, typ))
			for g := range min(file.NumRowGroups(), 3) {
				file.RowGroupBounds(g, columns[i])
				file.PageBounds(g, columns[i])
			}
			count := int64(0)
			if err := file.Int64s(c.Name, func(_ int64, v []int64, _ []bool) error {
				if count += int64(len(v)); count > 1<<22 {
					return parquet.ErrUnsupported
				}
				return nil
			}); err != nil && !known(err) {
				t.Fatalf("ints of %s: %v", c.Name, err)
			}
		}
		batches := 0
		for b, err := range file.Scan(t.Context(), columns, parquet.ScanOptions{}) {
			if err != nil && !known(err) {
				t.Fatalf("scan: %v", err)
			}
			if batches++; batches > 50 || b == nil {
				break
			}
		}
		if n := file.NumRows(); n > 0 && n < 1<<20 {
			some := parquet.ScanOptions{Rows: func(int) []parquet.RowRange {
				return []parquet.RowRange{{From: n / 3, To: n/3 + 2}, {From: n / 2, To: n}}
			}}
			for _, err := range file.Scan(t.Context(), columns, some) {
				if err != nil && !known(err) {
					t.Fatalf("scan of some rows: %v", err)
				}
			}
			if _, err := file.Rows(t.Context(), columns, []int64{0, n / 2, n - 1}); err != nil && !known(err) {
				t.Fatalf("rows: %v", err)
			}
		}
	})
}
