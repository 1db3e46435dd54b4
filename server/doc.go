// Package server runs many tables in one process: it starts them, starts those
// that failed again, shares memory and turns among them, takes a new
// configuration while they run, and tells over HTTP how each stands.
//
// Nouns: Spec (a table that should run), Runner (what runs it: a lane and its
// source), Server (all tables of a process), Memory (the budget of uncommitted
// batches), Gate (how much heavy work goes on at once), Standing (where a table
// stands and what holds its seal back; `gscd status` prints the same).
//
// Invariants:
//
//  1. One goroutine for each table runs it; the goroutine of Server.Run alone
//     starts and stops tables.
//  2. A table that fails, or panics, stops no other one.
//  3. Retryable decides alone whether a table is started again. What it says no
//     to stays stopped until a new configuration is taken (SIGHUP), or for ever.
//  4. A Runner lives through the retries of its table, so the table keeps its
//     owner epoch.
//  5. Of two Specs of one name the old one has ended, at a commit boundary,
//     before the new one begins.
//  6. A table inside the Gate never waits for it a second time.
//  7. What HTTP tells are copies, made in the lane's goroutine. No secret is
//     among them.
package server
