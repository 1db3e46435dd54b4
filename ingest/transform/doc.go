// Package transform changes decoded changes before they get a label: it leaves out
// columns and rows, hides values and gives columns other names.
//
// Nouns: Settings (what is configured), Rules (the same, checked), Decoder (Rules
// around the decoder of a format), plan (what becomes of the columns of one shape).
//
// Invariants:
//
//  1. What becomes of a record hangs on the record and the Rules alone. Held and dead
//     records are kept as they came, sealed where columns are hidden, and are changed when
//     they are decoded again.
//  2. The row filter sees the source's columns and values; then columns are left out,
//     hashed, masked, and renamed last. Row, row before and key are treated alike, so
//     that they are of one row still.
//  3. A key column is never left out or masked: rows would become one.
//  4. NULL stays NULL, and a cell that was not sent stays not sent.
//  5. The secret is in no error and not in the fingerprint.
package transform
