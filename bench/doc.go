// Package bench makes deterministic workloads and tables of a given size, for
// the benchmarks of the pipeline.
//
// Nouns: Workload (change events of one table as Debezium JSON), Table (a gscd
// table of n rows, made without going through a topic).
//
// Invariants:
//
//  1. The same parameters give the same bytes, on every machine.
//  2. A workload is valid: what it updates or deletes is there.
package bench
