package event

import "github.com/gscd-io/gscd/ddl"

// Op is what an Event says.
type Op uint8

const (
	Insert Op = iota + 1
	Update
	Delete
	// Read is a row of the initial load.
	Read
	Truncate
	// Schema is a statement that changes a table's definition, or rows without events.
	Schema
	// Heartbeat says that the log was read up to its Source's time and position.
	Heartbeat
)

// Event is one row change, row read or statement, in commit order.
type Event struct {
	Op     Op
	Source Source
	// Table is the definition that the cells follow; after a Schema event the new
	// one (nil: the table is gone). Nil for a Heartbeat.
	Table *ddl.Table
	// Before and After hold a Cell for each of Table.Columns. Before is nil for
	// inserts and reads, After for deletes; both for other events.
	Before, After []Cell
	// Statement is the text of a Schema or Truncate event. Old is the definition that
	// the table's name had before (nil: there was none): where two tables change names,
	// as at the end of an online schema change, each has an event with old and new.
	Statement string
	Old       *ddl.Table
	// RowsRemoved says what a statement did to rows without events for them, such as
	// DROP PARTITION; empty: nothing.
	RowsRemoved string
	// Moved marks the two halves of an update that changed its row's key, see Split.
	Moved bool
}

// Source is where an event comes from. Positions compare inside one server alone.
type Source struct {
	// Name is the logical name that the configuration gives to the source.
	Name string
	// ServerID is the server_id of the event's header: the server that first wrote
	// it, not the one that it was read from.
	ServerID uint32
	// File and Pos are the log file and the byte where the event begins; Row counts
	// the rows of one event from 0. Of a Read they are the consistent point.
	File string
	Pos  uint64
	Row  int32
	// GTID of the transaction, "uuid:n", "uuid:tag:n" or "domain-server-seq"; of a
	// Read the set at the consistent point; empty: the server has none.
	GTID string
	// Time is the commit's, in microseconds since 1970, where CommitTime is set
	// (MySQL 8 with GTID events), else the header's: seconds, start of the statement.
	Time       int64
	CommitTime bool
	// Last marks the last event of a transaction, and of a load.
	Last bool
	// First marks the first read of a table's load, LastOfTable its last one.
	First, LastOfTable bool
}

// Kind is the form of a Cell.
type Kind uint8

const (
	// Absent: the log does not say (row images other than FULL).
	Absent Kind = iota
	Null
	// Int is a signed number, in Cell.Number as int64: tinyint to bigint, year.
	Int
	// Uint is an unsigned number: the unsigned integers, bit.
	Uint
	// Float is a float, Double a double: Cell.Float.
	Float
	Double
	// Text is UTF-8 in Cell.Bytes: characters, enum and set as labels, decimal with
	// all its digits, JSON, and dates and times as the server prints them; a timestamp
	// is UTC, "2022-07-16 08:00:00.123456".
	Text
	// Bytes are as stored; binary(n) is padded to n. A geometry is SRID (4 bytes,
	// little-endian) and WKB.
	Bytes
)

// Cell is one value.
type Cell struct {
	Kind   Kind
	Number uint64
	Float  float64
	Bytes  []byte
}
