// Package snapshotter decides to which business snapshot (label) a change
// belongs, what is a duplicate, what waits for its label, and when a label is
// sealed. It is pure: no clock, no I/O, no memory beyond its State.
//
// Nouns: Calendar (instant → Label → [start, end)), Event (what the judge needs
// of a change), Meta (where a change stands in its source's order), State (what
// a commit carries so that the next process judges alike), Judge (a State at
// work), Verdict (what becomes of an event).
//
// Invariants:
//
//  1. The verdicts of a partition depend on its records, in offset order, and on
//     the moments at which labels were sealed; on nothing else. A State written
//     and read back judges the same.
//  2. Watermarks, the open label and highest positions of a line never go down,
//     except by taking an older State.
//  3. No event is taken from a partition that is Paused: so what is held of a
//     partition lies within [end(open), end(open)+wait].
//  4. Newer is a strict order on the changes of one key.
//
// The rules are those of the contract, docs/guarantees.md; numbers in comments
// ("rule 6") are its section "From record to label".
package snapshotter
