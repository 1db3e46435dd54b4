package scan

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/spill"
)

func genSortCell(t *rapid.T, column int) schema.Value {
	if rapid.IntRange(0, 5).Draw(t, "null") == 0 {
		return schema.Value{}
	}
	switch column {
	case 0:
		return schema.IntValue(rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 1, math.MaxInt64}).Draw(t, "i"))
	case 1:
		return schema.StringValue(rapid.SampledFrom([]string{"", "a", "b", strings.Repeat("long", 9000)}).Draw(t, "s"))
	case 2:
		return schema.DoubleValue(rapid.SampledFrom([]float64{math.NaN(), 0, math.Copysign(0, -1), -1.5}).Draw(t, "d"))
	}
	v := schema.Value{Kind: schema.Dec, I: rapid.Int64().Draw(t, "u")}
	if rapid.Bool().Draw(t, "wide") {
		v = schema.Value{Kind: schema.Dec, S: "\x00\x00\x00\x00\x00\x00\x00\x01" + strings.Repeat("\x07", 8)}
	}
	return v
}

// Whatever goes to disk, the rows come out as slices.SortFunc orders them.
func TestSorter(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		order := rowOrder{}
		for range rapid.IntRange(0, 3).Draw(t, "orders") {
			order = append(order, expr.Order{Column: rapid.IntRange(0, 3).Draw(t, "by"), Desc: rapid.Bool().Draw(t, "desc")})
		}
		var rows []sortRow
		n := rapid.IntRange(0, 40).Draw(t, "n")
		for i := range n {
			row := sortRow{place: place{file: i % 3, row: int64(i)}}
			for c := range 4 {
				row.cells = append(row.cells, genSortCell(t, c))
			}
			rows = append(rows, row)
		}
		s := &sorter{order: order.compare, width: 4, limit: rapid.SampledFrom([]int64{1, 500, 5000, 50_000, 1 << 30}).Draw(t, "limit"), dir: spill.Dir{Parent: dir}}
		top := &topRows{order: order, n: rapid.IntRange(0, 20).Draw(t, "top")}
		reused := make([]schema.Value, 4)
		for _, row := range rows {
			copy(reused, row.cells)
			if err := s.add(sortRow{row.place, reused}); err != nil {
				t.Fatal(err)
			}
			top.add(sortRow{row.place, reused})
		}
		slices.SortFunc(rows, order.compare)
		i := 0
		for row, err := range s.sorted() {
			if err != nil {
				t.Fatal(err)
			}
			if row.place != rows[i].place || !slices.Equal(row.cells, rows[i].cells) {
				t.Fatalf("row %d: %v, want %v", i, row, rows[i])
			}
			i++
		}
		if i != len(rows) {
			t.Fatalf("%d rows, want %d", i, len(rows))
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(top.rows, order.compare)
		want := rows[:min(top.n, len(rows))]
		if len(top.rows) != len(want) {
			t.Fatalf("%d first rows, want %d", len(top.rows), len(want))
		}
		for i := range want {
			if top.rows[i].place != want[i].place || !slices.Equal(top.rows[i].cells, want[i].cells) {
				t.Fatalf("first row %d: %v, want %v", i, top.rows[i], want[i])
			}
		}
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left on disk: %v, %v", left, err)
	}
}

func TestSorterKeepsFewFilesOpen(t *testing.T) {
	s := &sorter{order: rowOrder{{Column: 0}}.compare, width: 1, limit: 1, dir: spill.Dir{Parent: t.TempDir()}}
	const n = fanIn*fanIn + fanIn + 1 // a run each
	for i := range n {
		if err := s.add(sortRow{place{row: int64(i)}, []schema.Value{schema.IntValue(int64(n - i))}}); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(s.dir.Parent, "*", "*"))
	if err != nil || len(files) != 3 {
		t.Errorf("%d files, %v", len(files), err)
	}
	want := int64(1)
	for row, err := range s.sorted() {
		if err != nil || row.cells[0].I != want {
			t.Fatalf("%v, %v, want %d", row, err, want)
		}
		want++
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}

func TestSorterOnAFullOrChangedDisk(t *testing.T) {
	s := &sorter{order: rowOrder{}.compare, width: 1, limit: 1, dir: spill.Dir{Parent: t.TempDir() + "/nowhere"}}
	if err := s.add(sortRow{cells: make([]schema.Value, 1)}); err == nil || !strings.Contains(err.Error(), "sort on disk") {
		t.Errorf("got %v", err)
	}
	s = &sorter{order: rowOrder{}.compare, width: 1, limit: 1, dir: spill.Dir{Parent: t.TempDir()}}
	if err := s.add(sortRow{cells: []schema.Value{schema.StringValue("text")}}); err != nil {
		t.Fatal(err)
	}
	if err := s.levels[0][0].file.Truncate(4); err != nil {
		t.Fatal(err)
	}
	var got error
	for _, err := range s.sorted() {
		got = err
	}
	if got == nil || !strings.Contains(fmt.Sprint(got), "unexpected EOF") {
		t.Errorf("got %v", got)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}
