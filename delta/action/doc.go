// Package action holds the actions of a Delta log: what one line of a commit
// file says, and how it is read and written.
//
// Nouns: the action structs (Add, Remove, Txn, Metadata, Protocol, ... with the
// protocol's names), Commit (the actions of one version), FileKey (what makes
// two file actions talk of the same logical file).
//
// Invariants:
//
//  1. Paths are kept byte for byte as they stand in the log; Key decodes one,
//     exactly once, where an object is read.
//  2. A logical file is a path and the deletion vector on it (FileKey). A remove
//     repeats both of the add it ends.
//  3. Unknown actions and unknown fields are ignored, never an error. Bytes that
//     are no commit give an error that wraps ErrCorrupt, never a panic.
//  4. An action is immutable once it was decoded or given to a transaction.
package action
