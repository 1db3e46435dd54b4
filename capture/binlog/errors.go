package binlog

import (
	"errors"
	"fmt"
)

// What a caller may decide on. The errors of a Reader are *Error and wrap one of these,
// or what the Log said.
var (
	// ErrStatementFormat: the log has a statement in the place of the rows it changed.
	ErrStatementFormat = errors.New("the log has a statement in the place of rows: set binlog_format to ROW at the source, and load the table again")
	// ErrIncident: the server says that it lost events.
	ErrIncident = errors.New("the server wrote that events were lost here: load the tables again from behind this place")
	// ErrNoDefinition: nobody names the columns of a table.
	ErrNoDefinition = errors.New("nothing names the table's columns: give its CREATE TABLE, or set binlog_row_metadata to FULL at the source")
	// ErrRolledBack: rows that were given are undone by a later event of their transaction.
	ErrRolledBack = errors.New("the log undoes rows of this transaction (it changed tables with and without transactions): load its tables again")
	// ErrCut: the log ends inside an event or a transaction.
	ErrCut = errors.New("the log is cut: copy the file again, or read it when the server has finished it")
	// ErrCorrupt: bytes that are no event.
	ErrCorrupt = errors.New("the log is damaged")
	// ErrUnsupported: an event or a type that can't be read.
	ErrUnsupported = errors.New("can't be read")
	// ErrGap: a log file is missing between two files.
	ErrGap = errors.New("a log file is missing")
)

// Error is why a Reader stopped, and where.
type Error struct {
	// File and Pos are where the event begins that can't be used.
	File string
	Pos  uint64
	// Table is "database.table" where one is concerned.
	Table string
	Err   error
}

func (e *Error) Error() string {
	table := ""
	if e.Table != "" {
		table = ": " + e.Table
	}
	return fmt.Sprintf("binlog %s at byte %d%s: %v", e.File, e.Pos, table, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// corrupt says what is wrong with an event's bytes.
func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}
