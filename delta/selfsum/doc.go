// Package selfsum lets an object say what its own bytes are: a SHA-256 of the whole
// object, that stands in it. So each file of a table can be checked alone, whatever else
// is lost, and a copy of it as well as itself.
//
// Nouns: sum (64 hexadecimal digits, of the object's bytes with the digits taken as
// zeros), Form (where in an object the sum stands: the bytes before it).
//
// Invariants:
//
//  1. One bit that is another one, wherever in the object, is told, also one in the sum
//     or in the bytes before it.
//  2. An object without a sum (of another program, or of an earlier release) is not told
//     to be damaged.
//  3. Readers that know nothing of it read the object as before.
//
// It tells what chance does to bytes. It is no signature: who changes an object on
// purpose writes its sum anew.
package selfsum
