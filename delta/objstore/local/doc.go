// Package local is an object store in a directory of a POSIX file system.
//
// Nouns: Store; the temporary file, which becomes the object by one rename or
// link; the folder, which exists when something was written below it.
//
// Invariants:
//
//  1. An object appears under its name complete and synced, by rename(2) (Put)
//     or link(2) (PutIfAbsent); nothing writes into a file that has a key.
//  2. A write returns nil only after the folders that lead to it are synced.
//  3. Temporary files have a reserved name, are never listed, and are removed
//     when older than Options.StaleTemp by the first write into their folder.
//  4. Every path is resolved below the open root (os.Root), so neither ".."
//     nor a symbolic link leads out of it.
//  5. The directory is created by the first write, never by a read.
//
// A key and a longer key below it ("a" and "a/b") can't both exist here.
// Symbolic links to files inside the root are read and listed; linked folders
// are read through but not listed. Delete leaves empty folders alone.
package local
