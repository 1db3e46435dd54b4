// Package write changes Delta tables: it creates them, appends, overwrites, deletes,
// updates, merges, restores, and alters their columns and properties.
//
// Nouns: Source (rows to write, once through), Result (what became of an operation),
// Definition (a table to be made), Change (one step of Alter).
//
// Every operation is one commit. It is planned on the newest version, and where another
// commit comes first, put behind it if that left alone what was read, else planned anew,
// a bounded number of times. Rows of a Source are stored once; only what was found in the
// table is found again.
//
// Invariants:
//
//  1. The table never shows a part of an operation, and shows each one once: also where
//     the answer of the storage was lost, and, with Txn, where the program ran again.
//  2. No row is stored that breaks a rule of the table: NOT NULL, CHECK constraints,
//     invariants, generated columns. A rule that is not understood refuses the write, by name.
//  3. A row is only ever hidden by a commit that has read the file it is in, at the
//     version before the commit.
//  4. Change data, where it is due, is whole: a version with change data files has every
//     change of its rows in them.
//  5. Memory is bounded by WithMemory and files in flight, not by the rows of a Source or
//     a table. Of a Merge, what does not fit goes to
//     temporary files.
//  6. Nothing is removed but what a failed operation has just stored itself.
//  7. A number of an identity column, and with row tracking the id of a row, is given once.
package write
