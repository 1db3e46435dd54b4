package ddl

// Table is the definition of a source table at one moment. It is not changed
// once it is handed out: a statement gives a new one.
type Table struct {
	Database, Name string
	// Columns in the order of the table, hidden and generated ones among them:
	// the binlog has their cells too.
	Columns []Column
	// Key holds the places in Columns of the primary key, in its order; without one
	// those of the first unique key whose columns are all NOT NULL; else it is empty.
	Key []int
	// Charset is the default of columns that name none, "utf8mb4"; empty: not known.
	Charset string
}

// Column is a column of a Table.
type Column struct {
	Name string
	// Type is the column's type as information_schema's COLUMN_TYPE prints it, in
	// lower case but for labels: "int(10) unsigned", "decimal(12,2)", "enum('a','B')".
	Type string
	// Charset of its text, "latin1"; empty for columns without one, "binary" for bytes.
	Charset   string
	Nullable  bool
	Generated bool
	// Invisible columns are left out of SELECT *, hidden ones are the server's own
	// (functional keys, row start and end of system versioning).
	Invisible, Hidden bool
}
