//go:build cgo

package sql

import (
	"context"
	"fmt"
	"slices"
	"strings"

	duck "github.com/duckdb/duckdb-go-bindings"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
)

// executor runs a statement on the files of the days that it sees.
type executor struct {
	*engine
	statement *statement
	files     *files
	queries   map[*reading]string // what each table is
	joins     int                 // tables of days that were made
	scans     []*tableScan        // of files of stores that are not local
	skipped   map[groupFile]bool  // files of groups that no row is to be had from
	joined    map[*reading]bool   // which tables are a join
	whole     bool                // all of each file is fetched
	// explaining: what is read of local files is asked too, see mark.
	explaining bool
}

// groupFile is a file of a group of a reading, by the group's number.
type groupFile struct {
	of    *reading
	group int
	file  *dataFile
}

// maxParts is how many groups of files are read by a query each. That is the
// quickest way for rows, but planning such a query takes a millisecond a part.
var maxParts = 32

func executorSettings(o *Options) map[string]string {
	settings := map[string]string{
		"memory_limit":             fmt.Sprintf("%dB", o.MemoryLimit),
		"preserve_insertion_order": "false", // rows come in no order but that of ORDER BY
	}
	if o.Threads > 0 {
		settings["threads"] = fmt.Sprint(o.Threads)
	}
	return settings
}

// openExecutor makes an executor of an engine that nothing but parsing was done with, or,
// where it is nil, of a new one. The engine is the executor's from then on.
func openExecutor(ctx context.Context, e *engine, o *Options, s *statement, f *files, spill string) (_ *executor, err error) {
	if e == nil {
		if e, err = openEngine(executorSettings(o)); err != nil {
			return nil, err
		}
	}
	x := &executor{engine: e, statement: s, files: f, queries: map[*reading]string{}, skipped: map[groupFile]bool{}, joined: map[*reading]bool{}}
	if err := x.fence(ctx, spill, o.TempLimit); err != nil {
		e.close()
		return nil, fmt.Errorf("start DuckDB: %w", err)
	}
	return x, nil
}

// fence closes the file system but for the files and a folder to spill to, and the
// settings.
func (x *executor) fence(ctx context.Context, spill string, limit int64) error {
	paths := make([]string, len(x.files.order))
	for i, f := range x.files.order {
		paths[i] = quoted(f.path)
	}
	return x.exec(ctx, "SET temp_directory = "+quoted(spill)+"; SET max_temp_directory_size = '"+fmt.Sprint(limit)+"B'; SET TimeZone = 'UTC'; SET enable_geoparquet_conversion = false; SET allowed_paths = ["+strings.Join(paths, ", ")+
		"]; SET enable_external_access = false; SET lock_configuration = true")
}

// layOut decides what each table is. It may be called again, for what needs left
// over.
func (x *executor) layOut(ctx context.Context, readings []*reading) error {
	x.scans = nil
	for _, d := range x.files.vectors {
		d.used = false
	}
	for _, r := range readings {
		groups, err := x.groups(r)
		if err != nil {
			return fmt.Errorf("table %s: %w", r.Name, err)
		}
		if joined, again := x.joined[r]; len(groups) > max(maxParts, 0) && !again || joined && len(groups) > 0 {
			x.joined[r] = true
			if x.queries[r], err = x.asJoin(ctx, r, groups); err != nil {
				return fmt.Errorf("table %s: %w", r.Name, err)
			}
			continue
		} else if !again {
			x.joined[r] = false
		}
		parts := make([]string, len(groups))
		for i, g := range groups {
			x.mark(r, g, []*group{g})
			where := ""
			if g.vector != nil {
				where = " WHERE get_bit(getvariable(" + quoted(g.vector.variable()) + "), CAST(file_row_number AS INTEGER)) = 0"
			}
			columns := make([]string, len(g.cells))
			for c := range g.cells {
				columns[c] = g.cells[c].expression()
			}
			parts[i] = "SELECT " + strings.Join(r.withLabel(columns, g.label), ", ") + " FROM " + g.scan(r) + where
		}
		x.queries[r] = union(parts)
		if len(parts) == 0 {
			columns := make([]string, len(r.fields))
			for i, f := range r.fields {
				columns[i] = literal(schema.Value{}, f.Type) + " AS " + identifier(f.Name)
			}
			x.queries[r] = "SELECT " + strings.Join(r.withLabel(columns, ""), ", ") + " WHERE false"
		}
	}
	return nil
}

// withLabel adds the label's column where the table has one.
func (r *reading) withLabel(columns []string, label string) []string {
	if r.labelColumn == "" {
		return columns
	}
	return append(columns, quoted(label)+" AS "+identifier(r.labelColumn))
}

// group is files of a version that are read alike: of one partition, and with the
// same deletion vector or none.
type group struct {
	number int    // in the reading, before any was left out
	marked bool   // its columns have names that are found in a plan
	cells  []cell // of r.fields
	label  string
	vector *deleted
	files  []*dataFile
	rows   int64 // that are not deleted; below 0 where that is not known
}

// cell says where a column of a group comes from: a column of the files, or a
// literal, of all rows of the files of a partition or of the whole version.
type cell struct {
	name    string // of the column in SQL, an identifier
	inner   string // of the column of the files, an identifier; "" for a literal
	literal string
	missing bool // the version does not have the column, and the literal is NULL, or an error
	// column is that of the files, typ the table's type with the names that its parts
	// have there. Both are empty for a literal.
	column parquet.Column
	typ    schema.Type
}

func (c *cell) expression() string {
	switch c.inner {
	case "":
		return c.literal + " AS " + c.name
	case c.name:
		if !mapped(c.typ) {
			return c.name
		}
	}
	return renamed(c.inner, c.typ, 0) + " AS " + c.name
}

// sameColumns tells whether two groups are read alike.
func sameColumns(a, b []cell) bool {
	return slices.EqualFunc(a, b, func(a, b cell) bool {
		return a.inner == b.inner && a.missing == b.missing && a.column.Name == b.column.Name && a.column.FieldID == b.column.FieldID
	})
}

// fieldOf finds a column of a reading among those of one of its versions: by the
// name in the files where column mapping gives it one, for that is what stays. The
// place is -1 where the version does not have it, or only as one without values.
func fieldOf(s *schema.Schema, f *schema.Field) int {
	i := s.IndexFold(f.Name)
	if f.FileName != "" {
		i = slices.IndexFunc(s.Fields, func(own schema.Field) bool { return own.Stored() == f.FileName })
	}
	if i >= 0 && s.Fields[i].Type.Primitive == schema.Void {
		return -1
	}
	return i
}

// virtualColumns are what DuckDB calls the places of a row; a column of a table
// that has such a name gets another one inside.
var virtualColumns = []string{"filename", "file_row_number", "file_index", "rowid"}

// groups gives what the days of a reading are made of.
func (x *executor) groups(r *reading) ([]*group, error) {
	var list []*group
	for _, d := range r.days {
		own := d.snapshot.Schema()
		partitions := d.snapshot.Metadata().PartitionColumns
		found := map[string]*group{}
		for _, add := range d.snapshot.Files() {
			key, err := keyOf(r, add)
			if err != nil {
				return nil, err
			}
			g := &group{label: d.label}
			partition := ""
			for i, f := range r.fields {
				c := cell{name: identifier(f.Name)}
				place := fieldOf(own, &f)
				switch {
				case place < 0: // a column of a later day
					c.literal, c.missing = literal(schema.Value{}, f.Type), true
				case hasVariant(f.Type): // DuckDB takes those without annotation for structs
					c.literal, c.missing = "CAST(error("+quoted("column "+f.Name+" has variants, which SQL does not read: ask for it without SQL, by --columns and --where")+") AS "+typeName(f.Type)+")", true
				case slices.Contains(partitions, own.Fields[place].Name):
					v, err := scan.PartitionValue(add, own.Fields[place])
					if err != nil {
						return nil, fmt.Errorf("version %d: %w", d.version, err)
					}
					c.literal = literal(v, f.Type)
					partition += "\x00" + c.literal
				case slices.Contains(virtualColumns, strings.ToLower(f.Name)):
					c.inner = fmt.Sprintf("__gscd_c%d", i)
				default:
					c.inner = c.name
				}
				if c.inner != "" {
					c.column, c.typ = parquet.ColumnOf(&own.Fields[place]), f.Type
				}
				g.cells = append(g.cells, c)
			}
			id := fileID{of: r, key: key}
			file := x.files.data[id]
			if add.DeletionVector != nil {
				id.vector = add.DeletionVector.UniqueID()
				g.vector = x.files.deleted[id]
			}
			name := id.vector + partition
			if found[name] == nil {
				g.number = len(list)
				found[name] = g
				list = append(list, g)
			}
			if !x.skipped[groupFile{r, found[name].number, file}] {
				found[name].add(file, add)
			}
		}
	}
	list = slices.DeleteFunc(list, func(g *group) bool { return len(g.files) == 0 })
	for _, g := range list {
		if g.vector != nil {
			g.vector.used = true
		}
	}
	return list, nil
}

func (g *group) add(file *dataFile, add *action.Add) {
	g.files = append(g.files, file)
	rows, known := stats.NumRecords(add.Stats)
	if !known || g.rows < 0 {
		g.rows = -1
		return
	}
	g.rows += rows
	if add.DeletionVector != nil {
		g.rows -= add.DeletionVector.Cardinality
	}
}

// scan reads the files of a group. With a schema no file is opened before its rows
// are asked for, and a column has the table's type whatever the file keeps it as.
func (g *group) scan(r *reading) string {
	var columns []string
	byID := false
	for _, c := range g.cells {
		if c.inner == "" {
			continue
		}
		key := quoted(c.column.Name)
		if byID = c.column.FieldID != 0; byID {
			key = fmt.Sprint(c.column.FieldID)
		}
		columns = append(columns, fmt.Sprintf("%s: {name: %s, type: %s, default_value: NULL}", key, quoted(unquoted(c.inner)), quoted(fileTypeName(c.typ))))
	}
	if g.marked {
		columns = append(columns, padding(byID)...)
	}
	paths := make([]string, len(g.files))
	for i, f := range g.files {
		paths[i] = quoted(f.path)
	}
	// DuckDB does not look up how many rows there are, and decides by it which side of
	// a join is kept in memory. It takes a fifth of the rows to pass any condition, so
	// those that do pass a deletion vector count five times.
	estimate := ""
	if rows := max(g.rows, 1); g.rows >= 0 {
		if g.vector != nil {
			rows *= 5
		}
		estimate = fmt.Sprintf(", explicit_cardinality = %d", rows)
	}
	return "read_parquet([" + strings.Join(paths, ", ") + "], schema = MAP {" + strings.Join(columns, ", ") + "}, hive_partitioning = false" + estimate + ")"
}

// define gives the names of the statement what layOut made.
func (x *executor) define(ctx context.Context, byTable map[*Table]*reading) error {
	err := createViews(ctx, x.engine, x.statement.refs, func(t *Table) (string, error) { return x.queries[byTable[t]], nil })
	if err == nil {
		err = createDefined(ctx, x.engine, x.statement.views, nil)
	}
	return x.fault(err)
}

// start starts the statement.
func (x *executor) start(ctx context.Context) (*prepared, *stream, error) {
	p, err := x.prepare(ctx, x.statement.text)
	if err != nil {
		return nil, nil, x.fault(asError(x.statement.text, err, true))
	}
	kinds := []duck.StatementType{duck.StatementTypeSelect, duck.StatementTypeExplain}
	if kind := duck.PreparedStatementType(p.stmt); !slices.Contains(kinds, kind) {
		p.close()
		return nil, nil, rejectedf(x.statement.text, -1, "only a query can be run here")
	}
	s, err := x.stream(ctx, p)
	if err != nil {
		p.close()
		return nil, nil, x.fault(asError(x.statement.text, err, false))
	}
	return p, s, nil
}

// fault names, in an error, the file that a copy stands for.
func (x *executor) fault(err error) error {
	var message *string
	switch err := err.(type) { //nolint:errorlint // errors of this package, not wrapped yet
	case *Error:
		message = &err.Message
	case *duckError:
		message = &err.message
	default:
		return err
	}
	*message = x.shown(*message)
	for _, f := range x.files.order {
		if strings.Contains(*message, f.path) {
			*message = strings.ReplaceAll(*message, f.path, f.of.Store.String()+"/"+f.key) + "; run gscd check"
		}
	}
	return err
}
