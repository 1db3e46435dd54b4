// Package rowhash says whether two rows hold the same values: it gives a row a form, and
// a hash of that form.
//
// Nouns: Hasher (of rows of some columns), form (bytes: equal forms mean equal rows), Sum
// (SHA-256 of a form).
//
// The form of a row is its columns that are not NULL, sorted by name, each as its name and
// its value. Names, texts and lists have their length in front, values a mark of their
// kind. So there is no separator that a value could have too, and no form as text.
//
// Invariants:
//
//  1. Two rows have one form only if each column has the same value in both, where a
//     column that one of them lacks counts as NULL. NULL, empty text and a text "NULL" are
//     three values; nothing is trimmed, folded or normalised: the two Unicode forms of é differ.
//  2. The order of the columns, and columns that are NULL, do not change the form: a column
//     that is added changes no row until it has a value in it.
//  3. A value keeps its form when its type widens. Numbers that are integers or decimals
//     are compared by value (7 = 7.00), so are doubles that are integers below 2^53, a float
//     as the double that it is, and a date is the first moment of its day without zone.
//  4. NaN is one value, whatever its bits. 0.0 and -0.0 differ, as all that prints them
//     shows the difference.
//  5. A struct is like a row, an array is its elements in order, NULLs among them, a map its
//     entries whatever their order. A variant is its value.
//  6. Forms do not change from one version of the program to the next: tables keep sums.
package rowhash
