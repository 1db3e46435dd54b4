package parquet

import "github.com/gscd-io/gscd/delta/schema"

// cells reads the cells of one column chunk in order.
type cells struct {
	boundColumn
	chunk *chunkReader
	dict  []schema.Value
	row   int64          // of the row group: the next one
	at    int            // in the page
	vals  []schema.Value // the page's cells that are not NULL
	// numbers are those of a page by index; readInts uses them in the place of vals.
	numbers []int64
	next    int  // in vals, or what stands for them
	more    bool // a page is loaded, or only its header
	ready   bool // it is decoded
}

func (c *cells) name() string { return c.chunk.leaf.name }

// nextPage goes to the next page, whose body is not decoded yet.
func (c *cells) nextPage() error {
	more, err := c.chunk.next()
	if err != nil {
		return err
	}
	if !more {
		return corrupt("its rows end early")
	}
	c.more, c.ready, c.at, c.next = true, false, 0, 0
	return nil
}

// decode makes the page's cells.
func (c *cells) decode() error {
	if err := c.chunk.decode(); err != nil {
		return err
	}
	c.ready = true
	p := &c.chunk.page
	if cap(c.vals) < p.present {
		c.vals = make([]schema.Value, p.present+p.present/4)
	}
	c.vals = c.vals[:p.present]
	if !p.byIndex {
		return c.converter.cells(c.vals, &p.values)
	}
	if c.dict == nil {
		c.dict = make([]schema.Value, c.chunk.dictSize)
		if err := c.converter.cells(c.dict, &c.chunk.dict); err != nil {
			return err
		}
	}
	for i, id := range p.ids {
		c.vals[i] = c.dict[id]
	}
	return nil
}

// seek goes on to a row of the row group. Pages that are passed whole are not decoded.
func (c *cells) seek(row int64) error {
	if c.chunk.pages != nil && (!c.more || row >= c.chunk.rows.To) {
		if err := c.chunk.seek(row); err != nil {
			return err
		}
		if err := c.nextPage(); err != nil {
			return err
		}
		c.row = c.chunk.rows.From
	}
	for n := row - c.row; n > 0; {
		if !c.more || c.at == c.chunk.page.n {
			if err := c.nextPage(); err != nil {
				return err
			}
		}
		step := min(n, int64(c.chunk.page.n-c.at))
		if step < int64(c.chunk.page.n-c.at) || c.at > 0 {
			if err := c.pass(int(step)); err != nil {
				return err
			}
		} else {
			c.at = c.chunk.page.n
		}
		n -= step
	}
	c.row = row
	return nil
}

// pass goes on by rows inside the page.
func (c *cells) pass(n int) error {
	if !c.ready {
		if err := c.decode(); err != nil {
			return err
		}
	}
	if def := c.chunk.page.def; def != nil {
		c.next += count(def[c.at:c.at+n], c.chunk.leaf.maxDef)
	} else {
		c.next += n
	}
	c.at += n
	return nil
}

// read fills dst with the next rows.
func (c *cells) read(dst []schema.Value) error {
	c.row += int64(len(dst))
	for len(dst) > 0 {
		if !c.more || c.at == c.chunk.page.n {
			if err := c.nextPage(); err != nil {
				return err
			}
		}
		if !c.ready {
			if err := c.decode(); err != nil {
				return err
			}
		}
		n := min(len(dst), c.chunk.page.n-c.at)
		if def := c.chunk.page.def; def == nil || c.chunk.page.present == c.chunk.page.n {
			copy(dst[:n], c.vals[c.next:])
			c.next += n
		} else {
			next := c.next
			for i, d := range def[c.at : c.at+n] {
				if d == c.chunk.leaf.maxDef {
					dst[i] = c.vals[next]
					next++
				} else {
					dst[i] = schema.Value{}
				}
			}
			c.next = next
		}
		c.at += n
		dst = dst[n:]
	}
	return nil
}
