// Package counting is a store that counts what is asked of another one: for tests and
// measurements of how much a command reads and writes.
//
// Nouns: Store (the wrapper), Counts (calls and bytes since the last Reset, by kind of
// call and by kind of object).
//
// Invariants:
//
//  1. Calls, arguments, results and errors are those of the store below.
//  2. A call is counted once, whether it fails or not, when it ends; bytes are those
//     that came, and those that were handed in.
package counting
