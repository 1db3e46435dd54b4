// Package schema holds the types of a Delta table and the values of its columns.
//
// Nouns: Type (what a column holds), Field and Schema (a table's columns, in
// order, with their metadata), Value (one cell).
//
// Invariants:
//
//  1. A Schema and the Types in it are immutable once shared; changes make a new one.
//  2. A Value of a column has the Kind that the column's Type names (KindOf), or is Null.
//     Structs, arrays and maps are Compound: one text that holds the parts.
//  3. The scale of a decimal is the column's; a Value carries the unscaled integer only.
//  4. Nothing here passes through a float, except values of float and double columns.
package schema
