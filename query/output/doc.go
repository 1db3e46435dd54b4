// Package output prints rows and records in the formats of the command line:
// table, json, jsonl and csv, and rows as Parquet and Arrow files.
//
// Nouns: Writer (prints the rows of a table, cells typed by its schema),
// RecordWriter (prints what commands report: names and plain Go values),
// Terminal (what is known of the place that is printed to).
//
// Invariants:
//
//  1. Columns come out in the order given, every one of them in every row.
//  2. No digit is lost: integers and decimals never pass through a float; a
//     float is printed as the shortest text that reads back as the same one.
//  3. NULL and empty text differ: null and "" in JSON, nothing and "" in CSV.
//  4. Memory is bounded whatever the number of rows: json, jsonl and csv hold
//     one row, table holds one page, Parquet a row group, Arrow a record batch.
//  5. Output that was not closed is visibly unfinished where the format allows
//     it (json has no closing bracket, table no bottom line): after a failed
//     read, don't call Close.
//  6. Nothing in a cell reaches a terminal as a control character.
package output
