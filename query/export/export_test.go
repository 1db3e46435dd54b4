package export_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/export"
)

var (
	ctx     = context.Background()
	columns = []schema.Field{
		{Name: "id", Type: schema.Of(schema.Long), Nullable: true},
		{Name: "name", Type: schema.Of(schema.StringType), Nullable: true},
	}
	errBroken = errors.New("a file is gone")
)

// rowsOf gives n rows, every third name NULL; after bad of them, where it is not negative, an error.
func rowsOf(n, bad int) iter.Seq2[[]schema.Value, error] {
	return func(yield func([]schema.Value, error) bool) {
		row := make([]schema.Value, 2)
		for i := range n {
			if i == bad {
				yield(nil, errBroken)
				return
			}
			row[0], row[1] = schema.IntValue(int64(i)), schema.Value{}
			if i%3 != 0 {
				row[1] = schema.StringValue(fmt.Sprintf("name, \"%d\"", i))
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

func keysOf(t testing.TB, s objstore.Store) (keys []string) {
	t.Helper()
	for o, err := range s.List(ctx, "", "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, o.Key)
	}
	return keys
}

// Parts hold the rows in order, and each is a file of its own.
func TestParts(t *testing.T) {
	for _, format := range export.Formats() {
		s := mem.New()
		const n = 400_000
		r, err := export.Write(ctx, s, export.Options{Format: format, PartBytes: 200_000}, columns, rowsOf(n, -1))
		if err != nil {
			t.Fatal(err)
		}
		keys := keysOf(t, s)
		if len(keys) != r.Files+1 || keys[0] != export.Success || r.Rows != n || r.Files < 2 {
			t.Fatalf("%s: %+v, keys %q", format, r, keys)
		}
		bytesOf, next := int64(0), 0
		for i, key := range keys[1:] {
			if !strings.HasPrefix(key, fmt.Sprintf("part-%05d-", i)) || !strings.HasSuffix(key, "."+format) {
				t.Errorf("part %d is %s", i, key)
			}
			raw, err := s.Get(ctx, key)
			if err != nil {
				t.Fatal(err)
			}
			bytesOf += int64(len(raw))
			next = checkRows(t, format, raw, next)
		}
		if next != n || bytesOf != r.Bytes {
			t.Errorf("%s: %d rows and %d bytes, want %d and %d", format, next, bytesOf, n, r.Bytes)
		}
	}
}

// checkRows wants the rows from one on in a file, and gives the one behind them.
func checkRows(t *testing.T, format string, raw []byte, next int) int {
	t.Helper()
	if format == "parquet" {
		f, err := parquet.Open(bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			t.Fatal(err)
		}
		return next + int(f.NumRows())
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n") {
		want := fmt.Sprintf(`{"id":%d,"name":"name, \"%d\""}`, next, next)
		switch {
		case format == "csv" && i == 0:
			if line != "id,name" {
				t.Fatalf("the header is %s", line)
			}
			continue
		case format == "csv" && next%3 == 0:
			want = fmt.Sprintf("%d,", next)
		case format == "csv":
			want = fmt.Sprintf(`%d,"name, ""%d"""`, next, next)
		case next%3 == 0:
			want = fmt.Sprintf(`{"id":%d,"name":null}`, next)
		}
		if line != want {
			t.Fatalf("%s: row %d is %s, want %s", format, next, line, want)
		}
		next++
	}
	return next
}

func TestOneFileAndNoRows(t *testing.T) {
	s := mem.New()
	if _, err := export.Write(ctx, s, export.Options{Format: "csv", File: "day.csv", PartBytes: 1}, columns, rowsOf(10_000, -1)); err != nil {
		t.Fatal(err)
	}
	r, err := export.Write(ctx, s, export.Options{Format: "csv", File: "none.csv"}, columns, rowsOf(0, -1))
	if err != nil || *r != (export.Report{Files: 1, Bytes: 8}) {
		t.Errorf("no rows: %+v, %v", r, err)
	}
	if got, err := s.Get(ctx, "none.csv"); err != nil || string(got) != "id,name\n" {
		t.Errorf("no rows: %q, %v", got, err)
	}
	if keys := keysOf(t, s); !slices.Equal(keys, []string{"day.csv", "none.csv"}) {
		t.Errorf("keys %q", keys)
	}
	folder := mem.New()
	if r, err := export.Write(ctx, folder, export.Options{Format: "parquet"}, columns, rowsOf(0, -1)); err != nil || r.Files != 1 || len(keysOf(t, folder)) != 2 {
		t.Errorf("no rows in a folder: %+v, %v, %q", r, err, keysOf(t, folder))
	}
}

// What is there stays, and an error leaves nothing.
func TestNothingIsReplacedOrLeft(t *testing.T) {
	s, err := local.New(t.TempDir(), local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []export.Options{{Format: "csv", PartBytes: 1000}, {Format: "parquet", PartBytes: 1000}, {Format: "jsonl", File: "day.jsonl"}} {
		if _, err := export.Write(ctx, s, o, columns, rowsOf(300_000, 290_000)); !errors.Is(err, errBroken) {
			t.Errorf("%+v: %v", o, err)
		}
		stopped, stop := context.WithCancel(ctx)
		rows := func(yield func([]schema.Value, error) bool) {
			for row, err := range rowsOf(200_000, -1) {
				if row[0].I == 150_000 {
					stop()
				}
				if !yield(row, err) {
					return
				}
			}
		}
		if _, err := export.Write(stopped, s, o, columns, rows); !errors.Is(err, context.Canceled) {
			t.Errorf("%+v, stopped: %v", o, err)
		}
		if keys := keysOf(t, s); len(keys) != 0 {
			t.Errorf("%+v left %q", o, keys)
		}
	}
	if err := s.Put(ctx, "day.csv", []byte("mine")); err != nil {
		t.Fatal(err)
	}
	for _, o := range []export.Options{{Format: "csv"}, {Format: "csv", File: "day.csv"}} {
		if _, err := export.Write(ctx, s, o, columns, rowsOf(1, -1)); !errors.Is(err, export.ErrExists) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if got, err := s.Get(ctx, "day.csv"); err != nil || string(got) != "mine" {
		t.Errorf("day.csv is %q, %v", got, err)
	}
}

// Memory does not grow with the rows: ten times as many take no more.
func TestMemoryIsBounded(t *testing.T) {
	peak := func(n int) (most uint64) {
		s, err := local.New(t.TempDir(), local.Options{})
		if err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		var before, m runtime.MemStats
		runtime.ReadMemStats(&before)
		rows := func(yield func([]schema.Value, error) bool) {
			i := 0
			for row, err := range rowsOf(n, -1) {
				if i++; i%50_000 == 0 {
					runtime.GC()
					runtime.ReadMemStats(&m)
					most = max(most, m.HeapAlloc-min(m.HeapAlloc, before.HeapAlloc))
				}
				if !yield(row, err) {
					return
				}
			}
		}
		if _, err := export.Write(ctx, s, export.Options{Format: "parquet"}, columns, rows); err != nil {
			t.Fatal(err)
		}
		return most
	}
	small, large := peak(200_000), peak(2_000_000)
	if large > 2*small+(8<<20) {
		t.Errorf("200,000 rows hold %d bytes, 2,000,000 hold %d", small, large)
	}
	t.Logf("200,000 rows hold %d bytes, 2,000,000 hold %d", small, large)
}

func TestFormatOf(t *testing.T) {
	for name, want := range map[string]string{
		"a.parquet": "parquet", "s3://b/x/day.CSV": "csv", "x.ndjson": "jsonl", "x.jsonl": "jsonl", "day": "", "s3://b.csv/x": "", "x.json": "",
	} {
		if got := export.FormatOf(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
