// Package delta is a Delta Lake table: reading its versions, committing new
// ones, checkpoints, and removing what nobody needs.
//
// Nouns: Table (a root in a store), Snapshot (the state of one version),
// Transaction (actions on their way to become the next version), Outcome and
// Conflict (what became of it), pin (a version that its caller wants to stay
// readable whatever is cleaned around it).
//
// Invariants:
//
//  1. A Snapshot never changes. Applying a commit makes a new one that shares
//     what did not change.
//  2. A version is written once, by put-if-absent of its commit file. Losing the
//     race is an Outcome, not an error; an answer that was lost is looked up by
//     the commit's txnId.
//  3. Nothing is written before the whole transaction was found legal against
//     its base: one action a key, removes of live files, adds of files that are
//     not live.
//  4. The hint to a checkpoint is moved only after the checkpoint was read back.
//  5. Vacuum and CleanLog delete only what they can name: data files, deletion
//     vectors, change data, commits, checkpoints. Unknown names stay.
//  6. After any prefix of the deletions of Vacuum and CleanLog every kept version
//     is readable.
//  7. A feature of the protocol that is not implemented is refused by name, for
//     writing only where reading is safe.
package delta
