// Package suite runs scenarios of package scenario, each phase in a process of its own, and
// makes lines of figures of them.
//
// Nouns: Options (what to run, with which sizes), Line (one scenario with one size, and what
// was measured), ceiling (the line that another one is held against), Child (this program
// again, as a scenario or a broker), Machine, Comparison (two lines of two runs).
//
// Invariants:
//
//  1. A child ends with its parent: it reads standard input, and an end there ends it.
//  2. Whatever ends a run, an error or an interrupt too, what it made is removed before Run
//     returns: tables, topics, brokers, children. With Keep the tables stay.
//  3. Below an address that the user gave nothing is touched but a new folder.
//  4. Figures that are counted and figures that are timed are told apart wherever they are
//     compared.
package suite
