// Package stats turns what a writer knows of a file into add.stats and reads
// add.stats of every writer back into bounds that are safe to skip files by
// (Delta protocol, "Per-file Statistics").
//
// Nouns: File and Column (exact, from a writer), Leaf (a column, or a field inside of
// structs, with a value of its own), FileStatistics (parsed), Bounds (what may be said of
// a leaf's values).
//
// Invariants:
//
//  1. Bounds never exclude a value of the file: what was cut, rounded or
//     widened on the way in is widened on the way out (a timestamp's maximum by
//     999 us), and what can't be read is not known.
//  2. Decimals stay exact; NaN and infinities are never written as numbers.
//  3. With tightBounds false bounds are outer bounds, and a count of NULLs is
//     believed only where it says none or all.
//  4. Columns are addressed by name, fields of structs by a path of names; in the text
//     stand physical names.
//  5. A field of a struct that is NULL counts as NULL.
package stats
