package binlog

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/gscd-io/gscd/capture/event"
)

// aside holds the rows of XA transactions that are prepared: they count, and come in
// order, when their XA COMMIT comes, and never where a XA ROLLBACK comes.
type aside struct {
	prepared map[string][]*event.Event // by xid, as XA COMMIT writes it
	now      []*event.Event            // of the transaction that is read
	size     int64
}

func (a *aside) waiting() bool { return len(a.prepared) > 0 }

// keep copies an event of the transaction that is read.
func (a *aside) keep(ev *event.Event, limit int64) error {
	kept := *ev
	kept.Before, kept.After = a.copyOf(ev.Before), a.copyOf(ev.After)
	a.now = append(a.now, &kept)
	if a.size > limit {
		return fmt.Errorf("XA transactions that are prepared and not committed have more than %d bytes: commit them or roll them back", limit)
	}
	return nil
}

func (a *aside) copyOf(cells []event.Cell) []event.Cell {
	if cells == nil {
		return nil
	}
	out := append([]event.Cell(nil), cells...)
	for i := range out {
		out[i].Bytes = bytes.Clone(out[i].Bytes)
		a.size += int64(len(out[i].Bytes)) + 56
	}
	return out
}

// prepare takes the event that ends the first half of an XA transaction, or the whole
// of one that has one phase.
func (r *Reader) prepare(body []byte) (end bool, err error) {
	c := cursor{b: body}
	onePhase := c.uint(1)
	format := uint32(c.uint(4))
	global, branch := c.uint(4), c.uint(4)
	xid := fmt.Sprintf("x'%x',x'%x',%d", c.take(global), c.take(branch), format)
	if c.err != nil {
		return false, corrupt("XA PREPARE: %v", c.err)
	}
	now := r.aside.now
	r.aside.now = nil
	if onePhase != 0 {
		r.give(now)
		return true, nil
	}
	if len(now) > 0 {
		if r.aside.prepared == nil {
			r.aside.prepared = map[string][]*event.Event{}
		}
		r.aside.prepared[xid] = now
	} else {
		r.emptyXA(xid)
	}
	return true, nil
}

// emptyXA remembers that nothing is wanted of a prepared transaction.
func (r *Reader) emptyXA(xid string) {
	if r.empty == nil {
		r.empty = map[string]bool{}
	}
	r.empty[xid] = true
}

// xa acts on the statements of XA transactions.
func (r *Reader) xa(verb, statement string) (end bool, err error) {
	switch verb {
	case "START", "BEGIN":
		r.tx.open, r.tx.alone, r.tx.xa = true, false, true
		return false, nil
	case "COMMIT", "ROLLBACK":
	default: // END, PREPARE: an event follows
		return false, nil
	}
	at := strings.Index(strings.ToUpper(statement), verb) + len(verb)
	xid := strings.ToLower(strings.TrimSpace(statement[at:]))
	xid = strings.TrimSpace(strings.TrimSuffix(xid, "one phase"))
	rows, known := r.aside.prepared[xid]
	if verb == "COMMIT" && !known && !r.empty[xid] {
		return false, fmt.Errorf("%w: XA transaction %s was prepared before the log begins", ErrCut, xid)
	}
	delete(r.aside.prepared, xid)
	delete(r.empty, xid)
	if len(r.aside.prepared) == 0 {
		r.aside.size = 0
	}
	if verb == "COMMIT" {
		r.give(rows)
	}
	return true, nil
}

// give queues rows that were kept aside: they are committed here.
func (r *Reader) give(rows []*event.Event) {
	commit := r.source()
	for _, ev := range rows {
		server := ev.Source.ServerID
		ev.Source = commit
		ev.Source.ServerID = server
		ev.Source.Row = r.row
		r.row++
		r.queue = append(r.queue, ev)
	}
}
