package parquet_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/gscd-io/gscd/delta/parquet"
)

// Each byte of the pages of a file has a checksum: another one there is an error, never
// another row.
func TestOtherBytesInPagesAreTold(t *testing.T) {
	data, _, err := streamEncoder(t).Encode(streamRows(0, 300))
	if err != nil {
		t.Fatal(err)
	}
	f, err := pq.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	read := func(data []byte) (rows int, err error) {
		file, err := parquet.OpenBytes(data)
		if err != nil {
			return 0, err
		}
		for b, err := range file.Scan(context.Background(), streamColumns, parquet.ScanOptions{}) {
			if err != nil {
				return rows, err
			}
			rows += b.Rows
		}
		return rows, nil
	}
	if rows, err := read(data); err != nil || rows != 300 {
		t.Fatalf("%d rows, %v", rows, err)
	}
	pages, tried := 0, 0
	for _, c := range f.Metadata().RowGroups[0].Columns {
		at := c.MetaData.DataPageOffset
		if d := c.MetaData.DictionaryPageOffset; d > 0 {
			at = d
		}
		for end := at + c.MetaData.TotalCompressedSize; at < end; pages++ {
			var header format.PageHeader
			rest := bytes.NewReader(data[at:end])
			var protocol thrift.CompactProtocol
			if err := thrift.NewDecoder(protocol.NewReader(rest)).Decode(&header); err != nil {
				t.Fatal(err)
			}
			body := end - int64(rest.Len())
			at = body + int64(header.CompressedPageSize)
			for i := body; i < at; i++ {
				damaged := bytes.Clone(data)
				damaged[i] ^= 1 << (i % 8)
				if rows, err := read(damaged); !errors.Is(err, parquet.ErrCorrupt) {
					t.Fatalf("byte %d of %v: %d rows, %v", i, c.MetaData.PathInSchema, rows, err)
				}
				tried++
			}
		}
	}
	if pages < len(streamColumns) || tried < 1000 {
		t.Errorf("only %d bytes of %d pages were tried", tried, pages)
	}
}
