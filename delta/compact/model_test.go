package compact_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gscd-io/gscd/delta/compact"
)

// rowBytes is what a row takes in a file of the model.
const rowBytes = 35

// dataFile is a file of the model: what is deleted in it is known by where keys are now.
type dataFile struct {
	compact.File
	keys   []int32
	vector int64 // deleted rows when the last savepoint was made
}

// table is a table under a policy, as counts of rows and bytes. Each key's row is in the
// file that at names; files hold keys in the order in which they were written.
type table struct {
	t       *testing.T
	limits  compact.Limits
	rng     *rand.Rand
	files   map[uint32]*dataFile
	last    uint32
	at      []uint32 // by key
	recent  bool     // nine changes in ten are of the newest hundredth
	newest  []int32  // keys by when they were changed last
	written int64    // bytes of files, all
	own     int64    // of them the batches'
	stored  int64    // bytes that savepoints pin: files and vectors
	vectors int64    // of them the vectors
	known   map[uint32]bool
	most    struct {
		files int
		share float64
		task  int64
	}
}

func newTable(t *testing.T, keys int, limits compact.Limits) *table {
	m := &table{t: t, limits: limits, rng: rand.New(rand.NewPCG(5, 8)), files: map[uint32]*dataFile{}, known: map[uint32]bool{}}
	m.at = make([]uint32, keys)
	for from, n := 0, int(limits.TargetBytes/rowBytes); from < keys; from += n {
		var list []int32
		for k := from; k < min(from+n, keys); k++ {
			list = append(list, int32(k))
		}
		m.add(list)
	}
	return m
}

// add writes a file of keys.
func (m *table) add(keys []int32) *dataFile {
	m.last++
	f := &dataFile{keys: keys}
	f.ID, f.Rows, f.Size = m.last, int64(len(keys)), int64(len(keys))*rowBytes
	m.files[f.ID] = f
	for _, k := range keys {
		m.at[k] = f.ID
	}
	m.written += f.Size
	return f
}

func (m *table) pick() int32 {
	if n := len(m.newest); m.recent && n > 0 && m.rng.IntN(10) > 0 {
		return m.newest[n-1-m.rng.IntN(min(n, len(m.at)/100))]
	}
	return int32(m.rng.IntN(len(m.at)))
}

// batch changes so many rows.
func (m *table) batch(rows int) *dataFile {
	seen := map[int32]bool{}
	var keys []int32
	for range rows {
		if k := m.pick(); !seen[k] {
			seen[k] = true
			keys = append(keys, k)
			m.files[m.at[k]].Dead++
		}
	}
	m.newest = append(m.newest, keys...)
	f := m.add(keys)
	m.own += f.Size
	for id, f := range m.files {
		if f.Dead == f.Rows {
			delete(m.files, id)
		}
	}
	return f
}

func (m *table) state(newest *dataFile) compact.State {
	s := compact.State{}
	if newest != nil {
		s.BatchBytes, s.BatchRows = newest.Size, newest.Rows
	}
	for _, f := range m.files {
		s.Files = append(s.Files, f.File)
	}
	slices.SortFunc(s.Files, func(a, b compact.File) int { return int(a.ID) - int(b.ID) })
	return s
}

// do writes the files of a task as one, and holds the task against its rules.
func (m *table) do(task compact.Task) {
	m.t.Helper()
	var keys []int32
	var bytes, dead int64
	carried := int64(0)
	for i, id := range task.Files {
		f := m.files[id]
		if f == nil || i > 0 && id <= task.Files[i-1] {
			m.t.Fatalf("the task %v names %d, which is not live or not in order", task.Files, id)
		}
		if f.Pinned && float64(f.Dead) <= m.limits.Resolved().PinnedShare*float64(f.Rows) {
			m.t.Fatalf("the task %v takes %d, which is pinned with %d of %d rows deleted", task.Files, id, f.Dead, f.Rows)
		}
		bytes, dead = bytes+f.Size, dead+f.Dead
		for _, k := range f.keys {
			if m.at[k] == id {
				keys = append(keys, k)
			}
		}
		if task.Copy {
			carried += f.Dead
		}
		delete(m.files, id)
	}
	if task.Bytes != bytes || task.Dead != dead || task.Copy && float64(dead) >= .15*float64(task.Rows) {
		m.t.Fatalf("the task %+v of files of %d bytes with %d deleted rows", task, bytes, dead)
	}
	m.most.task = max(m.most.task, bytes)
	f := m.add(keys)
	f.Rows, f.Dead, f.Size = f.Rows+carried, carried, f.Size+carried*rowBytes
	m.written += carried * rowBytes
}

// settle does what the policy says, one task at a time, until it says nothing.
func (m *table) settle(newest *dataFile, sealing bool) {
	m.t.Helper()
	for range 1000 {
		if tasks := m.limits.Join(m.state(newest), sealing); len(tasks) > 0 {
			m.do(tasks[0])
		} else if task, ok := m.limits.Clean(m.state(newest)); ok {
			m.do(task)
		} else {
			m.most.files = max(m.most.files, len(m.files))
			m.most.share = max(m.most.share, compact.Share(m.state(newest)))
			return
		}
	}
	m.t.Fatal("the policy never comes to rest")
}

// seal pins the files and their vectors.
func (m *table) seal() {
	for id, f := range m.files {
		f.Pinned = true
		if !m.known[id] {
			m.known[id] = true
			m.stored += f.Size
		}
		if f.Dead != f.vector {
			f.vector = f.Dead
			m.vectors += min(2*f.Dead, f.Rows/8)
		}
	}
}

// copies is what is stored for each copy of the live rows.
func (m *table) copies() float64 {
	return float64(m.stored+m.vectors) / float64(len(m.at)*rowBytes)
}

// rowsRead is how many rows a reader passes over for each live one.
func (m *table) rowsRead() float64 {
	rows := int64(0)
	for _, f := range m.files {
		rows += f.Rows
	}
	return float64(rows) / float64(len(m.at))
}

// A year in which one row in a hundred changes a day, every day pinned.
func TestYear(t *testing.T) {
	for _, c := range []struct {
		recent         bool
		after30, after float64 // copies at most
	}{{false, 1.5, 9}, {true, 1.45, 7.5}} {
		t.Run(fmt.Sprintf("recent=%t", c.recent), func(t *testing.T) {
			const keys = 60_000
			m := newTable(t, keys, compact.Limits{TargetBytes: keys * rowBytes / 5, SmallBytes: keys * rowBytes / 10, TinyRows: 1, SmallTable: 1, WorthBytes: 1})
			m.recent = c.recent
			read := 0.0
			for day := 1; day <= 365; day++ {
				var f *dataFile
				for range 6 {
					f = m.batch(keys / 600)
					m.settle(f, false)
				}
				m.settle(f, true)
				m.seal()
				read = max(read, m.rowsRead())
				switch day {
				case 1, 30, 90, 180, 365:
					t.Logf("day %3d: %.2f copies, %.2f of them vectors; %.2f rows read for each, %d files", day, m.copies(), float64(m.vectors)/float64(keys*rowBytes), m.rowsRead(), len(m.files))
				}
				if day == 30 && m.copies() > c.after30 {
					t.Errorf("%.2f copies after 30 days", m.copies())
				}
			}
			if m.copies() > c.after || read > 2 {
				t.Errorf("%.2f copies after a year, %.2f rows read for each live one at most", m.copies(), read)
			}
			t.Logf("%d files at most, bytes written %.1f times the batches'", m.most.files, float64(m.written-keys*rowBytes)/float64(m.own))
		})
	}
}

// Nothing is pinned, batch after batch: files stay few, deleted rows bounded, and rows are
// not written again and again.
func TestBatches(t *testing.T) {
	for _, c := range []struct {
		name        string
		keys, batch int
		n           int
		files       int
		amplified   float64
	}{
		{"a thousandth", 100_000, 100, 1500, 70, 3.5},
		{"a hundredth", 100_000, 1000, 300, 70, 4},
		{"a third", 30_000, 10_000, 60, 60, 3},
		{"a few rows", 50_000, 5, 3000, 70, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newTable(t, c.keys, compact.Limits{TargetBytes: int64(c.keys) * rowBytes / 5, SmallBytes: int64(c.keys) * rowBytes / 10, TinyRows: 1, SmallTable: 1, WorthBytes: 1})
			first := m.written
			for range c.n {
				m.settle(m.batch(c.batch), false)
			}
			amplified := float64(m.written-first) / float64(m.own)
			t.Logf("%d files at most, %.2f deleted at most, bytes written %.2f times the batches'", m.most.files, m.most.share, amplified)
			if m.most.files > c.files || m.most.share > .5 || amplified > c.amplified {
				t.Errorf("at most %d files, half of all rows deleted and %.1f times the bytes are allowed", c.files, c.amplified)
			}
			if m.most.task > 4*m.limits.TargetBytes {
				t.Errorf("a task of %d bytes, files are of %d", m.most.task, m.limits.TargetBytes)
			}
		})
	}
}

// Behind is what lets a rewrite take half of the time.
func TestBehind(t *testing.T) {
	files := func(n int, f compact.File) (s compact.State) {
		for i := range n {
			f.ID = uint32(i) + 1
			s.Files = append(s.Files, f)
		}
		return s
	}
	small := compact.File{Size: 500_000, Rows: 10_000}
	large := compact.File{Size: 64 << 20, Rows: 1_500_000}
	worn := func(share float64) compact.File {
		f := large
		f.Dead = int64(share * float64(f.Rows))
		return f
	}
	pinned := small
	pinned.Pinned = true
	for name, c := range map[string]struct {
		state compact.State
		want  bool
	}{
		"few small files":          {files(99, small), false},
		"twice as many as joined":  {files(100, small), true},
		"pinned ones are left":     {files(400, pinned), false},
		"as many deleted as borne": {files(10, worn(.40)), false},
		"more by a tenth of all":   {files(10, worn(.46)), true},
	} {
		if got := (compact.Limits{}).Behind(c.state); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
