// Package capture writes the rows and changes of a MySQL or MariaDB server to Kafka:
// first the rows that are there, then the binlog from that moment on.
//
// Nouns: Options (what is read and written), Form (how an event is a record), load (the
// read of the rows), chunk (a stretch of a table's key that one connection reads), base
// (the position in the binlog that is kept), state (what a compacted topic keeps: base,
// load, schema history).
//
// Invariants:
//
//  1. All state is in Kafka, in one topic. With transactions it is written in that of the
//     records which it stands for: a change is in its topic once, whatever crashes. Without,
//     it is written behind them: changes may come again, with the same position.
//  2. A key stays on one partition, and its changes are in commit order there: the
//     partition is a hash of the key, and the number of partitions the one of the beginning.
//  3. All reads of a load carry one position, and the stream begins there. A load that
//     goes on after a crash reads the rest of the rows later, and the stream brings the
//     rows in between to where they were read: each change behind the position is written.
//  4. A base is the end of a transaction of the source. Of a transaction that is written
//     in parts the number of its written events is kept with the base before it.
//  5. Memory is bounded by Options.Batch, Load.Parallel and the largest record, whatever
//     tables and transactions have.
package capture
