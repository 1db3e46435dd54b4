// Package ddl knows the tables of a MySQL or MariaDB server by the statements
// that define them: what a statement does to which table, and what a table looks
// like after it.
//
// Nouns: Table and Column (a definition at one moment), Change (what one statement
// does to one table, by the statement alone), Catalog (the tables of a server, moved
// on by statements), Effect (what a statement did to a table of a catalog).
//
//  1. The parser reads what defines a table and skips what does not: an option that
//     it has never heard of ends at the next comma outside parentheses. A statement
//     that is refused would leave a stale definition behind, which is worse.
//  2. A statement that begins like one that defines a table and cannot be followed is
//     a SyntaxError. It is never taken for one that changes nothing.
//  3. A Table is not changed once it is handed out; a Catalog changes only by Apply,
//     Put and SetCharset.
//  4. A column keeps its ID through renames, moves, other types and the renaming of
//     its table, and gives it to its copy in CREATE TABLE ... LIKE. So the swap at the
//     end of an online schema change that began so is a change of columns, renames
//     among them.
//
// Statements are in UTF-8; who reads a log converts them.
package ddl
