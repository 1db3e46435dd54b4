// Package change holds the decoded change event: plain data, no behaviour
// beyond what describes it.
//
// Nouns: Record (one Kafka record as it came), Change (what it says about a
// row), Columns (the names and types of a row's cells), Position (where in the
// source's log), Arena (memory of a batch).
//
// Invariants:
//
//  1. A Change's values and keys live in the Arena that was given to the
//     decoder, or in the Record's bytes; both outlive the batch.
//  2. Columns are shared by pointer and immutable: equal pointers, equal shape.
package change
