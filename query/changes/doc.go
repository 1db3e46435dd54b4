// Package changes reads what changed in a table: row by row between versions, or day by
// day between labels, each change as it was committed or one net change a key.
//
// Nouns: Feed (the change data of a table up to one snapshot of it), Change (one row
// change, of the kinds of Delta's change data), KeyChange (what became of one key: a row
// before, a row after), Unit (the key changes of one version or label), stretch (versions
// in a row with the same columns).
//
// Invariants:
//
//  1. Versions gives every change of a range as it was committed, rollbacks too: applied
//     to the rows of the version before, it gives those of the last one.
//  2. Labels gives the changes of a range of labels as they count now: what a rollback
//     took back is left out, and so is the rollback. Applied to the savepoint of the label
//     before the first, it gives that of the last one.
//  3. The net change of a key is the difference of its row before and after; a key whose
//     row is the same has none. Net changes come in order of the key.
//  4. Columns are those of the newest version; what a version does not have is NULL, and a
//     column that was renamed under column mapping is the same one.
//  5. Memory is bounded by Options.Memory and files in flight, whatever the range.
package changes
