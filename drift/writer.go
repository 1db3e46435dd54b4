package drift

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/gscd-io/gscd/delta/objstore"
)

// Writer collects what one batch holds back.
type Writer struct {
	entries []*Entry
	bytes   int64
}

// Add takes an entry over; its Sequence is set by the order of the calls.
func (w *Writer) Add(e *Entry) {
	e.Sequence = int64(len(w.entries))
	w.entries = append(w.entries, e)
	w.bytes += int64(len(e.Record.Key)+len(e.Record.Value)) + 256
}

// Len is the number of entries, Bytes about their size in memory.
func (w *Writer) Len() int     { return len(w.entries) }
func (w *Writer) Bytes() int64 { return w.bytes }

// Entries gives what was added, in order; it stays the Writer's.
func (w *Writer) Entries() []*Entry { return w.entries }

// Reset drops the entries.
func (w *Writer) Reset() { w.entries, w.bytes = nil, 0 }

// Write stores the entries as files of one group, one for each label and load,
// and gives their references, to be named by the commit that follows.
func (w *Writer) Write(ctx context.Context, store objstore.Store, group int64) ([]File, error) {
	var files []File
	parts := map[string][]*Entry{}
	var order []string
	for _, e := range w.entries {
		id := fmt.Sprint("label ", e.Label)
		if e.Load != nil {
			id = fmt.Sprint("load ", *e.Load)
		}
		if parts[id] == nil {
			order = append(order, id)
		}
		parts[id] = append(parts[id], e)
	}
	slices.Sort(order)
	for _, id := range order {
		entries := parts[id]
		data, err := encode(entries)
		if err != nil {
			return nil, fmt.Errorf("encode held changes: %w", err)
		}
		f := File{
			Key:   fmt.Sprintf("%s%020d-%s.zst", Folder, group, uuid.NewString()),
			Group: group, Label: entries[0].Label, Load: entries[0].Load,
			Count: int64(len(entries)), Bytes: int64(len(data)),
		}
		if err := store.Put(ctx, f.Key, data); err != nil {
			return nil, fmt.Errorf("write held changes: %w", err)
		}
		files = append(files, f)
	}
	return files, nil
}
