// Package parquet writes and reads the Parquet files of Delta tables: data
// files (Encoder, File) and checkpoints (EncodeStructs, DecodeStructs). It is
// the only package that imports parquet-go.
//
// Nouns: Column (a column asked for, of any type, or a leaf written), Encoder (rows of cells
// into a file), File (an open file), Batch (cells of some rows, by column),
// row group, page.
//
// The metadata structs and the protocol they are written in are parquet-go's;
// pages are made and read here. parquet-go v0.32 orders the bounds of decimals
// in byte arrays wrongly, puts whole strings into the footer, and trusts what
// a page header or a run declares; and cells need not become its values first,
// which is a good part of the work.
//
// Invariants:
//
//  1. A file written here has only optional columns in the order given, data
//     pages of version 1, PLAIN and dictionary encoding, checksums and a page
//     index: what every engine reads.
//  2. Minimum and maximum are never narrower than the values, in the type's
//     order; where they are not known they are left out. Strings are cut to 64
//     bytes in the file, whole in FileStats.
//  3. Foreign bytes give values or an error that wraps ErrCorrupt,
//     ErrUnsupported or one of the column errors; never a panic. Memory is
//     bounded by the size of the file and of one page a column.
//  4. Row positions are those of the file, from 0, over all row groups.
//  5. Decimals, dates and timestamps never pass through a float.
package parquet
