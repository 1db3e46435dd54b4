package ddl

import "fmt"

// Session is what a statement does not say of itself: how its server read it.
type Session struct {
	// Database is the default one.
	Database string
	// SQLMode is the sql_mode in force, as the binlog has it (Q_SQL_MODE_CODE).
	SQLMode uint64
	// MariaDB: the server is one; else it is MySQL 8.
	MariaDB bool
	// Charset is the server's default, of databases created without one; empty: utf8mb4.
	Charset string
}

// SyntaxError is a statement that defines a table in a way that this package
// cannot follow.
type SyntaxError struct {
	Statement string
	Offset    int // the byte where it goes wrong
	Reason    string
}

func (e *SyntaxError) Error() string {
	near := e.Statement[min(e.Offset, len(e.Statement)):]
	const most = 200
	return fmt.Sprintf("statement cannot be followed: %s, near %q of %q", e.Reason, cut(near, 40), cut(e.Statement, most))
}

func cut(s string, most int) string {
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

// Kind is what a statement does.
type Kind uint8

const (
	Create Kind = iota + 1
	Alter
	Rename
	Drop
	Truncate
	CreateDatabase
	AlterDatabase
	DropDatabase
)

func (k Kind) String() string {
	return [...]string{"", "CREATE TABLE", "ALTER TABLE", "RENAME TABLE", "DROP TABLE", "TRUNCATE TABLE", "CREATE DATABASE", "ALTER DATABASE", "DROP DATABASE"}[k]
}

// Name is a table's; of statements about a database Table is empty.
type Name struct{ Database, Table string }

func (n Name) String() string { return n.Database + "." + n.Table }

// Change is what a statement does to one table or database, by its text alone.
type Change struct {
	Kind Kind
	Name Name
	// To is the new name of a Rename.
	To Name
	// Like is the table whose definition a Create copies; its Table is empty if it
	// copies none.
	Like Name
	// IfNotExists: nothing happens if the table is there. IfExists is only for the
	// record: what is not there cannot be altered or dropped anyway.
	IfNotExists, IfExists bool
	// Steps of an Alter in their order; of a Create the columns and keys.
	Steps []Step
	// Charset is the new default of a database or table; empty: the statement names none.
	Charset string
	// Incomplete: a Create has columns that its text does not tell.
	Incomplete bool
	// RowsRemoved says what an Alter does to rows without any event for them
	// ("DROP PARTITION p0"); empty: nothing.
	RowsRemoved string
}

// Act is what a Step does.
type Act uint8

const (
	AddColumn Act = iota + 1
	DropColumn
	// ChangeColumn gives a column another definition and maybe name (CHANGE, MODIFY).
	ChangeColumn
	RenameColumn
	// ShowColumn sets Step.Definition.Invisible alone.
	ShowColumn
	AddKey
	DropKey
	RenameKey
	// Convert gives all text columns another charset.
	Convert
	// AddVersioning adds the hidden columns of system versioning.
	AddVersioning
	DropVersioning
)

// Step is one thing that an Alter or Create does.
type Step struct {
	Act Act
	// Column is the one that is dropped, changed, renamed or shown, by its old name.
	Column string
	// Definition is the new one of an added or changed column; of a RenameColumn only
	// its Name. Its Type, where it depends on the charset of the table, is final only in
	// a catalog.
	Definition Column
	// First or After say where the column goes; neither: it stays, or goes to the end.
	First bool
	After string
	// IfExists: no such column is no error, IfNotExists: an existing one stays.
	IfExists, IfNotExists bool
	// Key is the one added; of DropKey and RenameKey Key.Name is the old name and To the new.
	Key     Key
	To      string
	Charset string // of Convert; empty: the database's default

	written written // the type as written, for its final form
}
