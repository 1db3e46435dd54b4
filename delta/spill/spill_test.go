package spill_test

import (
	"os"
	"slices"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/spill"
)

func cells() []schema.Value {
	return []schema.Value{
		{}, schema.IntValue(-1 << 63), schema.StringValue(""), schema.StringValue("a\x00\xff"), schema.DoubleValue(-0.5),
		{Kind: schema.Dec, S: "0123456789abcdef"}, schema.CompoundValue(schema.IntValue(3), schema.Value{}),
	}
}

// Rows come back as they were, as often as they are asked for.
func TestFile(t *testing.T) {
	parent := t.TempDir()
	dir := spill.Dir{Parent: parent}
	defer dir.Close()
	want := cells()
	f, err := dir.Create(len(want))
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(3) {
		want[1].I = i
		if err := f.Add(want); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.End(); err != nil || f.Rows != 3 {
		t.Fatal(err, f.Rows)
	}
	for range 2 {
		n := int64(0)
		for row, err := range f.All() {
			want[1].I = n
			if err != nil || !slices.Equal(row, want) {
				t.Fatalf("%v, %v; want %v", row, err, want)
			}
			n++
		}
		if n != 3 {
			t.Errorf("%d rows", n)
		}
	}
	dir.Close()
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func FuzzReadCells(f *testing.F) {
	f.Add(spill.AppendCells(nil, cells()))
	f.Fuzz(func(t *testing.T, raw []byte) {
		row := make([]schema.Value, 7)
		_ = spill.ReadCells(raw, row)
		whole := spill.AppendCells(nil, cells())
		for n := range whole {
			if spill.ReadCells(whole[:n], row) == nil {
				t.Fatalf("%d bytes of %d are read", n, len(whole))
			}
		}
	})
}
