package parquet

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"pgregory.net/rapid"
)

func TestCutBounds(t *testing.T) {
	x63 := strings.Repeat("x", 63)
	for _, c := range []struct {
		value     string
		text      bool
		low, high string // high "" where there is none
	}{
		{"short", true, "short", "short"},
		{x63 + "yz", true, x63 + "y", x63 + "z"},
		{x63 + "é", true, x63, x63[:62] + "y"}, // the character is not split
		{x63 + "\x7fz", true, x63 + "\x7f", x63 + "\u0080"},
		{strings.Repeat("\U0010ffff", 20), true, strings.Repeat("\U0010ffff", 16), ""},
		{"a" + strings.Repeat("\U0010ffff", 20), true, "a" + strings.Repeat("\U0010ffff", 15), "b"},
		{strings.Repeat("\ud7ff", 22), true, strings.Repeat("\ud7ff", 21), strings.Repeat("\ud7ff", 20) + "\ue000"},
		{x63 + "\xff\xff", false, x63 + "\xff", x63[:62] + "y"},
		{x63 + "\x01\xff", false, x63 + "\x01", x63 + "\x02"},
		{strings.Repeat("\xff", 70), false, strings.Repeat("\xff", 64), ""},
	} {
		low := string(cutLow(c.value, c.text))
		high, ok := cutHigh(c.value, c.text)
		if low != c.low || string(high) != c.high || ok != (c.high != "") {
			t.Errorf("%q is cut to %q..%q (%t), want %q..%q", c.value, low, high, ok, c.low, c.high)
		}
		if low > c.value || ok && string(high) < c.value {
			t.Errorf("%q..%q leaves %q out", low, high, c.value)
		}
	}
}

func TestHybridRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.UintRange(1, 31).Draw(t, "width")
		var values []int32
		for range rapid.IntRange(0, 12).Draw(t, "runs") {
			v := rapid.Int32Range(0, int32(1<<width-1)).Draw(t, "value")
			for i := range rapid.IntRange(1, 40).Draw(t, "length") {
				if rapid.Bool().Draw(t, "same") {
					values = append(values, v)
				} else {
					values = append(values, int32(i)&int32(1<<width-1))
				}
			}
		}
		got := make([]int32, len(values))
		data := appendHybrid(nil, values, width)
		if err := decodeHybrid(got, data, width); err != nil || !slices.Equal(got, values) {
			t.Fatalf("%v comes back as %v, %v", values, got, err)
		}
		if len(values) > 0 && len(data) > 0 {
			if err := decodeHybrid(make([]int32, len(values)+8), data, width); err == nil {
				t.Fatal("more values than there are")
			}
		}
	})
}

func TestDeltaRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64(), 1, 300).Draw(t, "values")
		data := appendWideDelta(nil, values)
		got, rest, err := decodeDelta(nil, append(data, 7), len(values), false)
		if err != nil || !slices.Equal(got, values) || len(rest) != 1 {
			t.Fatalf("%v comes back as %v, %d bytes behind, %v", values, got, len(rest), err)
		}
	})
}

// TestAppendDelta: what is written comes back by this package's reader and by that of
// parquet-go, whatever the widths of the blocks are.
func TestAppendDelta(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := make([]int64, rapid.IntRange(1, 700).Draw(t, "n"))
		for at := 0; at < len(values); {
			shift := rapid.IntRange(0, 64).Draw(t, "shift")
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			for end := min(len(values), at+rapid.IntRange(1, 200).Draw(t, "run")); at < end; at++ {
				values[at] = int64(r.Uint64() >> shift)
				if at > 0 && shift > 32 {
					values[at] += values[at-1]
				}
			}
		}
		data := appendDelta(nil, values)
		got, rest, err := decodeDelta(nil, append(data, 7), len(values), false)
		if err != nil || !slices.Equal(got, values) || len(rest) != 1 {
			t.Fatalf("%v comes back as %v, %d bytes behind, %v", values, got, len(rest), err)
		}
		theirs, err := new(delta.BinaryPackedEncoding).DecodeInt64(nil, data)
		if err != nil || !slices.Equal(theirs, values) {
			t.Fatalf("%v comes back from parquet-go as %v, %v", values, theirs, err)
		}
	})
}

// nullable makes a file of one column with several pages, every third row NULL.
func nullable(t *testing.T) *File {
	t.Helper()
	e, err := NewEncoder([]Column{{Name: "n", Type: schema.Of(schema.Long)}}, EncoderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rows := make([][]schema.Value, 10_000)
	for i := range rows {
		rows[i] = []schema.Value{schema.IntValue(int64(i))}
		if i%3 == 0 {
			rows[i][0] = schema.Value{}
		}
	}
	data, _, err := e.Encode(rows)
	if err != nil {
		t.Fatal(err)
	}
	f, err := OpenBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestRowsWithoutAPageIndex(t *testing.T) {
	f := nullable(t)
	f.meta.RowGroups[0].Columns[0].OffsetIndexLength = 0
	at := []int64{0, 1, 1, 4094, 4096, 4097, 5000, 9998, 9999}
	got, err := f.Rows(t.Context(), []Column{{Name: "n", Type: schema.Of(schema.Long)}}, at)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range at {
		want := schema.IntValue(row)
		if row%3 == 0 {
			want = schema.Value{}
		}
		if got[i][0] != want {
			t.Errorf("row %d = %+v, want %+v", row, got[i][0], want)
		}
	}
}

func TestPageHeadersCountNulls(t *testing.T) {
	f := nullable(t)
	chunk := &f.meta.RowGroups[0].Columns[0].MetaData
	start, length := chunkRange(chunk)
	c := newChunkReader(f.root.children[0], chunk, f.data[start:start+length])
	for pages := 0; ; pages++ {
		more, err := c.next()
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			if pages != 3 {
				t.Errorf("%d pages", pages)
			}
			return
		}
		if err := c.decode(); err != nil {
			t.Fatal(err)
		}
		h := c.header.DataPageHeader.V
		if c.header.Type != format.DataPage || h.Statistics.NullCount != int64(c.page.n-c.page.present) || c.header.CRC == 0 {
			t.Errorf("page %d: %+v, %d values, %d of them not NULL", pages, c.header, c.page.n, c.page.present)
		}
	}
}

func TestDecimalBytes(t *testing.T) {
	// As Spark's minBytesForPrecision has them.
	for precision, want := range map[uint8]int{1: 1, 2: 1, 3: 2, 9: 4, 18: 8, 19: 9, 20: 9, 21: 9, 22: 10, 38: 16} {
		if got := decimalBytes(precision); got != want {
			t.Errorf("decimal(%d) takes %d bytes, want %d", precision, got, want)
		}
	}
}

func TestDecimalsOfBytes(t *testing.T) {
	for _, c := range []struct {
		bytes string
		text  string
		ok    bool
	}{
		{"", "0", true}, {"\x05", "5", true}, {"\xff", "-1", true}, {"\x00\x80", "128", true}, {"\x80", "-128", true},
		{strings.Repeat("\xff", 20) + "\xfe", "-2", true}, {strings.Repeat("\x00", 20) + "\x80", "128", true},
		{"\x01" + strings.Repeat("\x00", 16), "", false}, {strings.Repeat("\xff", 4) + "\x7f" + strings.Repeat("\x00", 15), "", false},
		{"\x7f" + strings.Repeat("\xff", 15), "170141183460469231731687303715884105727", true},
	} {
		v, ok := decimalOfBytes(c.bytes)
		if ok != c.ok || ok && v.DecimalText(0) != c.text {
			t.Errorf("%x = %s (%t), want %s", c.bytes, v.DecimalText(0), ok, c.text)
		}
	}
}

// A footer may say that there are 2^60 rows, of columns that nobody asks for.
func TestDeclaredRowsAreBounded(t *testing.T) {
	data, err := EncodeStructs([]struct {
		A int64 `parquet:"a"`
	}{{1}}, StructOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := OpenBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	for rows, ok := range map[int64]bool{1: true, 1 << 20: true, 1 << 40: false, 1 << 60: false, -1: false} {
		meta := *f.meta
		group := meta.RowGroups[0]
		group.Columns = slices.Clone(group.Columns)
		group.NumRows, group.Columns[0].MetaData.NumValues = rows, rows
		meta.NumRows, meta.RowGroups = rows, []format.RowGroup{group}
		raw, err := thrift.Marshal(&thrift.CompactProtocol{}, &meta)
		if err != nil {
			t.Fatal(err)
		}
		bomb := append(binary.LittleEndian.AppendUint32(append(slices.Clone(data), raw...), uint32(len(raw))), magic...)
		if _, err := OpenBytes(bomb); (err == nil) != ok || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d rows: %v", rows, err)
		}
	}
}
