package parquet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// countingReader counts reads, and fails those past a limit.
type countingReader struct {
	r     *bytes.Reader
	reads int
	bytes int
	limit int
}

var errReader = errors.New("the disk is gone")

func (c *countingReader) ReadAt(p []byte, off int64) (int, error) {
	c.reads++
	c.bytes += len(p)
	if c.limit > 0 && c.reads > c.limit {
		return 0, errReader
	}
	return c.r.ReadAt(p, off)
}

func TestReadsAreFewAndSmall(t *testing.T) {
	data, _ := encodeRows(t, orders, orderRows(50_000), parquet.EncoderOptions{RowGroupRows: 30_000})
	r := &countingReader{r: bytes.NewReader(data)}
	f, err := parquet.Open(r, int64(len(data)))
	if err != nil || r.reads != 1 {
		t.Fatalf("the footer took %d reads, %v", r.reads, err)
	}
	want := scanAll(t, openBytes(t, data), orders, parquet.ScanOptions{})
	r.reads = 0
	if got := scanAll(t, f, orders, parquet.ScanOptions{}); len(got) != len(want) || !slices.Equal(got[40_000], want[40_000]) || r.reads != 2 {
		t.Errorf("all columns of two row groups took %d reads", r.reads)
	}
	r.reads, r.bytes = 0, 0
	scanAll(t, f, orders[:1], parquet.ScanOptions{From: 100, To: 200})
	if r.reads != 1 || r.bytes > len(data)/4 {
		t.Errorf("a column of one row group took %d reads, %d bytes of %d", r.reads, r.bytes, len(data))
	}
	r.reads, r.bytes = 0, 0
	rows, err := f.Rows(t.Context(), orders[:2], []int64{5, 7, 45_000})
	if err != nil || !slices.Equal(rows[2], want[45_000][:2]) || r.bytes > len(data)/10 {
		t.Errorf("three rows took %d reads, %d bytes of %d, %v", r.reads, r.bytes, len(data), err)
	}
	r.limit, r.reads = 1, 0
	if _, err := tryScan(t, f, orders, parquet.ScanOptions{}); !errors.Is(err, errReader) {
		t.Errorf("a reader that fails: %v", err)
	}
	if _, err := parquet.Open(&countingReader{r: bytes.NewReader(data[:100]), limit: 5}, int64(len(data))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file that is shorter than said: %v", err)
	}
}

func TestScanStopsWithItsContext(t *testing.T) {
	data, _ := encodeRows(t, orders, orderRows(100), parquet.EncoderOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for b, err := range openBytes(t, data).Scan(ctx, orders, parquet.ScanOptions{BatchRows: 10}) {
		if err != nil {
			if !errors.Is(err, context.Canceled) || n != 3 {
				t.Errorf("after %d batches: %v", n, err)
			}
			return
		}
		if n++; n == 3 {
			cancel()
		}
		_ = b
	}
	t.Error("the scan went on")
}

func TestColumnsByFieldID(t *testing.T) {
	columns := []parquet.Column{{Name: "col-a", Type: schema.Of(schema.Long), FieldID: 7}, {Name: "col-b", Type: schema.Of(schema.StringType), FieldID: 9}}
	data, _ := encodeRows(t, columns, [][]schema.Value{{schema.IntValue(1), schema.StringValue("x")}}, parquet.EncoderOptions{KeyValue: map[string]string{"a": "b"}})
	f := openBytes(t, data)
	got := scanAll(t, f, []parquet.Column{
		{Name: "renamed", Type: schema.Of(schema.StringType), FieldID: 9}, {Name: "col-a", Type: schema.Of(schema.Long)}, {Name: "new", Type: schema.Of(schema.Long), FieldID: 11},
	}, parquet.ScanOptions{})
	if want := []schema.Value{schema.StringValue("x"), schema.IntValue(1), {}}; !slices.Equal(got[0], want) {
		t.Errorf("by id: %v, want %v", got[0], want)
	}
	plain, _ := encodeRows(t, []parquet.Column{{Name: "a", Type: schema.Of(schema.Long)}}, [][]schema.Value{{schema.IntValue(1)}}, parquet.EncoderOptions{})
	for _, err := range openBytes(t, plain).Scan(context.Background(), []parquet.Column{{Name: "a", Type: schema.Of(schema.Long), FieldID: 1}}, parquet.ScanOptions{}) {
		if !errors.Is(err, parquet.ErrUnsupported) {
			t.Errorf("a file without ids: %v", err)
		}
	}
	if c := f.Columns(); len(c) != 2 || c[1] != (parquet.FileColumn{Name: "col-b", FieldID: 9, Physical: "BYTE_ARRAY STRING"}) {
		t.Errorf("columns %+v", c)
	}
	if kv := f.KeyValue(); len(kv) != 2 || kv["a"] != "b" || len(kv["gscd.sha256"]) != 64 {
		t.Errorf("key-value pairs %v", kv)
	}
}

// A column whose values repeat at first, and then no more: its chunk has pages
// by index and plain ones.
func TestDictionaryOutgrown(t *testing.T) {
	columns := []parquet.Column{column("n", schema.Of(schema.Long)), column("s", schema.Of(schema.StringType)), column("d", schema.Of(schema.Date))}
	rows := make([][]schema.Value, 130_000)
	for i := range rows {
		v := int64(i % 100)
		if i > 10_000 {
			v = int64(i)
		}
		rows[i] = []schema.Value{schema.IntValue(v << 33), schema.StringValue(fmt.Sprintf("value %d", v)), schema.IntValue(v % 5)}
	}
	data, st := encodeRows(t, columns, rows, parquet.EncoderOptions{})
	checkFile(t, data, st, columns, rows)
	f, err := pq.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for c, wantPlain := range []bool{true, true, false} {
		byIndex, plain := int32(0), int32(0)
		for _, e := range f.Metadata().RowGroups[0].Columns[c].MetaData.EncodingStats {
			switch {
			case e.PageType == format.DataPage && e.Encoding == format.Plain:
				plain = e.Count
			case e.PageType == format.DataPage:
				byIndex = e.Count
			}
		}
		if byIndex == 0 || wantPlain != (plain > 0) {
			t.Errorf("column %s: %d pages by index, %d plain", columns[c].Name, byIndex, plain)
		}
	}
}

func TestRowGroupsAreCutByBytes(t *testing.T) {
	columns := []parquet.Column{column("s", schema.Of(schema.StringType))}
	long := schema.StringValue(strings.Repeat("x", 10<<20))
	rows := make([][]schema.Value, 20)
	for i := range rows {
		rows[i] = []schema.Value{long}
	}
	data, st := encodeRows(t, columns, rows, parquet.EncoderOptions{})
	f := openBytes(t, data)
	if f.NumRowGroups() != 2 || f.RowGroupRows(0) != 12 {
		t.Errorf("%d row groups, the first of %d rows", f.NumRowGroups(), f.RowGroupRows(0))
	}
	if st.Columns[0].Max != long || f.RowGroupBounds(0, columns[0]).Max.S != strings.Repeat("x", 63)+"y" {
		t.Error("bounds of long strings")
	}
	if got := scanAll(t, f, columns, parquet.ScanOptions{BatchRows: 3}); len(got) != 20 || got[19][0] != long {
		t.Error("long strings differ")
	}
}

// A footer of more than what the first read brings.
func TestLargeFooter(t *testing.T) {
	rows := orderRows(5_000)
	data, st := encodeRows(t, orders, rows, parquet.EncoderOptions{RowGroupRows: 20})
	r := &countingReader{r: bytes.NewReader(data)}
	if _, err := parquet.Open(r, int64(len(data))); err != nil || r.reads != 2 {
		t.Errorf("%d reads, %v", r.reads, err)
	}
	checkFile(t, data, st, orders, rows)
}
