package savepoint

import (
	"context"
	"fmt"
	"slices"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/progress"
)

// Summary is one line of the map with what its seal says.
type Summary struct {
	Entry
	// Known tells that Rows, Counts and DeadLetters are known: not for labels that
	// were deleted or rolled back, whose commits may be gone.
	Known bool
	// SealedAt is RFC 3339, "" where the label is not sealed.
	SealedAt   string
	Rows       int64
	Attributes []string
	Counts     progress.Counts
	// DeadLetters counts those of the label and all before it.
	DeadLetters int64
	// OwnBytes is the size of the data files and deletion vectors that only this
	// savepoint holds: neither another one nor the newest version. For the open
	// label it is what no savepoint holds.
	OwnBytes int64
}

// pinned tells that a version is held for the entry.
func (e Entry) pinned() bool { return e.State == Sealed || e.Kept }

// Summaries gives every entry of the map of s with what its seal says. It
// reads the commit and the checkpoint of every pinned version, some at a time;
// the error names the first label that can't be read.
func (m *Map) Summaries(ctx context.Context, table *delta.Table, s *delta.Snapshot) ([]Summary, error) {
	pinned := m.Pinned()
	read, faults := readProgress(ctx, table, pinned)
	own, err := m.OwnBytes(ctx, table, s)
	if err != nil {
		return nil, err
	}
	var out []Summary
	for _, e := range m.Entries {
		sum := Summary{Entry: e}
		switch {
		case e.pinned():
			if err := faults[e.Version]; err != nil {
				return nil, fmt.Errorf("%s: %w", e.Name, err)
			}
			seal, err := sealIn(read[e.Version], e)
			if err != nil {
				return nil, err
			}
			ev := seal.Evidence
			sum.Known, sum.SealedAt, sum.Rows, sum.Attributes, sum.Counts = true, ev.SealedAt, ev.Rows, ev.Attributes, ev.Counts
			in := m.Progress
			if e.Kept {
				in = seal.Progress
			}
			sum.DeadLetters = m.DeadLettersUpTo(in, e.Label)
		case e.State == Open:
			sum.Known, sum.Rows, sum.Counts = true, m.Progress.Rows, m.Progress.Counts
			sum.DeadLetters = m.DeadLettersUpTo(m.Progress, e.Label)
			if inc := m.Progress.Incomplete; inc != nil && e.Label >= inc.Since {
				sum.Attributes = append(sum.Attributes, "incomplete")
			}
			if !m.Progress.State.LoadedBy(e.Label) && m.Progress.Slices == 0 {
				sum.Attributes = append(sum.Attributes, "no load")
			}
			if m.Progress.Counts.Foreign > 0 {
				sum.Attributes = append(sum.Attributes, "foreign")
			}
		}
		if e.pinned() || e.State == Open {
			sum.OwnBytes = own[e.Version]
		}
		out = append(out, sum)
	}
	return out, nil
}

// shared marks an object that more than one version holds.
const shared = -1

// held is an object and the one version that holds it.
type held struct {
	version int64
	bytes   int64
}

// OwnBytes gives for each pinned version and for the newest, whose map it is, the bytes
// that only it holds. Of a version that pins two things neither holds it alone.
func (m *Map) OwnBytes(ctx context.Context, table *delta.Table, newest *delta.Snapshot) (map[int64]int64, error) {
	objects := map[string]*held{}
	if err := hold(objects, newest.Version(), newest.Files()); err != nil {
		return nil, err
	}
	versions := slices.DeleteFunc(m.Pinned(), func(v int64) bool { return v == newest.Version() })
	err := table.EachFileSet(ctx, versions, func(version int64, files []*action.Add, err error) error {
		if err != nil {
			return fmt.Errorf("open the savepoint at version %d: %w", version, err)
		}
		return hold(objects, version, files)
	})
	if err != nil {
		return nil, err
	}
	pins := map[int64]int{}
	for _, e := range m.Entries {
		if e.pinned() || e.State == Open {
			pins[e.Version]++
		}
	}
	for _, n := range m.Named {
		pins[n.Version]++
	}
	own := map[int64]int64{}
	for _, h := range objects {
		if h.version != shared && pins[h.version] == 1 {
			own[h.version] += h.bytes
		}
	}
	return own, nil
}

// hold notes what a version refers to. The size of a file of deletion vectors
// is what the log tells of it: the end of the last one in it.
func hold(objects map[string]*held, version int64, files []*action.Add) error {
	err := referencesOf(files, func(key string, bytes int64) {
		h, ok := objects[key]
		if !ok {
			objects[key] = &held{version, bytes}
			return
		}
		h.bytes = max(h.bytes, bytes)
		if h.version != version {
			h.version = shared
		}
	})
	if err != nil {
		return fmt.Errorf("version %d: %w", version, err)
	}
	return nil
}

// references calls note with every object that a version refers to and the size
// that the log tells of it.
func references(s *delta.Snapshot, note func(key string, size int64)) error {
	if err := referencesOf(s.Files(), note); err != nil {
		return fmt.Errorf("version %d: %w", s.Version(), err)
	}
	return nil
}

func referencesOf(adds []*action.Add, note func(key string, size int64)) error {
	for _, add := range adds {
		key, err := action.Key(add.Path)
		if err != nil {
			return err
		}
		note(key, add.Size)
		if add.DeletionVector == nil {
			continue
		}
		key, stored, err := delta.VectorKey(add.DeletionVector)
		if err != nil {
			return err
		}
		if stored {
			note(key, vectorEnd(add.DeletionVector))
		}
	}
	return nil
}

// vectorEnd is where a deletion vector ends in its file: behind its size, its
// bytes and its checksum.
func vectorEnd(d *action.DeletionVector) int64 {
	offset := int64(0)
	if d.Offset != nil {
		offset = int64(*d.Offset)
	}
	return offset + int64(d.SizeInBytes) + 8
}
