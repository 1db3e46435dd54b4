// Package ingest is the pipeline of one table: it takes records at the offsets
// that the table's own state names, judges them, and commits rows, held
// changes and progress together, version by version, label by label.
//
// Nouns: Lane (one table at work), Source (where records come from), Options,
// batch (what the next commit will hold, folded by key), shape (how a record's
// columns lie in the table's), Start (where a new table begins), heartbeat (a
// partition that takes part in the seal rule alone), outage (a time in which the
// source does not answer), ByHand (a seal that a person decides), Budget, Gate and
// Observer (what the lanes of one process share, and who watches them).
//
// The way of a record: Source → decode → change → judge (snapshotter) → batch
// or held (drift) → one delta.Transaction with rows, held files and progress →
// seal, a commit of its own → savepoint.
//
// Invariants:
//
//  1. One goroutine owns a Lane's state. Decoding runs ahead of it and shares
//     nothing with it but finished blocks. Behind it a goroutine stores and commits
//     the one batch in flight (flight), which is frozen; where the lane waits for
//     that, and what does not overlap, overlap.go says.
//  2. State is a Delta version: a Lane that meets an error or a conflict drops
//     everything and starts again from the newest version of the table.
//  3. Nothing of a partition is taken while it is paused or while held changes
//     of the open label wait to be applied.
//  4. A batch holds changes of the open label only. Dead letters are stored
//     before the commit that moves past their records.
//  5. Every record taken is counted with exactly one fate; heartbeats are no
//     records of the table.
//  6. No offset is reset silently: what is not read stops the table, or marks
//     the open label and all later ones incomplete.
//  7. A lane that runs waits for a source that does not answer, and keeps what
//     it took; one that starts does not.
package ingest
