package server

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// shareOfGC is the part of the batch memory by which the heap may grow between two
// collections, whatever little lives.
const shareOfGC = 4

// maxGCPercent bounds GOGC where next to nothing lives.
const maxGCPercent = 2000

// PaceGC lets the heap grow by at least room bytes between two runs of the garbage
// collector: at GOGC=100 a process with a small live heap, which has its key index outside,
// would collect every few thousand events. It does nothing where GOGC is set. The memory
// limit of GOMEMLIMIT goes before it. The function that it gives ends it.
func PaceGC(room int64) (end func()) {
	if room <= 0 {
		return func() {}
	}
	return paceGC(func() int64 { return room })
}

// paceGC is PaceGC of room that changes.
func paceGC(room func() int64) (end func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	p := &gcPacer{room: room}
	p.was = debug.SetGCPercent(100)
	p.collected()
	return func() {
		p.ended.Store(true)
		debug.SetGCPercent(p.was)
	}
}

type gcPacer struct {
	room  func() int64
	was   int
	ended atomic.Bool
}

// collected runs behind every collection, told by the end of an object that nobody has.
func (p *gcPacer) collected() {
	if p.ended.Load() {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(gcPercent(int64(live[0].Value.Uint64()), p.room()))
	object := new([16]byte)
	runtime.AddCleanup(object, func(p *gcPacer) { p.collected() }, p)
}

// gcPercent is the GOGC at which a heap of live bytes grows by room, or by itself if that is more.
func gcPercent(live, room int64) int {
	return int(min(maxGCPercent, max(100, room*100/max(live, 1))))
}
