package ingest

import (
	"time"

	"github.com/gscd-io/gscd/ingest/change"
)

// timeIsUp reports that the batch has been open long enough. It stretches, up to
// BatchMaxInterval, while there is more than a batch to be read, and while it would
// write much for few rows: every file that it touches gets its deletion vector and its
// line in the log anew.
func (l *Lane) timeIsUp() bool {
	open := time.Since(l.since)
	if open < l.o.BatchInterval {
		return false
	}
	return open >= l.o.BatchMaxInterval || !l.isBehind() && !l.touchesMuch()
}

// isBehind reports that as many records as a batch may have wait to be read, as far as
// the source has told.
func (l *Lane) isBehind() bool {
	lag := int64(0)
	for id, end := range l.knownEnds() {
		if p := l.state().Find(id); p != nil && !p.Heartbeat && !l.judge.Paused(p) {
			lag += max(0, end-p.Next)
		}
	}
	return lag >= int64(l.o.BatchRows)
}

// knownEnds are the ends of the partitions that the source has told last.
func (l *Lane) knownEnds() map[change.PartitionID]int64 {
	if src, ok := l.source.(endsTeller); ok {
		return src.Ends()
	}
	return l.ends
}

// A batch is worth a commit with so many rows, or such a part of the physical rows of the
// table: then its vectors are a small part of what it writes. Else it waits where it
// touches much: what a row is about in a file, a touched file in the log, a deleted row
// in a vector, and how many times its own size it may write.
const (
	worthRows        = 10_000
	worthShare       = 400
	bytesARow        = 40
	bytesATouch      = 1250
	bytesADeadRow    = 2
	denseDeletedRows = 8
	worthIt          = 3
	neverWorthAWait  = 1 << 20
)

func (l *Lane) touchesMuch() bool {
	touched := map[uint32]bool{}
	rows := int64(0)
	for i := range l.batch.entries {
		e := &l.batch.entries[i]
		if e.dirty {
			rows++
			if e.old != 0 {
				touched[l.writer.File(e.old.Segment())] = true
			}
		}
	}
	around := int64(0)
	for id := range touched {
		rows, dead := l.writer.Rows(id)
		around += bytesATouch + min(bytesADeadRow*dead, rows/denseDeletedRows)
	}
	if around <= neverWorthAWait || around <= worthIt*bytesARow*rows {
		return false
	}
	physical := int64(0)
	for _, f := range l.writer.Files() {
		physical += f.Rows
	}
	return rows < max(worthRows, physical/worthShare)
}
