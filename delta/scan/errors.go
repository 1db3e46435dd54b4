package scan

import "errors"

// What a caller may decide on.
var (
	// ErrFileMissing: a data file or deletion vector that the version refers to is not there.
	ErrFileMissing = errors.New("file of the table is missing")
	// ErrFileMismatch: a file is there but is not what the log says of it.
	ErrFileMismatch = errors.New("file is not what the log says")
	// ErrColumn: a column asked for is not in the schema, or can't be read by row.
	ErrColumn = errors.New("no such column to read")
)
