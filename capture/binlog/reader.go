package binlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/gscd-io/gscd/capture/event"
	"github.com/gscd-io/gscd/ddl"
)

// Catalog knows the server's tables as of the event that is read: a *ddl.Catalog.
type Catalog interface {
	// Table gives a definition, nil where it is not known.
	Table(database, name string) *ddl.Table
	// Apply moves the catalog on by a statement of the log.
	Apply(statement string, s ddl.Session) ([]ddl.Effect, error)
}

// Options say what to read of a log.
type Options struct {
	// Name is the source's logical name, Source.Name of all events.
	Name string
	// Wanted tells which tables to give; nil: all. Of others nothing is read.
	Wanted func(database, table string) bool
	// Positional calls columns that nobody names @1, @2, …, with the types that the log
	// tells by itself; else a row of such a table is ErrNoDefinition.
	Positional bool
	// Start is where the Log begins; Files say it themselves.
	Start Position
	// MaxPrepared bounds the bytes of XA transactions that are prepared and not yet
	// committed; 0 is 256 MiB.
	MaxPrepared int64
}

// Position is a place between two transactions. GTIDs is the set of all transactions
// before it, empty where the server has none or the set at the Log's begin is not known.
type Position struct {
	File  string
	Pos   uint64
	GTIDs string
}

// Reader gives the events of a Log in commit order. It is not safe for concurrent use.
type Reader struct {
	log     Log
	catalog Catalog
	o       Options
	failed  error

	// Of the log.
	format  *replication.FormatDescriptionEvent
	summed  bool // events have a checksum
	mariadb bool
	file    string
	begin   uint64 // of the raw event that was read last
	end     uint64
	header  replication.EventHeader
	row     int32 // of the next row of the raw event
	ended   bool  // the file said that it ends

	tx      transaction
	gtids   executed
	safe    Position // without GTIDs
	payload *payload
	tables  map[uint64]*table
	shapes  map[string]*table // by "database\x00table"
	key     []byte            // of shapes, for reuse
	rows    rows
	aside   aside
	empty   map[string]bool // prepared XA transactions without wanted rows
	unread  error           // of the last statement that was not understood

	queue []*event.Event
	held  *event.Event
	slots [2]slot
	turn  int
}

// slot holds one event and its cells, for reuse.
type slot struct {
	event         event.Event
	before, after []event.Cell
	scratch       []byte
}

// transaction is the group of events that is being read.
type transaction struct {
	open bool
	// alone: the group is one statement, and has no COMMIT.
	alone bool
	gtid  gtid
	// time is the commit's in microseconds, 0 where it is not known.
	time       int64
	begin      uint64
	given      int            // rows read so far
	savepoints map[string]int // given at each
	// statement tells that an event came that belongs to a statement.
	statement bool
	xa        bool
}

// NewReader makes a reader of a log. The catalog is moved on by it.
func NewReader(log Log, catalog Catalog, o Options) *Reader {
	if o.MaxPrepared == 0 {
		o.MaxPrepared = 256 << 20
	}
	r := &Reader{log: log, catalog: catalog, o: o, tables: map[uint64]*table{}, shapes: map[string]*table{}}
	r.file, r.begin, r.end = o.Start.File, o.Start.Pos, o.Start.Pos
	r.safe = Position{File: o.Start.File, Pos: o.Start.Pos}
	r.gtids.start = o.Start.GTIDs
	return r
}

// Position gives where to go on: the end of the last transaction of which Next has
// given all events. Transactions without a wanted row move it too. While an XA
// transaction is prepared it stays before that one: a reader that goes on there gives
// later transactions again, with the same Source.
func (r *Reader) Position() Position {
	p := r.safe
	p.GTIDs = r.gtids.String()
	return p
}

// Next gives the next event, io.EOF at the end of the log. The event and what it
// points to are valid until the next call, but for its Table and Old, which stay.
//
// After an error of ctx, Next can be called again; any other one is final. It is an
// *Error, or what the Log said.
func (r *Reader) Next(ctx context.Context) (*event.Event, error) {
	for {
		if r.failed != nil {
			if out := r.held; out != nil {
				r.held = nil
				return out, nil
			}
			return nil, r.failed
		}
		ev, end, err := r.pull(ctx)
		switch {
		case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return nil, err
		case err != nil:
			r.failed = r.located(err)
		case end:
			r.finish()
			if out := r.held; out != nil {
				out.Source.Last = true
				r.held = nil
				return out, nil
			}
		case r.held == nil:
			r.held = ev
		default:
			out := r.held
			r.held = ev
			return out, nil
		}
	}
}

// located says where an error was met.
func (r *Reader) located(err error) error {
	var e *Error
	if err == io.EOF || errors.As(err, &e) {
		return err
	}
	e = &Error{File: r.file, Pos: r.begin, Err: err}
	var t *tableError
	if errors.As(err, &t) {
		e.Table, e.Err = t.table, t.err
	}
	return e
}

// tableError is an error of a table's rows.
type tableError struct {
	table string
	err   error
}

func (e *tableError) Error() string { return e.table + ": " + e.err.Error() }
func (e *tableError) Unwrap() error { return e.err }

// pull gives the next event, or that a transaction ends.
func (r *Reader) pull(ctx context.Context) (ev *event.Event, end bool, err error) {
	defer func() {
		if p := recover(); p != nil { // go-mysql's decoders index without looking
			err = corrupt("%v", p)
		}
	}()
	for {
		if len(r.queue) > 0 {
			ev, r.queue = r.queue[0], r.queue[1:]
			return ev, false, nil
		}
		if r.rows.left() {
			ev, err := r.nextRow()
			if ev != nil || err != nil {
				return ev, false, err
			}
			continue
		}
		if r.rows.closing {
			r.rows.closing = false
			return nil, true, nil
		}
		raw, err := r.next(ctx)
		if err != nil {
			return nil, false, err
		}
		end, err := r.take(raw)
		if end || err != nil {
			if err != nil || len(r.queue) == 0 {
				return nil, end, err
			}
			r.rows.closing = true // behind what is queued
		}
	}
}

// next gives the next raw event, of the open payload or of the log.
func (r *Reader) next(ctx context.Context) ([]byte, error) {
	if r.payload != nil {
		raw, err := r.payload.next()
		if err == nil {
			return raw, r.readHeader(raw)
		}
		r.payload.close()
		r.payload = nil
		if err != io.EOF {
			return nil, err
		}
	}
	raw, err := r.log.Next(ctx)
	if err == io.EOF && r.tx.open {
		return nil, &Error{File: r.file, Pos: r.end, Err: fmt.Errorf("%w: the transaction that begins at byte %d has no end", ErrCut, r.tx.begin)}
	}
	if err != nil {
		return nil, err
	}
	if len(raw) < headerSize {
		return nil, corrupt("an event of %d bytes", len(raw))
	}
	r.row = 0
	return raw, r.locate(raw)
}

// readHeader reads an event's header into r.header.
func (r *Reader) readHeader(raw []byte) error {
	if len(raw) < headerSize {
		return corrupt("an event of %d bytes", len(raw))
	}
	h := &r.header
	h.Timestamp = binary.LittleEndian.Uint32(raw)
	h.EventType = replication.EventType(raw[4])
	h.ServerID = binary.LittleEndian.Uint32(raw[5:])
	h.EventSize = binary.LittleEndian.Uint32(raw[9:])
	h.LogPos = binary.LittleEndian.Uint32(raw[13:])
	h.Flags = binary.LittleEndian.Uint16(raw[17:])
	if int(h.EventSize) != len(raw) {
		return corrupt("an event of %d bytes says that it has %d", len(raw), h.EventSize)
	}
	return nil
}

// locate reads the header and finds where the event begins and ends. Artificial events
// have no place; MariaDB gives none inside a transaction; past 4 GiB positions wrap.
func (r *Reader) locate(raw []byte) error {
	if err := r.readHeader(raw); err != nil {
		return err
	}
	h := &r.header
	artificial := h.Flags&replication.LOG_EVENT_ARTIFICIAL_F != 0 ||
		h.LogPos == 0 && (h.EventType == replication.FORMAT_DESCRIPTION_EVENT || h.EventType == replication.ROTATE_EVENT) ||
		h.EventType == replication.HEARTBEAT_EVENT || h.EventType == replication.HEARTBEAT_LOG_EVENT_V2
	if artificial {
		r.begin = r.end
		return nil
	}
	r.begin = r.end
	r.end += uint64(len(raw))
	if h.LogPos != 0 && uint32(r.end) != h.LogPos && h.LogPos >= h.EventSize {
		// A server that was asked for a place in a file, or one that leaves events out.
		r.end = uint64(h.LogPos)
		r.begin = r.end - uint64(len(raw))
	}
	return nil
}

const checksumSize = replication.BinlogChecksumLength

// checksumFits reports whether an event's last four bytes are its checksum.
func checksumFits(raw []byte) bool {
	n := len(raw) - checksumSize
	return n >= headerSize && crc32.ChecksumIEEE(raw[:n]) == binary.LittleEndian.Uint32(raw[n:])
}

// body takes header and checksum off an event.
func (r *Reader) body(raw []byte) ([]byte, error) {
	if !r.summed || r.payload != nil {
		return raw[headerSize:], nil
	}
	if !checksumFits(raw) {
		return nil, corrupt("the checksum of an event of type %s is wrong", r.header.EventType)
	}
	return raw[headerSize : len(raw)-checksumSize], nil
}

// describe takes the event that says how those behind it are written.
func (r *Reader) describe(raw []byte) error {
	f := &replication.FormatDescriptionEvent{}
	if len(raw) < headerSize+2+50+4+1+5 {
		return corrupt("a format description of %d bytes", len(raw))
	}
	if err := f.Decode(raw[headerSize:]); err != nil {
		return corrupt("format description: %v", err)
	}
	if f.Version != 4 {
		return fmt.Errorf("binlog version %d %w: MySQL 5.0 and later write version 4", f.Version, ErrUnsupported)
	}
	r.summed = f.ChecksumAlgorithm == replication.BINLOG_CHECKSUM_ALG_CRC32
	if r.summed {
		// The flag that the file is in use was set, or taken away, behind the checksum.
		plain := append([]byte(nil), raw...)
		plain[17] &^= byte(replication.LOG_EVENT_BINLOG_IN_USE_F)
		if !checksumFits(plain) && !checksumFits(raw) {
			return corrupt("the checksum of the format description is wrong")
		}
	}
	r.format = f
	r.mariadb = strings.Contains(strings.ToLower(f.ServerVersion), "mariadb")
	clear(r.tables)
	return r.gtids.flavor(r.mariadb)
}

// postHeader is the length of an event type's fixed part.
func (r *Reader) postHeader(t replication.EventType) (int, error) {
	if i := int(t) - 1; i >= 0 && i < len(r.format.EventTypeHeaderLengths) {
		return int(r.format.EventTypeHeaderLengths[i]), nil
	}
	return 0, corrupt("events of type %d are not described", t)
}

// finish closes the transaction and moves the position behind it.
func (r *Reader) finish() {
	done := r.tx.gtid
	r.tx = transaction{}
	clear(r.tables)
	if r.aside.waiting() {
		r.gtids.later(done)
		return
	}
	r.gtids.add(done)
	r.safe.File, r.safe.Pos = r.file, r.end
}
