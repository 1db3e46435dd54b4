// Package source reads a server of MySQL or MariaDB: what it has set, where its
// binlog is, what its tables look like, their rows at one moment, and its binlog.
//
// Nouns: Server (how one is reached), Session (a connection), Fault (what keeps a
// server from being captured, with the statement that mends it), Position (a place
// in the binlog), Snapshots (sessions that see the same moment), Range (a stretch of
// a table's key), Stream (the binlog as it is written).
//
// Invariants:
//
//  1. Nothing is written to the server. The only lock is a short FLUSH TABLES WITH
//     READ LOCK, and only where Snapshots was allowed to take it.
//  2. The rows that Rows gives are those of the Snapshots' Position, and their cells
//     are the ones that the binlog has for the same values.
//  3. No message has the password.
package source
