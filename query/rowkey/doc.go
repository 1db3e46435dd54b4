// Package rowkey names rows by the values of their key columns, as a person types them:
// id=7, or shop=1,user='a,b'.
//
// Nouns: Cell (a column of a key and its value), Parse (text to Cells), Predicate (Cells
// to the filter that finds their rows).
//
// Invariant: a text means the same value that a filter would compare the column with, and
// what the column can't hold exactly is an error.
package rowkey
