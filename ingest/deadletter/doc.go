// Package deadletter keeps the records that could not be applied, as a Delta
// table beside the table: every engine can read it.
//
// Nouns: Entry (one record with coordinates, reason and bytes), Table, States
// (what became of entries, as one version of the table tells).
//
// Invariants:
//
//  1. Entries are stored before the commit that moves past their records.
//  2. Topic, partition, offset and row identify an entry: what is replayed after a
//     crash or a rollback enters nothing twice.
//  3. The record's bytes are kept as they came (the first MiB of an oversized one).
//  4. What became of an entry is told by the table's own state; the columns that
//     say it here are a copy, written after it, which Sync brings up to date.
package deadletter
