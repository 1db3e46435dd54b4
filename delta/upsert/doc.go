// Package upsert writes rows by key into a Delta table: it knows where each
// key's row lies, so a batch costs what the batch costs, not what the table does.
//
// Nouns: Index (key → Ref), Ref (segment and row, with a tag of the caller's),
// Segment (a live data file under a small number), Batch (the rows and deletes
// of one commit, one entry a key), Writer (index and segments of one table).
//
// Invariants:
//
//  1. The index is never the truth: it is rebuilt from the key columns of the
//     live files, and equals that rebuild after every commit.
//  2. Every live row has exactly one Ref, and its key occurs once in the index.
//     A key that is live twice is an error that names it.
//  3. Nothing in the index changes before the commit that moves the rows is there.
//  4. Deletion vectors replace, never stack: a file's new vector holds its old
//     dead rows and the new ones.
//  5. A Ref is good until the next Applied; it is never stored.
package upsert
