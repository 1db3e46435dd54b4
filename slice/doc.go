// Package slice reads slices: files, tables and answers of databases that hold a day's
// rows, as typed rows for ingest.LoadSlice.
//
// Nouns: Source (where a slice's rows are; it can be read again from the beginning), File
// (Parquet, CSV, JSON lines), Files (several that are one slice), Table (a version of a
// Delta table).
//
// Invariants:
//
//  1. A row comes whole or the read ends with an error: what is cut off is
//     ingest.ErrIncompleteSlice, and says where.
//  2. Text is typed by the table's columns, and never by what it looks like: in a table
//     that is yet to be made a column of a CSV file is text unless a type was declared.
//  3. NULL and empty text are two values: in CSV nothing between two commas, and "".
//  4. Memory is a row, or a batch of a Parquet file's rows.
package slice
