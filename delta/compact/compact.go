package compact

import (
	"cmp"
	"slices"
)

// File is what a decision needs to know of a live data file.
type File struct {
	// ID names the file, and rises in the order in which files came.
	ID uint32
	// Folder is the partition, "" where the table has none.
	Folder string
	// Size in bytes; Rows are physical, Dead of them deleted.
	Size, Rows, Dead int64
	// Pinned: the newest savepoint has the file.
	Pinned bool
	// ByKey: its rows can only be written anew one by one, through their keys.
	ByKey bool
}

func (f *File) share() float64 {
	if f.Rows <= 0 {
		return 0
	}
	return float64(f.Dead) / float64(f.Rows)
}

// live is about the bytes of the rows that live.
func (f *File) live() int64 { return int64(float64(f.Size) * (1 - f.share())) }

// Limits are the thresholds. The zero value of a field takes the default of its comment.
type Limits struct {
	// JoinFiles small files of a folder that the newest savepoint does not have are joined at once: 50, or 128 where a batch has
	// BigBatch bytes (1 MiB) of its own: few, late joins find more rows deleted.
	JoinFiles int
	BigBatch  int64
	// JoinAtSeal small files that the newest savepoint does not have are joined before the
	// next one pins them: 4.
	JoinAtSeal int
	// SmallBytes is the size below which a file is small: 32 MiB.
	SmallBytes int64
	// TargetBytes is the size of what is written: 64 MiB, and an 80th of a table past 5 GiB.
	TargetBytes int64
	// DeadShare of all rows of the table is what is borne: 0.35, or 0.5 for a table below
	// SmallTable bytes (256 MiB) or of which a batch changes more than TurnOver (0.05).
	DeadShare  float64
	SmallTable int64
	TurnOver   float64
	// WorstShare of the deadest file's share makes a file go with it: 0.75.
	WorstShare float64
	// WorthShare is the share below which no file is cleaned: 0.25. Each freed row costs
	// (1-share)/share rows that are written.
	WorthShare float64
	// WorthBytes are those that deleted rows must take in the whole table before any file is
	// cleaned: 1 MiB. Of less, a reader notices the commit rather than the rows.
	WorthBytes int64
	// PinnedShare is the share past which a pinned file is taken: 0.64. What is written anew is
	// stored twice for as long as the savepoint is kept. In the model's year of uniform keys 0.5
	// stores 9.3 copies, 0.64 stores 8.3, and 0.7 reads more than 2 rows for each live one.
	PinnedShare float64
	// CopyShare of deleted rows is carried along rather than decoded: 0.15.
	CopyShare float64
	// TinyRows and TinyBytes are those of a file, in the mean, below which files are written
	// by key: 4096 and 256 KiB. A row group of fewer costs more in the footer than it holds.
	TinyRows, TinyBytes int64
	// KeyBytes bounds the files that are written by key at once: 8 MiB. Their rows are in
	// memory.
	KeyBytes int64
}

// Resolved gives the limits with defaults in the places of zeros.
func (l Limits) Resolved() Limits {
	l.BigBatch = cmp.Or(l.BigBatch, 1<<20)
	l.JoinAtSeal = cmp.Or(l.JoinAtSeal, 4)
	l.SmallBytes = cmp.Or(l.SmallBytes, 32<<20)
	l.SmallTable = cmp.Or(l.SmallTable, SmallTable)
	l.TurnOver = cmp.Or(l.TurnOver, .05)
	l.WorstShare = cmp.Or(l.WorstShare, WorstShare)
	l.WorthShare = cmp.Or(l.WorthShare, .25)
	l.WorthBytes = cmp.Or(l.WorthBytes, 1<<20)
	l.PinnedShare = cmp.Or(l.PinnedShare, PinnedShare)
	l.CopyShare = cmp.Or(l.CopyShare, .15)
	l.TinyRows = cmp.Or(l.TinyRows, 4096)
	l.TinyBytes = cmp.Or(l.TinyBytes, 256<<10)
	l.KeyBytes = cmp.Or(l.KeyBytes, 8<<20)
	return l
}

const (
	smallestTarget = 64 << 20
	targetShare    = 80
	joinFiles      = 50
	joinBigFiles   = 128
)

// Defaults that others share who clean tables: see Limits.
const (
	DeadShare      = .35
	DeadShareSmall = .5
	SmallTable     = 256 << 20
	WorstShare     = .75
	PinnedShare    = .64
)

// Task is files of one folder that become one file.
type Task struct {
	Files []uint32 // rising
	// Copy: row groups are taken over as they are, their deleted rows with them.
	Copy bool
	// ByKey: the rows are read and written one by one.
	ByKey bool
	// Bytes and Rows of the files, Dead of the rows are deleted.
	Bytes, Rows, Dead int64
}

// State is the table that is decided on.
type State struct {
	Files []File
	// BatchBytes and BatchRows are those of the newest batch.
	BatchBytes, BatchRows int64
}

func (s *State) totals() (bytes, rows, dead int64) {
	for i := range s.Files {
		bytes += s.Files[i].Size
		rows += s.Files[i].Rows
		dead += s.Files[i].Dead
	}
	return bytes, rows, dead
}

// Join gives the small files to join, one task a folder at most. sealing: a savepoint is
// about to pin them.
func (l Limits) Join(s State, sealing bool) (tasks []Task) {
	l = l.Resolved()
	atLeast := l.joinFiles(s)
	if sealing {
		atLeast = l.JoinAtSeal
	}
	byFolder := map[string][]File{}
	var folders []string
	for _, f := range s.Files {
		if f.Size >= l.SmallBytes || f.Pinned && f.share() <= l.PinnedShare {
			continue
		}
		if byFolder[f.Folder] == nil {
			folders = append(folders, f.Folder)
		}
		byFolder[f.Folder] = append(byFolder[f.Folder], f)
	}
	slices.Sort(folders)
	target := l.target(s)
	for _, folder := range folders {
		files := byFolder[folder]
		fresh := 0
		for _, f := range files {
			if !f.Pinned {
				fresh++
			}
		}
		if fresh < atLeast {
			continue
		}
		if !sealing {
			files = even(files)
		}
		slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.ID, b.ID) })
		if t := l.fill(files, target); len(t.Files) > 1 {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// joinFiles is how many small files are joined at once.
func (l Limits) joinFiles(s State) int {
	switch {
	case l.JoinFiles > 0:
		return l.JoinFiles
	case s.BatchBytes >= l.Resolved().BigBatch:
		return joinBigFiles
	}
	return joinFiles
}

// even leaves out files that are larger than all smaller ones together: what was joined
// before is joined again only with as much as it has itself, so that a row is written
// once for each doubling.
func even(files []File) []File {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return cmp.Or(cmp.Compare(a.Size, b.Size), cmp.Compare(a.ID, b.ID)) })
	sum := int64(0)
	for _, f := range files {
		sum += f.Size
	}
	for len(files) > 2 {
		last := files[len(files)-1].Size
		if last <= sum-last {
			break
		}
		sum -= last
		files = files[:len(files)-1]
	}
	return files
}

// mostRead bounds what is read for a file, in targets: of files that are nearly empty
// very many would fill it.
const mostRead = 4

// upTo gives the first files that fill the target.
func upTo(files []File, target int64) []File {
	live, read := int64(0), int64(0)
	for i, f := range files {
		live, read = live+f.live(), read+f.Size
		if i > 0 && (live > target || read > mostRead*target) {
			return files[:i]
		}
	}
	return files
}

// fill makes a task of the first files, as many as become one.
func (l *Limits) fill(files []File, target int64) Task {
	t := l.task(upTo(files, target))
	if t.ByKey && t.Bytes > l.KeyBytes {
		small := slices.DeleteFunc(slices.Clone(files), func(f File) bool { return f.Size > l.KeyBytes/2 })
		t = l.task(upTo(small, l.KeyBytes))
	}
	return t
}

func (l *Limits) target(s State) int64 {
	if l.TargetBytes > 0 {
		return l.TargetBytes
	}
	bytes, _, _ := s.totals()
	return max(bytes/targetShare, smallestTarget)
}

func (l *Limits) task(files []File) Task {
	t := Task{}
	for _, f := range files {
		t.Files = append(t.Files, f.ID)
		t.Bytes += f.Size
		t.Rows += f.Rows
		t.Dead += f.Dead
		t.ByKey = t.ByKey || f.ByKey
	}
	slices.Sort(t.Files)
	n := int64(len(files))
	t.ByKey = t.ByKey || t.Rows < l.TinyRows*n && t.Bytes < l.TinyBytes*n
	t.Copy = !t.ByKey && float64(t.Dead) < l.CopyShare*float64(t.Rows)
	return t
}

// Borne is the share of deleted rows of a table that is left alone.
func (l Limits) Borne(s State) float64 {
	l = l.Resolved()
	bytes, rows, dead := s.totals()
	switch {
	case l.DeadShare > 0:
		return l.DeadShare
	case bytes < l.SmallTable, float64(s.BatchRows) > l.TurnOver*float64(rows-dead):
		return DeadShareSmall
	}
	return DeadShare
}

// Share is the share of deleted rows of the table.
func Share(s State) float64 {
	_, rows, dead := s.totals()
	if rows == 0 {
		return 0
	}
	return float64(dead) / float64(rows)
}

// Behind reports whether what is written anew falls behind what the batches bring: too many
// rows are deleted by a tenth of all, or twice as many small files wait as are joined at once.
func (l Limits) Behind(s State) bool {
	if Share(s) > l.Borne(s)+behindShare {
		return true
	}
	l.JoinFiles = 2 * l.joinFiles(s)
	return len(l.Join(s, false)) > 0
}

// behindShare is by how much of all rows more than are borne may be deleted before a table
// is behind.
const behindShare = .1

// Clean gives the files whose deleted rows are to be dropped next, where the table has too
// many; false where it has not, or none of its files is worth it.
func (l Limits) Clean(s State) (Task, bool) {
	l = l.Resolved()
	if Share(s) <= l.Borne(s) {
		return Task{}, false
	}
	var worn []File
	freed := int64(0)
	for i := range s.Files {
		freed += s.Files[i].Size - s.Files[i].live()
	}
	if freed < l.WorthBytes {
		return Task{}, false
	}
	for _, f := range s.Files {
		share := f.share()
		if share < l.WorthShare || f.Pinned && share <= l.PinnedShare || f.ByKey && f.Size >= l.SmallBytes {
			continue
		}
		worn = append(worn, f)
	}
	if len(worn) == 0 {
		return Task{}, false
	}
	slices.SortFunc(worn, func(a, b File) int { return cmp.Or(cmp.Compare(b.share(), a.share()), cmp.Compare(a.ID, b.ID)) })
	worst := worn[0]
	worn = slices.DeleteFunc(worn, func(f File) bool {
		return f.Folder != worst.Folder || f.ByKey != worst.ByKey || f.share() < l.WorstShare*worst.share()
	})
	t := l.fill(worn, l.target(s))
	t.Copy = false
	return t, len(t.Files) > 0
}
