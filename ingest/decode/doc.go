// Package decode turns the bytes of a Kafka record into a change.Change.
//
// It owns the change formats (see Formats), the table of types from
// the source's to Delta's, and the exact conversion of one cell.
//
// Nouns: Decoder (one format, one goroutine), Options (what the configuration
// says), ColumnSpec (a column's configured type and with it its encoding),
// encoding (how a record writes a column), shape (the names and types of a
// row, found once and shared), Error (why a record can't be used).
//
// Invariants:
//
//  1. A Decoder judges a record from the record and the Options alone (with
//     Options.History, from what the schema topic says of its place too). What it
//     remembers are caches: a restart decodes the same bytes to the same Change.
//  2. A record gives a Change or an *Error, or a *SchemaError while its schema can't
//     be had: no panic, no cell that is not
//     exactly what the record says. A value that its type can't hold is an error.
//  3. Nothing passes through a float but the cells of float and double columns.
//     A JSON number whose column has no known type keeps its text.
//  4. Rows of one shape share one *change.Columns within one Decoder.
//  5. Strings without escapes, GTIDs and number texts point into the Record's
//     bytes; all else is in the Arena. Server names are kept by the Decoder.
//
// # Debezium JSON, points decided
//
// JSON is read by a strict scanner: RFC 8259 grammar, valid UTF-8, nesting up
// to 128. A member name that occurs twice is an error where it decides
// something: in the envelope, in its source block, in a row.
//
// An envelope needs op (c, u, d, r, t; m is filtered) and a source object, bare
// or under "payload". Null bytes, the JSON text null and a null payload are
// tombstones. DDL events, heartbeats, transaction marks and signals are
// filtered, as is what Options.Source does not name. A flattened record (no op,
// no source) is an error that says so.
//
// Op r, and c or u with source.snapshot "true", true, "first", "last",
// "first_in_data_collection", "last_in_data_collection" or "incremental", is a
// Read. "first" and "first_in_data_collection" flag the first read of the
// table's load, "last" and "last_in_data_collection" its last one: a snapshot of
// several tables flags each table's own.
//
// Event time is source.ts_us where its milliseconds are those of source.ts_ms,
// else source.ts_ns likewise, else source.ts_ms. A time that is no integer
// counts as missing (0); one that can't be microseconds in 64 bits is an error.
// It is the commit's where a MySQL GTID (uuid:n, with or without tag) comes with
// a time that has a part of a second: binlog headers have whole seconds, so this
// proves the commit time stamp of MySQL 8. One in a million commits falls on a
// whole microsecond of 0 and is reported as the statement's: the safe side.
//
// A position needs a file whose name ends in a number; an empty name, or one
// without number, is no position. Reads of an initial load carry server_id 0.
//
// The record key is read where it is a JSON object of cells. Any other key is
// no key, and an error only where nothing else tells the row: a delete without
// before, a tombstone under Options.Tombstones "delete".
//
// # Flattened Debezium, points decided
//
// The members of a row that begin with __ are taken out of it, those that
// Options.Columns names excepted, and stand for the members of an envelope and its
// source block. __deleted goes before __op; without both a row is an Insert. A
// file without pos is no position. Without __deleted, and with Options.Tombstones
// empty, nothing tells how deletes come: ErrTombstones.
//
// # Debezium Avro, points decided
//
// A schema is parsed once per Decoder and id; from then on reading a record looks
// at no name. All of a value is checked: lengths, branches, symbols, UTF-8, 32 bits
// of an int, nesting up to 128, and that nothing stands behind it. A record may
// have more values than bytes (records of nulls), up to 65,536 and 8 a byte.
//
// A column takes its meaning from connect.type, connect.name and
// connect.parameters, in whose words Avro's logical types are put; timestamp-millis
// and the like without them are timestamp, local-timestamp-millis timestamp_ntz.
// A union of several types beside null is untyped: each cell has its own type.
//
// A schema without an envelope that has a member of add.fields (__op, __deleted, …) is
// that of flattened rows.
//
// # Maxwell, points decided
//
// A record needs database, type and, for rows, table and data. The position is
// "FILE.NUMBER:POS"; Row is xoffset, and the largest one for the row with commit.
// A bootstrap-insert is a Read without position: its row was not read at a
// consistent point. The row before an update is data with the cells of old over
// it. The key is that of primary_key_columns, else the members pk.COLUMN of the
// record key.
//
// # Canal's flat messages, points decided
//
// A record holds rows; Decode reads the one that Record.Row names, and the record
// is scanned once for all of them. There is no position; Position.Row orders the
// rows of one record. mysqlType gives the types, Options.Columns goes before it.
// Old releases of Flink CDC have deleted rows in old, with data null.
//
// # Canal's packets, points decided
//
// Canal and TiCDC fill in every field once: a known field twice, of another wire
// type, or a string that is not UTF-8 is an error; unknown fields are passed over.
// A record holds a change for each row, and one for each event without rows that is
// no mark of a transaction. The row's place in its event is Position.Row, and goes
// with a row that is kept alone as a property of its row change ("gscd.row").
// An event's type must agree with its header's; both left out it is an update.
//
// # AWS DMS and GoldenGate, points decided
//
// A record says no position: stream-position has no form of its own, and pos is a
// place in a trail that is written anew. The event time of DMS is commit-timestamp;
// timestamp is its own clock. An update of DMS is Whole (NULL and empty cells are left
// out), and KeyUnsure without a row before. The types and keys in DMS's control records
// are not used: a restart would not see them. GoldenGate's op_ts is UTC unless
// Options.OGG says otherwise.
//
// # TiCDC's open protocol, points decided
//
// A batch is read whole before anything of it counts: keys and values must come
// out even. Without flags, as in old releases, text is base64. There is no
// position: the time stamp orders the versions of one row, and not the rows of one
// partition, so that it can't tell a message sent twice from one sent late.
//
// # Types
//
// With a schema part its Connect types decide: int8..int64 are byte..long,
// float32 and float64 float and double, Decimal decimal(p,s) (no precision:
// scale 0 is an unsigned BIGINT, decimal(20,0), any other decimal(38,s); more
// than 38 digits: string), Bits long (64 bits: decimal(20,0)), Date date, the
// Timestamps timestamp_ntz, ZonedTimestamp timestamp, the Times long
// microseconds (signed, beyond a day), Year integer, geometries binary WKB
// (the SRID is dropped), VariableScaleDecimal string with every digit, other
// structs, arrays and maps string with their JSON text.
//
// What the record lost can't be told: an unsigned BIGINT that wrapped negative,
// unless Options.Columns says "bigint unsigned"; a zero date in a NOT NULL
// column, which Debezium writes as 1970-01-01.
//
// Without a schema a cell has the type that Options.Columns gives, else none
// (schema.Unknown): integers are Int, others Number, nested ones compact JSON.
package decode
