// Package scd2 builds and keeps history tables (slowly changing dimension, type 2) from the
// sealed labels of a gscd table: a row for each state of a key, with the half-open
// interval [valid_from, valid_to) in which it was the state.
//
// Nouns: Source (the gscd table as it is now), Options (what a new history table is like),
// Report (what a run did), Step (what one label changed), Status (how far the history table
// is behind), Fault (a key whose history is not what the label's savepoint says).
//
// Invariants:
//
//  1. For every label that was taken, the rows with valid_from <= t and valid_to > t, t
//     being the label's date, are the rows of the label's savepoint.
//  2. A label is taken by one commit, which also says that it was, and from which version
//     of the source: a run that is broken off anywhere is gone on with by the next one,
//     and a run that has nothing to do writes nothing. Of two runs at one time each label
//     is taken by one.
//  3. A label that the source has rolled back, or sealed anew, is undone before it is taken
//     again: rows that it or a later label opened go, those that they closed are open again.
//  4. A key has at most one open row, no interval is empty, and intervals of a key do not
//     overlap. A label in which a key's row does not change in the end makes no interval.
//  5. Memory is bounded by Options.Memory; rows beyond it go to temporary files. Of the
//     history, only key columns of files with open rows are read, and the rows that end.
package scd2
