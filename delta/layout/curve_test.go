package layout

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/spill"
)

// Interleaving takes bits in turn.
func TestZOrderKey(t *testing.T) {
	for _, c := range []struct {
		point []uint32
		bits  int
		want  uint64
	}{
		{[]uint32{5}, 16, 5},
		{[]uint32{0b11, 0b00}, 2, 0b1010},
		{[]uint32{0b10, 0b01}, 2, 0b1001},
		{[]uint32{1, 2, 4}, 3, 0b001_010_100},
	} {
		if got := ZOrder.key(slices.Clone(c.point), c.bits); got != c.want {
			t.Errorf("%v: %b, want %b", c.point, got, c.want)
		}
	}
}

// The Hilbert curve visits every point once, and each next to the one before.
func TestHilbertKey(t *testing.T) {
	for _, c := range []struct{ n, bits int }{{2, 1}, {2, 4}, {3, 3}, {4, 2}} {
		side := 1 << c.bits
		total := 1 << (c.bits * c.n)
		at := make([][]uint32, total)
		for i := range total {
			point := make([]uint32, c.n)
			for d, rest := 0, i; d < c.n; d++ {
				point[d] = uint32(rest % side)
				rest /= side
			}
			key := Hilbert.key(slices.Clone(point), c.bits)
			if key >= uint64(total) || at[key] != nil {
				t.Fatalf("%d dimensions of %d bits: %v has the key %d, as has %v", c.n, c.bits, point, key, at[min(key, uint64(total)-1)])
			}
			at[key] = point
		}
		for i := 1; i < total; i++ {
			steps := 0
			for d := range c.n {
				steps += max(int(at[i][d])-int(at[i-1][d]), int(at[i-1][d])-int(at[i][d]))
			}
			if steps != 1 {
				t.Fatalf("%d dimensions of %d bits: from %v to %v", c.n, c.bits, at[i-1], at[i])
			}
		}
	}
}

// Ranks order as the values do, NULL first, and spread over all numbers.
func TestRanks(t *testing.T) {
	var sample []schema.Value
	for i := range int64(1000) {
		sample = append(sample, schema.IntValue((i*7919%1000)*10))
	}
	r := newRanks(sample, 8)
	if r.of(schema.Value{}) != 0 || r.of(schema.IntValue(-5)) != 1 || r.of(schema.IntValue(99999)) != 255 {
		t.Errorf("ends: %d, %d, %d", r.of(schema.Value{}), r.of(schema.IntValue(-5)), r.of(schema.IntValue(99999)))
	}
	before, seen := uint32(0), map[uint32]bool{}
	for i := range int64(10000) {
		rank := r.of(schema.IntValue(i))
		if rank < before {
			t.Fatalf("the rank of %d is %d, behind %d", i, rank, before)
		}
		before, seen[rank] = rank, true
	}
	if len(seen) < 250 {
		t.Errorf("%d different ranks", len(seen))
	}
	if all := newRanks(nil, 8); all.of(schema.IntValue(3)) != 0 {
		t.Error("without a sample")
	}
}

// Whatever fits into memory, the sort gives all rows by key, and rows of one key in
// the order in which they came.
func TestSorter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := &sorter{width: 3, limit: int64(rapid.SampledFrom([]int{1, 5000, 1 << 30}).Draw(rt, "limit")), dir: spill.Dir{Parent: t.TempDir()}}
		defer s.close()
		n := rapid.IntRange(0, 70).Draw(rt, "rows")
		var want []sortedRow
		for i := range n {
			row := sortedRow{key: rapid.Uint64Range(0, 20).Draw(rt, "key"), input: i % 3, row: int64(i), cells: []schema.Value{
				schema.IntValue(rapid.Int64().Draw(rt, "int")), schema.StringValue(rapid.StringN(0, 20, -1).Draw(rt, "text")), {},
			}}
			want = append(want, row)
			if err := s.add(&row); err != nil {
				rt.Fatal(err)
			}
		}
		slices.SortStableFunc(want, func(a, b sortedRow) int { return int(a.key) - int(b.key) })
		i := 0
		for row, err := range s.sorted() {
			if err != nil {
				rt.Fatal(err)
			}
			w := want[i]
			if row.key != w.key || row.input != w.input || row.row != w.row || !slices.Equal(row.cells, w.cells) {
				rt.Fatalf("row %d: %+v, want %+v", i, row, w)
			}
			i++
		}
		if i != n {
			rt.Fatalf("%d rows of %d", i, n)
		}
	})
}

// A trail, in memory or in a file, finds the rows again.
func TestTrail(t *testing.T) {
	tr := &trail{dir: t.TempDir()}
	defer tr.close()
	const rows = 400_000
	for i := range int64(rows) { // 7 bytes a run: it does not stay in memory
		if err := tr.add(int(i%2), i*3); err != nil {
			t.Fatal(err)
		}
	}
	if err := tr.addRun(1, 5_000_000, 5_000_100); err != nil {
		t.Fatal(err)
	}
	if tr.file == nil {
		t.Error("all of it is in memory")
	}
	for range 2 {
		got, err := tr.dead([]*dv.Bitmap{dv.Of(0, 6, 9, 300_000*3), dv.Of(3, 5_000_050)})
		if err != nil {
			t.Fatal(err)
		}
		if want := dv.Of(0, 1, 2, 300_000, rows+50); !got.Equal(want) {
			t.Errorf("%v", slices.Collect(got.Rows()))
		}
	}
}
