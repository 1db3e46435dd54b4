package server

import (
	"errors"
	"math"
	"runtime/debug"
	"testing"

	"pgregory.net/rapid"
)

// The largest batch is committed early, not the small ones beside it.
func TestMemoryPicksTheLargest(t *testing.T) {
	m := NewMemory(100)
	big, small, tiny := m.share(), m.share(), m.share()
	for _, step := range []struct {
		who   *share
		bytes int64
		want  bool
	}{
		{big, 60, false},
		{small, 30, false},
		{tiny, 5, false},
		{tiny, 20, false}, // 110 of 100, and it is not the largest
		{small, 35, false},
		{big, 60, true},    // 115 of 100: the largest one
		{small, 40, false}, // big is on its way out
		{tiny, 20, false},
		{big, 0, false}, // it was committed
		{small, 70, false},
		{tiny, 40, false}, // 110, and small is larger
		{small, 70, true},
		{tiny, 60, false},
		{tiny, 110, true}, // small is still on its way out: past the limit alone
	} {
		if got := step.who.Hold(step.bytes); got != step.want {
			t.Fatalf("%+v: %v", step, got)
		}
	}
	if used, limit, early := m.use(); used != 180 || limit != 100 || early != 3 {
		t.Errorf("used %d of %d, %d commits", used, limit, early)
	}
	big.end()
	small.end()
	tiny.end()
	if used, _, _ := m.use(); used != 0 || m.leaving != 0 || len(m.tables) != 0 {
		t.Errorf("at the end %d, %d on its way out", used, m.leaving)
	}
}

// A storage that hangs: past the wall every table commits what it has first.
func TestMemoryWall(t *testing.T) {
	m := NewMemory(100)
	stuck, other, small := m.share(), m.share(), m.share()
	if !stuck.Hold(101) {
		t.Fatal("it is past the limit alone")
	}
	if other.Hold(30) || !small.Hold(20) || !other.Hold(30) {
		t.Error("past 150 each table commits")
	}
	if small.Hold(0) {
		t.Error("a table without anything commits nothing")
	}
}

// Whatever tables do: where the budget is passed and nobody is on the way out,
// the largest is asked for its batch; the sum is right; and one that does as it
// is asked keeps the sum below the wall and one step of each table.
func TestMemoryAlways(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit, step = 1000, 50
		m := NewMemory(limit)
		shares := make([]*share, rapid.IntRange(1, 6).Draw(t, "tables"))
		held := make([]int64, len(shares))
		writing := make([]bool, len(shares))
		for i := range shares {
			shares[i] = m.share()
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			i := rapid.IntRange(0, len(shares)-1).Draw(t, "table")
			if writing[i] { // a commit is under way, and ends
				writing[i], held[i] = false, 0
				shares[i].Hold(0)
				continue
			}
			held[i] += int64(rapid.IntRange(0, step).Draw(t, "more"))
			writing[i] = shares[i].Hold(held[i])
			sum, idle, largest := int64(0), int64(0), int64(0)
			for n, h := range held {
				sum += h
				if !writing[n] {
					idle += h
					largest = max(largest, h)
				}
			}
			if used, _, _ := m.use(); used != sum {
				t.Fatalf("used %d, want %d", used, sum)
			}
			if !writing[i] && idle > limit && held[i] == largest && held[i] > 0 {
				t.Fatalf("table %d holds %d, the most of %d, and was not asked", i, held[i], idle)
			}
			if sum > limit*3/2+int64(len(shares))*step {
				t.Fatalf("%d of %d", sum, limit)
			}
		}
	})
}

func TestCgroupLimit(t *testing.T) {
	for text, want := range map[string]int64{"max\n": math.MaxInt64, "1073741824\n": 1 << 30, "": math.MaxInt64, "9223372036854771712\n": 9223372036854771712} {
		if got := cgroupLimit([]byte(text), nil); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	if got := cgroupLimit(nil, errors.New("no such file")); got != math.MaxInt64 {
		t.Errorf("no file: %d", got)
	}
	if n := DefaultBatchMemory(); n < 1<<20 {
		t.Errorf("default %d", n)
	}
}

// What indexes take outside of the heap is taken off the default budget and off GOMEMLIMIT,
// down to half of it; a budget that was told stays.
func TestMemoryLeavesRoomForIndexes(t *testing.T) {
	const all = 1 << 30
	was := debug.SetMemoryLimit(all)
	defer debug.SetMemoryLimit(was)
	byDefault, told, heap := NewMemory(0), NewMemory(1000), newHeapLimit()
	for _, c := range []struct{ mapped, batches, heap int64 }{
		{0, all / 4, all}, {1 << 20, (all - 1<<20) / 4, all}, {256 << 20, 3 * all / 16, 3 * all / 4}, {2 << 30, all / 8, all / 2}, {0, all / 4, all},
	} {
		byDefault.leave(c.mapped)
		told.leave(c.mapped)
		heap.leave(c.mapped)
		if _, limit, _ := byDefault.use(); limit != c.batches {
			t.Errorf("%d mapped: a budget of %d, want %d", c.mapped, limit, c.batches)
		}
		if _, limit, _ := told.use(); limit != 1000 {
			t.Errorf("%d mapped: the budget that was told is %d", c.mapped, limit)
		}
		if got := debug.SetMemoryLimit(-1); got != c.heap {
			t.Errorf("%d mapped: a heap of %d, want %d", c.mapped, got, c.heap)
		}
	}
	heap.leave(256 << 20)
	if heap.end(); debug.SetMemoryLimit(-1) != all {
		t.Error("the limit is not what it was")
	}
}
