package write

import "errors"

// What a caller may decide on. Besides come delta.ErrConflict, where others came first in
// every attempt, scan.ErrFileMissing and scan.ErrFileMismatch, and errors of the log.
var (
	// ErrRow: a row does not fit the table's columns, or breaks one of its rules.
	ErrRow = errors.New("row does not fit the table")
	// ErrRule: a rule of the table is not understood, so nothing can be written.
	ErrRule = errors.New("rule of the table is not understood")
	// ErrColumn: a column that was named is not there, or can't be used so.
	ErrColumn = errors.New("no such column to write")
	// ErrExists: the table to create is there already.
	ErrExists = errors.New("table exists")
	// ErrDuplicateKey: a Merge has one key twice.
	ErrDuplicateKey = errors.New("key occurs twice")
	// ErrChange: a Change can't be made.
	ErrChange = errors.New("the table can't be changed so")
)
