// Package deltalog knows the files of a Delta log: their names, which of them
// make up a version, and the hint to the newest checkpoint.
//
// Nouns: Name (what a file name says), Listing (the files that are there),
// Segment (the checkpoint and the commits that give one version), Hint (the
// file _last_checkpoint), island (a version that stays readable by its own
// checkpoint and commit after the log around it was cleaned).
//
// Invariants:
//
//  1. A version is readable iff its commit file is there and a chain leads to it:
//     the newest complete checkpoint at or below it, or version 0, and every commit
//     from there on. One exception: a checkpoint above every commit is the newest
//     version by itself, as tables cleaned down to one checkpoint have it.
//  2. The Hint only ever saves a listing. Absent, broken or stale it costs one.
//  3. Names of no known form are ignored by every listing.
//  4. A commit file is never overwritten.
//  5. A compaction file stands for its commits only where all of them are there
//     and nothing in it takes back something else in it.
package deltalog
