// Package format says no to what a newer gscd has written. Everything that gscd
// keeps beside Delta's own files has a version of its form: table properties, the
// progress in commitInfo, held, marker, settled and checksum files.
//
// Nouns: Newer (the error of a version that this program does not know).
//
// Invariants:
//
//  1. An older program refuses what a newer one has written, by name: what it is,
//     the version it found and the one it knows. It never reads it as its own.
//  2. What is of another form only by damage is no Newer: it is corrupt.
//  3. A newer program reads everything that an older one has written.
package format
