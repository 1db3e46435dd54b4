// Package savepoint keeps the map from business labels to Delta versions inside
// the table, and what hangs on it: finding the version of a label, the state
// to go on from, rollback, and what may never be removed.
//
// Nouns: Map (label → Entry, read from a snapshot's txn actions), Entry (one
// label: state, version), Settings (what the table says of itself in its
// properties), Resolution (the answer to "as of").
//
// Invariants:
//
//  1. The map is in the log: txn actions "gscd.seal/LABEL", whose version is that
//     of the seal's commit; -1-v once deleted or rolled back. It survives
//     checkpoints, and needs no other file.
//  2. No label between the first and the open one is missing from the map. A gap
//     is an error, never the nearest neighbour.
//  3. A rollback is one commit: rows, schema, offsets, held changes and map.
//  4. Pinned is everything that vacuum and log cleanup must keep, and they use
//     the same list.
package savepoint
