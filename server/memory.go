package server

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
)

// Memory bounds the bytes of records that the uncommitted batches of all tables
// hold together. Where they pass the limit the table with the largest batch
// commits early, so that one busy table does not make fifty quiet ones write
// small files. A batch that is being committed counts as on its way out.
//
// A storage that hangs while one table after the other fills up is met by a
// wall at one and a half times the limit: past it each table commits what it
// has before it takes more.
type Memory struct {
	mu      sync.Mutex
	limit   int64
	all     int64 // of which limit is a share; 0 where limit was told
	used    int64
	leaving int64 // of used, of tables that were asked to commit
	tables  map[*share]bool
	early   int64 // commits that were asked for
}

// share is the part of one table.
type share struct {
	of      *Memory
	held    int64
	leaving bool
}

// NewMemory makes a budget of so many bytes; 0 or less is DefaultBatchMemory.
func NewMemory(limit int64) *Memory {
	m := &Memory{limit: limit, tables: map[*share]bool{}}
	if limit <= 0 {
		m.limit = DefaultBatchMemory()
		if all := memoryOfProcess(); all < unlimited {
			m.all = all
		}
	}
	return m
}

// leave makes the budget a share of what indexes, which have so many bytes, leave of the
// memory of the process. One that was told stays.
func (m *Memory) leave(mapped int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all > 0 {
		m.limit = leftOf(m.all, mapped) / shareOfBatches
	}
}

// leftOf is what indexes leave, at least half: a limit below what the batches need would
// make the garbage collector run without end, and the process is too small then anyway.
func leftOf(all, mapped int64) int64 { return max(all-mapped, all/2) }

// heapLimit keeps the Go heap below GOMEMLIMIT, less the indexes, which lie outside of it
// and which Go's runtime does not know.
type heapLimit struct{ all, now int64 }

func newHeapLimit() *heapLimit {
	all := debug.SetMemoryLimit(-1)
	return &heapLimit{all: all, now: all}
}

// leave sets the limit where indexes of so many bytes change it by a hundredth.
func (h *heapLimit) leave(mapped int64) {
	if h.all >= unlimited {
		return
	}
	if want := leftOf(h.all, mapped); max(want-h.now, h.now-want) > h.all/100 {
		h.now = want
		debug.SetMemoryLimit(want)
	}
}

func (h *heapLimit) end() { debug.SetMemoryLimit(h.all) }

// share gives the budget of one more table. It is an ingest.Budget.
func (m *Memory) share() *share {
	s := &share{of: m}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tables[s] = true
	return s
}

// Hold is ingest.Budget's.
func (s *share) Hold(bytes int64) (flush bool) {
	m := s.of
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used += bytes - s.held
	if s.leaving {
		m.leaving -= s.held
		s.leaving = false
	}
	s.held = bytes
	switch {
	case bytes == 0 || !m.tables[s]:
		return false
	case m.used >= m.limit+m.limit/2:
	case m.used-m.leaving <= m.limit, !s.largest():
		return false
	}
	s.leaving = true
	m.leaving += bytes
	m.early++
	return true
}

// largest reports that no table that may be asked has a larger batch.
func (s *share) largest() bool {
	for other := range s.of.tables {
		if !other.leaving && other.held > s.held {
			return false
		}
	}
	return true
}

// end gives back what a table that has stopped held.
func (s *share) end() {
	s.Hold(0)
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	delete(s.of.tables, s)
}

func (s *share) bytes() int64 {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return s.held
}

func (m *Memory) use() (used, limit, early int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used, m.limit, m.early
}

// A record in a batch takes about three times its bytes: the record, its
// decoded cells, the file that is being written. A quarter of what the process
// may use leaves room for that and for the indexes.
const (
	shareOfBatches     = 4
	defaultBatchMemory = 1 << 30
)

// DefaultBatchMemory is a quarter of the memory that the process may use, where
// GOMEMLIMIT or its cgroup says how much that is, else 1 GiB.
func DefaultBatchMemory() int64 {
	limit := memoryOfProcess()
	if limit >= unlimited {
		return defaultBatchMemory
	}
	return limit / shareOfBatches
}

// memoryOfProcess is what the process may use.
func memoryOfProcess() int64 {
	limit := debug.SetMemoryLimit(-1)
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		limit = min(limit, cgroupLimit(os.ReadFile(file)))
	}
	return limit
}

// unlimited is past what any machine has: version 1 of cgroups writes "none" as
// the largest number of whole pages.
const unlimited = math.MaxInt64 / 2

// cgroupLimit reads the limit of a cgroup, MaxInt64 where there is none.
func cgroupLimit(text []byte, err error) int64 {
	if err != nil {
		return math.MaxInt64
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n <= 0 {
		return math.MaxInt64 // "max"
	}
	return n
}
