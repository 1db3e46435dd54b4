// Package compact decides which data files of a table that is written to all the time are
// written anew: small ones, because each costs a line of the log in every commit that
// touches it, and those with many deleted rows, because every reader passes over them.
//
// Nouns: File (what is known of a data file), Limits (the thresholds), Task (the files
// that become one), share (deleted rows per physical row).
//
// Invariants:
//
//  1. The decisions are functions of their arguments alone: no clock, no file is read.
//  2. A task's files are of one folder, live, and each is in one task at most.
//  3. A file that a savepoint pins is taken only past Limits.PinnedShare: its rows are
//     stored twice from then on.
//  4. Where no task is given, deleted rows are at most Limits.DeadShare of the table's,
//     or no file is worth it: the ones that are left are pinned, or have few.
package compact
