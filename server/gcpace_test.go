package server

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestGCPercent(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		live, room int64
		want       int
	}{{0, 256 * mb, maxGCPercent}, {64 * mb, 256 * mb, 400}, {256 * mb, 256 * mb, 100}, {2048 * mb, 256 * mb, 100}} {
		if got := gcPercent(c.live, c.room); got != c.want {
			t.Errorf("%d MB live, room for %d MB: GOGC=%d, want %d", c.live/mb, c.room/mb, got, c.want)
		}
	}
}

var garbage []byte

// TestPaceGC counts collections over so many bytes of garbage, without and with room.
func TestPaceGC(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	collections := func() uint32 {
		var was, is runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&was)
		for range 256 {
			garbage = make([]byte, 1<<20)
		}
		runtime.ReadMemStats(&is)
		return is.NumGC - was.NumGC
	}
	without := collections()
	end := PaceGC(64 << 20)
	with := collections()
	end()
	if with > 6 || with >= without {
		t.Errorf("%d collections with room, %d without", with, without)
	}
	if p := debug.SetGCPercent(100); p != 100 {
		t.Errorf("GOGC is %d behind it", p)
	}
}
