// Package clone makes Delta tables of what is there already: another table's version
// (Clone), or a folder of Parquet files (Convert); and tells engines that read no log
// which files a version has (Manifest).
//
// Nouns: shallow clone (a log whose files are the source's, by absolute paths), deep
// clone (a copy), manifest (a text file of paths for each partition).
//
// Invariants:
//
//  1. The source is only read.
//  2. A table appears whole, in one commit, after all its files are in place.
//  3. A shallow clone names files that the source owns: it is good for as long as the
//     source keeps the version, which is for the caller to see to.
//  4. No manifest is written for a version with deletion vectors: who reads it would
//     see deleted rows.
package clone
