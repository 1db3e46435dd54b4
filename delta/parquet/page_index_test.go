package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/parquet-go/parquet-go/format"
)

// someColumns are a leaf, a struct, and an array.
var someColumns = []Column{
	{Name: "id", Type: schema.Of(schema.Long)},
	{Name: "name", Type: schema.Of(schema.StringType)},
	{Name: "box", Type: schema.Type{Primitive: schema.Struct, Nested: &schema.Nested{Fields: []schema.Field{{Name: "n", Type: schema.Of(schema.Long)}}}}},
	{Name: "list", Type: schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: schema.Of(schema.Long)}}},
}

// someFile is a file of n rows in pages of size rows, and its rows.
func someFile(t testing.TB, n, size int) ([]byte, [][]schema.Value) {
	t.Helper()
	var rows [][]schema.Value
	for i := range int64(n) {
		var list []schema.Value
		for e := range i % 4 {
			list = append(list, schema.IntValue(e))
		}
		rows = append(rows, []schema.Value{schema.IntValue(i), schema.StringValue(fmt.Sprint("name ", i%7)), schema.CompoundValue(schema.IntValue(-i)), schema.CompoundValue(list...)})
		if i%5 == 2 {
			rows[i][i%4] = schema.Value{}
		}
	}
	e, err := NewEncoder(someColumns, EncoderOptions{PageRows: size})
	if err != nil {
		t.Fatal(err)
	}
	data, _, err := e.Encode(rows)
	if err != nil {
		t.Fatal(err)
	}
	return data, rows
}

// withIndexes gives a file other page indexes of a column; nil leaves one as it is.
func withIndexes(t testing.TB, data []byte, column int, columnIndex, offsetIndex []byte) []byte {
	t.Helper()
	meta, _, _, err := readFooter(bytes.NewReader(data), int64(len(data)), 0)
	if err != nil {
		t.Fatal(err)
	}
	chunk := &meta.RowGroups[0].Columns[column]
	out := slices.Clone(data)
	if columnIndex != nil {
		chunk.ColumnIndexOffset, chunk.ColumnIndexLength = int64(len(out)), int32(len(columnIndex))
		out = append(out, columnIndex...)
	}
	if offsetIndex != nil {
		chunk.OffsetIndexOffset, chunk.OffsetIndexLength = int64(len(out)), int32(len(offsetIndex))
		out = append(out, offsetIndex...)
	}
	at := len(out)
	out = appendThrift(out, meta)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(out)-at))
	return append(out, magic...)
}

// rowsIn reads ranges of the rows of a file, by position.
func rowsIn(t testing.TB, f *File, columns []Column, ranges []RowRange) (map[int64][]schema.Value, error) {
	got := map[int64][]schema.Value{}
	for b, err := range f.Scan(t.Context(), columns, ScanOptions{BatchRows: 50, Rows: func(int) []RowRange { return ranges }}) {
		if err != nil {
			return nil, err
		}
		for r := range b.Rows {
			row := make([]schema.Value, len(columns))
			for c := range row {
				row[c] = b.Columns[c][r]
				row[c].S = strings.Clone(row[c].S)
			}
			got[b.FirstRow+int64(r)] = row
		}
	}
	return got, nil
}

// ranges draws ranges of n rows that rise and don't touch.
func ranges(r *rand.Rand, n int64) (list []RowRange) {
	for at := int64(0); at < n; {
		from := at + r.Int64N(n/3+2)
		to := from + 1 + r.Int64N(n/4+1)
		if from < n {
			list = append(list, RowRange{from, min(to, n)})
		}
		at = to + 1
	}
	if list == nil {
		list = []RowRange{}
	}
	return list
}

// same checks that rows are those of ranges of all.
func same(t *testing.T, name string, got, all map[int64][]schema.Value, ranges []RowRange) {
	t.Helper()
	n := int64(0)
	for _, r := range ranges {
		for row := r.From; row < r.To; row++ {
			if n++; !slices.Equal(got[row], all[row]) {
				t.Fatalf("%s: row %d of %v is %v, want %v", name, row, ranges, got[row], all[row])
			}
		}
	}
	if int64(len(got)) != n {
		t.Fatalf("%s: %d rows of %d", name, len(got), n)
	}
}

// Ranges of rows are read as they stand in the whole file, in files of every page size.
func TestScanOfRanges(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, size := range []int{1, 2, 7, 100, 5000} {
		data, rows := someFile(t, 300, size)
		f, err := OpenBytes(data)
		if err != nil {
			t.Fatal(err)
		}
		all := map[int64][]schema.Value{}
		for i, row := range rows {
			all[int64(i)] = row
		}
		for range 50 {
			asked := ranges(random, 300)
			got, err := rowsIn(t, f, someColumns, asked)
			if err != nil {
				t.Fatal(err)
			}
			same(t, fmt.Sprint("pages of ", size), got, all, asked)
		}
	}
}

// The same of the files that other engines wrote.
func TestScanOfRangesOfForeignFiles(t *testing.T) {
	root := os.Getenv("GSCD_TESTDATA")
	for at, _ := os.Getwd(); root == "" && at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			root = filepath.Join(filepath.Dir(at), "shared")
		}
	}
	dir := filepath.Join(root, "delta-tables")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no shared test data: set GSCD_TESTDATA")
	}
	random := rand.New(rand.NewPCG(3, 4))
	files, indexed, part := 0, 0, int64(0)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".parquet" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := OpenBytes(data)
		if err != nil || f.NumRows() == 0 || f.NumRows() > 20_000 {
			return nil
		}
		var columns []Column
		for _, n := range f.root.children {
			if typ, err := n.infer(0); err == nil {
				columns = append(columns, Column{Name: n.name, Type: typ})
			}
		}
		all, err := rowsIn(t, f, columns, nil)
		if err != nil {
			return nil // what can't be read whole is another test's
		}
		files++
		for range 5 {
			asked := ranges(random, f.NumRows())
			got, err := rowsIn(t, f, columns, asked)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				return nil
			}
			same(t, path, got, all, asked)
			all, read, err := f.Pages(0, columns, asked)
			if err != nil {
				t.Errorf("%s: %v", path, err)
			}
			part += all - read
			if all > 0 {
				indexed++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d files, %d readings of files with an offset index, %d pages passed over", files, indexed, part)
	if files == 0 || indexed == 0 {
		t.Error("nothing was read")
	}
}

// Without a usable index everything is read, and nothing is known of pages.
func TestBrokenPageIndex(t *testing.T) {
	data, rows := someFile(t, 300, 10)
	all := map[int64][]schema.Value{}
	for i, row := range rows {
		all[int64(i)] = row
	}
	asked := []RowRange{{15, 18}, {200, 222}}
	open := func(data []byte) *File {
		f, err := OpenBytes(data)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	whole := open(data)
	if n := len(whole.PageBounds(0, someColumns[0])); n != 30 {
		t.Fatalf("%d pages with bounds", n)
	}
	if n := len(whole.PageBounds(0, someColumns[2], Column{Name: "n", Type: schema.Of(schema.Long)})); n != 30 {
		t.Fatalf("%d pages of a field with bounds", n)
	}
	if whole.PageBounds(0, someColumns[2]) != nil || whole.PageBounds(0, someColumns[3]) != nil || whole.PageBounds(0, Column{Name: "none", Type: schema.Of(schema.Long)}) != nil {
		t.Error("bounds of what has none")
	}
	meta := whole.meta.RowGroups[0].Columns[0]
	var offsets format.OffsetIndex
	if _, err := decodeThrift(data[meta.OffsetIndexOffset:meta.OffsetIndexOffset+int64(meta.OffsetIndexLength)], &offsets); err != nil {
		t.Fatal(err)
	}
	changed := func(change func(o *format.OffsetIndex)) []byte {
		o := format.OffsetIndex{PageLocations: slices.Clone(offsets.PageLocations)}
		change(&o)
		return appendThrift(nil, &o)
	}
	for name, index := range map[string][]byte{
		"junk":      {1, 2, 3},
		"no pages":  changed(func(o *format.OffsetIndex) { o.PageLocations = []format.PageLocation{} }),
		"a hole":    changed(func(o *format.OffsetIndex) { o.PageLocations[3].Offset++ }),
		"too short": changed(func(o *format.OffsetIndex) { o.PageLocations = o.PageLocations[:20] }),
		"one page cut in two": changed(func(o *format.OffsetIndex) {
			p := o.PageLocations[20]
			o.PageLocations[20].CompressedPageSize -= 5
			p.Offset, p.CompressedPageSize, p.FirstRowIndex = p.Offset+int64(p.CompressedPageSize)-5, 5, p.FirstRowIndex+3
			o.PageLocations = slices.Insert(o.PageLocations, 21, p)
		}),
		"rows of a page": changed(func(o *format.OffsetIndex) { o.PageLocations[1].FirstRowIndex++ }),
		"outside":        changed(func(o *format.OffsetIndex) { o.PageLocations[29].Offset = 1 << 40 }),
	} {
		f := open(withIndexes(t, data, 0, nil, index))
		got, err := rowsIn(t, f, someColumns, asked)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		same(t, name, got, all, asked)
	}
	for name, index := range map[string][]byte{
		"junk":            {1, 2, 3},
		"of other pages":  appendThrift(nil, &format.ColumnIndex{NullPages: []bool{false}, MinValues: [][]byte{nil}, MaxValues: [][]byte{nil}}),
		"without maximum": appendThrift(nil, &format.ColumnIndex{NullPages: make([]bool, 30), MinValues: make([][]byte, 30)}),
	} {
		if b := open(withIndexes(t, data, 0, index, nil)).PageBounds(0, someColumns[0]); b != nil {
			t.Errorf("%s: %v", name, b)
		}
	}
	// Bounds that are none, or the wrong way round, say nothing of their page alone.
	odd := format.ColumnIndex{NullPages: make([]bool, 30), MinValues: make([][]byte, 30), MaxValues: make([][]byte, 30)}
	for i := range 30 {
		odd.MinValues[i], odd.MaxValues[i] = binary.LittleEndian.AppendUint64(nil, uint64(i)), binary.LittleEndian.AppendUint64(nil, uint64(9))
	}
	odd.MinValues[2] = []byte{1}
	b := open(withIndexes(t, data, 0, appendThrift(nil, &odd), nil)).PageBounds(0, someColumns[0])
	if len(b) != 30 || !b[2].Min.IsNull() || b[9].Min != schema.IntValue(9) || !b[10].Max.IsNull() || b[1].NullCount != -1 || b[29].Rows != (RowRange{290, 300}) {
		t.Errorf("odd bounds: %+v", b)
	}
	// An index of repeated values that lies is found out when its pages are decoded.
	list := whole.meta.RowGroups[0].Columns[3]
	if _, err := decodeThrift(data[list.OffsetIndexOffset:list.OffsetIndexOffset+int64(list.OffsetIndexLength)], &offsets); err != nil {
		t.Fatal(err)
	}
	f := open(withIndexes(t, data, 3, nil, changed(func(o *format.OffsetIndex) { o.PageLocations[2].FirstRowIndex++ })))
	if _, err := rowsIn(t, f, someColumns, asked); !errors.Is(err, ErrCorrupt) {
		t.Errorf("an index of other rows: %v", err)
	}
}

// An index is any bytes: rows or an error, never a panic.
func FuzzPageIndex(f *testing.F) {
	data, _ := someFile(f, 60, 7)
	whole, err := OpenBytes(data)
	if err != nil {
		f.Fatal(err)
	}
	leaves := whole.meta.RowGroups[0].Columns
	for i := range leaves {
		c := &leaves[i]
		f.Add(uint8(i), data[c.ColumnIndexOffset:c.ColumnIndexOffset+int64(c.ColumnIndexLength)], data[c.OffsetIndexOffset:c.OffsetIndexOffset+int64(c.OffsetIndexLength)], int64(8), int64(30))
	}
	f.Fuzz(func(t *testing.T, column uint8, columnIndex, offsetIndex []byte, from, to int64) {
		at := int(column) % len(leaves)
		file, err := OpenBytes(withIndexes(t, data, at, columnIndex, offsetIndex))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range someColumns {
			for _, b := range file.PageBounds(0, c) {
				if b.Rows.From < 0 || b.Rows.From >= b.Rows.To || b.Rows.To > 60 {
					t.Fatalf("a page of rows %v", b.Rows)
				}
			}
		}
		rows, err := rowsIn(t, file, someColumns, []RowRange{{from, to}, {50, 55}})
		if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsupported) {
			t.Fatal(err)
		}
		if len(rows) > 60 {
			t.Fatalf("%d rows", len(rows))
		}
		if _, err := file.Rows(t.Context(), someColumns[:2], []int64{3, 40}); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
	})
}
