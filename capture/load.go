package capture

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/capture/event"
	"github.com/gscd-io/gscd/capture/source"
)

// tableLoad is how far the load of a table is, as the state topic keeps it.
type tableLoad struct {
	// Definition is the statement that creates the table; with another one a load that was
	// broken off can't go on.
	Definition string `json:"definition"`
	// First tells that the first row is written.
	First bool `json:"first,omitempty"`
	// Next is where the next chunk begins; there is none where Whole is set.
	Next  []string `json:"next,omitempty"`
	Whole bool     `json:"whole,omitempty"`
	// Open are the chunks that are not written in full, each from where it is.
	Open []*source.Range `json:"open,omitempty"`
	Rows int64           `json:"rows"`
	Done bool            `json:"done,omitempty"`

	table *source.Table
	name  source.TableName
	begun bool            // a connection has the first row
	idle  []*source.Range // of Open those that nobody reads
	held  *heldRow
	dirty bool
}

// heldRow is the last row of a table, which is written last.
type heldRow struct {
	event event.Event
	chunk *source.Range
}

// errReload: the load has to begin anew.
var errReload = errors.New("the load begins anew")

// loader reads tables with several connections, and one goroutine writes.
type loader struct {
	o      *Options
	out    *output
	state  *state
	saved  *savedLoad
	tables []*tableLoad

	mu    sync.Mutex // guards the progress of tables
	parts chan *part
}

// part is a stretch of a chunk as it was read.
type part struct {
	of      *tableLoad
	chunk   *source.Range
	records []record
	rows    int64
	first   bool     // the first row of the table is among them
	last    []string // the key up to which the chunk is read; nil where it is not kept
	done    bool     // the chunk is
	held    *heldRow
}

// autoIncrement is a part of a definition that changes with the rows.
var autoIncrement = regexp.MustCompile(` AUTO_INCREMENT=\d+`)

// run reads all tables that are not done. Between, the state is committed with the rows.
func (l *loader) run(ctx context.Context, snapshots *source.Snapshots) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	l.parts = make(chan *part, 2*len(snapshots.Sessions))
	var readers sync.WaitGroup
	for _, session := range snapshots.Sessions {
		readers.Go(func() {
			if err := l.read(ctx, session); err != nil {
				stop(err)
			}
		})
	}
	go func() { readers.Wait(); close(l.parts) }()
	err := l.write(ctx)
	if err != nil {
		stop(err)
	}
	for range l.parts { // until the readers have ended
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	return nil
}

// next gives a chunk to read, nil where none is left.
func (l *loader) next(s *source.Session) (*tableLoad, *source.Range, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.tables {
		if n := len(t.idle); n > 0 {
			chunk := t.idle[0]
			t.idle = t.idle[1:]
			return t, chunk, nil
		}
		if t.Done || t.Whole {
			continue
		}
		chunk := &source.Range{After: t.Next}
		if t.table.Keyed() {
			bound, err := s.Bound(t.table, t.Next, l.o.Load.ChunkRows)
			if err != nil {
				return nil, nil, err
			}
			chunk.UpTo, t.Next = bound, bound
		}
		t.Whole = chunk.UpTo == nil
		t.Open, t.dirty = append(t.Open, chunk), true
		if t.Whole {
			t.Next = nil
		}
		return t, chunk, nil
	}
	return nil, nil, nil
}

const (
	partBytes = 256 << 10
	partRows  = 1000
)

// read reads chunks until none is left.
func (l *loader) read(ctx context.Context, s *source.Session) error {
	r := &reader{l: l, ctx: ctx, form: l.o.Form()}
	for {
		t, chunk, err := l.next(s)
		if err != nil || t == nil {
			return err
		}
		if err := r.chunk(s, t, chunk); err != nil {
			return err
		}
	}
}

// reader makes records of one connection's rows.
type reader struct {
	l     *loader
	ctx   context.Context
	form  Form
	arena arena

	part  *part
	bytes int
}

func (r *reader) chunk(s *source.Session, t *tableLoad, chunk *source.Range) error {
	r.l.mu.Lock()
	bounds, final := *chunk, chunk.UpTo == nil
	first := !t.begun
	t.begun = true
	r.l.mu.Unlock()
	keyed := t.table.Keyed()
	r.part, r.bytes = &part{of: t, chunk: chunk}, 0
	e := event.Event{Op: event.Read, Table: t.table.Table, Source: r.l.source()}
	e.Source.First = first
	any := false
	var held, before keptRow // a row of the last chunk waits for the next one
	add := func(cells []event.Cell) error {
		e.After = cells
		topic := r.l.o.topicOf(t.table.Database, t.table.Name)
		if err := r.form.Append(&e, func(m Message) error {
			r.part.records = append(r.part.records, record{cmp.Or(m.Topic, topic), r.arena.keep(m.Key), r.arena.keep(m.Value), m.Headers, m.Everywhere, m.Topic != ""})
			r.bytes += len(m.Key) + len(m.Value)
			return nil
		}); err != nil {
			return err
		}
		r.part.first = r.part.first || e.Source.First
		e.Source.First, any = false, true
		r.part.rows++
		if r.bytes >= partBytes || r.part.rows >= partRows {
			if keyed {
				r.part.last = t.table.KeyOf(cells)
			}
			return r.send()
		}
		return nil
	}
	err := s.Rows(r.ctx, t.table, bounds, func(cells []event.Cell) error {
		if !final {
			return add(cells)
		}
		if held.cells != nil {
			if err := add(held.cells); err != nil {
				return err
			}
		}
		held, before = before, held
		held.copy(cells)
		return nil
	})
	if err != nil {
		return err
	}
	if held.cells != nil {
		last := e
		last.After = held.cells
		r.part.held = &heldRow{event: last, chunk: chunk}
		if keyed && before.cells != nil {
			r.part.last = t.table.KeyOf(before.cells)
		}
	}
	if first && !any && held.cells == nil { // no row to bear the flag
		r.l.mu.Lock()
		t.begun = false
		r.l.mu.Unlock()
	}
	r.part.done = true
	return r.send()
}

func (r *reader) send() error {
	p := r.part
	r.part, r.bytes = &part{of: p.of, chunk: p.chunk}, 0
	select {
	case r.l.parts <- p:
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

// keptRow is a copy of a row.
type keptRow struct {
	cells []event.Cell
	bytes []byte
}

// copy takes a row in the memory of the one before.
func (k *keptRow) copy(cells []event.Cell) {
	k.cells, k.bytes = append(k.cells[:0], cells...), k.bytes[:0]
	n := 0
	for i := range cells {
		n += len(cells[i].Bytes)
	}
	k.bytes = slices.Grow(k.bytes, n)
	for i := range k.cells {
		if cells[i].Bytes != nil {
			from := len(k.bytes)
			k.bytes = append(k.bytes, cells[i].Bytes...)
			k.cells[i].Bytes = k.bytes[from:len(k.bytes):len(k.bytes)]
		}
	}
}

// source is where the reads come from: the same for all of a load.
func (l *loader) source() event.Source {
	return event.Source{Name: l.o.Name, ServerID: l.saved.ServerID, File: l.saved.File, Pos: l.saved.Pos, GTID: l.saved.GTIDs, Time: l.saved.Time}
}

// write writes what is read, with the progress.
func (l *loader) write(ctx context.Context) error {
	told := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C: // rows may be long in coming, and no transaction may wait for them
			if !l.full() {
				continue
			}
			if err := l.commit(ctx); err != nil {
				return err
			}
		case p, more := <-l.parts:
			if !more {
				return nil
			}
			if err := l.take(ctx, p); err != nil {
				return err
			}
		}
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			l.o.Log.Info("reading rows", zap.Int64("rows", l.rows()))
		}
	}
}

// take writes a part.
func (l *loader) take(ctx context.Context, p *part) error {
	for i := range p.records {
		if err := l.out.write(ctx, &p.records[i]); err != nil {
			return err
		}
	}
	finished := l.advance(p)
	if finished || l.full() {
		if err := l.commit(ctx); err != nil {
			return err
		}
	}
	if finished {
		return l.finish(ctx, p.of)
	}
	return nil
}

// full tells that it is time to commit: nobody waits for single rows of a load.
func (l *loader) full() bool {
	return l.out.bytes >= 2*l.o.Batch.Bytes || !l.out.began.IsZero() && time.Since(l.out.began) >= max(time.Second, l.o.Batch.Interval)
}

// advance notes what a part stands for; it tells that all rows of the table but the held
// one are written with the next commit.
func (l *loader) advance(p *part) (finished bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := p.of
	t.dirty = true
	t.Rows += p.rows
	t.First = t.First || p.first
	if p.last != nil {
		p.chunk.After = p.last
	}
	if p.held != nil {
		t.held = p.held
	}
	if !p.done {
		return false
	}
	if p.held == nil {
		t.Open = slices.DeleteFunc(t.Open, func(c *source.Range) bool { return c == p.chunk })
	}
	left := len(t.Open)
	if t.held != nil {
		left--
	}
	return t.Whole && left == 0
}

// finish writes the last row of a table, with the flag that it is.
func (l *loader) finish(ctx context.Context, t *tableLoad) error {
	l.mu.Lock()
	if t.held != nil {
		t.Rows++
	}
	t.Open, t.Done, t.dirty = nil, true, true
	last := !slices.ContainsFunc(l.tables, func(t *tableLoad) bool { return !t.Done })
	l.mu.Unlock()
	if t.held != nil {
		e := &t.held.event
		e.Source.LastOfTable, e.Source.Last = true, last
		if err := l.out.event(ctx, e); err != nil {
			return err
		}
		t.held = nil
	}
	l.o.Log.Info("table read", zap.String("table", t.name.String()), zap.Int64("rows", t.Rows))
	return l.commit(ctx)
}

// commit writes what is under way, with the progress of the tables.
func (l *loader) commit(ctx context.Context) error {
	l.mu.Lock()
	for _, t := range l.tables {
		if t.dirty {
			t.dirty = false
			saved := *t
			saved.Open = nil
			for _, c := range t.Open {
				chunk := *c
				saved.Open = append(saved.Open, &chunk)
			}
			if !t.table.Keyed() && !t.Done { // nothing tells how far it is
				saved.Open, saved.Rows, saved.First, saved.Whole = nil, 0, false, false
			}
			l.state.put(tableLoads+t.name.String(), &saved)
		}
	}
	l.mu.Unlock()
	return l.out.commit(ctx)
}

func (l *loader) rows() (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.tables {
		n += t.Rows
	}
	return n
}
