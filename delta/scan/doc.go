// Package scan reads the rows of a version of a table, and the changes of versions.
//
// Nouns: Scan (the rows of one Snapshot that a filter takes, some of its
// columns, in an order), Batch (some rows, by column). Filters and orders are of
// package expr. Changes gives what versions changed, row by row.
//
// Invariants:
//
//  1. A Scan gives every live row that the filter takes, once, or an error: a
//     file that is missing, shorter than the log says, or has another number of
//     rows is an error that names it, never fewer rows.
//  2. Only the columns of the table's schema come out; a column that a file does
//     not have is NULL there, and partition values come from the log.
//  3. Memory is bounded by files in flight (Parallelism) and MemoryLimit, not by
//     the number of rows.
//  4. Two scans of one version give the same rows in the same order: by file as
//     Snapshot.Files has them and by row, or by OrderBy and then so.
package scan
