// Package sql answers one SQL statement over the tables of gscd, with DuckDB
// inside the process. It is the only package that links DuckDB, and only with
// cgo; without it Run says what is missing.
//
// Nouns: Table (a name and how to open what stands for it), Source (an open
// table), day (a label and the version that answers it), reading (which days a
// statement sees of a Source), planner (a DuckDB without any file, that parses,
// checks and prunes), executor (a DuckDB that sees the files of those days and
// nothing else), Rows (the answer, as it is made).
//
// Which days a statement sees:
//
//   - Every table has a column dt behind its own ones: the label, as text. Where a
//     table has a column dt itself, the label's is gscd_dt.
//   - With Source.Fixed every table is that one version.
//   - Else a statement that does not use dt sees the newest version.
//   - Else it sees all sealed days and the open one, and of them only those that
//     its conditions on dt leave over are opened.
//
// How days are pruned: the planner has an empty table for each Source, and a view
// that unites it with itself once a day, each with the label as a literal. What
// DuckDB's optimizer leaves over of these branches is what the statement can see;
// a branch falls only where the statement is false for its label whatever the
// rows. So conditions work where SQL lets them: in joins, subqueries and CTEs.
// Conditions that might fail, as casts might, it does not look into; those of labels
// alone are evaluated for each label before.
//
// How files are read: those of one version, partition and deletion vector by a query
// each, with the vector as a constant. Where these are many, each file is read once,
// and joined with a table that says which days have it, and without which rows.
//
// DuckDB opens files of this machine only. Of those of other stores it gets excerpts:
// the footer, and the column chunks that the plan names of the row groups that can
// have a row for it, at their places in a file that is otherwise empty. A place that
// was left out by mistake reads as zero bytes, which are no page: an error, not a row.
//
// Invariants:
//
//  1. Rows are those of the plain reader for the same versions: deletion vectors
//     applied, hidden columns invisible, types those of the schema, a column that
//     a file lacks NULL. A file that is missing or of another size is an error.
//  2. Only the files of days that the statement can see are opened; of files of stores
//     that are not local, only the columns and row groups that it can need are fetched.
//  3. A statement is one SELECT (WITH, VALUES, FROM, DESCRIBE, SUMMARIZE, EXPLAIN).
//     Two fences keep it at the tables: every table and table function that its
//     syntax tree names is checked against a list, and DuckDB itself may open no
//     file but those of 2, load no extension and change no setting.
//  4. dt = LABEL of a label that can't be answered is the error that Resolve gives,
//     not an empty answer; a range of dt leaves such labels out with a notice.
//  5. Memory is bounded by MemoryLimit and the deletion vectors, disk by TempLimit,
//     whatever the number of rows of the answer; nothing stays on disk after Close.
package sql
