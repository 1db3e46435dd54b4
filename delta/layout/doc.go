// Package layout writes the rows of a Delta table into other files, and changes none
// of them: small files become large ones, deleted rows leave the files, and rows that
// are asked for together come to lie together.
//
// Nouns: bin (files of one partition whose rows are written anew together), curve
// (the order of rows by several columns at once), trail (where each row of an output
// came from), Report, Clustering (how well files tell values of a column apart).
//
// Invariants:
//
//  1. The rows of the version before a commit of this package are those of the version
//     behind it, each as often as before.
//  2. A row that another writer deletes meanwhile is deleted in the output too: the
//     trail says where it lies there, and the output gets a deletion vector in the same
//     commit. A bin whose rows came back, or were moved by someone else, is given up
//     and planned anew.
//  3. Columns of data files beside the schema's are kept where the caller names them.
//     Files that have none of them are never mixed with files that have some.
//  4. Memory is bounded: by one file being written, one row group of each column being
//     read, and Options.MemoryLimit of rows being sorted.
//  5. Nothing that was stored is deleted: what a lost commit leaves is Vacuum's.
package layout
