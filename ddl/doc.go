// Package ddl knows the tables of a MySQL or MariaDB server by the statements
// that define them: what a statement does to which table, and what a table looks
// like after it.
//
// Nouns: Table and Column (a definition at one moment), Change (what one statement
// does to one table), Catalog (the tables of a server, moved on by statements).
package ddl
