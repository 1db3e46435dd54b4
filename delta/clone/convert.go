package clone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
)

// ErrNotConvertible: a folder can't become a table as it is.
var ErrNotConvertible = errors.New("the folder can't become a table")

// ConvertOptions say how Convert makes the table.
type ConvertOptions struct {
	// PartitionBy are the columns whose values stand in the names of folders
	// ("day=2022-07-16/"), with their types. nil: those of the folders, as text.
	PartitionBy []schema.Field
	Properties  map[string]string
	Name        string
	// Progress, where set, is told how many files were looked at.
	Progress func(done, total int)
}

// Convert makes a table of the Parquet files below the root of a store, where they are:
// it writes a log. Columns are those of all files together; a file may lack some. Files
// and folders whose names begin with "_" or "." are passed over. The error wraps
// ErrExists, ErrNotConvertible, or is a file's and names it; nothing is written then.
func Convert(ctx context.Context, store objstore.Store, o ConvertOptions) (*delta.Snapshot, error) {
	s, err := convert(ctx, store, o)
	if err != nil {
		return nil, fmt.Errorf("convert %s: %w", store, err)
	}
	return s, nil
}

// found is a Parquet file below the root.
type found struct {
	object objstore.Object
	// folders are the names of partition columns and their values, in order.
	names  []string
	values []*string
	fields []schema.Field
	file   *parquet.File
}

func convert(ctx context.Context, store objstore.Store, o ConvertOptions) (*delta.Snapshot, error) {
	table := delta.New(store)
	if _, err := table.Snapshot(ctx); err == nil {
		return nil, ErrExists
	} else if !errors.Is(err, delta.ErrNotATable) {
		return nil, err
	}
	files, err := findFiles(ctx, store)
	if err != nil {
		return nil, err
	}
	partitions := o.PartitionBy
	if partitions == nil {
		for _, name := range files[0].names {
			partitions = append(partitions, schema.Field{Name: name, Type: schema.Of(schema.StringType), Nullable: true})
		}
	}
	if err := openAll(ctx, store, files, o.Progress); err != nil {
		return nil, err
	}
	columns, err := columnsOf(files, partitions)
	if err != nil {
		return nil, err
	}
	m := action.Metadata{
		ID: uuid.NewString(), Name: o.Name, Format: action.Format{Provider: "parquet"}, SchemaString: columns.String(),
		PartitionColumns: []string{}, Configuration: maps.Clone(o.Properties),
	}
	if m.Configuration == nil {
		m.Configuration = map[string]string{}
	}
	stamp := table.Now().UnixMilli()
	m.CreatedTime = &stamp
	for _, p := range partitions {
		m.PartitionColumns = append(m.PartitionColumns, p.Name)
	}
	tx := delta.NewTransaction(table, nil)
	tx.SetMetadata(m)
	tx.SetProtocol(protocolOf(columns, m.Configuration))
	for _, f := range files {
		add, err := f.add(columns, partitions, m.Configuration)
		if err != nil {
			return nil, err
		}
		tx.Add(add)
	}
	tx.SetCommitInfo("CONVERT", map[string]string{"numFiles": fmt.Sprint(len(files)), "partitionedBy": fmt.Sprintf("%q", m.PartitionColumns)},
		map[string]string{"numConvertedFiles": fmt.Sprint(len(files))}, nil)
	outcome, err := tx.Commit(ctx)
	if err != nil {
		return nil, err
	}
	if !outcome.Committed {
		return nil, fmt.Errorf("%w: %s", ErrExists, outcome.Conflict)
	}
	return outcome.Snapshot, nil
}

// protocolOf is the lowest protocol for the columns and properties.
func protocolOf(s *schema.Schema, properties map[string]string) action.Protocol {
	var features []string
	for property, feature := range map[string]string{
		delta.PropertyDeletionVectors: delta.FeatureDeletionVectors, delta.PropertyChangeDataFeed: delta.FeatureChangeDataFeed,
	} {
		if properties[property] == "true" {
			features = append(features, feature)
		}
	}
	if slices.ContainsFunc(s.Fields, func(f schema.Field) bool { return holdsNTZ(f.Type) }) {
		features = append(features, delta.FeatureTimestampNTZ)
	}
	slices.Sort(features)
	return delta.ProtocolFor(features...)
}

func holdsNTZ(t schema.Type) bool {
	if t.Nested == nil {
		return t.Primitive == schema.TimestampNTZ
	}
	return slices.ContainsFunc(t.Nested.Fields, func(f schema.Field) bool { return holdsNTZ(f.Type) }) || holdsNTZ(t.Nested.Key) || holdsNTZ(t.Nested.Element)
}

// findFiles lists the Parquet files and reads their partitions off their folders.
func findFiles(ctx context.Context, store objstore.Store) ([]*found, error) {
	var files []*found
	for object, err := range store.List(ctx, "", "") {
		if err != nil {
			return nil, err
		}
		if i := strings.Index(object.Key, deltalog.Dir); i > 0 && object.Key[i-1] == '/' {
			return nil, fmt.Errorf("%w: there is a table in the folder %s", ErrNotConvertible, object.Key[:i])
		}
		if !strings.HasSuffix(object.Key, ".parquet") || isHidden(object.Key) {
			continue
		}
		f := &found{object: object}
		folder, _ := path.Split(object.Key)
		for part := range strings.SplitSeq(strings.TrimSuffix(folder, "/"), "/") {
			name, value, ok := strings.Cut(part, "=")
			if part == "" || !ok {
				continue
			}
			name, err1 := url.PathUnescape(name)
			text, err2 := url.PathUnescape(value)
			if err := errors.Join(err1, err2); err != nil {
				return nil, fmt.Errorf("%w: %s: %w", ErrNotConvertible, object.Key, err)
			}
			f.names = append(f.names, name)
			if value == "__HIVE_DEFAULT_PARTITION__" {
				f.values = append(f.values, nil)
			} else {
				f.values = append(f.values, &text)
			}
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%w: there is no Parquet file in it", ErrNotConvertible)
	}
	return files, nil
}

// isHidden tells that a part of a key is passed over, as all engines do; folders of
// partitions may begin so.
func isHidden(key string) bool {
	for part := range strings.SplitSeq(key, "/") {
		if (part[:min(1, len(part))] == "_" || part[:min(1, len(part))] == ".") && !strings.Contains(part, "=") {
			return true
		}
	}
	return false
}

// openers is how many footers are read at a time.
const openers = 8

// openAll reads the footers of the files.
func openAll(ctx context.Context, store objstore.Store, files []*found, progress func(done, total int)) error {
	var mu sync.Mutex
	done := 0
	return objstore.InParallel(ctx, len(files), openers, func(ctx context.Context, i int) (err error) {
		f := files[i]
		f.file, err = parquet.Open(objstore.NewReaderAt(ctx, store, f.object.Key, f.object.Size), f.object.Size)
		if err == nil {
			f.fields, err = f.file.Fields()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.object.Key, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if done++; progress != nil {
			progress(done, len(files))
		}
		return nil
	})
}

// columnsOf puts the columns of all files together.
func columnsOf(files []*found, partitions []schema.Field) (*schema.Schema, error) {
	isPartition := func(name string) bool {
		return slices.ContainsFunc(partitions, func(p schema.Field) bool { return strings.EqualFold(p.Name, name) })
	}
	var fields []schema.Field
	from := map[string]*found{}
	for _, f := range files {
		for _, field := range f.fields {
			if isPartition(field.Name) { // the folder's value counts
				continue
			}
			first := from[strings.ToLower(field.Name)]
			if first == nil {
				from[strings.ToLower(field.Name)] = f
				fields = append(fields, field)
				continue
			}
			at := slices.IndexFunc(fields, func(x schema.Field) bool { return strings.EqualFold(x.Name, field.Name) })
			if have := fields[at]; have.Name != field.Name || have.Type.String() != field.Type.String() {
				return nil, fmt.Errorf("%w: the column %s is %s in %s, and %s is %s in %s", ErrNotConvertible,
					have.Name, have.Type, first.object.Key, field.Name, field.Type, f.object.Key)
			}
		}
	}
	for i := range partitions {
		p := partitions[i]
		p.Nullable = true
		fields = append(fields, p)
	}
	return schema.New(fields...)
}

// add makes the file part of the table.
func (f *found) add(columns *schema.Schema, partitions []schema.Field, properties map[string]string) (*action.Add, error) {
	values := map[string]*string{}
	if len(f.names) != len(partitions) {
		return nil, fmt.Errorf("%w: %s lies in folders of %d partition columns, the table has %d", ErrNotConvertible, f.object.Key, len(f.names), len(partitions))
	}
	for _, p := range partitions {
		at := slices.Index(f.names, p.Name)
		if at < 0 {
			return nil, fmt.Errorf("%w: %s lies in no folder of the partition column %s", ErrNotConvertible, f.object.Key, p.Name)
		}
		v, err := action.ParsePartitionValue(f.values[at], p.Type)
		if err != nil {
			return nil, fmt.Errorf("%w: %s, partition column %s: %w", ErrNotConvertible, f.object.Key, p.Name, err)
		}
		values[p.Name] = action.FormatPartitionValue(v, p.Type)
	}
	var fields []schema.Field
	st := stats.File{NumRows: f.file.NumRows()}
	for _, c := range columns.Fields {
		if !slices.ContainsFunc(partitions, func(p schema.Field) bool { return p.Name == c.Name }) {
			fields = append(fields, c)
			st.Columns = append(st.Columns, f.columnStats(parquet.ColumnOf(&c)))
		}
	}
	return &action.Add{
		Path: action.EncodePath(f.object.Key), PartitionValues: values, Size: f.object.Size, ModificationTime: f.object.Modified.UnixMilli(),
		DataChange: true, Stats: stats.Encode(stats.Indexed(properties, stats.Leaves(fields)), st, nil),
	}, nil
}

// columnStats puts the bounds of the row groups together, of a struct those of its
// fields; a NullCount of -1 is not known.
func (f *found) columnStats(path ...parquet.Column) (st stats.Column) {
	if t := path[len(path)-1].Type; t.Primitive == schema.Struct {
		for i := range t.Nested.Fields {
			st.Fields = append(st.Fields, f.columnStats(append(slices.Clip(path), parquet.ColumnOf(&t.Nested.Fields[i]))...))
		}
		return st
	}
	known := true
	for group := range f.file.NumRowGroups() {
		b := f.file.RowGroupBounds(group, path...)
		if b.NullCount < 0 || st.NullCount < 0 {
			st.NullCount = -1
		} else {
			st.NullCount += b.NullCount
		}
		if b.NullCount == f.file.RowGroupRows(group) {
			continue
		}
		if known = known && !b.Min.IsNull() && !b.Max.IsNull(); !known {
			continue
		}
		if st.Min.IsNull() || schema.Compare(b.Min, st.Min) < 0 {
			st.Min = b.Min
		}
		if st.Max.IsNull() || schema.Compare(b.Max, st.Max) > 0 {
			st.Max = b.Max
		}
	}
	if !known {
		st.Min, st.Max = schema.Value{}, schema.Value{}
	}
	return st
}

// ParseColumns reads columns with types, as the partition columns of a folder are given:
// "day date, city". A column without a type is text.
func ParseColumns(text string) (fields []schema.Field, err error) {
	for part := range strings.SplitSeq(text, ",") {
		name, typ, _ := strings.Cut(strings.TrimSpace(part), " ")
		t, err := schema.ParsePrimitive(cmp.Or(strings.TrimSpace(typ), "string"))
		if err != nil {
			return nil, err
		}
		if name == "" {
			return nil, fmt.Errorf("%w: a column without a name in %q", ErrNotConvertible, text)
		}
		fields = append(fields, schema.Field{Name: name, Type: t, Nullable: true})
	}
	return fields, nil
}
