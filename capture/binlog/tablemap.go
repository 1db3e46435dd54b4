package binlog

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/gscd-io/gscd/ddl"
)

// table is what is found once for all rows of a table with the same TABLE_MAP event.
type table struct {
	wanted  bool
	raw     []byte // of the event, behind the table's id
	def     *ddl.Table
	columns []column
	json    int // columns of type JSON
	// err is why its rows can't be read; nobody may want any.
	err error
}

// mapped is what a TABLE_MAP event says.
type mapped struct {
	database, name string
	columns        []mappedColumn
	key            []int // places, in the key's order
	named          bool  // the columns have names
	invisible      bool  // visibility is told
}

// mappedColumn is what it says of one column.
type mappedColumn struct {
	name string
	typ  byte // MYSQL_TYPE_…, of strings the real one
	// length is the bytes of a string, the bits of a bit, the precision of a decimal,
	// the bytes of a length, an enum or a set, the digits of a second's part.
	length     int
	scale      int
	nullable   bool
	signKnown  bool
	unsigned   bool
	collation  uint64 // 0: not told
	labels     [][]byte
	geometry   uint64
	invisible  bool
	unreadable error
}

// tableMap takes the event that says what the rows behind it look like.
func (r *Reader) tableMap(body []byte) error {
	n, err := r.postHeader(replication.TABLE_MAP_EVENT)
	if err != nil {
		return err
	}
	c := cursor{b: body}
	id := c.uint(idSize(n))
	c.uint(2)
	rest := c.b
	database := c.take(c.uint(1))
	c.uint(1)
	name := c.take(c.uint(1))
	c.uint(1)
	if c.err != nil {
		return corrupt("TABLE_MAP: %v", c.err)
	}
	r.key = append(append(append(r.key[:0], database...), 0), name...)
	if t := r.shapes[string(r.key)]; t != nil && (!t.wanted || bytes.Equal(t.raw, rest)) {
		r.tables[id] = t
		return nil
	}
	t := &table{wanted: r.wanted(string(database), string(name)), raw: bytes.Clone(rest)}
	if t.wanted {
		m, err := readTableMap(&c, r.mariadb)
		if err != nil {
			return &tableError{string(database) + "." + string(name), err}
		}
		m.database, m.name = string(database), string(name)
		t.err = r.shape(t, m)
	} else {
		t.raw = nil
	}
	r.shapes[string(r.key)], r.tables[id] = t, t
	return nil
}

// idSize is the bytes of a table's id, by the length of the event's fixed part.
func idSize(postHeader int) int {
	if postHeader == 6 {
		return 4
	}
	return 6
}

// maxColumns is the most that a table of MySQL or MariaDB has.
const maxColumns = 4096

func readTableMap(c *cursor, mariadb bool) (*mapped, error) {
	count := c.length()
	if count > maxColumns {
		return nil, corrupt("a table of %d columns", count)
	}
	types := c.take(count)
	meta := cursor{b: c.text()}
	nulls := c.take((count + 7) / 8)
	if c.err != nil {
		return nil, corrupt("TABLE_MAP: %v", c.err)
	}
	m := &mapped{columns: make([]mappedColumn, count)}
	for i := range m.columns {
		col := &m.columns[i]
		col.typ, col.nullable = types[i], bit(nulls, i)
		if !col.readMeta(&meta) {
			break // what the type has there is not known: nor is what comes behind it
		}
	}
	if meta.err != nil {
		return nil, corrupt("TABLE_MAP: %v", meta.err)
	}
	if err := m.readOptional(c, mariadb); err != nil {
		return nil, err
	}
	return m, nil
}

// readMeta reads what a type has in the metadata.
func (col *mappedColumn) readMeta(meta *cursor) (known bool) {
	switch col.typ {
	case mysql.MYSQL_TYPE_STRING:
		kind, length := byte(meta.uint(1)), int(meta.uint(1))
		if kind == 0 {
			kind = mysql.MYSQL_TYPE_STRING
		}
		if kind&0x30 != 0x30 { // two bits of a length over 255
			length |= int(kind&0x30^0x30) << 4
			kind |= 0x30
		}
		col.typ, col.length = kind, length
	case mysql.MYSQL_TYPE_NEWDECIMAL:
		col.length, col.scale = int(meta.uint(1)), int(meta.uint(1))
		if col.length > 65 || col.scale > col.length {
			col.unreadable = corrupt("decimal(%d,%d)", col.length, col.scale)
		}
	case mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_VARCHAR:
		col.length = int(meta.uint(2))
	case mysql.MYSQL_TYPE_BIT:
		bits, whole := int(meta.uint(1)), int(meta.uint(1))
		if col.length = whole*8 + bits; col.length > 64 {
			col.unreadable = corrupt("bit(%d)", col.length)
		}
	case mysql.MYSQL_TYPE_BLOB, mysql.MYSQL_TYPE_GEOMETRY, mysql.MYSQL_TYPE_VECTOR, mysql.MYSQL_TYPE_JSON:
		if col.length = int(meta.uint(1)); col.length < 1 || col.length > 4 {
			col.unreadable = corrupt("a length of %d bytes", col.length)
		}
	case mysql.MYSQL_TYPE_DOUBLE, mysql.MYSQL_TYPE_FLOAT:
		meta.uint(1)
	case mysql.MYSQL_TYPE_TIME2, mysql.MYSQL_TYPE_DATETIME2, mysql.MYSQL_TYPE_TIMESTAMP2:
		if col.length = int(meta.uint(1)); col.length > 6 {
			col.unreadable = corrupt("a second with %d digits", col.length)
		}
	case mysql.MYSQL_TYPE_TINY, mysql.MYSQL_TYPE_SHORT, mysql.MYSQL_TYPE_INT24, mysql.MYSQL_TYPE_LONG, mysql.MYSQL_TYPE_LONGLONG,
		mysql.MYSQL_TYPE_NULL, mysql.MYSQL_TYPE_TIMESTAMP, mysql.MYSQL_TYPE_DATE, mysql.MYSQL_TYPE_TIME, mysql.MYSQL_TYPE_DATETIME,
		mysql.MYSQL_TYPE_YEAR, mysql.MYSQL_TYPE_NEWDATE:
	default:
		col.unreadable = fmt.Errorf("a column of type %d %w", col.typ, ErrUnsupported)
		return false
	}
	return true
}

func (col *mappedColumn) numeric() bool {
	switch col.typ {
	case mysql.MYSQL_TYPE_TINY, mysql.MYSQL_TYPE_SHORT, mysql.MYSQL_TYPE_INT24, mysql.MYSQL_TYPE_LONG, mysql.MYSQL_TYPE_LONGLONG,
		mysql.MYSQL_TYPE_DECIMAL, mysql.MYSQL_TYPE_NEWDECIMAL, mysql.MYSQL_TYPE_FLOAT, mysql.MYSQL_TYPE_DOUBLE, mysql.MYSQL_TYPE_YEAR:
		return true
	}
	return false
}

// characters reports whether the metadata has the column's collation; MariaDB counts
// geometries in.
func (col *mappedColumn) characters(mariadb bool) bool {
	switch col.typ {
	case mysql.MYSQL_TYPE_STRING, mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_BLOB:
		return true
	case mysql.MYSQL_TYPE_GEOMETRY:
		return mariadb
	}
	return false
}

func (col *mappedColumn) labelled(mariadb bool) bool {
	return col.typ == mysql.MYSQL_TYPE_ENUM || col.typ == mysql.MYSQL_TYPE_SET
}

// readOptional reads the fields that a server adds, some only with
// binlog_row_metadata=FULL.
func (m *mapped) readOptional(c *cursor, mariadb bool) error {
	characters := func(col *mappedColumn) bool { return col.characters(mariadb) }
	labelled := func(col *mappedColumn) bool { return col.labelled(mariadb) }
	for len(c.b) > 0 && c.err == nil {
		kind := byte(c.uint(1))
		v := cursor{b: c.text()}
		if c.err != nil {
			break
		}
		switch kind {
		case replication.TABLE_MAP_OPT_META_SIGNEDNESS:
			n := 0
			for i := range m.columns {
				if col := &m.columns[i]; col.numeric() {
					col.signKnown, col.unsigned = n>>3 < len(v.b), highBit(v.b, n)
					n++
				}
			}
		case replication.TABLE_MAP_OPT_META_DEFAULT_CHARSET:
			m.defaultCollation(&v, characters)
		case replication.TABLE_MAP_OPT_META_COLUMN_CHARSET:
			m.collations(&v, characters)
		case replication.TABLE_MAP_OPT_META_ENUM_AND_SET_DEFAULT_CHARSET:
			m.defaultCollation(&v, labelled)
		case replication.TABLE_MAP_OPT_META_ENUM_AND_SET_COLUMN_CHARSET:
			m.collations(&v, labelled)
		case replication.TABLE_MAP_OPT_META_COLUMN_NAME:
			m.named = true
			for i := range m.columns {
				m.columns[i].name = string(v.text())
			}
		case replication.TABLE_MAP_OPT_META_SET_STR_VALUE:
			m.labels(&v, mysql.MYSQL_TYPE_SET)
		case replication.TABLE_MAP_OPT_META_ENUM_STR_VALUE:
			m.labels(&v, mysql.MYSQL_TYPE_ENUM)
		case replication.TABLE_MAP_OPT_META_GEOMETRY_TYPE:
			for i := range m.columns {
				if col := &m.columns[i]; col.typ == mysql.MYSQL_TYPE_GEOMETRY && len(v.b) > 0 {
					col.geometry = v.length()
				}
			}
		case replication.TABLE_MAP_OPT_META_SIMPLE_PRIMARY_KEY:
			for len(v.b) > 0 {
				m.key = append(m.key, int(v.length()))
			}
		case replication.TABLE_MAP_OPT_META_PRIMARY_KEY_WITH_PREFIX:
			for len(v.b) > 0 {
				m.key = append(m.key, int(v.length()))
				v.length()
			}
		case replication.TABLE_MAP_OPT_META_COLUMN_VISIBILITY:
			for i := range m.columns {
				m.columns[i].invisible = !highBit(v.b, i)
			}
		}
		if v.err != nil {
			return corrupt("TABLE_MAP: field %d: %v", kind, v.err)
		}
	}
	if c.err != nil {
		return corrupt("TABLE_MAP: %v", c.err)
	}
	for _, k := range m.key {
		if k < 0 || k >= len(m.columns) {
			return corrupt("TABLE_MAP: column %d of %d is in the key", k, len(m.columns))
		}
	}
	return nil
}

// defaultCollation reads the collation of most columns and those of the others.
func (m *mapped) defaultCollation(v *cursor, of func(*mappedColumn) bool) {
	all := v.length()
	others := map[uint64]uint64{}
	for len(v.b) > 0 && v.err == nil {
		at := v.length()
		others[at] = v.length()
	}
	n := uint64(0)
	for i := range m.columns {
		if col := &m.columns[i]; of(col) {
			col.collation = all
			if other, ok := others[n]; ok {
				col.collation = other
			}
			n++
		}
	}
}

func (m *mapped) collations(v *cursor, of func(*mappedColumn) bool) {
	for i := range m.columns {
		if col := &m.columns[i]; of(col) {
			col.collation = v.length()
		}
	}
}

func (m *mapped) labels(v *cursor, typ byte) {
	for i := range m.columns {
		col := &m.columns[i]
		if col.typ != typ {
			continue
		}
		n := v.length()
		if n > uint64(len(v.b)) {
			v.fail()
			return
		}
		for range n {
			col.labels = append(col.labels, v.text())
		}
	}
}

// known finds the catalog's definition of a table; a server that folds names
// (lower_case_table_names) may write them otherwise in its rows than in its statements.
func (r *Reader) known(database, name string) *ddl.Table {
	if t := r.catalog.Table(database, name); t != nil {
		return t
	}
	all, ok := r.catalog.(interface{ Tables() []*ddl.Table })
	if !ok {
		return nil
	}
	var found *ddl.Table
	for _, t := range all.Tables() {
		if strings.EqualFold(t.Database, database) && strings.EqualFold(t.Name, name) {
			if found != nil {
				return nil
			}
			folded := *t
			folded.Database, folded.Name = database, name
			found = &folded
		}
	}
	return found
}
