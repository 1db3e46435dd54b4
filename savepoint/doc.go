// Package savepoint keeps the map from business labels to Delta versions inside
// the table, and what hangs on it: finding the version of a label, the state
// to go on from, rollback, what may never be removed, and whether all of it is
// still sound.
//
// Nouns: Map (label → Entry, read from a snapshot's txn actions), Entry (one
// label: state, version), Settings (what the table says of itself in its
// properties), Resolution (the answer to "as of"), Pin (a version that must stay
// readable, and for what), Seal (what the commit of a savepoint says), Summary
// (one line of the map with it), island (the commit and the checkpoint that
// make a version readable by itself), backup (their copies), Fault (one thing
// that is not as it should be).
//
// Invariants:
//
//  1. The map is in the log: txn actions "gscd.seal/LABEL", whose version is that
//     of the seal's commit; -1-v once deleted or rolled back. A rolled-back savepoint
//     that is still kept is "gscd.seal/LABEL@VERSION", a named one
//     "gscd.savepoint/NAME". They survive checkpoints, and need no other file.
//  2. No label between the first and the open one is missing from the map. A gap
//     is an error, never the nearest neighbour.
//  3. A rollback is one commit: rows, schema, offsets, held changes and map. One
//     to a kept savepoint brings the labels before it back as they were then.
//  4. PinsOf is all that vacuum and log cleanup must keep, and they, and Check,
//     use no other list. What is pinned, or becomes the newest version by a
//     rollback, has all its files.
//  5. Vacuum removes nothing before every pin was read, and a dry run lists
//     exactly what the run after it removes.
//  6. A version says in its own commit how many rows it has and, where it was
//     sealed, the digest of its files. Verify compares them before a row is given.
//  7. Check changes nothing without Repair, and reports every kind of damage that
//     makes a savepoint unreadable, or less safe, once and by its file.
package savepoint
