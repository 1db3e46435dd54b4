package binlog

import (
	"fmt"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/gscd-io/gscd/capture/event"
)

// take reads one raw event that is no row of one. It reports that the transaction
// ends, behind what it has queued.
func (r *Reader) take(raw []byte) (end bool, err error) {
	kind := r.header.EventType
	switch kind {
	case replication.FORMAT_DESCRIPTION_EVENT:
		if r.tx.open && r.header.Flags&replication.LOG_EVENT_ARTIFICIAL_F == 0 && r.header.LogPos != 0 {
			return false, fmt.Errorf("%w: a server began to write inside the transaction that begins at byte %d", ErrCut, r.tx.begin)
		}
		return false, r.describe(raw)
	case replication.ROTATE_EVENT:
		return false, r.rotate(raw)
	}
	if r.format == nil {
		return false, corrupt("an event of type %s before the format description", kind)
	}
	body, err := r.body(raw)
	if err != nil {
		return false, err
	}
	if r.tx.statement && kind != replication.QUERY_EVENT && kind != replication.MARIADB_QUERY_COMPRESSED_EVENT {
		switch kind {
		case replication.INTVAR_EVENT, replication.RAND_EVENT, replication.USER_VAR_EVENT:
		default:
			return false, ErrStatementFormat
		}
	}
	switch kind {
	case replication.GTID_EVENT, replication.ANONYMOUS_GTID_EVENT, replication.GTID_TAGGED_LOG_EVENT:
		return false, r.beginMySQL(kind, body)
	case replication.MARIADB_GTID_EVENT:
		return false, r.beginMariaDB(body)
	case replication.PREVIOUS_GTIDS_EVENT:
		return false, r.gtids.previous(body)
	case replication.MARIADB_GTID_LIST_EVENT:
		return false, r.gtids.list(body)
	case replication.QUERY_EVENT, replication.MARIADB_QUERY_COMPRESSED_EVENT:
		q, err := readQuery(body, kind == replication.MARIADB_QUERY_COMPRESSED_EVENT)
		if err != nil {
			return false, err
		}
		return r.query(q)
	case replication.XID_EVENT:
		return true, nil
	case replication.XA_PREPARE_LOG_EVENT:
		return r.prepare(body)
	case replication.TABLE_MAP_EVENT:
		return false, r.tableMap(body)
	case replication.TRANSACTION_PAYLOAD_EVENT:
		if r.payload != nil {
			return false, corrupt("a payload in a payload")
		}
		r.payload, err = openPayload(body)
		return false, err
	case replication.INTVAR_EVENT, replication.RAND_EVENT, replication.USER_VAR_EVENT:
		r.tx.statement = true // the statement comes next, and is named
		return false, nil
	case replication.LOAD_EVENT, replication.CREATE_FILE_EVENT, replication.APPEND_BLOCK_EVENT, replication.EXEC_LOAD_EVENT,
		replication.NEW_LOAD_EVENT, replication.BEGIN_LOAD_QUERY_EVENT, replication.EXECUTE_LOAD_QUERY_EVENT:
		return false, fmt.Errorf("%w: LOAD DATA", ErrStatementFormat)
	case replication.INCIDENT_EVENT:
		return false, incident(body)
	case replication.HEARTBEAT_EVENT, replication.HEARTBEAT_LOG_EVENT_V2:
		r.heartbeat()
		return false, nil
	case replication.MARIADB_START_ENCRYPTION_EVENT:
		return false, fmt.Errorf("an encrypted file %w: read it from the server, which decrypts it", ErrUnsupported)
	case replication.STOP_EVENT, replication.IGNORABLE_EVENT, replication.ROWS_QUERY_EVENT, replication.MARIADB_ANNOTATE_ROWS_EVENT,
		replication.MARIADB_BINLOG_CHECKPOINT_EVENT, replication.TRANSACTION_CONTEXT_EVENT, replication.VIEW_CHANGE_EVENT,
		replication.DELETE_FILE_EVENT, replication.SLAVE_EVENT:
		return false, nil
	}
	if op, ok := rowEvents[kind]; ok {
		return false, r.openRows(op, body)
	}
	if r.header.Flags&replication.LOG_EVENT_IGNORABLE_F != 0 {
		return false, nil
	}
	return false, fmt.Errorf("events of type %d %w: a newer server, or one before its first release", kind, ErrUnsupported)
}

// rotate goes on to another file. The artificial event that names the file at its begin
// has a checksum or not, whatever the file has.
func (r *Reader) rotate(raw []byte) error {
	if r.header.LogPos != 0 && r.summed && !checksumFits(raw) {
		return corrupt("the checksum of a ROTATE event is wrong")
	}
	if len(raw) < headerSize+8 {
		return corrupt("a ROTATE event of %d bytes", len(raw))
	}
	name, pos := nextName(raw), littleEndian(raw[headerSize:headerSize+8])
	if r.tx.open && name != r.file {
		return fmt.Errorf("%w: the transaction that begins at byte %d has no end in its file", ErrCut, r.tx.begin)
	}
	r.file, r.begin, r.end = name, pos, pos
	if !r.tx.open && !r.aside.waiting() {
		r.safe.File, r.safe.Pos = name, pos
	}
	return nil
}

// incident says that events were lost: number, length, text.
func incident(body []byte) error {
	c := cursor{b: body}
	c.uint(2)
	if text := c.take(c.uint(1)); len(text) > 0 {
		return fmt.Errorf("%w: %q", ErrIncident, text)
	}
	return ErrIncident
}

func (r *Reader) heartbeat() {
	if r.tx.open {
		return
	}
	r.queue = append(r.queue, &event.Event{Op: event.Heartbeat, Source: event.Source{
		Name: r.o.Name, ServerID: r.header.ServerID, File: r.file, Pos: r.end, Last: true,
	}})
	r.rows.closing = true
}

// source is where the raw event is, and whose transaction.
func (r *Reader) source() event.Source {
	s := event.Source{
		Name: r.o.Name, ServerID: r.header.ServerID, File: r.file, Pos: r.begin,
		GTID: r.tx.gtid.String(), Time: r.tx.time, CommitTime: r.tx.time != 0,
	}
	if !s.CommitTime {
		s.Time = int64(r.header.Timestamp) * 1e6
	}
	return s
}
