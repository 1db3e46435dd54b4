// Package dv reads and writes deletion vectors: which rows of a data file are
// dead (Delta protocol, "Deletion Vector Format" and "Deletion Vector File
// Storage Format").
//
// Nouns: Bitmap (row positions of one file), Packer (one .bin file that holds
// many bitmaps), Z85 (the text form of ids and inline vectors).
//
// Invariants:
//
//  1. A row position is 0-based in the physical file, below 2^32.
//  2. What Marshal writes Unmarshal reads; what another engine writes, run
//     containers included, is read too.
//  3. Damaged bytes give an error that wraps ErrCorrupt, never a panic and never
//     other rows: size and CRC are checked where the form has them.
package dv
