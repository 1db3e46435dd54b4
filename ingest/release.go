package ingest

import (
	"fmt"
	"slices"
	"time"

	"github.com/gscd-io/gscd/drift"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/snapshotter"
)

// hold keeps a judged change for later, to be written with the next commit.
func (l *Lane) hold(r *change.Record, ev *snapshotter.Event, v *snapshotter.Verdict) {
	e := &drift.Entry{Record: l.decoder.Alone(r), Kind: ev.Kind, Meta: v.Meta, Label: v.At}
	if v.Load != nil {
		e.Load = &drift.LoadID{Line: v.Load.Line, Position: v.Load.Position}
	}
	l.batch.held.Add(e)
	l.p.Totals.Held++
}

// heldOf reports whether reads of a load are held.
func (l *Lane) heldOf(load *snapshotter.Load) bool {
	id := drift.LoadID{Line: load.Line, Position: load.Position}
	same := func(other *drift.LoadID) bool { return other != nil && *other == id }
	return slices.ContainsFunc(l.p.Held, func(f drift.File) bool { return same(f.Load) }) ||
		slices.ContainsFunc(l.batches(), func(b *batch) bool {
			return slices.ContainsFunc(b.held.Entries(), func(e *drift.Entry) bool { return same(e.Load) })
		})
}

// due reports whether a held file's entries belong to the open label.
func (l *Lane) due(f drift.File) bool {
	if f.Load == nil {
		return f.Label <= l.state().Open
	}
	for _, load := range l.state().Loads {
		if load.Line == f.Load.Line && load.Position == f.Load.Position {
			return load.Label <= l.state().Open
		}
	}
	return true // its load is long over
}

// release applies everything that is held for the open label, in the order in
// which it was taken, in commits of that label.
func (l *Lane) release() error {
	if !slices.ContainsFunc(l.p.Held, l.due) {
		return nil
	}
	if err := l.settleFlight(); err != nil {
		return err
	}
	var files []drift.File
	for _, f := range l.p.Held {
		if l.due(f) {
			files = append(files, f)
		}
	}
	reader := drift.NewReader(l.ctx, l.o.Store, files)
	defer reader.Close()
	if l.batch.records == 0 {
		l.since = time.Now()
	}
	defer func() { l.rowsAhead = rowsAhead{} }()
	var list []heldChange
	for {
		var failed error
		list, failed = nextHeld(reader, list)
		l.lookAheadHeld(list)
		for _, h := range list {
			if err := l.releaseOne(h); err != nil {
				return err
			}
		}
		if failed != nil {
			return fmt.Errorf("table %s: %w", l.o.Name, failed)
		}
		if len(list) == 0 {
			break
		}
	}
	l.p.Held = slices.DeleteFunc(l.p.Held, func(f drift.File) bool { return f.Applied >= f.Count })
	return nil
}

// releaseOne applies a held change, and commits a batch that is full.
func (l *Lane) releaseOne(h heldChange) error {
	e, dead := h.entry, len(l.batch.dead)
	if err := l.applyHeld(e); err != nil {
		return l.describe(e.Record, err)
	}
	l.settleAgain(e.Record, dead)
	at := slices.IndexFunc(l.p.Held, func(f drift.File) bool { return f.Key == h.file })
	l.p.Held[at].Applied++
	l.p.Totals.Held--
	l.batch.records++
	l.batch.bytes += int64(len(e.Record.Key) + len(e.Record.Value))
	if l.batchFull() {
		return l.flush()
	}
	return nil
}

// applyHeld applies one change that waited for the open label. What it cannot
// apply is a dead letter of that label.
func (l *Lane) applyHeld(e *drift.Entry) error {
	l.batch.dirty = true
	open := l.state().Open
	var c change.Change
	decodeErr := l.decoder.Decode(e.Record, l.arena, &c)
	if err := schemaOutage(decodeErr); err != nil {
		return l.describe(e.Record, err)
	}
	rej := l.rejected(e.Record, decodeErr)
	var old, new string
	if rej == nil {
		old, new, rej = l.keys(&c, e.Meta.Partition, e.Meta.Offset)
	}
	if rej == nil && c.Op == change.Schema && l.batch.hasRows() {
		if err := l.flush(); err != nil {
			return err
		}
		l.batch.dirty = true
	}
	if rej == nil {
		var f fate
		var err error
		if f, rej, err = l.apply(&c, old, new, e.Meta, false); err != nil {
			return err
		}
		l.settle(f, false)
	}
	if rej != nil {
		return l.deadLetter(e.Record, rej, open, false)
	}
	return nil
}
