package ingest

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/upsert"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/snapshotter"
)

// bytesACell is what a cell of a new row takes in memory, whatever is in it: a row of few
// values in a table of many columns is mostly that.
const bytesACell = int64(unsafe.Sizeof(schema.Value{}))

// fate is what became of a change that was due.
type fate uint8

const (
	applied fate = iota + 1
	superseded
	deadLettered
	filtered // it says nothing about rows
)

// apply takes a due change into the batch. taken tells that it has just been
// taken from its partition, not read back from what was held. The fate of a
// change that cannot be applied is a rejection.
func (l *Lane) apply(c *change.Change, old, new string, m snapshotter.Meta, taken bool) (fate, *rejection, error) {
	l.batch.dirty = true
	switch c.Op {
	case change.Truncate:
		return l.applyTruncate(c, m)
	case change.Schema:
		return l.applySchema(c, m)
	}
	l.before(c, m)
	var did bool
	if new == "" {
		fresh, err := l.fresh(l.stand(old), m, taken)
		if err != nil {
			return 0, nil, err
		}
		// A tombstone behind its delete says nothing new.
		if fresh && (c.Op != change.Tombstone && !c.IfThere || l.stand(old).live) {
			l.remove(old, m)
			did = true
		}
	} else {
		var rej *rejection
		var err error
		if did, rej, err = l.upsert(c, old, new, m, taken); rej != nil || err != nil {
			return deadLettered, rej, err
		}
	}
	if !did {
		l.p.Counts.Superseded++
		return superseded, nil, nil
	}
	l.p.Counts.Touched++
	switch c.Op {
	case change.Insert, change.Read:
		l.p.Counts.Inserts++
	case change.Update:
		l.p.Counts.Updates++
	default:
		l.p.Counts.Deletes++
	}
	return applied, nil, nil
}

// upsert writes new and, at a key change, deletes old.
func (l *Lane) upsert(c *change.Change, old, new string, m snapshotter.Meta, taken bool) (did bool, _ *rejection, err error) {
	// The row that absent and unavailable cells keep: the key's own, or at a
	// key change the old key's.
	keepsOf := new
	if old != "" {
		keepsOf = old
	}
	keeps := c.Op == change.Update && !c.Whole
	partial := keeps && l.columns.shape(c.Columns).lacksOld
	if l.o.MissingColumn == Fail && !c.Whole && l.columns.shape(c.Columns).lacksOld {
		return false, nil, fmt.Errorf("%w: the record lacks the column%s %s that the table has (missing_column: fail)", ErrRefused, plural(l.missing(c)), strings.Join(l.missing(c), ", "))
	}
	for i := 0; i < len(c.After) && !partial; i++ {
		partial = c.After[i].Kind == schema.Unavailable
	}
	keeps = keeps || partial
	if partial {
		base := l.stand(keepsOf)
		fresh, err := l.fresh(base, m, taken)
		if err != nil {
			return false, nil, err
		}
		switch {
		case l.o.PartialImage == Fail:
			return false, nil, fmt.Errorf("%w: the row image is partial (partial_image: fail)", ErrRefused)
		case l.o.PartialImage == DeadLetter:
			return false, reject("partial", "the row image is partial"), nil
		case !l.stand(keepsOf).live:
			return false, reject("partial", "the row image is partial and its key has no row"), nil
		case !fresh:
			return false, reject("partial", "the row image is partial and older than its row"), nil
		}
	}

	newFresh, err := l.fresh(l.stand(new), m, taken)
	if err != nil {
		return false, nil, err
	}
	if newFresh && c.KeyUnsure && !l.stand(new).live {
		return false, reject("key", "an update of a key that has no row, and no row before in the record: if it changed the key, the old row can't be found; have the source send before images"), nil
	}
	var row []schema.Value
	var base upsert.Ref
	if newFresh {
		absent := schema.Null
		if b := l.stand(keepsOf); keeps && b.live {
			absent = schema.Unavailable
		}
		if row, err = l.row(c, absent); err != nil {
			if bad := (*badValue)(nil); errors.As(err, &bad) {
				if l.o.BadValue == Fail {
					return false, nil, fmt.Errorf("%w: %w (bad_value: fail)", ErrRefused, err)
				}
				return false, &rejection{"value", bad.err.Error(), bad.column}, nil
			}
			return false, nil, err
		}
		if absent == schema.Unavailable {
			base = l.keep(row, l.stand(keepsOf))
		}
	}
	if old != "" {
		oldFresh, err := l.fresh(l.stand(old), m, taken)
		if err != nil {
			return false, nil, err
		}
		if oldFresh {
			l.remove(old, m)
			did = true
		}
	}
	if newFresh {
		e := l.stand(new)
		if !e.live || !e.dirty {
			l.batch.bytes += int64(len(row)+len(Hidden)) * bytesACell
		}
		e.meta, e.known, e.live, e.dirty, e.deleted = m, true, true, true, false
		e.row, e.base = row, base
		l.markers.Delete(new)
		did = true
	}
	return did, nil, nil
}

// missing names the table's columns of old that a record does not have.
func (l *Lane) missing(c *change.Change) (names []string) {
	for _, at := range l.columns.shape(c.Columns).absent {
		if name := l.columns.list[at].Name; l.columns.atOpen[name] {
			names = append(names, name)
		}
	}
	return names
}

func plural(list []string) string {
	if len(list) == 1 {
		return ""
	}
	return "s"
}

// keep fills the Unavailable cells of a row from an entry's row in the batch.
// What lies in the table is filled in when the batch is written: keep gives
// its Ref, 0 where nothing is left to fill.
func (l *Lane) keep(row []schema.Value, from *entry) upsert.Ref {
	left, kept := false, l.inMemory(from)
	for i := range row {
		if row[i].Kind != schema.Unavailable {
			continue
		}
		switch {
		case kept == nil:
			left = true
		case i < len(kept):
			row[i] = kept[i]
			left = left || row[i].Kind == schema.Unavailable
		default:
			row[i] = schema.Value{}
		}
	}
	switch {
	case !left:
		return 0
	case from.row == nil:
		return from.old
	}
	return from.base
}

// remove deletes a key at m, whether or not it has a row.
func (l *Lane) remove(key string, m snapshotter.Meta) {
	e := l.stand(key)
	e.meta, e.known, e.live, e.dirty, e.deleted = m, true, false, true, true
	e.row, e.base = nil, 0
}

// applyTruncate takes away every row below the truncate's position.
func (l *Lane) applyTruncate(c *change.Change, m snapshotter.Meta) (fate, *rejection, error) {
	switch {
	case l.o.Transform.Sharded() != "":
		return 0, nil, fmt.Errorf("%w: a TRUNCATE of shard %s came, and rows of one shard alone are not taken away: set truncate: ignore to go on, delete them by a load of the day (gscd load), or at the source",
			ErrRefused, strings.TrimSuffix(c.Server.Name, "/"))
	case l.o.Truncate == Fail:
		return 0, nil, fmt.Errorf("%w: a TRUNCATE came (truncate: fail)", ErrRefused)
	case !c.HasPosition && len(l.state().Partitions) > 1:
		return 0, nil, fmt.Errorf("%w: a TRUNCATE without a log position on a table of %d partitions: no order among them is known; set truncate: ignore, and load the table again", ErrRefused, len(l.state().Partitions))
	}
	if _, err := l.clearBelow(m, -1); err != nil {
		return 0, nil, err
	}
	l.state().AddFloor(m)
	l.p.Counts.Truncates++
	l.p.Counts.Touched++
	return applied, nil, nil
}

// clearBelow takes away every row older than m. With most ≥ 0 it first counts,
// and takes nothing away where they are more than that part of all live rows;
// it gives how many there were, negative where it did not act.
func (l *Lane) clearBelow(m snapshotter.Meta, most float64) (int64, error) {
	if err := l.settleFlight(); err != nil {
		return 0, err
	}
	b := l.batch
	var oldEntries []int32
	live := int64(0)
	for i := range b.entries {
		e := &b.entries[i]
		if !e.live {
			continue
		}
		live++
		older, err := l.olderThan(e, m)
		if err != nil {
			return 0, err
		}
		if older {
			oldEntries = append(oldEntries, int32(i))
		}
	}
	inBatch := make(map[upsert.Ref]bool, len(b.entries))
	for i := range b.entries {
		if b.entries[i].old != 0 {
			inBatch[b.entries[i].old] = true
		}
	}
	var oldRefs []upsert.Ref
	var failed error
	l.writer.Index().Refs(func(ref upsert.Ref) bool {
		if inBatch[ref] || b.isKilled(ref) {
			return true
		}
		live++
		older, err := l.olderThan(&entry{old: ref, live: true}, m)
		if err != nil {
			failed = err
			return false
		}
		if older {
			oldRefs = append(oldRefs, ref)
		}
		return true
	})
	if failed != nil {
		return 0, failed
	}
	n := int64(len(oldEntries) + len(oldRefs))
	if most >= 0 && float64(n) > most*float64(live) {
		return -n, nil
	}
	for _, i := range oldEntries {
		e := &b.entries[i]
		e.meta, e.known, e.live, e.dirty, e.deleted = m, true, false, true, false
		e.row, e.base = nil, 0
	}
	for _, ref := range oldRefs {
		b.kill(ref)
	}
	b.dirty = true
	return n, nil
}

func (l *Lane) olderThan(e *entry, m snapshotter.Meta) (bool, error) {
	if !e.known {
		if l.facts(e.old.Segment()).below(m) {
			return true, nil
		}
		meta, _, err := l.lookUp(e.old, m)
		if err != nil {
			return false, err
		}
		return l.newer(m, meta), nil
	}
	return l.newer(m, e.meta), nil
}

// endLoads acts for the loads of the open label that may end: rows that such a
// load did not bring and that are older go.
func (l *Lane) endLoads() error {
	for _, load := range l.judge.LoadsToEnd() {
		load.Ended = true
		l.batch.dirty = true
		if l.o.Reload != Replace {
			continue
		}
		floor := load.Floor()
		if !floor.HasPosition && len(l.state().Partitions) > 1 {
			continue // nothing tells what is older than the load: it is merged
		}
		n, err := l.clearBelow(floor, l.o.MaxDeleteFraction)
		if err != nil {
			return err
		}
		if n < 0 {
			l.markIncomplete(fmt.Sprintf("a repeated load would have deleted %d rows, more than max_delete_fraction; it was merged", -n))
			continue
		}
		if n > 0 {
			l.p.Counts.Touched += n
		}
		l.state().AddFloor(floor)
		if i := l.p.Incomplete; i != nil && load.Label >= i.Since && !isBeforeLoss(floor, i) {
			l.p.Incomplete = nil // a complete load stands for everything before it
		}
	}
	return nil
}

// isBeforeLoss reports whether a load may have been read before rows went without events.
func isBeforeLoss(load snapshotter.Meta, i *progress.Incomplete) bool {
	return i.At != nil && !(load.HasPosition && load.Line == i.Line && load.Position.Compare(*i.At) >= 0)
}

// markIncomplete marks the open label and all later ones, until a complete load.
func (l *Lane) markIncomplete(reason string) {
	if l.p.Incomplete == nil {
		l.p.Incomplete = &progress.Incomplete{Since: l.state().Open, Reason: reason}
	}
	l.o.Log.Warn("labels are incomplete from here on", l.fields("reason", reason)...)
}
