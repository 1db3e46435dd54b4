// Package variant turns values of the type variant, as Parquet files hold them
// ("Variant Binary Encoding"), into JSON.
//
// Nouns: metadata (the dictionary of field names that a value refers to), value
// (one encoded value), cell (a value that a file holds in a column of its own type).
//
// Invariants:
//
//  1. Any bytes give JSON or an error that wraps ErrCorrupt; never a panic, and
//     never more than MaxJSON bytes: parts of a value may be named many times.
//  2. Numbers keep every digit. Dates, times and binary are texts: "2022-07-16",
//     "2022-07-16T23:59:59.999999Z" (without Z where there is no zone), base64;
//     NaN and infinities are "NaN", "Infinity", "-Infinity".
//  3. Fields of an object come in the order of the file.
package variant
