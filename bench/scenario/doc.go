// Package scenario measures named pieces of gscd's work, each in a process of its own.
//
// Nouns: Scenario (a name, what it measures, its phases), Spec (one scenario with its
// sizes, as it is handed to a process), Result (what was measured), meter (the clock,
// processor time, memory and allocations between two moments of a process), ceiling (a
// scenario that does one part of another's work and nothing else), Machine.
//
// Invariants:
//
//  1. The clock runs in the phase Run alone: tables are made, events are produced to a
//     broker, and rows are checked in other processes.
//  2. What is counted (requests, bytes, files, rows) is the same in two runs of one Spec
//     with one goroutine's worth of order; what is timed is not.
//  3. A Result of rows is given only after every row was compared with the workload's own
//     model: a wrong row is an error, not a figure.
//  4. Making events is no work of gscd: its processor time is counted apart.
package scenario
