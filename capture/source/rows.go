package source

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/gscd-io/gscd/capture/event"
	"github.com/gscd-io/gscd/ddl"
)

// Range is a stretch of a table in the order of its key: behind After, up to and with
// UpTo. Each is a literal per column of the key, as a statement has it; nil is no bound.
type Range struct {
	After []string `json:"after,omitempty"`
	UpTo  []string `json:"up_to,omitempty"`
}

// Table is a table as its rows are read.
type Table struct {
	*ddl.Table
	// texts are the columns that are text, by place in Columns.
	texts map[int]textColumn
}

type textColumn struct{ charset, collation string }

// Table asks how the key of a table is ordered.
func (s *Session) Table(t *ddl.Table) (*Table, error) {
	rows, err := s.query("SELECT column_name AS n, character_set_name AS s, collation_name AS c FROM information_schema.columns WHERE table_schema = " + text(t.Database) + " AND table_name = " + text(t.Name))
	if err != nil {
		return nil, err
	}
	out := &Table{t, map[int]textColumn{}}
	for _, r := range rows {
		if i := t.Column(r["n"]); i >= 0 && r["c"] != "" {
			out.texts[i] = textColumn{r["s"], r["c"]}
		}
	}
	return out, nil
}

// base is the name of a type without what is behind it.
func base(sql string) string {
	if i := strings.IndexAny(sql, "( "); i >= 0 {
		sql = sql[:i]
	}
	return strings.ToLower(sql)
}

// kindOf is the form that cells of a column have.
func kindOf(c *ddl.Column) event.Kind {
	switch base(c.Type) {
	case "tinyint", "smallint", "mediumint", "int", "integer", "bigint":
		if strings.Contains(strings.ToLower(c.Type), "unsigned") {
			return event.Uint
		}
		return event.Int
	case "year":
		return event.Int
	case "bit":
		return event.Uint
	case "float":
		return event.Float
	case "double", "real":
		return event.Double
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector",
		"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection":
		return event.Bytes
	}
	return event.Text
}

// selected is the column in a SELECT. What the server would show rounded, or as bytes of
// a form of its own, is asked for in another way.
func selected(c *ddl.Column) string {
	name := quoted(c.Name)
	switch base(c.Type) {
	case "float": // 6 digits as text; as a double all that it has
		return name + " + 0e0"
	case "bit":
		return "CAST(" + name + " AS UNSIGNED)"
	}
	return name
}

// Keyed tells whether the table is read in the order of its key: whether a value of each of
// its columns compares with a literal as the order of the server has it.
func (t *Table) Keyed() bool {
	for _, i := range t.Key {
		switch base(t.Columns[i].Type) {
		case "tinyint", "smallint", "mediumint", "int", "integer", "bigint", "year", "decimal", "numeric",
			"char", "varchar", "binary", "varbinary", "date", "datetime", "timestamp", "uuid":
		default:
			return false
		}
	}
	return len(t.Key) > 0
}

// literal is a value of a column of the key in a statement. Text is in the column's own
// charset and collation: with another one the server would compare in another order.
func (t *Table) literal(at int, c event.Cell) string {
	if as, ok := t.texts[at]; ok && c.Kind == event.Text {
		return "CONVERT(" + text(string(c.Bytes)) + " USING " + as.charset + ") COLLATE " + as.collation
	}
	switch c.Kind {
	case event.Int:
		return strconv.FormatInt(int64(c.Number), 10)
	case event.Uint:
		return strconv.FormatUint(c.Number, 10)
	case event.Bytes:
		return fmt.Sprintf("x'%x'", c.Bytes)
	}
	return text(string(c.Bytes))
}

// where is the condition of a range.
func (r Range) where(t *Table) string {
	var parts []string
	if r.After != nil {
		parts = append(parts, compared(t, ">", ">", r.After))
	}
	if r.UpTo != nil {
		parts = append(parts, compared(t, "<", "<=", r.UpTo))
	}
	if len(parts) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(parts, " AND ")
}

// compared compares the key column by column, which servers find in the index; rows in
// parentheses they often don't.
func compared(t *Table, strict, last string, bound []string) string {
	name := quoted(t.Columns[t.Key[len(bound)-1]].Name)
	out := name + " " + last + " " + bound[len(bound)-1]
	for i := len(bound) - 2; i >= 0; i-- {
		name := quoted(t.Columns[t.Key[i]].Name)
		out = "(" + name + " " + strict + " " + bound[i] + " OR (" + name + " = " + bound[i] + " AND " + out + "))"
	}
	return out
}

func order(t *Table) string {
	var names []string
	for _, i := range t.Key {
		names = append(names, quoted(t.Columns[i].Name))
	}
	return " ORDER BY " + strings.Join(names, ", ")
}

func nameOf(t *Table) TableName { return TableName{t.Database, t.Name} }

// Bound finds the key at which a range that begins behind after has n rows; nil where
// the table ends before it, or right there. The table is Keyed.
func (s *Session) Bound(t *Table, after []string, n int) ([]string, error) {
	var columns []string
	for _, i := range t.Key {
		columns = append(columns, selected(&t.Columns[i]))
	}
	query := fmt.Sprintf("SELECT %s FROM %s%s%s LIMIT 2 OFFSET %d", strings.Join(columns, ", "), nameOf(t).quoted(), Range{After: after}.where(t), order(t), n-1)
	var bounds [][]string
	var result mysql.Result
	err := s.conn.ExecuteSelectStreaming(query, &result, func(row []mysql.FieldValue) error {
		bound := make([]string, len(row))
		for i := range row {
			c, err := cell(&t.Columns[t.Key[i]], kindOf(&t.Columns[t.Key[i]]), &row[i])
			if err != nil {
				return err
			}
			bound[i] = t.literal(t.Key[i], c)
		}
		bounds = append(bounds, bound)
		return nil
	}, nil)
	if err != nil {
		return nil, s.failed(query, changed(err))
	}
	if len(bounds) < 2 {
		return nil, nil
	}
	return bounds[0], nil
}

// ErrChanged: a table's definition is no longer that of the moment that the session sees.
var ErrChanged = errors.New("the table was altered since the load began")

// changed marks an error that says so.
func changed(err error) error {
	switch code(err) {
	case erTableDefChanged, erNoSuchTable, erBadField:
		return fmt.Errorf("%w: %w", ErrChanged, err)
	}
	return err
}

// Rows calls take with each row of a range, in the order of the key where the table is
// Keyed. The cells and their bytes are good until take returns; of hidden columns they are
// Absent.
func (s *Session) Rows(ctx context.Context, t *Table, r Range, take func([]event.Cell) error) error {
	var columns []string
	var at []int
	kinds := make([]event.Kind, len(t.Columns))
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Hidden {
			continue
		}
		columns, at = append(columns, selected(c)), append(at, i)
		kinds[i] = kindOf(c)
	}
	query := "SELECT " + strings.Join(columns, ", ") + " FROM " + nameOf(t).quoted() + r.where(t)
	if t.Keyed() {
		query += order(t)
	}
	cells := make([]event.Cell, len(t.Columns))
	return s.Select(ctx, query, func(row []mysql.FieldValue) error {
		for j := range row {
			i := at[j]
			c, err := cell(&t.Columns[i], kinds[i], &row[j])
			if err != nil {
				return err
			}
			cells[i] = c
		}
		return take(cells)
	})
}

// Select calls take with each row of a statement's answer as it comes; the values are good
// until take returns. The error is take's as it is, ctx's, or names the statement and wraps
// ErrChanged, ErrLost or ErrPassing.
func (s *Session) Select(ctx context.Context, query string, take func([]mysql.FieldValue) error) error {
	var result mysql.Result
	var stopped error
	err := s.conn.ExecuteSelectStreaming(query, &result, func(row []mysql.FieldValue) error {
		stopped = take(row)
		return stopped
	}, nil)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case stopped != nil:
		return stopped
	}
	return s.failed(query, changed(err))
}

// cell makes a cell of what the server has sent.
func cell(c *ddl.Column, kind event.Kind, v *mysql.FieldValue) (event.Cell, error) {
	switch v.Type {
	case mysql.FieldValueTypeNull:
		return event.Cell{Kind: event.Null}, nil
	case mysql.FieldValueTypeUnsigned:
		if kind == event.Uint || kind == event.Int {
			return event.Cell{Kind: kind, Number: v.AsUint64()}, nil
		}
	case mysql.FieldValueTypeSigned:
		if kind == event.Uint || kind == event.Int {
			return event.Cell{Kind: kind, Number: uint64(v.AsInt64())}, nil
		}
	case mysql.FieldValueTypeFloat:
		if kind == event.Float || kind == event.Double {
			return event.Cell{Kind: kind, Float: v.AsFloat64()}, nil
		}
	case mysql.FieldValueTypeString:
		if kind == event.Text || kind == event.Bytes {
			text := v.AsString()
			if t := base(c.Type); t == "decimal" || t == "numeric" { // ZEROFILL is for the eye
				for len(text) > 1 && text[0] == '0' && text[1] != '.' {
					text = text[1:]
				}
			}
			return event.Cell{Kind: kind, Bytes: text}, nil
		}
	}
	return event.Cell{}, fmt.Errorf("the column %s of type %s came as %v, which is none of its values", c.Name, c.Type, v.Value())
}

// KeyOf gives a row's key as a bound of a Range.
func (t *Table) KeyOf(cells []event.Cell) []string {
	out := make([]string, len(t.Key))
	for i, at := range t.Key {
		out[i] = t.literal(at, cells[at])
	}
	return out
}
