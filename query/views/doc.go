// Package views writes the days of a table as a view for an engine that knows versions
// and no labels.
//
// Nouns: View (a name, the table's address, its columns and days), Day (a label and its
// version), Dialect (the SQL of an engine).
//
// Invariants:
//
//  1. A view has the columns of the newest version and dt behind them; what a day's
//     version lacks is NULL there, and a column that was renamed under column mapping is
//     the same one.
//  2. The text depends on the map and the schemas alone: the same table, the same text.
//  3. Every name and text is quoted as the dialect does it.
package views
