// Package maintain looks after one table: it measures how its rows lie in files and what its
// savepoints hold, and acts where the figures pass a threshold or a policy says so.
//
// Nouns: pass (one look at a table, with all that it does), Figures (what was measured),
// Thresholds (from which figures on something is done), Step (one more thing that a pass
// does, from outside), Line (one figure of the report).
//
// Invariants:
//
//  1. A dry run writes nothing, and reports the figures that a run would act on.
//  2. A pass changes no row, of no version, and no savepoint but those that the policy names.
//  3. It works beside an ingester in another process: what it commits is made anew on
//     whatever came first, and nothing younger than the grace period is removed.
//  4. A pass that was interrupted anywhere is finished by the next one.
package maintain
