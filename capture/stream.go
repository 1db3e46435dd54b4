package capture

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/capture/binlog"
	"github.com/gscd-io/gscd/capture/event"
	"github.com/gscd-io/gscd/capture/source"
	"github.com/gscd-io/gscd/ddl"
)

// streamer writes the changes of a binlog.
type streamer struct {
	o       *Options
	out     *output
	state   *state
	session *source.Session // for questions
	who     source.Identity
	catalog *tracked
	reader  *binlog.Reader
	// writing ends some time behind the context of the reading.
	writing context.Context

	base source.Position // the kept one
	// given counts events behind the base, skip is how many of them are written already.
	given, skip int64
	moved       bool // the base, since it was written
	boundary    bool // the last event was that of a transaction

	beat  time.Time       // when the next heartbeat is due
	clock int64           // of a heartbeat that waits until the stream is at
	at    source.Position // this place
	// clockTold: heartbeats are written that were not committed.
	clockTold bool
	end       *source.Position
}

// tracked is a catalog that notes what statements do, for the history.
type tracked struct {
	*ddl.Catalog
	position func() source.Position
	pending  []trackedEffect
}

type trackedEffect struct {
	before  source.Position
	entry   *savedSchema
	created bool
}

// Apply moves the catalog on.
func (t *tracked) Apply(statement string, s ddl.Session) ([]ddl.Effect, error) {
	effects, err := t.Catalog.Apply(statement, s)
	before := t.position()
	for _, e := range effects {
		if e.New == nil && e.Old == nil || e.Kind == ddl.Truncate {
			continue
		}
		t.pending = append(t.pending, trackedEffect{before, &savedSchema{
			File: before.File, Pos: before.Pos, Database: e.Name.Database, Name: e.Name.Table, Table: e.New, Statement: statement,
		}, e.Kind == ddl.Create})
	}
	return effects, err
}

// passed gives the entries of statements before the position. While a position does not
// move, what is behind it may be read again, and then its statements are as well.
func (t *tracked) passed(p source.Position) (out []trackedEffect) {
	for len(t.pending) > 0 && t.pending[0].before != p {
		out = append(out, t.pending[0])
		t.pending = t.pending[1:]
	}
	return out
}

// run writes until ctx ends, nil then, or the end is reached.
func (s *streamer) run(ctx context.Context) error {
	s.beat = time.Now().Add(s.o.Heartbeat)
	for {
		err := s.batch(ctx)
		switch {
		case ctx.Err() != nil:
			return s.last()
		case err != nil && !errors.Is(err, errEnd):
			// What ended before is good.
			if s.boundary {
				err = errors.Join(err, s.commit())
			}
			return err
		}
		if perr := s.pause(); perr != nil || err != nil {
			if errors.Is(perr, errEnd) || perr == nil {
				return nil
			}
			return perr
		}
	}
}

// last commits what is under way when the program is to stop. A batch that ends inside a
// transaction is given up, and read again.
func (s *streamer) last() error {
	if !s.boundary {
		return nil
	}
	s.moved = true
	return s.commit()
}

// errEnd: there is no more to read, or to be read.
var errEnd = errors.New("the end is reached")

// batch takes events for as long as a batch is open, and commits it.
func (s *streamer) batch(ctx context.Context) error {
	until := s.beat
	if !s.out.began.IsZero() { // it goes on: no transaction has ended yet
		until = s.out.began.Add(s.o.Batch.Interval)
		if now := time.Now(); until.Before(now) {
			until = now.Add(s.o.Batch.Interval)
		}
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for {
		e, err := s.reader.Next(ctx)
		if err != nil {
			return s.stopped(ctx, err)
		}
		if e.Op == event.Heartbeat {
			s.boundary = true
			return nil
		}
		began := s.out.began
		if err := s.take(e); err != nil {
			return err
		}
		if s.boundary && s.out.full() || s.out.bytes >= 2*s.o.Batch.Bytes || began.IsZero() && !s.out.began.IsZero() {
			return nil // of one that begins here, the time ends sooner
		}
	}
}

// stopped decides what an error of the reader means.
func (s *streamer) stopped(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return nil // the time is over
	case errors.Is(err, io.EOF):
		s.boundary = true
		return errEnd
	}
	return err
}

// take writes one event.
func (s *streamer) take(e *event.Event) error {
	s.given++
	if s.given <= s.skip {
		s.boundary = e.Source.Last
		return nil
	}
	if e.Op == event.Schema {
		s.o.Log.Info("the table changed", zap.String("table", strings.Join(names(e), " ")), zap.String("statement", e.Statement))
	}
	// An event that was not written, or to some partitions alone, ends nothing: it is read again.
	s.boundary = false
	if err := s.out.event(s.writing, e); err != nil {
		return err
	}
	s.boundary = e.Source.Last
	return nil
}

func names(e *event.Event) (out []string) {
	for _, t := range []*ddl.Table{e.Old, e.Table} {
		if t != nil {
			if n := t.Database + "." + t.Name; len(out) == 0 || out[0] != n {
				out = append(out, n)
			}
		}
	}
	return out
}

// pause commits what is under way where that is due, and tells the time.
func (s *streamer) pause() error {
	// A transaction of the source that goes on and on is written in parts, by size and time.
	const longest = 15 * time.Second
	large := s.out.bytes >= 2*s.o.Batch.Bytes || !s.out.began.IsZero() && time.Since(s.out.began) > max(longest, 2*s.o.Batch.Interval)
	if !s.boundary && !large {
		return nil // soon
	}
	due := large || s.out.full() || !time.Now().Before(s.beat)
	s.advance()
	if err := s.heartbeat(); err != nil {
		return err
	}
	end := s.end != nil && s.boundary && !before(s.base, *s.end)
	if due || end || s.clockTold {
		s.clockTold = false
		if err := s.commit(); err != nil {
			return err
		}
	}
	if end {
		return errEnd
	}
	return nil
}

// advance moves the base to the last end of a transaction, where the reader is at one.
func (s *streamer) advance() {
	if !s.boundary {
		return
	}
	p := source.Position(s.reader.Position())
	if p == s.base {
		return
	}
	s.base, s.given, s.skip, s.moved = p, 0, max(0, s.skip-s.given), true
	for _, e := range s.catalog.passed(p) {
		s.state.schema(e.entry)
		s.appeared(&e)
	}
}

// appeared notes a table that came under its name: all its rows were in the stream, so no
// load has to read them, unless it was a table under another name that was not captured.
func (s *streamer) appeared(e *trackedEffect) {
	t := e.entry.Table
	if t == nil || !s.o.wanted(t.Database, t.Name) || s.state.loads[t.Database+"."+t.Name] != nil {
		return
	}
	name := t.Database + "." + t.Name
	if !e.created && s.state.loads[e.entry.Database+"."+e.entry.Name] == nil {
		s.o.Log.Warn("a table that was not captured got a name that is: the rows that it had are read when the program is started again", zap.String("table", name))
		return
	}
	s.state.loads[name] = &tableLoad{Done: true}
	s.state.put(tableLoads+name, s.state.loads[name])
}

// commit writes the batch. Positions without records wait for the next heartbeat.
func (s *streamer) commit() error {
	s.advance()
	written := max(s.given, s.skip)
	if s.out.began.IsZero() && len(s.state.pending) == 0 && !s.moved {
		return nil
	}
	s.state.at(s.o, s.who, s.base, written)
	s.moved = false
	return s.out.commit(s.writing)
}

// heartbeat tells the time of the server when all before that time is written.
func (s *streamer) heartbeat() error {
	now := time.Now()
	if s.clock == 0 && !now.Before(s.beat) {
		clock, err := s.session.Clock()
		if err != nil {
			return err
		}
		if s.at, err = s.session.Position(); err != nil {
			return err
		}
		s.clock = clock
	}
	if !now.Before(s.beat) {
		s.beat = now.Add(s.o.Heartbeat)
	}
	if s.clock == 0 || before(s.base, s.at) || !s.boundary {
		return nil
	}
	source := event.Source{Name: s.o.Name, ServerID: s.who.ServerID, File: s.base.File, Pos: s.base.Pos, GTID: s.base.GTIDs, Time: s.clock}
	s.clock, s.clockTold = 0, true
	return s.out.heartbeat(s.writing, source)
}

// before compares places of one server.
func before(a, b source.Position) bool {
	if x, y := fileNumber(a.File), fileNumber(b.File); x != y {
		return x < y
	}
	return a.Pos < b.Pos
}

func fileNumber(name string) int64 {
	n, _ := strconv.ParseInt(name[strings.LastIndexByte(name, '.')+1:], 10, 64)
	return n
}
