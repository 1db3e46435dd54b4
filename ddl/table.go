package ddl

import "strings"

// Table is the definition of a source table at one moment. It is not changed
// once it is handed out: a statement gives a new one.
type Table struct {
	Database string `json:"database"`
	Name     string `json:"name"`
	// Columns in the order of the table, hidden and generated ones among them:
	// the binlog has their cells too.
	Columns []Column `json:"columns"`
	// Key holds the places in Columns of the primary key, in its order; without one
	// those of the first unique key whose columns are all NOT NULL; else it is empty.
	Key []int `json:"key,omitempty"`
	// Keys are all keys that have a name and columns, the primary one first.
	Keys []Key `json:"keys,omitempty"`
	// Charset is the default of columns that name none, "utf8mb4"; empty: not known.
	Charset string `json:"charset,omitempty"`
	// Incomplete tables have columns that no statement told (CREATE TABLE ... SELECT).
	Incomplete bool `json:"incomplete,omitempty"`
}

// Column is a column of a Table.
type Column struct {
	Name string `json:"name"`
	// Type is the column's type as information_schema's COLUMN_TYPE prints it, in
	// lower case but for labels: "int(10) unsigned", "decimal(12,2)", "enum('a','B')".
	Type string `json:"type"`
	// Charset of its text, "latin1"; empty for columns without one, "binary" for bytes.
	Charset   string `json:"charset,omitempty"`
	Nullable  bool   `json:"nullable,omitempty"`
	Generated bool   `json:"generated,omitempty"`
	// Invisible columns are left out of SELECT *, hidden ones are the server's own
	// (functional keys, row start and end of system versioning).
	Invisible bool `json:"invisible,omitempty"`
	Hidden    bool `json:"hidden,omitempty"`
	// ID tells columns of one catalog apart, from 1; 0: not of a catalog.
	ID int64 `json:"id,omitempty"`
}

// Key is a key of a Table.
type Key struct {
	// Name is "PRIMARY" for the primary key.
	Name string `json:"name"`
	// Columns by name, in the order of the key.
	Columns []string `json:"columns"`
	Unique  bool     `json:"unique,omitempty"`
}

const primaryName = "PRIMARY"

// Column is the place of a column by its name, in any case; -1 if there is none.
func (t *Table) Column(name string) int { return columnIn(t.Columns, name) }

func columnIn(columns []Column, name string) int {
	for i := range columns {
		if strings.EqualFold(columns[i].Name, name) {
			return i
		}
	}
	return -1
}

// findKey fills in Key from Keys and Columns.
func (t *Table) findKey() {
	t.Key = nil
	for _, k := range t.Keys {
		if !k.Unique {
			continue
		}
		places := make([]int, 0, len(k.Columns))
		for _, name := range k.Columns {
			i := t.Column(name)
			if i < 0 || t.Columns[i].Nullable {
				break
			}
			places = append(places, i)
		}
		if len(places) > 0 && len(places) == len(k.Columns) {
			t.Key = places
			return
		}
	}
}
