package recording

import (
	"fmt"
	"io"

	"github.com/gscd-io/gscd/ingest/change"
)

// stretch is how far a partition may run ahead of the next one in the files
// before the other takes its turn.
const stretch = 64 << 10

// plan picks the lines of the next blocks: always from the partition whose
// next line stands first, so that the files are read from front to back and
// the partitions advance as they did when the recording was made.
func (r *Recording) plan(records int) {
	bytes := r.opts.BlockBytes
	for _, p := range r.parts {
		p.take = p.take[:0]
	}
	for records > 0 && bytes > 0 {
		var first, second *partition
		for _, p := range r.parts {
			switch {
			case !p.assigned || p.paused || !p.cursor.ok:
			case first == nil || p.cursor.next.before(first.cursor.next):
				first, second = p, first
			case second == nil || p.cursor.next.before(second.cursor.next):
				second = p
			}
		}
		if first == nil {
			return
		}
		limit := lineRef{file: len(r.files)}
		if second != nil {
			limit = second.cursor.next
			limit.pos += stretch
		}
		for c := &first.cursor; c.ok && c.next.before(limit) && records > 0 && bytes > 0; c.step() {
			first.take = append(first.take, c.next)
			records--
			bytes -= int64(c.next.length)
		}
	}
}

// block reads and parses the lines that were planned for p.
func (r *Recording) block(p *partition) (change.Block, error) {
	size := 0
	for _, l := range p.take {
		size += l.length
	}
	buf := make([]byte, size)
	list := make([]change.Record, len(p.take))
	out := change.Block{ID: p.id, Records: make([]*change.Record, len(p.take))}
	var slab []change.Header
	var parsed line
	for i, ref := range p.take {
		b := buf[:ref.length:ref.length]
		buf = buf[ref.length:]
		err := r.pages.read(r.files[ref.file], ref, b)
		if err == nil {
			err = parsed.parse(b, true, !r.files[ref.file].otherEnds)
		}
		if err == nil && (parsed.offset != ref.offset || parsed.partition != p.id.Partition) {
			err = fmt.Errorf("another record stands there")
		}
		rec := &list[i]
		rec.Topic, rec.Partition = p.id.Topic, p.id.Partition
		if err == nil {
			slab, err = parsed.record(rec, slab)
		}
		if err != nil {
			return change.Block{}, fmt.Errorf("topic %s partition %d offset %d: %s changed while it was read: %w",
				p.id.Topic, p.id.Partition, ref.offset, r.files[ref.file].name, err)
		}
		rec.Cap(r.opts.MaxRecord)
		out.Records[i] = rec
	}
	p.next = p.take[len(p.take)-1].offset + 1
	out.Next = p.next
	return out, nil
}

// pages is a small cache of the files' pages, so that partitions whose lines
// alternate share what was read. First in, first out.
type pages struct {
	byKey map[pageKey][]byte
	order []pageKey
	last  pageKey
	held  []byte
}

type pageKey struct {
	file *file
	page int64
}

const (
	pageBytes = 256 << 10
	pageCount = 64
)

// read fills b with the bytes of the line.
func (c *pages) read(f *file, l lineRef, b []byte) error {
	for pos := l.pos; len(b) > 0; {
		key := pageKey{f, pos / pageBytes}
		if key != c.last {
			page, err := c.page(key)
			if err != nil {
				return err
			}
			c.last, c.held = key, page
		}
		from := int(pos % pageBytes)
		if from >= len(c.held) {
			return io.ErrUnexpectedEOF
		}
		n := copy(b, c.held[from:])
		b, pos = b[n:], pos+int64(n)
	}
	return nil
}

func (c *pages) page(key pageKey) ([]byte, error) {
	if page, ok := c.byKey[key]; ok {
		return page, nil
	}
	if c.byKey == nil {
		c.byKey = make(map[pageKey][]byte, pageCount)
	}
	var page []byte
	if len(c.order) == pageCount {
		page = c.byKey[c.order[0]][:pageBytes]
		delete(c.byKey, c.order[0])
		c.order = append(c.order[:0], c.order[1:]...)
	} else {
		page = make([]byte, pageBytes)
	}
	c.last = pageKey{}
	n, err := key.file.f.ReadAt(page, key.page*pageBytes)
	if err != nil && err != io.EOF {
		return nil, err
	}
	c.byKey[key] = page[:n]
	c.order = append(c.order, key)
	return page[:n], nil
}
