//go:build cgo

package sql

import (
	"context"
	"fmt"
	"slices"
	"strings"

	duck "github.com/duckdb/duckdb-go-bindings"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
	"github.com/gscd-io/gscd/query"
)

// executor runs a statement on the files of the days that it sees.
type executor struct {
	*engine
	statement *statement
	files     *files
}

func openExecutor(ctx context.Context, o *Options, s *statement, f *files, spill string) (*executor, error) {
	settings := map[string]string{
		"memory_limit":             fmt.Sprintf("%dB", o.MemoryLimit),
		"preserve_insertion_order": "false", // rows come in no order but that of ORDER BY
	}
	if o.Threads > 0 {
		settings["threads"] = fmt.Sprint(o.Threads)
	}
	e, err := openEngine(settings)
	if err != nil {
		return nil, err
	}
	x := &executor{engine: e, statement: s, files: f}
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

// view gives what a table is: for each day its files, with the deleted rows left
// out and the label as a literal.
func (x *executor) view(r *reading) (string, error) {
	var parts []string
	for _, d := range r.days {
		list, err := x.day(r, d)
		if err != nil {
			return "", fmt.Errorf("table %s: version %d: %w", r.Name, d.version, err)
		}
		parts = append(parts, list...)
	}
	if len(parts) == 0 {
		columns := make([]string, len(r.fields))
		for i, f := range r.fields {
			columns[i] = literal(schema.Value{}, f.Type) + " AS " + identifier(f.Name)
		}
		return "SELECT " + strings.Join(r.withLabel(columns, ""), ", ") + " WHERE false", nil
	}
	return union(parts), nil
}

// withLabel adds the label's column where the table has one.
func (r *reading) withLabel(columns []string, label string) []string {
	if r.labelColumn == "" {
		return columns
	}
	return append(columns, quoted(label)+" AS "+identifier(r.labelColumn))
}

// day gives a query for each group of files of a version that are alike: of one
// partition, and with the same deletion vector or none.
func (x *executor) day(r *reading, d day) ([]string, error) {
	groups := map[string]*group{}
	var order []string
	own := d.snapshot.Schema()
	partitions := d.snapshot.Metadata().PartitionColumns
	for _, add := range d.snapshot.Files() {
		key, err := action.Key(add.Path)
		if err != nil {
			return nil, err
		}
		id := fileID{of: r, key: key}
		columns := make([]string, len(r.fields))
		for i, f := range r.fields {
			switch {
			case own.IndexFold(f.Name) < 0: // of a later day
				columns[i] = literal(schema.Value{}, f.Type) + " AS " + identifier(f.Name)
			case slices.Contains(partitions, f.Name):
				v, err := partitionValue(add, f)
				if err != nil {
					return nil, err
				}
				columns[i] = literal(v, f.Type) + " AS " + identifier(f.Name)
			default:
				columns[i] = identifier(f.Name)
			}
		}
		where := ""
		if add.DeletionVector != nil {
			id.vector = add.DeletionVector.UniqueID()
			where = " WHERE get_bit(getvariable(" + quoted(x.files.deleted[id].variable) + "), CAST(file_row_number AS INTEGER)) = 0"
			id.vector = ""
		}
		name := where + "\x00" + strings.Join(columns, "\x00")
		if groups[name] == nil {
			groups[name] = &group{columns: columns, where: where}
			order = append(order, name)
		}
		groups[name].add(quoted(x.files.data[id].path), add)
	}
	var data []string
	for _, f := range r.fields {
		if own.IndexFold(f.Name) >= 0 && !slices.Contains(partitions, f.Name) {
			data = append(data, fmt.Sprintf("%s: {name: %s, type: %s, default_value: NULL}", quoted(f.Name), quoted(f.Name), quoted(typeName(f.Type))))
		}
	}
	parts := make([]string, 0, len(order))
	for _, name := range order {
		g := groups[name]
		// With a schema no file is opened before its rows are asked for, and a column
		// has the table's type whatever the file keeps it as.
		parts = append(parts, "SELECT "+strings.Join(r.withLabel(g.columns, d.label), ", ")+
			" FROM read_parquet(["+strings.Join(g.paths, ", ")+"], schema = MAP {"+strings.Join(data, ", ")+
			"}, hive_partitioning = false"+g.estimate()+")"+g.where)
	}
	return parts, nil
}

// group is files that one query reads.
type group struct {
	columns []string
	where   string
	paths   []string
	rows    int64 // that are not deleted; below 0 where that is not known
}

func (g *group) add(path string, add *action.Add) {
	g.paths = append(g.paths, path)
	known, err := stats.Parse(add.Stats, noColumns)
	if err != nil || known.NumRecords < 0 || g.rows < 0 {
		g.rows = -1
		return
	}
	g.rows += known.NumRecords
	if add.DeletionVector != nil {
		g.rows -= add.DeletionVector.Cardinality
	}
}

// estimate tells DuckDB how many rows there are, which it does not look up itself:
// it decides which side of a join is kept in memory. It takes a fifth of the rows to
// pass any condition, so those that do pass a deletion vector count five times.
func (g *group) estimate() string {
	switch {
	case g.rows < 0:
		return ""
	case g.where != "":
		return fmt.Sprintf(", explicit_cardinality = %d", 5*max(g.rows, 1))
	}
	return fmt.Sprintf(", explicit_cardinality = %d", max(g.rows, 1))
}

// partitionValue gives the value that every row of a file has in a partition column.
func partitionValue(add *action.Add, column schema.Field) (schema.Value, error) {
	written, ok := add.PartitionValues[column.Name]
	if !ok {
		return schema.Value{}, fmt.Errorf("%w: %s has no value of partition column %s", query.ErrFileMismatch, add.Path, column.Name)
	}
	v, err := action.ParsePartitionValue(written, column.Type)
	if err != nil {
		return v, fmt.Errorf("%w: %s, partition column %s: %w", query.ErrFileMismatch, add.Path, column.Name, err)
	}
	return v, nil
}

// start starts the statement.
func (x *executor) start(ctx context.Context, byTable map[*Table]*reading) (*prepared, *stream, error) {
	if err := createViews(ctx, x.engine, x.statement.refs, func(t *Table) (string, error) { return x.view(byTable[t]) }); err != nil {
		return nil, nil, x.fault(err)
	}
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
	for _, f := range x.files.order {
		if strings.Contains(*message, f.path) {
			*message = strings.ReplaceAll(*message, f.path, f.of.Store.String()+"/"+f.key) + "; run gscd check"
		}
	}
	return err
}
