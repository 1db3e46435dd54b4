// Package export writes rows as plain files, Parquet, CSV or JSON lines, into any store:
// for engines and people that know no Delta Lake.
//
// Nouns: target (one file, or a folder of parts), part (one of the files of a folder:
// part-NNNNN-RUN.ENDING, in the order in which the rows came).
//
// Invariants:
//
//  1. Nothing is replaced: a file that is there, or a folder with anything in it, is an error.
//  2. A file is there when it is whole. A folder is whole when it has the object _SUCCESS;
//     after an error the parts of the run are removed.
//  3. Memory holds a row group, or a piece of an object, whatever the number of rows.
package export
