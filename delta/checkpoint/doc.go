// Package checkpoint writes and reads checkpoints, the state of a table at one
// version: of the classic form in one Parquet file or several parts, and of the v2
// form, whose manifest (written in Parquet, read in JSON too) names sidecars that
// hold the file actions.
//
// The state is an action.Commit that makes the table from nothing: protocol,
// metadata, the newest txn of every application, the domains in force, removes
// that have not expired, the live adds. It has no commitInfo and no change data.
//
// Invariants:
//
//  1. What is written has the shape that Spark gives a checkpoint: one kind of
//     action a row, every field optional, columns txn, add, remove, metaData,
//     protocol, domainMetadata, statistics as JSON only.
//  2. File actions in a checkpoint change no data.
//  3. Write reads back what the store holds, and only then says that it is there.
//  4. Rows are read by name: unknown columns are ignored, missing ones are null,
//     the order of adds is that of the rows.
package checkpoint
