package change

import (
	"github.com/gscd-io/gscd/ddl"
	"github.com/gscd-io/gscd/delta/schema"
)

// Record is one Kafka record. Key and Value are nil where the record has none
// (a nil Value is a tombstone); the bytes are not changed by anyone.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	// Timestamp is the broker timestamp in milliseconds since 1970, -1 where there is none.
	Timestamp int64
	Headers   []Header
	Key       []byte
	Value     []byte
	// Oversize is 0, or the full length in bytes of a record over max_record:
	// then Key and Value hold their first MiB only (see Cap).
	Oversize int64
	// Row numbers the rows of a record that holds several: a Record stands for one
	// of its Rows rows. Both are 0 for a record of one.
	Row, Rows int32
	// Stored: it is from a file of the table's, where it may be sealed (package
	// ingest/transform), and not from its topic.
	Stored bool
}

// LastRow reports that no other row of the same record comes behind this one.
func (r *Record) LastRow() bool { return r.Row+1 >= r.Rows }

// Header is one header of a record.
type Header struct {
	Key   string
	Value []byte
}

// Op is what a change does to a row.
type Op uint8

// The operations. Tombstone is a record with a key and no value; Filtered one
// that belongs to another table or says nothing about rows (DDL of others). Heartbeat
// says that every change up to its EventTime has been sent on its partition.
const (
	Insert Op = iota + 1
	Update
	Delete
	Read
	Truncate
	Tombstone
	Filtered
	Heartbeat
	// Schema is a statement that changes the table's definition, or its rows without
	// events for them; Change.Schema says what it does.
	Schema
)

var opNames = [...]string{Insert: "insert", Update: "update", Delete: "delete", Read: "read", Truncate: "truncate", Tombstone: "tombstone", Filtered: "filtered", Heartbeat: "heartbeat", Schema: "schema"}

func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return "unknown"
}

// Position is a place in one binlog: the number in the log file's name, the
// byte position of the event and the row inside it. It compares by these
// three in this order, as integers, inside one line only.
type Position struct {
	File int64 `json:"file"`
	Pos  int64 `json:"pos"`
	Row  int32 `json:"row,omitempty"`
}

// Compare gives -1, 0 or +1.
func (p Position) Compare(q Position) int {
	switch {
	case p == q:
		return 0
	case p.File != q.File:
		return sign(p.File < q.File)
	case p.Pos != q.Pos:
		return sign(p.Pos < q.Pos)
	}
	return sign(p.Row < q.Row)
}

func sign(less bool) int {
	if less {
		return -1
	}
	return 1
}

// Server names the server whose binlog a change was read from: the connector's
// logical name and the server's identity (Debezium source.name, source.server_id).
type Server struct {
	Name string `json:"name,omitempty"`
	ID   int64  `json:"id,omitempty"`
}

// Load says what part of a load (initial or repeated full read, incremental
// snapshot) a Read belongs to.
type Load uint8

// The flags of a read, or'ed: FirstRead and LastRead where the source flags
// the first and last read of the whole load of all tables or of this one.
const (
	// Incremental marks a read of an incremental snapshot: no load of its own.
	Incremental Load = 1 << iota
	FirstRead
	LastRead
)

// Column is one cell's name and type. Type is schema.Unknown where the record does not tell.
type Column struct {
	Name string
	Type schema.Type
}

// Columns is the shape of a row.
type Columns struct {
	List []Column
	// FromSchema tells that the record itself (its schema part) or the
	// configuration gave the types: such a column exists although it is NULL.
	FromSchema bool
}

// SchemaChange is what a statement of the source does to the table.
type SchemaChange struct {
	// Statement is its text.
	Statement string
	// Columns are those that it drops, renames, adds or gives another type.
	Columns []ddl.ColumnChange
	// RowsRemoved says what it does to rows without events for them, such as DROP
	// PARTITION p0; empty: nothing.
	RowsRemoved string
}

// Change is one decoded event.
type Change struct {
	Op Op
	// Before is the row before, in BeforeColumns, nil where the event has none.
	// After likewise: nil for deletes and truncates. A cell may be Unavailable.
	BeforeColumns, Columns *Columns
	Before, After          []schema.Value
	// KeyColumns and Key are the record key's cells, nil where the record has no key.
	KeyColumns *Columns
	Key        []schema.Value

	// EventTime in microseconds since 1970, UTC; 0 where the event has none.
	EventTime int64
	// EventTimeIsCommit tells that the time is the transaction's commit (GTID
	// events of MySQL 8), not the statement's start in whole seconds.
	EventTimeIsCommit bool
	// ProcessingTime is the envelope's own time stamp in milliseconds, 0 where there is none.
	ProcessingTime int64
	Server         Server
	// Position is valid where HasPosition is set.
	Position    Position
	HasPosition bool
	// GTID as the source prints it, empty where there is none.
	GTID string
	Load Load
	// Whole tells of an update that columns which After lacks are NULL: the format leaves
	// out NULLs, and never what did not change.
	Whole bool
	// KeyUnsure tells of an update that nothing in the record says whether it changed
	// the key: the row before is not there.
	KeyUnsure bool
	// Schema is set for the Op Schema alone.
	Schema *SchemaChange
	// IfThere marks a delete of a row that may never have been: without one it says
	// nothing, and nothing of it is remembered.
	IfThere bool
	// Roomy tells that nobody else has After, nor the cells of its capacity: who takes
	// the change may write to both.
	Roomy bool
	// Database and Table are those of the source, where Options.Source of the decoder
	// asks for them.
	Database, Table string
	// OldKeyHeader tells that this is the second half of a key change that came as two records.
	OldKeyHeader, NewKeyHeader bool
}

// Reset makes the Change empty, for reuse.
func (c *Change) Reset() { *c = Change{} }
