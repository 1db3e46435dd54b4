package change

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestLostOffsets(t *testing.T) {
	low := &LostOffsetsError{ID: PartitionID{"t", 0}, Wanted: 100, Earliest: 250, End: 401}
	high := &LostOffsetsError{ID: PartitionID{"t", 1}, Wanted: 9, Earliest: 0, End: 7}
	for _, word := range []string{"partition 0", "100", "250", "150 offsets", "100-249"} {
		if !strings.Contains(low.Error(), word) {
			t.Errorf("%q lacks %q", low.Error(), word)
		}
	}
	if from, to := high.Lost(); from != 7 || to != 9 {
		t.Errorf("lost %d-%d", from, to)
	}
	err := fmt.Errorf("assign: %w", errors.Join(low, errors.New("x"), fmt.Errorf("y: %w", high)))
	got := LostOffsets(err)
	if len(got) != 2 || got[0] != low || got[1] != high {
		t.Errorf("got %v", got)
	}
	if LostOffsets(errors.New("x")) != nil || LostOffsets(nil) != nil {
		t.Error("found one where there is none")
	}
}

func TestCap(t *testing.T) {
	r := &Record{Key: []byte("k"), Value: bytes.Repeat([]byte("v"), 3<<20), Headers: []Header{{Key: "h", Value: []byte("1")}}}
	r.Cap(0)
	r.Cap(3<<20 + 3)
	if r.Oversize != 0 || len(r.Value) != 3<<20 {
		t.Fatal("cut at the limit")
	}
	r.Cap(3<<20 + 2)
	if r.Oversize != 3<<20+3 || len(r.Value) != OversizeKept || cap(r.Value) > 2*OversizeKept || string(r.Key) != "k" || r.Headers != nil {
		t.Fatalf("oversize %d, value %d", r.Oversize, len(r.Value))
	}
	none := &Record{Key: make([]byte, 10)}
	none.Cap(5)
	if none.Value != nil || none.Oversize != 10 {
		t.Fatal("a missing value became an empty one")
	}
}

func TestPartitionID(t *testing.T) {
	a, b := PartitionID{"a", 2}, PartitionID{"a", 10}
	if a.String() != "a/2" || a.Compare(b) != -1 || b.Compare(a) != 1 || a.Compare(a) != 0 || (PartitionID{"b", 0}).Compare(b) != 1 {
		t.Fatal("order or name")
	}
}
