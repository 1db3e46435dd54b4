package ingest

import (
	"strconv"

	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/upsert"
	"github.com/gscd-io/gscd/drift"
	"github.com/gscd-io/gscd/ingest/deadletter"
	"github.com/gscd-io/gscd/ingest/settled"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/snapshotter"
)

// batch is what the next commit will hold: changes of the open label folded
// per key onto what the table has, changes of later labels, dead letters.
type batch struct {
	entries []entry
	index   keyTable
	// killed are rows of the table that a truncate or a replacing load took away.
	killed      map[uint32]*dv.Bitmap
	killedCount int64
	held        drift.Writer
	dead        []deadletter.Entry
	// settled is what became of entries of the dead-letter table.
	settled []settled.Item
	late    []progress.LateChange
	records int
	bytes   int64
	// rows is what the commit does to rows, once they are written.
	rows *rowCounts
	// dirty tells that progress moved, even if no row did.
	dirty bool
	// replayed tells that it holds dead letters, not records just taken.
	replayed bool
}

// entry is one key's state in the batch. Its zero value is a key that nothing is known of.
type entry struct {
	key string
	// meta is where the state stands, valid where known is set; a state that
	// lies in the table and has not been looked up has old set and known unset.
	meta  snapshotter.Meta
	known bool
	live  bool
	// dirty: the batch changed the key, and row (if live) goes into a file.
	dirty bool
	// deleted: it ended by a delete, whose marker must be remembered.
	deleted bool
	// row is the new row; cells of kind Unavailable keep what base has.
	row  []schema.Value
	base upsert.Ref
	// old is the row that the table has for the key, 0 for none.
	old upsert.Ref
}

// rowCounts counts keys by what a commit does to their rows, whatever happened to them
// on the way.
type rowCounts struct{ inserted, updated, deleted int64 }

// metrics are named as those of a MERGE of other engines.
func (c *rowCounts) metrics(m map[string]string) {
	m["numTargetRowsInserted"] = strconv.FormatInt(c.inserted, 10)
	m["numTargetRowsUpdated"] = strconv.FormatInt(c.updated, 10)
	m["numTargetRowsDeleted"] = strconv.FormatInt(c.deleted, 10)
}

// countRows counts what the batch does to rows. A row that a truncate took away, and
// whose key has come again, is updated.
func (l *Lane) countRows(b *batch) *rowCounts {
	c := &rowCounts{deleted: b.killedCount}
	for i := range b.entries {
		e := &b.entries[i]
		switch was := e.old; {
		case !e.dirty:
		case !e.live && was != 0:
			c.deleted++
		case !e.live:
		case was != 0:
			c.updated++
		case b.killedCount > 0 && l.writer.Index().Get(e.key) != 0:
			c.updated++
			c.deleted--
		default:
			c.inserted++
		}
	}
	return c
}

// hasRows reports whether it knows of any row.
func (b *batch) hasRows() bool { return len(b.entries) > 0 || b.killedCount > 0 }

func newBatch() *batch { return &batch{index: newKeyTable()} }

// maxReused bounds the entries whose memory a batch hands on to the next.
const maxReused = 1 << 18

// next gives an empty batch in the memory of one that is written.
func (b *batch) next() *batch {
	if len(b.entries) == 0 || len(b.entries) > maxReused {
		return newBatch()
	}
	clear(b.entries)
	b.index.clear()
	return &batch{entries: b.entries[:0], index: b.index}
}

// stand gives the entry of a key, looking the batch in flight and the table up where
// the batch does not have it. The pointer is good until the next call.
func (l *Lane) stand(key string) *entry {
	b := l.batch
	if n := len(b.entries); n > 0 && b.entries[n-1].key == key { // one change asks several times
		return &b.entries[n-1]
	}
	i, found := b.index.find(key, b.entries)
	if found {
		return &b.entries[i]
	}
	e, ok := l.overlaid(key)
	if !ok {
		e.key = key
		if ref := l.indexed(key); ref != 0 && !b.isKilled(ref) {
			e.old, e.live = ref, true
		} else if m, ok := l.markers.Get(key, l.state().Open); ok {
			e.meta, e.known = m, true
		}
	}
	b.entries = append(b.entries, e)
	return &b.entries[i]
}

func (b *batch) isKilled(ref upsert.Ref) bool {
	bitmap := b.killed[ref.Segment()]
	return bitmap != nil && bitmap.Contains(ref.Row())
}

func (b *batch) kill(ref upsert.Ref) {
	if b.killed == nil {
		b.killed = map[uint32]*dv.Bitmap{}
	}
	bitmap := b.killed[ref.Segment()]
	if bitmap == nil {
		bitmap = dv.New()
		b.killed[ref.Segment()] = bitmap
	}
	bitmap.Add(ref.Row())
	b.killedCount++
}

// Tags of refs: the partition of the change that gave the row (manyPartitions
// where it has no room), and whether that was a read.
const (
	manyPartitions = 127
	readTag        = 1 << 7
)

func tagOf(m snapshotter.Meta) uint16 {
	tag := uint16(manyPartitions)
	if m.Partition >= 0 && m.Partition < manyPartitions {
		tag = uint16(m.Partition)
	}
	if m.Rank != snapshotter.RankChange {
		tag |= readTag
	}
	return tag
}

// fresh reports whether a change is newer than what the key has. taken tells
// that it has just been taken from its partition, so that its offset is above
// that of every change applied from there.
func (l *Lane) fresh(e *entry, m snapshotter.Meta, taken bool) (bool, error) {
	if !l.state().AboveFloors(m) {
		return false, nil
	}
	if e.known {
		return l.newer(m, e.meta), nil
	}
	if e.old == 0 {
		return true, nil
	}
	if taken && orderedByOffset(e.old, m) {
		return true, nil
	}
	if l.newerByFile(e.old, m) {
		return true, nil
	}
	meta, known, err := l.lookUp(e.old, m)
	if err != nil {
		return false, err
	}
	if known {
		e.meta, e.known = meta, true
	}
	return l.newer(m, meta), nil
}

// orderedByOffset reports that a row and a change are of one partition, and no reads.
func orderedByOffset(ref upsert.Ref, m snapshotter.Meta) bool {
	tag := ref.Tag()
	samePartition := tag&manyPartitions != manyPartitions && int32(tag&manyPartitions) == m.Partition
	return samePartition && tag&readTag == 0 && m.Rank == snapshotter.RankChange
}

// newerByFile reports that a change is newer than a row by what is known of the row's file.
func (l *Lane) newerByFile(ref upsert.Ref, m snapshotter.Meta) bool {
	return !orderedByOffset(ref, m) && l.facts(ref.Segment()).below(m)
}

// newer is the order of changes, by what the batch holds.
func (l *Lane) newer(m, than snapshotter.Meta) bool {
	if l.batch.replayed {
		return snapshotter.NewerReplayed(m, than)
	}
	return snapshotter.Newer(m, than)
}
