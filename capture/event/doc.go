// Package event holds what capture tells about a server: changed rows, read
// rows, statements that change tables, and that nothing happened.
//
// Nouns: Event (one of these), Row (its cells), Cell (one value as MySQL has it),
// Source (where in which server's log it comes from).
package event
