package binlog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/gscd-io/gscd/ddl"
)

// shape finds a table's definition and how its cells are read: the catalog's
// definition where it fits what the log says, else the log's own names.
func (r *Reader) shape(t *table, m *mapped) error {
	known := r.known(m.database, m.name)
	misfit := m.misfit(known)
	switch {
	case known != nil && misfit == "":
		t.def = known
	case m.named:
		t.def = m.definition(known)
	case r.o.Positional:
		for i := range m.columns {
			m.columns[i].name = "@" + strconv.Itoa(i+1)
		}
		t.def = m.definition(nil)
	case known == nil && r.unread != nil:
		return fmt.Errorf("%w; %w", ErrNoDefinition, r.unread)
	case known == nil:
		return ErrNoDefinition
	case r.unread != nil:
		return fmt.Errorf("the definition that is known does not fit the rows (%s); %w", misfit, r.unread)
	default:
		return fmt.Errorf("%w: the one that is known does not fit the rows (%s)", ErrNoDefinition, misfit)
	}
	t.columns = make([]column, len(m.columns))
	for i := range m.columns {
		if err := t.columns[i].init(&m.columns[i], t.def, &t.def.Columns[i]); err != nil {
			return fmt.Errorf("column %s: %w", t.def.Columns[i].Name, err)
		}
		if t.columns[i].typ == mysql.MYSQL_TYPE_JSON {
			t.json++
		}
	}
	return nil
}

// misfit says why a definition is not that of the rows; "" where it may be.
func (m *mapped) misfit(t *ddl.Table) string {
	switch {
	case t == nil:
		return "none"
	case t.Incomplete:
		return "its columns are not known"
	case len(t.Columns) != len(m.columns):
		return fmt.Sprintf("%d columns, not %d", len(t.Columns), len(m.columns))
	}
	for i := range m.columns {
		col, def := &m.columns[i], &t.Columns[i]
		if m.named && !strings.EqualFold(col.name, def.Name) {
			return fmt.Sprintf("column %d is %s, not %s", i+1, col.name, def.Name)
		}
		if why := col.misfit(def); why != "" {
			return fmt.Sprintf("column %s: %s, not %s", def.Name, why, def.Type)
		}
	}
	return ""
}

// stored tells by which types of the log a column's type is written.
var stored = map[string][]byte{
	"tinyint": {mysql.MYSQL_TYPE_TINY}, "smallint": {mysql.MYSQL_TYPE_SHORT}, "mediumint": {mysql.MYSQL_TYPE_INT24},
	"int": {mysql.MYSQL_TYPE_LONG}, "bigint": {mysql.MYSQL_TYPE_LONGLONG},
	"float": {mysql.MYSQL_TYPE_FLOAT}, "double": {mysql.MYSQL_TYPE_DOUBLE}, "decimal": {mysql.MYSQL_TYPE_NEWDECIMAL},
	"bit": {mysql.MYSQL_TYPE_BIT}, "year": {mysql.MYSQL_TYPE_YEAR},
	"date": {mysql.MYSQL_TYPE_DATE, mysql.MYSQL_TYPE_NEWDATE}, "time": {mysql.MYSQL_TYPE_TIME, mysql.MYSQL_TYPE_TIME2},
	"datetime":  {mysql.MYSQL_TYPE_DATETIME, mysql.MYSQL_TYPE_DATETIME2},
	"timestamp": {mysql.MYSQL_TYPE_TIMESTAMP, mysql.MYSQL_TYPE_TIMESTAMP2},
	"char":      {mysql.MYSQL_TYPE_STRING}, "binary": {mysql.MYSQL_TYPE_STRING},
	"varchar": {mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_VAR_STRING}, "varbinary": {mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_VAR_STRING},
	"tinytext": {mysql.MYSQL_TYPE_BLOB}, "text": {mysql.MYSQL_TYPE_BLOB}, "mediumtext": {mysql.MYSQL_TYPE_BLOB}, "longtext": {mysql.MYSQL_TYPE_BLOB},
	"tinyblob": {mysql.MYSQL_TYPE_BLOB}, "blob": {mysql.MYSQL_TYPE_BLOB}, "mediumblob": {mysql.MYSQL_TYPE_BLOB}, "longblob": {mysql.MYSQL_TYPE_BLOB},
	"json": {mysql.MYSQL_TYPE_JSON, mysql.MYSQL_TYPE_BLOB},
	"enum": {mysql.MYSQL_TYPE_ENUM}, "set": {mysql.MYSQL_TYPE_SET},
}

// typeName is the bare name of a column's type: "int" of "int(10) unsigned".
func typeName(text string) string {
	if i := strings.IndexAny(text, "( "); i >= 0 {
		text = text[:i]
	}
	return text
}

func (col *mappedColumn) misfit(def *ddl.Column) string {
	name := typeName(def.Type)
	if types, ok := stored[name]; ok && !slices.Contains(types, col.typ) {
		return "the log has " + col.typeText()
	}
	if col.signKnown && col.typ != mysql.MYSQL_TYPE_YEAR && strings.Contains(def.Type, "unsigned") != col.unsigned && !strings.Contains(def.Type, "zerofill") {
		return "the log has another sign"
	}
	if name == "decimal" && def.Type != fmt.Sprintf("decimal(%d,%d)", col.length, col.scale) && !strings.HasPrefix(def.Type, fmt.Sprintf("decimal(%d,%d) ", col.length, col.scale)) {
		return "the log has " + col.typeText()
	}
	return ""
}

// definition makes a table of what the log says. A column of the same name and form
// has the known definition's type, which tells more: tinyint(1), the length of a text.
func (m *mapped) definition(known *ddl.Table) *ddl.Table {
	t := &ddl.Table{Database: m.database, Name: m.name, Key: m.key}
	for i := range m.columns {
		col := &m.columns[i]
		def := ddl.Column{Name: col.name, Type: col.typeText(), Nullable: col.nullable, Invisible: col.invisible}
		if col.characters(false) || col.labelled(false) {
			def.Charset = charsetName(col.collation)
		}
		if known != nil {
			for j := range known.Columns {
				if k := &known.Columns[j]; strings.EqualFold(k.Name, col.name) && col.misfit(k) == "" {
					def.Type, def.Generated, def.ID = k.Type, k.Generated, k.ID
				}
			}
		}
		t.Columns = append(t.Columns, def)
	}
	return t
}

var geometryTypes = []string{"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection"}

// typeText is the column's type as far as the log tells it.
func (col *mappedColumn) typeText() string {
	integer := func(name string, signed, unsigned int) string {
		if col.unsigned {
			return fmt.Sprintf("%s(%d) unsigned", name, unsigned)
		}
		return fmt.Sprintf("%s(%d)", name, signed)
	}
	suffix := ""
	if col.unsigned {
		suffix = " unsigned"
	}
	fraction := func(name string) string {
		if col.length == 0 {
			return name
		}
		return fmt.Sprintf("%s(%d)", name, col.length)
	}
	isBytes := charsetName(col.collation) == "binary"
	length := col.length / max(1, maxBytes(charsetName(col.collation)))
	switch col.typ {
	case mysql.MYSQL_TYPE_TINY:
		return integer("tinyint", 4, 3)
	case mysql.MYSQL_TYPE_SHORT:
		return integer("smallint", 6, 5)
	case mysql.MYSQL_TYPE_INT24:
		return integer("mediumint", 9, 8)
	case mysql.MYSQL_TYPE_LONG:
		return integer("int", 11, 10)
	case mysql.MYSQL_TYPE_LONGLONG:
		return integer("bigint", 20, 20)
	case mysql.MYSQL_TYPE_NEWDECIMAL:
		return fmt.Sprintf("decimal(%d,%d)%s", col.length, col.scale, suffix)
	case mysql.MYSQL_TYPE_FLOAT:
		return "float" + suffix
	case mysql.MYSQL_TYPE_DOUBLE:
		return "double" + suffix
	case mysql.MYSQL_TYPE_BIT:
		return fmt.Sprintf("bit(%d)", col.length)
	case mysql.MYSQL_TYPE_YEAR:
		return "year(4)"
	case mysql.MYSQL_TYPE_DATE, mysql.MYSQL_TYPE_NEWDATE:
		return "date"
	case mysql.MYSQL_TYPE_TIME, mysql.MYSQL_TYPE_TIME2:
		return fraction("time")
	case mysql.MYSQL_TYPE_DATETIME, mysql.MYSQL_TYPE_DATETIME2:
		return fraction("datetime")
	case mysql.MYSQL_TYPE_TIMESTAMP, mysql.MYSQL_TYPE_TIMESTAMP2:
		return fraction("timestamp")
	case mysql.MYSQL_TYPE_STRING:
		if isBytes {
			return fmt.Sprintf("binary(%d)", col.length)
		}
		return fmt.Sprintf("char(%d)", length)
	case mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_VAR_STRING:
		if isBytes {
			return fmt.Sprintf("varbinary(%d)", col.length)
		}
		return fmt.Sprintf("varchar(%d)", length)
	case mysql.MYSQL_TYPE_BLOB:
		names := []string{"tinyblob", "blob", "mediumblob", "longblob"}
		if !isBytes && col.collation != 0 {
			names = []string{"tinytext", "text", "mediumtext", "longtext"}
		}
		return names[max(0, min(3, col.length-1))]
	case mysql.MYSQL_TYPE_ENUM:
		return col.labelText("enum", "smallint(5) unsigned")
	case mysql.MYSQL_TYPE_SET:
		return col.labelText("set", "bigint(20) unsigned")
	case mysql.MYSQL_TYPE_JSON:
		return "json"
	case mysql.MYSQL_TYPE_GEOMETRY:
		return geometryTypes[min(col.geometry, uint64(len(geometryTypes)-1))]
	case mysql.MYSQL_TYPE_VECTOR:
		return "vector"
	}
	return fmt.Sprintf("type %d", col.typ)
}

// labelText writes an enum or set; where its labels are not told, what its numbers fit.
func (col *mappedColumn) labelText(name, numbers string) string {
	if col.labels == nil {
		return numbers
	}
	var out strings.Builder
	out.WriteString(name + "(")
	for i, label := range col.labelsText() {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString("'" + strings.ReplaceAll(label, "'", "''") + "'")
	}
	return out.String() + ")"
}

// labelsText gives the labels as UTF-8.
func (col *mappedColumn) labelsText() []string {
	cs := charsetOf(charsetName(col.collation))
	out := make([]string, len(col.labels))
	for i, label := range col.labels {
		text, err := cs.convert(nil, label)
		if err != nil {
			text = []byte(strings.ToValidUTF8(string(label), "\uFFFD"))
		}
		out[i] = string(text)
	}
	return out
}
