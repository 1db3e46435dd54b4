// Package faulty wraps an object store and makes it fail on purpose.
//
// Nouns: Call (one operation, numbered from 1), Rule (what it does to a call),
// Fault (an error, with or without the effect), crash (every later call fails).
//
// Invariants:
//
//  1. Calls are numbered in the order they begin; a rule sees each call once.
//  2. A fault happens before the operation, unless it says Applied.
//  3. After Crash nothing reaches the store below, not even calls that had
//     begun but had not reached it.
//
// The two ways to use it: fail the i-th call for all i, then open the store
// below again and check what is there; and lose the answer of a call that
// had its effect.
package faulty
