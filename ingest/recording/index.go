package recording

import (
	"encoding/binary"
	"sort"

	"github.com/gscd-io/gscd/ingest/change"
)

// lineRef is where one line of a partition stands, and its Kafka offset.
type lineRef struct {
	file   int
	pos    int64
	length int
	offset int64
}

// lineIndex lists the lines of one partition in offset order. Each line is
// three varints: the gap since the end of the line before, the length, and the
// step of the offset; every 256 lines, and where a file begins, a checkpoint
// holds the absolute values. So a line costs 4 to 6 bytes, and any offset is
// found by a binary search and at most 256 steps.
type lineIndex struct {
	data        []byte
	checkpoints []checkpoint
	lines       int64
	last        lineRef
}

type checkpoint struct {
	offset int64 // of its first line, whose gap and step are coded as 0
	pos    int64
	file   int
	at     int // into data
}

const checkpointLines = 256

func (x *lineIndex) add(l lineRef) {
	if x.lines%checkpointLines == 0 || l.file != x.last.file {
		x.checkpoints = append(x.checkpoints, checkpoint{l.offset, l.pos, l.file, len(x.data)})
		x.last = lineRef{file: l.file, pos: l.pos, offset: l.offset}
	}
	x.data = binary.AppendUvarint(x.data, uint64(l.pos-x.last.pos-int64(x.last.length)))
	x.data = binary.AppendUvarint(x.data, uint64(l.length))
	x.data = binary.AppendUvarint(x.data, uint64(l.offset-x.last.offset))
	x.last = l
	x.lines++
}

// first and end give the offset of the first line, and that behind the last.
func (x *lineIndex) first() int64 { return x.checkpoints[0].offset }
func (x *lineIndex) end() int64   { return x.last.offset + 1 }

// cursor walks an index. next is valid where ok is set.
type cursor struct {
	index *lineIndex
	at    int // into index.data, behind next
	point int // the next checkpoint
	next  lineRef
	ok    bool
}

// seek gives a cursor at the first line of at least that offset.
func (x *lineIndex) seek(offset int64) cursor {
	i := sort.Search(len(x.checkpoints), func(i int) bool { return x.checkpoints[i].offset > offset })
	c := cursor{index: x, point: max(i-1, 0)}
	c.at = x.checkpoints[c.point].at
	for c.step(); c.ok && c.next.offset < offset; c.step() {
	}
	return c
}

func (c *cursor) step() {
	x := c.index
	if c.ok = c.at < len(x.data); !c.ok {
		return
	}
	if c.point < len(x.checkpoints) && x.checkpoints[c.point].at == c.at {
		p := x.checkpoints[c.point]
		c.next = lineRef{file: p.file, pos: p.pos, offset: p.offset}
		c.point++
	}
	gap := c.uvarint()
	length := c.uvarint()
	step := c.uvarint()
	c.next = lineRef{file: c.next.file, pos: c.next.pos + int64(c.next.length) + int64(gap), length: int(length), offset: c.next.offset + int64(step)}
}

func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.index.data[c.at:])
	c.at += n
	return v
}

// partition is one partition of the recording, and where its reading stands.
type partition struct {
	id    change.PartitionID
	index lineIndex
	// lastLine is the line number of the last record, for messages.
	lastLine int64

	cursor   cursor
	next     int64 // the offset behind what was delivered
	assigned bool
	paused   bool
	take     []lineRef // what the next block will hold
}

// before tells whether l stands before m in the recording.
func (l lineRef) before(m lineRef) bool {
	return l.file < m.file || l.file == m.file && l.pos < m.pos
}
