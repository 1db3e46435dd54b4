// Package verify compares the rows of two sides, such as a day of a table and the source
// that it was made of, by key.
//
// Nouns: Side (rows of columns, in any order), key form (the bytes that a key is sorted by:
// of the values, whatever their types are called), Range (neighbouring keys of both sides,
// with the number of their rows and a hash on each), Difference (a key whose rows differ).
//
// Invariants:
//
//  1. Both sides are put in one order by this package: what order a server has, under
//     whatever collation, does not matter.
//  2. Each column goes by its name. Values are compared as rowhash has them: integers and
//     decimals by value, NULL, empty text and 0.0 and -0.0 apart; besides, a boolean is 0 or
//     1 where the other side has numbers, and a timestamp without zone is of UTC where the
//     other side has one with a zone.
//  3. A column that one side lacks counts as NULL there.
//  4. Memory is bounded: rows are sorted as key, hash and a hash of each column, and what
//     does not fit goes to temporary files. No value but those of the key is kept or told.
package verify
