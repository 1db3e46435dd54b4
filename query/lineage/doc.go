// Package lineage says which change of the source gave a row: the states of one key
// through the versions of a table, and the rows of one version with their events.
//
// Nouns: Event (a change of the source, by its place in Kafka and in the binlog), State
// (what a key was for a while, the events that began and ended it), Moment (the version at
// which something is first seen), Row (a row of a version and its event).
//
// Invariants:
//
//  1. Events are read from the hidden columns of data files and from delete markers. What
//     another engine rewrote has lost them: then there is none, and never a guess.
//  2. Of a key only files are read that a commit added and whose statistics let the key
//     be in them. Where commits are kept each of them is looked at; else each savepoint,
//     so that states between two of them are not seen. Each state says which.
//  3. What a rollback took back is left out, unless it is asked for.
package lineage
