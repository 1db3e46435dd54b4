package delta

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/schema"
)

// Snapshot is the state of a table at one version. It never changes and may be
// used from many goroutines. What it hands out is shared and must not be changed.
type Snapshot struct {
	version  int64
	protocol *action.Protocol
	metadata *action.Metadata
	schema   *schema.Schema

	files    layered[*file]
	numFiles int
	nextSeq  int64
	txns     layered[action.Txn]
	domains  layered[action.DomainMetadata]
	removed  *removed
	// recent are the commits that this snapshot was made of from an older one,
	// newest last, as far as they are known; Rebase reads them.
	recent []summary
	// confirmed is when this was last known to be the newest version; zero for a
	// snapshot that was asked for by number.
	confirmed time.Time

	once   sync.Once
	sorted []*action.Add
}

// file is a live logical file. Legal logs have one a path; where a log has more
// (an add under another deletion vector without the remove), they are chained.
type file struct {
	add *action.Add
	// seq orders files by when their path became part of the table.
	seq   int64
	other *file
}

// removed is the removes of one commit, and those before it.
type removed struct {
	removes []*action.Remove
	before  *removed
}

// Version is the version of the table that this is.
func (s *Snapshot) Version() int64 { return s.version }

// Schema is the table's columns.
func (s *Snapshot) Schema() *schema.Schema { return s.schema }

// Metadata is the table's description and properties.
func (s *Snapshot) Metadata() *action.Metadata { return s.metadata }

// Protocol says what a client must understand.
func (s *Snapshot) Protocol() *action.Protocol { return s.protocol }

// Property gives a table property; ok is false where it is not set.
func (s *Snapshot) Property(key string) (value string, ok bool) {
	value, ok = s.metadata.Configuration[key]
	return value, ok
}

// NumFiles counts the live logical files.
func (s *Snapshot) NumFiles() int { return s.numFiles }

// Files gives the live files in the order in which their paths became part of
// the table, as far as the log tells: a file keeps its place when only its
// deletion vector or its stats change. DataChange and ModificationTime are as the
// log has them; a checkpoint forgets the former. The slice is shared.
func (s *Snapshot) Files() []*action.Add {
	s.once.Do(func() {
		all := make([]*file, 0, s.numFiles)
		s.files.all(func(_ string, f *file) {
			for ; f != nil; f = f.other {
				all = append(all, f)
			}
		})
		slices.SortFunc(all, func(a, b *file) int {
			return cmp.Or(cmp.Compare(a.seq, b.seq), strings.Compare(a.add.Path, b.add.Path))
		})
		s.sorted = make([]*action.Add, len(all))
		for i, f := range all {
			s.sorted[i] = f.add
		}
	})
	return s.sorted
}

// File finds a live file by its path, byte for byte as the log has it; of an
// absolute path on this machine /x and file:/x are one.
func (s *Snapshot) File(path string) (*action.Add, bool) {
	f, ok := s.files.get((&action.Add{Path: path}).Key().Path)
	if !ok {
		return nil, false
	}
	return f.add, true
}

// has reports whether the logical file is live.
func (s *Snapshot) has(key action.FileKey) bool {
	f, _ := s.files.get(key.Path)
	for ; f != nil; f = f.other {
		if f.add.Key() == key {
			return true
		}
	}
	return false
}

// Txn gives the newest txn action of an application.
func (s *Snapshot) Txn(appID string) (action.Txn, bool) { return s.txns.get(appID) }

// Txns gives the newest txn of every application, by AppID.
func (s *Snapshot) Txns() iter.Seq[action.Txn] {
	return func(yield func(action.Txn) bool) {
		for _, t := range sortedValues(s.txns) {
			if !yield(t) {
				return
			}
		}
	}
}

// Domains gives the metadata domains in force, by name.
func (s *Snapshot) Domains() []action.DomainMetadata { return sortedValues(s.domains) }

func sortedValues[V any](m layered[V]) []V {
	type entry struct {
		key string
		v   V
	}
	entries := make([]entry, 0, m.size)
	m.all(func(key string, v V) { entries = append(entries, entry{key, v}) })
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	values := make([]V, len(entries))
	for i, e := range entries {
		values[i] = e.v
	}
	return values
}

// Tombstones gives the newest remove of every logical file that is not live
// again, oldest first. None of them has expired here: expiry is a checkpoint's
// matter (CheckpointOptions).
func (s *Snapshot) Tombstones() []*action.Remove {
	seen := make(map[action.FileKey]bool)
	var list []*action.Remove
	for node := s.removed; node != nil; node = node.before {
		for _, r := range slices.Backward(node.removes) {
			key := r.Key()
			if !seen[key] {
				seen[key] = true
				if !s.has(key) {
					list = append(list, r)
				}
			}
		}
	}
	slices.Reverse(list)
	return list
}

// fileRetention is how long tombstones are due.
func (s *Snapshot) fileRetention() (time.Duration, error) {
	text, ok := s.Property(PropertyDeletedFileRetention)
	if !ok {
		return defaultFileRetention, nil
	}
	d, err := ParseInterval(text)
	if err != nil {
		return 0, fmt.Errorf("property %s: %w", PropertyDeletedFileRetention, err)
	}
	return d, nil
}

// String names version and size, for messages and tests.
func (s *Snapshot) String() string {
	return fmt.Sprintf("version %d: %d files, %d txns", s.version, s.numFiles, s.txns.size)
}
