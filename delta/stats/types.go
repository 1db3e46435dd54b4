package stats

import "github.com/gscd-io/gscd/delta/schema"

// Column is what one column of a file holds. Min and Max are NULL where they
// are not known: no value, a NaN among them, or not asked for. NullCount counts a field
// of a struct that is NULL as NULL.
type Column struct {
	Min, Max  schema.Value
	NullCount int64
	// Fields are those of a struct, which has nothing of its own.
	Fields []Column
}

// File is what a writer knows of a file it wrote: rows (deleted ones
// included) and, in the file's column order, its columns.
type File struct {
	NumRows int64
	Columns []Column
}
