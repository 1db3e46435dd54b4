// Package progress is what every gscd commit says about itself: the JSON under
// "gscd" in commitInfo.
//
// Nouns: Progress (everything a writer needs to go on from a version), Counts
// (what became of the records of a label), Evidence (why a label was sealed).
//
// Invariants:
//
//  1. Progress of version v and the rows of version v belong together: whoever
//     takes both goes on exactly as the writer of v would have.
//  2. A Progress holds a FormatVersion; an unknown one is refused by name.
//  3. Nothing in it grows with the number of commits: only with partitions,
//     lines, loads, held files, and labels that have, or have resolved, dead
//     letters, and rollbacks.
package progress
