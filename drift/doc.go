// Package drift keeps what waits for its label: the records of later labels
// than the open one, written as files beside the log with the commit that
// refers to them, and read back in the order in which they were taken.
//
// Nouns: Entry (a held record with its judgement), File (a held file as the
// progress names it), Writer (one commit's entries, by label and load), Reader
// (the entries that are due, in order).
//
// Invariants:
//
//  1. A file is complete before a commit refers to it, and never changed after.
//  2. A file holds entries of one label, or of one load (whose label may fall).
//  3. A Reader gives the entries in the order in which they were taken: so in
//     offset order per partition.
//  4. An entry is judged once, when it is taken; what is read back is not judged again.
package drift
