// Package spill writes rows that do not fit into memory to temporary files, and reads
// them back.
//
// Nouns: cells (a row, as bytes), File (rows in a temporary file, written once, then read
// from the beginning as often as is wanted), Dir (a folder of Files that goes as a whole).
//
// Invariant: what ReadCells gives is what AppendCells was given; bytes that were changed
// give an error.
package spill
