package parquet

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/parquet-go/parquet-go/format"
)

// levelReader reads one leaf, value by value, with levels.
type levelReader struct {
	leaf  *node
	chunk *chunkReader
	at    int // in the page
	value int // the next present value of the page
	has   bool
	row   int64 // of the row group: the next one that begins
}

// peek makes the next value current; false after the last one.
func (l *levelReader) peek() (bool, error) {
	for !l.has || l.at >= l.chunk.page.n {
		more, err := l.chunk.next()
		if err != nil || !more {
			l.has = false
			return false, err
		}
		if err := l.chunk.decode(); err != nil {
			return false, fmt.Errorf("column %q: %w", l.leaf.name, err)
		}
		l.loaded()
	}
	return true, nil
}

// loaded begins a page that is decoded.
func (l *levelReader) loaded() {
	l.has, l.at, l.value = true, 0, 0
	if l.chunk.pages != nil {
		l.row = l.chunk.rows.From
	}
}

// seek goes on to a row of the row group; no row is half read. Pages that are passed
// whole are not decoded where values don't repeat.
func (l *levelReader) seek(row int64) error {
	if l.chunk.pages != nil && (!l.has || row >= l.chunk.rows.To) {
		if err := l.chunk.seek(row); err != nil {
			return err
		}
		l.has = false
		if more, err := l.peek(); err != nil || !more {
			return cmp.Or(err, corrupt("column %q ends early", l.leaf.name))
		}
	}
	for l.row < row {
		if !l.has || l.at >= l.chunk.page.n {
			more, err := l.chunk.next()
			if err != nil {
				return err
			}
			if !more {
				return corrupt("column %q ends early", l.leaf.name)
			}
			if n := int64(l.chunk.page.n); l.leaf.maxRep == 0 && n <= row-l.row && l.chunk.pages == nil {
				l.has, l.row = false, l.row+n
				continue
			}
			if err := l.chunk.decode(); err != nil {
				return fmt.Errorf("column %q: %w", l.leaf.name, err)
			}
			l.loaded()
		}
		l.take()
	}
	// The row before ends where the next one begins.
	for l.leaf.maxRep > 0 {
		if more, err := l.peek(); err != nil || !more {
			return err
		}
		if rep, _, _ := l.levels(); rep == 0 {
			return nil
		}
		l.take()
	}
	return nil
}

// current gives the levels of the next value, which must be there.
func (l *levelReader) current() (rep, def uint8, err error) {
	if l.has && l.at < l.chunk.page.n {
		return l.levels()
	}
	more, err := l.peek()
	if err != nil {
		return 0, 0, err
	}
	if !more {
		return 0, 0, corrupt("column %q ends early", l.leaf.name)
	}
	return l.levels()
}

func (l *levelReader) levels() (rep, def uint8, err error) {
	p := &l.chunk.page
	def = l.leaf.maxDef // where no levels are kept, every value is there
	if p.rep != nil {
		rep = p.rep[l.at]
	}
	if p.def != nil {
		def = p.def[l.at]
	}
	return rep, def, nil
}

// take consumes the current value; its place among the page's present values
// is meant where it is one.
func (l *levelReader) take() (place int, present bool) {
	p := &l.chunk.page
	place, present = l.value, p.def == nil || p.def[l.at] == l.leaf.maxDef
	if present {
		l.value++
	}
	if p.rep == nil || p.rep[l.at] == 0 {
		l.row++
	}
	l.at++
	return place, present
}

func (l *levelReader) int(place int) int64 {
	p := &l.chunk.page
	if p.byIndex {
		return l.chunk.dict.ints[p.ids[place]]
	}
	return p.ints[place]
}

func (l *levelReader) str(place int) string {
	p := &l.chunk.page
	if p.byIndex {
		return l.chunk.dict.strs[p.ids[place]]
	}
	return p.strs[place]
}

// owned gives a string that shares no memory with the file. What is in the
// dictionary is shared: a short run of indexes can repeat a long string.
func (l *levelReader) owned(place int) string {
	if l.chunk.page.byIndex && l.chunk.codec != format.Uncompressed {
		return l.str(place)
	}
	return strings.Clone(l.str(place))
}
