package diff

import (
	"context"
	"fmt"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/scan"
)

// side is one of the two versions.
type side uint8

const (
	before side = iota
	after
)

// part is rows of a file that only one version has.
type part struct {
	side side
	add  *action.Add
	// other is the same file under another deletion vector in the other version: only
	// the rows that are live here and not there count. nil: all live rows.
	other *action.Add
}

// partsOf gives what either version has and the other has not; shared tells that they
// have some file in common.
func partsOf(from, to *delta.Snapshot) (parts []part, shared bool) {
	parts, shared = onlyIn(nil, from, to, before)
	more, _ := onlyIn(nil, to, from, after)
	return append(parts, more...), shared
}

func onlyIn(parts []part, s, other *delta.Snapshot, which side) ([]part, bool) {
	shared := false
	there := make(map[string][]*action.Add, other.NumFiles())
	for _, add := range other.Files() {
		path := add.Key().Path
		there[path] = append(there[path], add)
	}
	for _, add := range s.Files() {
		key := add.Key()
		same := there[key.Path]
		switch {
		case len(same) == 0:
			parts = append(parts, part{which, add, nil})
			continue
		case len(same) == 1 && (same[0].Key() == key || same[0].DeletionVector == nil): // all that is live here is live there
		case len(same) == 1:
			parts = append(parts, part{which, add, same[0]})
		default: // a log that has a file twice is not legal: what is equal falls out as equal rows
			parts = append(parts, part{which, add, nil})
		}
		shared = true
	}
	return parts, shared
}

// rows gives the places of the rows of a part; nil: all that are live.
func (p part) rows(ctx context.Context, store objstore.Store) (*dv.Bitmap, error) {
	if p.other == nil {
		return nil, nil
	}
	hiddenThere, err := delta.ReadDeletionVector(ctx, store, p.other)
	if err != nil {
		return nil, scan.FileError(p.other, err)
	}
	hiddenHere, err := delta.ReadDeletionVector(ctx, store, p.add)
	if err != nil {
		return nil, scan.FileError(p.add, err)
	}
	if hiddenThere == nil {
		return dv.New(), nil
	}
	rows := hiddenThere.Clone()
	if hiddenHere != nil {
		rows.AndNot(hiddenHere)
	}
	return rows, nil
}

// ReadError is an error in reading what one version has. It wraps one of package scan,
// which names the file.
type ReadError struct {
	Version int64
	Err     error
}

func (e *ReadError) Error() string { return fmt.Sprintf("version %d: %v", e.Version, e.Err) }
func (e *ReadError) Unwrap() error { return e.Err }
