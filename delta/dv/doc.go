// Package dv holds deletion vectors: which rows of a data file are deleted.
//
// Nouns: Bitmap (row positions in one file), Packer (many bitmaps in one
// .bin file), block (one bitmap in such a file, with its size and checksum),
// descriptor (the fields of add.deletionVector, plain strings and numbers here).
//
// Invariants:
//
//  1. A row position is 0-based in the physical file and below 2^32.
//  2. The serialized form is the protocol's: magic 1681511377, then the
//     portable 64-bit roaring form with one bucket; every form of container is read.
//  3. A bitmap read from bytes was walked and found sound; else the error
//     wraps ErrCorrupt. Reading never panics and never takes more memory than
//     a few times the bytes.
//  4. Vectors replace each other and never stack: a new one holds the old rows too.
package dv
