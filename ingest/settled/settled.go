// Package settled remembers what became of dead letters: which were replayed,
// superseded or dismissed, and which entries say nothing any more since their
// record got another fate when it was read again.
//
// Nouns: Place (the coordinates of a record), Item (what became of the entry of
// a place), Set (the items in memory), file (the items of one or more commits,
// beside the log).
//
// Invariants:
//
//  1. What became of an entry is written with the commit that does it: the rows,
//     the counts and the item belong to one version. A rollback takes all back.
//  2. A file is complete before a commit names it, and never changed after.
//  3. A progress names at most maxFiles files: then they become one.
package settled

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/selfsum"
	"github.com/gscd-io/gscd/format"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
)

// Folder is where these files lie below a table's root.
const Folder = "_delta_log/_gscd/settled/"

// maxFiles is how many files a progress may name before they are written as one.
const maxFiles = 16

// ErrCorrupt is wrapped by errors about files that can't be read.
var ErrCorrupt = errors.New("file of settled dead letters is corrupt")

// State is what a dead letter is.
type State string

// The states. Active: the record counts as a dead letter. Undone: the entry
// was made behind what a rollback went back to, or by a process that ended before
// its commit, and the record has another fate, or none yet.
const (
	Active     State = "active"
	Replayed   State = "replayed"
	Superseded State = "superseded"
	Dismissed  State = "dismissed"
	Undone     State = "undone"
)

// States are all states.
var States = []State{Active, Replayed, Superseded, Dismissed, Undone}

// Place is where a record lies in Kafka, and which of its rows is meant.
type Place struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	// Row is 0 but for the further rows of a record that holds several.
	Row int32 `json:"row,omitempty"`
}

// PlaceOf is the place of a record.
func PlaceOf(r *change.Record) Place { return Place{r.Topic, r.Partition, r.Offset, r.Row} }

// String is TOPIC/PARTITION/OFFSET, and /ROW where that is not 0.
func (p Place) String() string {
	if p.Row != 0 {
		return fmt.Sprintf("%s/%d/%d/%d", p.Topic, p.Partition, p.Offset, p.Row)
	}
	return fmt.Sprintf("%s/%d/%d", p.Topic, p.Partition, p.Offset)
}

// Resolution is what became of an entry.
type Resolution struct {
	State State `json:"state"`
	// At is when, in milliseconds since 1970; Version that of the commit; both 0
	// for an entry that is active, or undone by a rollback.
	At      int64 `json:"at,omitempty"`
	Version int64 `json:"version,omitempty"`
	// Note is for people: why it was dismissed.
	Note string `json:"note,omitempty"`
}

// Time is At as a time.
func (r Resolution) Time() time.Time { return time.UnixMilli(r.At) }

// Item is the resolution of the entry of a place.
type Item struct {
	Place
	Resolution
}

// Set is the newest item of each place.
type Set map[Place]Resolution

// Write stores the items of a commit and gives the list of files for its
// progress. Where there are many, all items become one file.
func Write(ctx context.Context, store objstore.Store, files []progress.SettledFile, added []Item) ([]progress.SettledFile, error) {
	if len(added) == 0 {
		return files, nil
	}
	if len(files) >= maxFiles {
		set, err := Load(ctx, store, files)
		if err != nil {
			return nil, err
		}
		for _, i := range added {
			set[i.Place] = i.Resolution
		}
		added, files = set.items(), nil
	}
	data, err := encode(added)
	if err != nil {
		return nil, fmt.Errorf("encode settled dead letters: %w", err)
	}
	f := progress.SettledFile{Key: Folder + uuid.NewString() + ".zst", Count: int64(len(added)), Bytes: int64(len(data))}
	if err := store.Put(ctx, f.Key, data); err != nil {
		return nil, fmt.Errorf("write settled dead letters: %w", err)
	}
	return append(slices.Clone(files), f), nil
}

// items gives the items in the order of their places.
func (s Set) items() []Item {
	out := make([]Item, 0, len(s))
	for p, r := range s {
		out = append(out, Item{p, r})
	}
	slices.SortFunc(out, func(a, b Item) int { return a.Compare(b.Place) })
	return out
}

// Compare orders places by topic, partition, offset and row.
func (p Place) Compare(q Place) int {
	return cmp.Or(strings.Compare(p.Topic, q.Topic), cmp.Compare(p.Partition, q.Partition), cmp.Compare(p.Offset, q.Offset), cmp.Compare(p.Row, q.Row))
}

// Load reads the files of a progress. The error names the file.
func Load(ctx context.Context, store objstore.Store, files []progress.SettledFile) (Set, error) {
	s := Set{}
	for _, f := range files {
		data, err := store.Get(ctx, f.Key)
		if err != nil {
			return nil, fmt.Errorf("read settled dead letters: %w", err)
		}
		items, err := decode(data)
		if errors.Is(err, format.ErrNewer) {
			return nil, fmt.Errorf("%s: %w", f.Key, err)
		}
		if err == nil && int64(len(items)) != f.Count {
			err = fmt.Errorf("%d items, the progress says %d", len(items), f.Count)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, f.Key, err)
		}
		for _, i := range items {
			s[i.Place] = i.Resolution
		}
	}
	return s, nil
}

// version is that of the lines. A file of a later one begins with a line {"format":N}; one without is of version 1.
const version = 1

// encode gives JSON lines under zstd: people may have to read them.
func encode(items []Item) ([]byte, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	for _, i := range items {
		if err := lines.Encode(i); err != nil {
			return nil, err
		}
	}
	return selfsum.AppendFrame(z.EncodeAll(b.Bytes(), nil)), nil
}

// A file may unpack to so many bytes a byte, and to freeBytes in any case: a damaged one says any
// size, and that is allocated at once.
const (
	maxRatio  = 1 << 12
	freeBytes = 16 << 20
)

func decode(data []byte) ([]Item, error) {
	if _, err := selfsum.Zstd.Check(data); err != nil {
		return nil, err
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(max(freeBytes, uint64(len(data))*maxRatio)))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	b, err := z.DecodeAll(data, nil)
	if err != nil {
		return nil, err
	}
	var out []Item
	for line := range bytes.Lines(b) {
		var head struct {
			Format int `json:"format"`
		}
		if len(out) == 0 && json.Unmarshal(line, &head) == nil && head.Format > version {
			return nil, &format.Newer{What: "the file of settled dead letters", Found: strconv.Itoa(head.Format), Known: strconv.Itoa(version)}
		}
		var i Item
		if err := json.Unmarshal(line, &i); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(out)+1, err)
		}
		if !slices.Contains(States, i.State) {
			return nil, fmt.Errorf("line %d: state %q is unknown", len(out)+1, i.State)
		}
		out = append(out, i)
	}
	return out, nil
}
