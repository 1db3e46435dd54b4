package ingest

import (
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/upsert"
	"github.com/gscd-io/gscd/drift"
	"github.com/gscd-io/gscd/ingest/change"
)

// A held change comes after changes with higher offsets, so that only the row itself tells
// whether it is newer. Rows of many held changes are read together: one by one each costs a
// request a column where the table lies in an object store.

// Bounds of the held changes whose rows are read together.
const (
	heldAtOnce      = 4096
	heldBytesAtOnce = 8 << 20
)

// heldChange is a held change with the key of its file.
type heldChange struct {
	entry *drift.Entry
	file  string
}

// nextHeld reads the next held changes, none behind the last one. With an error come those before it.
func nextHeld(reader *drift.Reader, list []heldChange) ([]heldChange, error) {
	list = list[:0]
	for size := 0; len(list) < heldAtOnce && size < heldBytesAtOnce; {
		e, file, err := reader.Next()
		if e == nil || err != nil {
			return list, err
		}
		list = append(list, heldChange{e, file})
		size += len(e.Record.Key) + len(e.Record.Value)
	}
	return list, nil
}

// rowsAhead are hidden cells of rows that changes will be compared with. A Ref stands for the
// same cells as long as its writer lives.
type rowsAhead struct {
	writer *upsert.Writer
	hidden map[upsert.Ref][]schema.Value
}

// of gives the hidden cells of a row, nil where they were not read.
func (a *rowsAhead) of(w *upsert.Writer, ref upsert.Ref) []schema.Value {
	if a.writer != w {
		return nil
	}
	return a.hidden[ref]
}

// lookAheadHeld reads the rows that held changes will be compared with. What can't be read, or
// decoded, is left to be found in turn.
func (l *Lane) lookAheadHeld(list []heldChange) {
	index := l.writer.Index()
	l.rowsAhead = rowsAhead{}
	if index.Len() == 0 || l.o.Append || !l.keysAreTyped() {
		return
	}
	arena := &change.Arena{}
	var keys []string
	var of []*drift.Entry
	for _, h := range list {
		var c change.Change
		if h.entry.Record.Oversize != 0 {
			continue
		}
		if err := l.decoder.Decode(h.entry.Record, arena, &c); schemaOutage(err) != nil {
			return
		} else if err != nil {
			continue
		}
		old, new, ok := l.rowKeys(&c)
		if !ok {
			continue
		}
		for _, key := range [...]string{old, new} {
			if key != "" {
				keys, of = append(keys, key), append(of, h.entry)
			}
		}
	}
	all := make([]upsert.Ref, len(keys))
	index.GetMany(keys, all)
	var refs []upsert.Ref
	met := map[upsert.Ref]bool{}
	for i, ref := range all {
		if ref != 0 && !met[ref] && !l.newerByFile(ref, of[i].Meta) {
			met[ref] = true
			refs = append(refs, ref)
		}
	}
	if len(refs) == 0 {
		return
	}
	rows, err := l.writer.ReadRows(l.ctx, refs, Hidden)
	if err != nil {
		return
	}
	l.rowsAhead = rowsAhead{l.writer, make(map[upsert.Ref][]schema.Value, len(refs))}
	for i, ref := range refs {
		l.rowsAhead.hidden[ref] = rows[i]
	}
}
