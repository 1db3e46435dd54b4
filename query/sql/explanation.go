package sql

// Explanation says what a statement would open, without reading a row.
type Explanation struct {
	// Tables are those that the statement names, in the order of their names in it.
	Tables []TableExplanation
	// Files, Bytes and Fetched are those of all days together, each file counted once:
	// the files to open, their sizes, and what is to be fetched of them from stores that
	// are not local.
	Files          int
	Bytes, Fetched int64
}

// TableExplanation is what a statement sees of a table.
type TableExplanation struct {
	Name string
	// Labels is how many labels the table could answer, 0 where it has none.
	Labels int
	// Days are those that the conditions leave over, in the order of their labels.
	Days []DayExplanation
}

// DayExplanation is what a statement opens of a version. Files that several days share
// are counted with each of them.
type DayExplanation struct {
	// Label is "" in a table without labels.
	Label   string
	Version int64
	// Files are those of the version, and Opened those that may have a row for the
	// statement by their partition values and the statistics in the log.
	Files, Opened int
	// RowGroups are those of the opened files, and ReadGroups those that the statistics
	// in the files leave over.
	RowGroups, ReadGroups int
	// Bytes are the sizes of the opened files, and Fetch what is fetched of them from a
	// store that is not local.
	Bytes, Fetch int64
}
