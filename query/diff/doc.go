// Package diff compares two versions of a table by key: the rows that were inserted,
// updated and deleted on the way from one to the other.
//
// Nouns: Diff (two versions and the columns to compare), Column (a column as the two
// versions have it), part (rows of one file that only one version has), Change (what
// happened to one key).
//
// Invariants:
//
//  1. Only what the versions don't share is read: files of one of them, and of shared
//     files the rows that one deletion vector hides and the other does not.
//  2. A rewrite that leaves the rows as they are (OPTIMIZE, a purge) is no change.
//  3. Changes come in the order of the key, NULL first, and the way back gives the same
//     keys with inserts and deletes, old and new exchanged.
package diff
