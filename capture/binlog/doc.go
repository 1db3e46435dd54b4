// Package binlog turns the binary log of a MySQL or MariaDB server, read from files
// or sent by a server, into events in commit order.
//
// It owns the reading of the log: which event means what, where a transaction ends,
// and the exact value of every cell.
//
// Nouns: Log (where raw events come from), Files (a Log of files), Reader (gives
// the events), Position (where a reader can go on), Error (why it can't).
//
// Invariants:
//
//  1. No row is left out in silence: what the reader can't give exactly (a statement
//     in the place of rows, lost events, a log that is cut, text that is not of its
//     character set, columns that nobody names) is an Error, and the reader stops.
//  2. Positions to go on at are ends of transactions alone. Source.Pos is where an
//     event begins; rows of a compressed transaction all have the place of its payload
//     and are told apart by Source.Row.
//  3. One raw event and one row are in memory at a time, however large the transaction;
//     of XA transactions that are prepared but not yet committed all rows are.
//  4. Cells follow the definition of their time: the names that the log itself gives
//     (binlog_row_metadata=FULL), else the Catalog, which is moved on by each statement
//     of the log as it is met.
package binlog
