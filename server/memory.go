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
	if limit <= 0 {
		limit = DefaultBatchMemory()
	}
	return &Memory{limit: limit, tables: map[*share]bool{}}
}

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
	limit := debug.SetMemoryLimit(-1)
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		limit = min(limit, cgroupLimit(os.ReadFile(file)))
	}
	if limit >= unlimited {
		return defaultBatchMemory
	}
	return limit / shareOfBatches
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
