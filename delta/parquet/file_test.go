package parquet_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding"
)

func openBytes(t testing.TB, data []byte) *parquet.File {
	t.Helper()
	f, err := parquet.OpenBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// scanAll reads a whole file into rows of copied cells.
func scanAll(t testing.TB, f *parquet.File, columns []parquet.Column, opts parquet.ScanOptions) [][]schema.Value {
	t.Helper()
	rows, err := tryScan(t, f, columns, opts)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func tryScan(t testing.TB, f *parquet.File, columns []parquet.Column, opts parquet.ScanOptions) (rows [][]schema.Value, err error) {
	next := opts.From
	for b, err := range f.Scan(t.Context(), columns, opts) {
		if err != nil {
			return nil, err
		}
		if opts.SkipRowGroup == nil && b.FirstRow != next {
			t.Fatalf("a batch begins at row %d, want %d", b.FirstRow, next)
		}
		next = b.FirstRow + int64(b.Rows)
		for i := range b.Rows {
			row := make([]schema.Value, len(columns))
			for c := range columns {
				row[c] = b.Columns[c][i]
				row[c].S = strings.Clone(row[c].S)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// typeOf guesses the Delta type of a file's column; ok is false for nested and odd ones.
func typeOf(c parquet.FileColumn) (t schema.Type, ok bool) {
	if c.Nested {
		return t, false
	}
	physical, logical, _ := strings.Cut(c.Physical, " ")
	var p, s uint8
	switch {
	case strings.HasPrefix(logical, "DECIMAL("):
		fmt.Sscanf(logical, "DECIMAL(%d,%d)", &p, &s)
		return schema.Decimal(p, s), true
	case logical == "DATE":
		return schema.Of(schema.Date), true
	case strings.HasPrefix(logical, "TIMESTAMP"), physical == "INT96":
		return schema.Of(schema.Timestamp), true
	case logical == "STRING", logical == "UTF8":
		return schema.Of(schema.StringType), true
	case strings.Contains(logical, "8"), logical == "INT(16,true)", logical == "INT_16":
		return schema.Of(schema.Short), true
	case logical != "" && !strings.HasPrefix(logical, "INT"):
		return t, false
	}
	t, ok = map[string]schema.Type{
		"BOOLEAN": schema.Of(schema.Boolean), "INT32": schema.Of(schema.Integer), "INT64": schema.Of(schema.Long),
		"FLOAT": schema.Of(schema.FloatType), "DOUBLE": schema.Of(schema.DoubleType), "BYTE_ARRAY": schema.Of(schema.BinaryType),
	}[physical]
	return t, ok
}

// sameAsOracle compares a cell with parquet-go's value of it.
func sameAsOracle(v schema.Value, t schema.Type, want pq.Value) bool {
	if want.IsNull() || v.IsNull() {
		return want.IsNull() && v.IsNull()
	}
	switch want.Kind() {
	case pq.Boolean:
		return v.I != 0 == want.Boolean()
	case pq.Int32:
		return v.I == int64(want.Int32())
	case pq.Int64:
		return v.I == want.Int64()
	case pq.Int96:
		i := want.Int96()
		nanos := new(big.Int).SetUint64(uint64(i[1])<<32 | uint64(i[0]))
		days := big.NewInt(int64(int32(i[2])) - 2440588)
		micros := nanos.Div(nanos, big.NewInt(1000))
		return micros.Add(micros, days.Mul(days, big.NewInt(86400e6))).Cmp(big.NewInt(v.I)) == 0
	case pq.Float:
		return math.Float32bits(v.Float32()) == math.Float32bits(want.Float())
	case pq.Double:
		return math.Float64bits(v.Float64()) == math.Float64bits(want.Double())
	}
	if t.Primitive == schema.DecimalType {
		n := new(big.Int).SetBytes(want.ByteArray())
		if b := want.ByteArray(); len(b) > 0 && b[0]&0x80 != 0 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
		return v.Unscaled().Cmp(n) == 0
	}
	return v.S == string(want.ByteArray())
}

// oracle reads a leaf column with parquet-go.
func oracle(t testing.TB, data []byte, column string) (values []pq.Value) {
	t.Helper()
	f, err := pq.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	leaf, ok := f.Schema().Lookup(column)
	if !ok {
		t.Fatalf("parquet-go finds no column %q", column)
	}
	for _, g := range f.RowGroups() {
		pages := g.ColumnChunks()[leaf.ColumnIndex].Pages()
		for {
			p, err := pages.ReadPage()
			if err != nil {
				break
			}
			buf := make([]pq.Value, p.NumValues())
			n, _ := p.Values().ReadValues(buf)
			for _, v := range buf[:n] {
				values = append(values, v.Clone())
			}
		}
		pages.Close()
	}
	return values
}

func TestReadsFilesOfOtherWriters(t *testing.T) {
	root, files := sharedFiles(t, ".parquet")
	read, cellsRead, physical := 0, 0, map[string]int{}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil || info.Size() > 400<<10 { // the large ones tell nothing more
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rel, _ := filepath.Rel(root, file)
		f, err := parquet.OpenBytes(data)
		if err != nil {
			if len(data) > 0 {
				t.Errorf("%s: %v", rel, err)
			}
			continue
		}
		var columns []parquet.Column
		for _, c := range f.Columns() {
			if typ, ok := typeOf(c); ok {
				columns = append(columns, parquet.Column{Name: c.Name, Type: typ})
				physical[c.Physical]++
			}
		}
		rows := scanAll(t, f, columns, parquet.ScanOptions{BatchRows: 1000})
		if int64(len(rows)) != f.NumRows() {
			t.Errorf("%s: %d rows of %d", rel, len(rows), f.NumRows())
		}
		for c, column := range columns {
			want := oracle(t, data, column.Name)
			millis := slices.ContainsFunc(f.Columns(), func(x parquet.FileColumn) bool {
				return x.Name == column.Name && strings.Contains(x.Physical, "MILLIS")
			})
			for i := range rows {
				if millis && !want[i].IsNull() {
					want[i] = pq.Int64Value(want[i].Int64() * 1000)
				}
				if !sameAsOracle(rows[i][c], column.Type, want[i]) {
					t.Errorf("%s: column %s row %d = %+v, want %v", rel, column.Name, i, rows[i][c], want[i])
					break
				}
				cellsRead++
			}
		}
		some := []int64{}
		for i := int64(0); i < f.NumRows(); i += 1 + f.NumRows()/7 {
			some = append(some, i)
		}
		picked, err := f.Rows(t.Context(), columns, some)
		if err != nil {
			t.Errorf("%s: rows: %v", rel, err)
			continue
		}
		for i, at := range some {
			if !slices.Equal(picked[i], rows[at]) {
				t.Errorf("%s: row %d picked = %v, scanned %v", rel, at, picked[i], rows[at])
			}
		}
		read++
	}
	t.Logf("%d files, %d cells, %v", read, cellsRead, physical)
	if read < 800 || cellsRead < 20_000 {
		t.Errorf("read %d files with %d cells: too few, is the test data whole?", read, cellsRead)
	}
}

// physicalRow has what other writers store otherwise than we do.
type physicalRow struct {
	Int32   *int32            `parquet:"int32,optional"`
	Int64   *int64            `parquet:"int64,optional"`
	Float   *float32          `parquet:"float,optional"`
	Double  *float64          `parquet:"double,optional"`
	Bool    *bool             `parquet:"bool,optional"`
	Text    *string           `parquet:"text,optional"`
	Bytes   []byte            `parquet:"bytes"`
	Millis  int64             `parquet:"millis,timestamp(millisecond)"`
	Nanos   int64             `parquet:"nanos,timestamp(nanosecond)"`
	Int96   deprecated.Int96  `parquet:"int96"`
	Dec9    int32             `parquet:"dec9,decimal(2:9)"`
	Dec18   int64             `parquet:"dec18,decimal(3:18)"`
	Dec5Fix [3]byte           `parquet:"dec5fix,decimal(2:5)"`
	Dec38   [16]byte          `parquet:"dec38,decimal(10:38)"`
	Unsign  uint32            `parquet:"unsign"`
	Nested  struct{ A int64 } `parquet:"nested"`
}

func physicalRows(n int) []physicalRow {
	rows := make([]physicalRow, n)
	for i := range rows {
		r := &rows[i]
		if i%3 != 0 {
			r.Int32, r.Int64, r.Float = ptr(int32(i-50)), ptr(int64(i)<<33-7), ptr(float32(i)/3)
			r.Double, r.Bool, r.Text = ptr(float64(-i)/7), ptr(i%2 == 0), ptr(strings.Repeat("x", i%5)+fmt.Sprint(i/10))
		}
		r.Bytes = []byte{byte(i), 0xff}
		r.Millis, r.Nanos = int64(i)-5, int64(i)*1000-2500
		r.Int96 = deprecated.Int96{uint32(i * 1000), 0, 2440588 + uint32(i)}
		r.Dec9, r.Dec18 = int32(i-10), int64(i)-20
		d := int32(i - 30)
		r.Dec5Fix = [3]byte{byte(d >> 16), byte(d >> 8), byte(d)}
		big.NewInt(int64(i) << 40).FillBytes(r.Dec38[:])
		r.Unsign = math.MaxUint32 - uint32(i)
		r.Nested.A = int64(i)
	}
	return rows
}

func writeOracle(t testing.TB, rows []physicalRow, opts ...pq.WriterOption) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := pq.NewGenericWriter[physicalRow](&buf, opts...)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func column(name string, t schema.Type) parquet.Column { return parquet.Column{Name: name, Type: t} }

func TestEncodingsAndCodecs(t *testing.T) {
	rows := physicalRows(500)
	byKind := func(e encoding.Encoding, kinds ...pq.Kind) (opts []pq.WriterOption) {
		for _, k := range kinds {
			opts = append(opts, pq.DefaultEncodingFor(k, e))
		}
		return opts
	}
	numbers := []pq.Kind{pq.Int32, pq.Int64, pq.Float, pq.Double}
	encodings := map[string][]pq.WriterOption{
		"plain":       byKind(&pq.Plain, append(numbers, pq.ByteArray, pq.FixedLenByteArray)...),
		"dictionary":  byKind(&pq.RLEDictionary, append(numbers, pq.ByteArray, pq.FixedLenByteArray, pq.Int96)...),
		"delta":       append(byKind(&pq.DeltaBinaryPacked, pq.Int32, pq.Int64), byKind(&pq.DeltaByteArray, pq.ByteArray, pq.FixedLenByteArray)...),
		"deltaLength": byKind(&pq.DeltaLengthByteArray, pq.ByteArray),
		"split":       byKind(&pq.ByteStreamSplit, numbers...),
		"rle":         byKind(&pq.RLE, pq.Boolean),
	}
	codecs := map[string]compress.Codec{
		"none": &pq.Uncompressed, "zstd": &pq.Zstd, "snappy": &pq.Snappy, "gzip": &pq.Gzip, "lz4": &pq.Lz4Raw, "brotli": &pq.Brotli,
	}
	columns := []parquet.Column{
		column("int32", schema.Of(schema.Integer)), column("int64", schema.Of(schema.Long)), column("float", schema.Of(schema.FloatType)),
		column("double", schema.Of(schema.DoubleType)), column("bool", schema.Of(schema.Boolean)), column("text", schema.Of(schema.StringType)),
		column("bytes", schema.Of(schema.BinaryType)), column("dec38", schema.Decimal(38, 10)), column("dec5fix", schema.Decimal(5, 2)),
	}
	for codec, c := range codecs {
		for name, e := range encodings {
			for _, version := range []int{1, 2} {
				opts := append([]pq.WriterOption{pq.Compression(c), pq.DataPageVersion(version), pq.PageBufferSize(300), pq.MaxRowsPerRowGroup(170)}, e...)
				data := writeOracle(t, rows, opts...)
				f := openBytes(t, data)
				got := scanAll(t, f, columns, parquet.ScanOptions{BatchRows: 33})
				for c, column := range columns {
					want := oracle(t, data, column.Name)
					for i := range rows {
						if !sameAsOracle(got[i][c], column.Type, want[i]) {
							t.Fatalf("%s %s v%d: column %s row %d = %+v, want %v", codec, name, version, column.Name, i, got[i][c], want[i])
						}
					}
				}
			}
		}
	}
}

func TestTypesWiden(t *testing.T) {
	rows := physicalRows(40)
	f := openBytes(t, writeOracle(t, rows))
	for _, c := range []struct {
		column parquet.Column
		want   func(i int) schema.Value
	}{
		{column("dec9", schema.Decimal(9, 2)), func(i int) schema.Value { return schema.Value{Kind: schema.Dec, I: int64(i - 10)} }},
		{column("dec9", schema.Decimal(20, 5)), func(i int) schema.Value { return schema.Value{Kind: schema.Dec, I: int64(i-10) * 1000} }},
		{column("dec18", schema.Decimal(38, 20)), func(i int) schema.Value {
			n, _ := new(big.Int).SetString(fmt.Sprint(i-20)+strings.Repeat("0", 17), 10)
			v, _ := schema.DecimalValue(n)
			return v
		}},
		{column("dec5fix", schema.Decimal(5, 2)), func(i int) schema.Value { return schema.Value{Kind: schema.Dec, I: int64(i - 30)} }},
		{column("millis", schema.Of(schema.Timestamp)), func(i int) schema.Value { return schema.IntValue(int64(i-5) * 1000) }},
		{column("nanos", schema.Of(schema.Timestamp)), func(i int) schema.Value { return schema.IntValue(int64(math.Floor(float64(i) - 2.5))) }},
		{column("int96", schema.Of(schema.Timestamp)), func(i int) schema.Value { return schema.IntValue(int64(i)*86400e6 + int64(i)) }},
		{column("unsign", schema.Of(schema.Long)), func(i int) schema.Value { return schema.IntValue(math.MaxUint32 - int64(i)) }},
		{column("int32", schema.Of(schema.Long)), func(i int) schema.Value { return null(i, schema.IntValue(int64(i-50))) }},
		{column("int32", schema.Of(schema.DoubleType)), func(i int) schema.Value { return null(i, schema.DoubleValue(float64(i-50))) }},
		{column("int32", schema.Decimal(12, 1)), func(i int) schema.Value { return null(i, schema.Value{Kind: schema.Dec, I: int64(i-50) * 10}) }},
		{column("float", schema.Of(schema.DoubleType)), func(i int) schema.Value { return null(i, schema.DoubleValue(float64(float32(i)/3))) }},
		{column("INT64", schema.Of(schema.Long)), func(i int) schema.Value { return null(i, schema.IntValue(int64(i)<<33-7)) }},
		{column("absent", schema.Of(schema.StringType)), func(int) schema.Value { return schema.Value{} }},
	} {
		got := scanAll(t, f, []parquet.Column{c.column}, parquet.ScanOptions{BatchRows: 7})
		for i := range rows {
			if got[i][0] != c.want(i) {
				t.Errorf("%s as %s: row %d = %+v, want %+v", c.column.Name, c.column.Type, i, got[i][0], c.want(i))
				break
			}
		}
	}
}

func null(i int, v schema.Value) schema.Value {
	if i%3 == 0 {
		return schema.Value{}
	}
	return v
}

func TestTypesThatDoNotFit(t *testing.T) {
	f := openBytes(t, writeOracle(t, physicalRows(20)))
	nested, err := schema.Parse(`{"type":"struct","fields":[{"name":"A","type":"long","nullable":true,"metadata":{}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		column parquet.Column
		want   error
	}{
		{column("text", schema.Of(schema.Long)), parquet.ErrColumnType},
		{column("int64", schema.Of(schema.Integer)), parquet.ErrColumnType},
		{column("int64", schema.Of(schema.StringType)), parquet.ErrColumnType},
		{column("double", schema.Of(schema.FloatType)), parquet.ErrColumnType},
		{column("dec18", schema.Decimal(18, 2)), parquet.ErrColumnType},
		{column("dec18", schema.Decimal(4, 3)), nil},
		{column("dec9", schema.Decimal(2, 2)), nil},
		{column("dec9", schema.Decimal(9, 1)), parquet.ErrColumnType},
		{column("unsign", schema.Of(schema.Integer)), parquet.ErrColumnType},
		{column("nested", schema.Of(schema.Long)), parquet.ErrNestedColumn},
		{column("int64", schema.Type{Primitive: schema.Struct, Nested: &schema.Nested{Fields: nested.Fields}}), parquet.ErrColumnType},
	} {
		_, err := tryScan(t, f, []parquet.Column{c.column}, parquet.ScanOptions{})
		if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.column.Name) {
			t.Errorf("%s as %s: error %v, want %v", c.column.Name, c.column.Type, err, c.want)
		}
	}
}

func TestScanRanges(t *testing.T) {
	rows := physicalRows(1000)
	f := openBytes(t, writeOracle(t, rows, pq.MaxRowsPerRowGroup(170), pq.PageBufferSize(300)))
	columns := []parquet.Column{column("dec18", schema.Decimal(18, 3)), column("int64", schema.Of(schema.Long)), column("text", schema.Of(schema.StringType))}
	all := scanAll(t, f, columns, parquet.ScanOptions{})
	for _, c := range [][2]int64{{0, 0}, {0, 1}, {1, 2}, {169, 171}, {170, 340}, {333, 777}, {999, 1000}, {500, 5000}, {1000, 0}, {2000, 0}} {
		to := c[1]
		if to == 0 || to > 1000 {
			to = 1000
		}
		want := all[min(c[0], 1000):max(to, min(c[0], 1000))]
		got := scanAll(t, f, columns, parquet.ScanOptions{From: c[0], To: c[1], BatchRows: 61})
		if len(got) != len(want) {
			t.Fatalf("rows %v: %d, want %d", c, len(got), len(want))
		}
		for i := range got {
			if !slices.Equal(got[i], want[i]) {
				t.Fatalf("rows %v: row %d differs", c, i)
			}
		}
	}
	odd := scanAll(t, f, columns, parquet.ScanOptions{SkipRowGroup: func(i int) bool { return i%2 == 0 }})
	if len(odd) != 170+170+150 || !slices.Equal(odd[0], all[170]) || !slices.Equal(odd[170], all[510]) {
		t.Errorf("%d rows of the odd row groups", len(odd))
	}
	if f.NumRowGroups() != 6 || f.RowGroupRows(5) != 150 {
		t.Errorf("%d row groups, the last of %d", f.NumRowGroups(), f.RowGroupRows(5))
	}
}

func TestInt64s(t *testing.T) {
	rows := physicalRows(1000)
	for _, e := range []encoding.Encoding{&pq.Plain, &pq.RLEDictionary, &pq.DeltaBinaryPacked} {
		f := openBytes(t, writeOracle(t, rows, pq.MaxRowsPerRowGroup(300), pq.PageBufferSize(700), pq.DefaultEncodingFor(pq.Int64, e), pq.DefaultEncodingFor(pq.Int32, e)))
		for _, c := range []parquet.Column{
			column("int32", schema.Of(schema.Long)), column("int64", schema.Of(schema.Long)), column("millis", schema.Of(schema.Timestamp)),
			column("unsign", schema.Of(schema.Long)), column("int96", schema.Of(schema.Timestamp)),
		} {
			want := scanAll(t, f, []parquet.Column{c}, parquet.ScanOptions{})
			next := int64(0)
			err := f.Int64s(c.Name, func(first int64, values []int64, nulls []bool) error {
				if first != next {
					t.Fatalf("%s: a page begins at row %d, want %d", c.Name, first, next)
				}
				for i, v := range values {
					w := want[first+int64(i)][0]
					isNull := nulls != nil && nulls[i]
					if isNull != w.IsNull() || v != w.I {
						t.Fatalf("%s: row %d = %d (NULL %t), want %+v", c.Name, first+int64(i), v, isNull, w)
					}
				}
				next += int64(len(values))
				return nil
			})
			if err != nil || next != 1000 {
				t.Errorf("%s: %d rows, %v", c.Name, next, err)
			}
		}
		stop := errors.New("enough")
		if err := f.Int64s("int64", func(int64, []int64, []bool) error { return stop }); err != stop {
			t.Errorf("error of the function: %v", err)
		}
		if err := f.Int64s("text", nil); !errors.Is(err, parquet.ErrColumnType) {
			t.Errorf("strings: %v", err)
		}
		if err := f.Int64s("nested", nil); !errors.Is(err, parquet.ErrNestedColumn) {
			t.Errorf("nested: %v", err)
		}
		if err := f.Int64s("absent", nil); err != nil {
			t.Errorf("absent: %v", err)
		}
	}
}
