package alloctest_test

import (
	"testing"

	"github.com/gscd-io/gscd/alloctest"
)

// recorder takes failures.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

var sink []byte

func TestWithin(t *testing.T) {
	take := func(n int) func() { return func() { sink = make([]byte, n) } }
	for _, c := range []struct {
		take, size int
		fails      bool
	}{{1 << 20, 1 << 19, false}, {8 << 20, 1 << 20, true}, {3 << 20, 0, true}, {1 << 19, 0, false}} {
		r := &recorder{TB: t}
		alloctest.Within(r, c.size, 2, 1<<20, take(c.take))
		if r.failed != c.fails {
			t.Errorf("%d bytes for an input of %d: fails %v, want %v", c.take, c.size, r.failed, c.fails)
		}
	}
	runs := 0
	r := &recorder{TB: t}
	alloctest.Within(r, 0, 1, 1<<20, func() {
		if runs++; runs < 3 {
			sink = make([]byte, 4<<20)
		}
	})
	if r.failed || runs != 3 {
		t.Errorf("what others took twice fails %v after %d runs", r.failed, runs)
	}
}
