//go:build integration

package integration

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/clone"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

// book is a table that package write makes, step by step.
type book struct {
	t     testing.TB
	table *delta.Table
	path  string
}

func newBook(t testing.TB, columns string, partitionBy []string, properties map[string]string) *book {
	t.Helper()
	path := filepath.Join(t.TempDir(), "it's a table")
	b := &book{t, delta.New(localStore(t, path)), path}
	fields, err := columnsOf(columns)
	if err != nil {
		t.Fatal(err)
	}
	b.did(write.Create(ctx, b.table, write.Definition{Columns: fields, PartitionBy: partitionBy, Properties: properties}, write.Source{}))
	return b
}

// columnsOf reads "id long, name string".
func columnsOf(text string) (fields []schema.Field, err error) {
	for part := range strings.SplitSeq(text, ", ") {
		name, of, _ := strings.Cut(part, " ")
		typ, err := schema.ParsePrimitive(of)
		if err != nil {
			return nil, err
		}
		fields = append(fields, write.Column(name, typ))
	}
	return fields, nil
}

func (b *book) did(r write.Result, err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	if !r.Committed {
		b.t.Fatal("nothing was to be done")
	}
}

func (b *book) append(rows ...[]any) {
	b.t.Helper()
	b.did(write.Append(ctx, b.table, write.Values(rows)))
}

func (b *book) alter(changes ...write.Change) {
	b.t.Helper()
	b.did(write.Alter(ctx, b.table, changes))
}

// people appends n rows (id, name, n, ...) from an id on; each column behind the third is
// what more says.
func (b *book) people(from, n int, more ...func(id int) any) {
	b.t.Helper()
	var rows [][]any
	for id := from; id < from+n; id++ {
		row := []any{id, fmt.Sprint("name ", id), id % 7}
		for _, f := range more {
			row = append(row, f(id))
		}
		rows = append(rows, row)
	}
	b.append(rows...)
}

// all gives the table with every version that is readable.
func (b *book) all() readTable {
	b.t.Helper()
	versions, err := b.table.Versions(ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	return readTable{table: b.table, versions: versions}
}

// readTable is a table that engines read, and the versions to read, rising.
type readTable struct {
	table    *delta.Table
	versions []int64
}

func (f foreignTable) toRead() readTable { return readTable{f.table(), f.versions} }

// ofIngest makes a table by the ingester.
func ofIngest(make func(*testing.T) foreignTable) func(*testing.T) readTable {
	return func(t *testing.T) readTable { return make(t).toRead() }
}

const vectors = "delta.enableDeletionVectors"

// readTables makes the tables of readFeatures, but for those with conditions and change data.
var readTables = map[string]func(t *testing.T) readTable{
	"all types, NULL, smallest and largest values":             allTypes,
	"NaN, infinities, -0.0":                                    oddNumbers,
	"decimals of 38 digits":                                    longDecimals,
	"empty, long and odd strings and bytes":                    oddStrings,
	"microseconds":                                             microseconds,
	"dates and times before 1900 and after 2299":               farTimes,
	"timestamps without a zone":                                withoutZone,
	"partitions by every type, NULL among them":                partitionTypes,
	"partitions with special characters and empty texts":       partitionTexts,
	"deletion vectors, alone and several in one file":          ofIngest(mergeOnRead),
	"deletion vectors that grow, files that end":               func(t *testing.T) readTable { return growingVectors(t).all() },
	"copy-on-write":                                            rewritten,
	"append, overwrite, replaceWhere":                          overwritten,
	"dynamic partition overwrite":                              partitionsOverwritten,
	"delete, update, merge":                                    func(t *testing.T) readTable { return changed(t, nil).all() },
	"merge with deletion vectors":                              func(t *testing.T) readTable { return changed(t, map[string]string{vectors: "true"}).all() },
	"restore":                                                  restored,
	"columns added":                                            columnsAdded,
	"columns renamed, dropped, moved (column mapping by name)": func(t *testing.T) readTable { return mapped(t).all() },
	"column mapping by id":                                     mappedByID,
	"columns widened":                                          widened,
	"constraints, comments":                                    func(t *testing.T) readTable { return ruled(t).all() },
	"classic checkpoints alone":                                func(t *testing.T) readTable { return checkpointed(t).all() },
	"structs, arrays, maps":                                    nested,
	"classic checkpoints in parts":                             func(t *testing.T) readTable { return onlyCheckpoint(t, nil, 2).all() },
	"v2 checkpoints with sidecars": func(t *testing.T) readTable {
		return onlyCheckpoint(t, map[string]string{"delta.checkpointPolicy": "v2"}, 2).all()
	},
	"optimize, deletion vectors purged":          func(t *testing.T) readTable { return laidOut(t, layout.Options{}) },
	"files ordered by a curve (zorder)":          func(t *testing.T) readTable { return laidOut(t, layout.Options{OrderBy: []string{"id", "name"}}) },
	"log compaction files and version checksums": compacted,
	"deep clone":    func(t *testing.T) readTable { return cloned(t, false) },
	"shallow clone": func(t *testing.T) readTable { return cloned(t, true) },
	"row tracking": func(t *testing.T) readTable {
		return changed(t, map[string]string{delta.PropertyRowTracking: "true"}).all()
	},
	"in-commit timestamps": func(t *testing.T) readTable {
		return changed(t, map[string]string{"delta.enableInCommitTimestamps": "true"}).all()
	},
	"islands, after log cleanup and vacuum":            ofIngest(cleaned(false)),
	"islands, copy-on-write":                           ofIngest(cleaned(true)),
	"tables of `gscd ingest`, merge on read":           ofIngest(mergeOnRead),
	"tables of `gscd ingest`, copy-on-write":           ofIngest(copyOnWrite),
	"tables of `gscd ingest`, partitioned":             ofIngest(partitioned),
	"tables of `gscd ingest`, with columns added":      ofIngest(grown),
	"tables of `gscd ingest`, with many commits":       ofIngest(longLog),
	"tables of `gscd ingest`, rolled back":             ofIngest(rolledBack),
	"tables of `gscd ingest --input`, recorded types":  ofIngest(recorded),
	"tables of `gscd ingest --input`, recorded orders": ofIngest(recordedOrders),
	"dead-letter tables":                               ofIngest(deadLetterTable),
}

func moment(text string) time.Time {
	when, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return when
}

func allTypes(t *testing.T) readTable {
	b := newBook(t, "id long, c_boolean boolean, c_byte byte, c_short short, c_integer integer, c_long long, c_float float, c_double double, "+
		"c_dec decimal(9,2), c_dec18 decimal(18,6), c_string string, c_binary binary, c_date date, c_timestamp timestamp", nil, nil)
	b.append(
		[]any{1, true, math.MinInt8, math.MinInt16, math.MinInt32, math.MinInt64, float32(-math.MaxFloat32), -math.MaxFloat64,
			"-9999999.99", "-999999999999.999999", "", []byte{}, "1900-01-01", moment("1900-01-01T00:00:00Z")},
		[]any{2, false, math.MaxInt8, math.MaxInt16, math.MaxInt32, math.MaxInt64, float32(math.MaxFloat32), math.MaxFloat64,
			"9999999.99", "999999999999.999999", "text", []byte("bytes"), "2299-12-31", moment("2299-12-31T23:59:59Z")},
		[]any{3, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil},
		[]any{4, true, 0, 0, 0, 0, float32(0), float64(0), "0", "0", "0", []byte{0}, "1970-01-01", moment("1970-01-01T00:00:00Z")},
		[]any{5, true, -1, -1, -1, 9007199254740993, float32(math.SmallestNonzeroFloat32), math.SmallestNonzeroFloat64,
			"-0.01", "0.000001", "é is not e\u0301", []byte{0xff, 0xfe}, "1969-12-31", moment("1969-12-31T23:59:59Z")},
	)
	b.append([]any{6, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil}) // a file of NULL alone
	return b.all()
}

func oddNumbers(t *testing.T) readTable {
	b := newBook(t, "id long, f float, d double", nil, nil)
	inf := math.Inf(1)
	b.append([]any{1, float32(math.NaN()), math.NaN()}, []any{2, float32(inf), inf}, []any{3, float32(-inf), -inf},
		[]any{4, float32(math.Copysign(0, -1)), math.Copysign(0, -1)}, []any{5, float32(0.1), 0.1})
	b.append([]any{6, float32(math.NaN()), math.NaN()})
	b.append([]any{7, float32(inf), -inf})
	return b.all()
}

func longDecimals(t *testing.T) readTable {
	b := newBook(t, "id long, whole decimal(38,0), part decimal(38,38), both decimal(38,18), plain decimal(20,0)", nil, nil)
	nines := strings.Repeat("9", 38)
	b.append([]any{1, nines, "0." + nines, nines[:20] + "." + nines[:18], nines[:20]},
		[]any{2, "-" + nines, "-0." + nines, "-" + nines[:20] + "." + nines[:18], "-" + nines[:20]},
		[]any{3, "0", "0", "0", "0"}, []any{4, "-1", "-0." + strings.Repeat("0", 37) + "1", "-0.000000000000000001", "18446744073709551615"},
		[]any{5, nil, nil, nil, nil})
	return b.all()
}

func oddStrings(t *testing.T) readTable {
	b := newBook(t, "id long, s string, b binary", nil, nil)
	for i, s := range []string{
		"", " ", "NULL", "null", `\N`, "a\nb\tc\r", "quote \" and ' and \\ and `", "äöü ß 日本語 😀", "\x00 and \x01", "100%_/=+ ?#&:;,", "\ufeffbom",
		"\u2028line\u2029", "\uffff", "😀😀", strings.Repeat("long ", 40_000), strings.Repeat("😀", 40), "z" + strings.Repeat("\U0010ffff", 40),
	} {
		b.append([]any{i, s, []byte(s)})
	}
	b.append([]any{100, nil, []byte{0xff, 0, 0xc0, 0xaf}})
	versions := b.all()
	versions.versions = versions.versions[len(versions.versions)-1:]
	return versions
}

func microseconds(t *testing.T) readTable {
	b := newBook(t, "id long, t timestamp", nil, nil)
	b.append([]any{1, moment("2022-07-16T00:00:00.000001Z")}, []any{2, moment("2022-07-16T00:00:00.999999Z")},
		[]any{3, moment("1969-12-31T23:59:59.999999Z")}, []any{4, moment("2022-07-16T07:59:59.123456+08:00")}, []any{5, nil})
	return b.all()
}

func farTimes(t *testing.T) readTable {
	b := newBook(t, "id long, d date, t timestamp", nil, nil)
	for i, day := range []string{"0001-01-01", "1000-01-01", "1582-10-04", "1582-10-10", "1582-10-15", "1899-12-31", "2300-01-01", "9999-12-31"} {
		b.append([]any{i, day, moment(day + "T00:00:00Z")}, []any{100 + i, day, moment(day + "T23:59:59Z")})
	}
	versions := b.all()
	versions.versions = versions.versions[len(versions.versions)-1:]
	return versions
}

func withoutZone(t *testing.T) readTable {
	b := newBook(t, "id long, t timestamp_ntz", nil, nil)
	b.append([]any{1, moment("1900-01-01T00:00:00Z")}, []any{2, moment("2022-07-16T00:00:00.000001Z")}, []any{3, moment("2299-12-31T23:59:59.999999Z")},
		[]any{4, moment("1969-12-31T23:59:59.999999Z")}, []any{5, nil})
	return b.all()
}

func partitionTypes(t *testing.T) readTable {
	of := []string{"p_boolean", "p_byte", "p_integer", "p_long", "p_dec", "p_string", "p_date", "p_timestamp"}
	b := newBook(t, "id long, p_boolean boolean, p_byte byte, p_integer integer, p_long long, p_dec decimal(12,3), p_string string, p_date date, p_timestamp timestamp, v string", of, nil)
	b.append([]any{1, true, -128, math.MinInt32, math.MinInt64, "-1.500", "a", "1900-01-01", moment("1969-12-31T23:59:59Z"), "x"},
		[]any{2, false, 127, math.MaxInt32, math.MaxInt64, "123456789.123", "b", "2299-12-31", moment("2022-07-16T00:00:00.5Z"), "y"},
		[]any{3, nil, nil, nil, nil, nil, nil, nil, nil, "z"})
	b.append([]any{4, true, 0, 0, 0, "0.000", "a", "1970-01-01", moment("1970-01-01T00:00:00Z"), nil})
	b.did(write.Delete(ctx, b.table, "p_boolean = false"))
	return b.all()
}

func partitionTexts(t *testing.T) readTable {
	b := newBook(t, "id long, p string, v string", []string{"p"}, nil)
	var rows [][]any
	for i, p := range []string{"plain", "a/b=c %25", "ü 😀", "it's", `#?&:\"`, "NULL", " ", "a+b", "[x]{y}*", "__HIVE_DEFAULT_PARTITION__x", "..", "tab\tand\nline"} {
		rows = append(rows, []any{i, p, fmt.Sprint("value ", i)})
	}
	b.append(append(rows, []any{100, "", "the empty text"}, []any{101, nil, "NULL"})...)
	b.append([]any{200, "it's", "again"})
	return b.all()
}

func growingVectors(t testing.TB) *book {
	b := newBook(t, "id long, name string, n integer", nil, map[string]string{vectors: "true"})
	b.people(0, 1000)
	b.people(1000, 10)
	for _, where := range []string{"id = 500", "id % 2 = 0 and id < 900", "id >= 1000", "n = 3"} {
		if strings.Contains(where, "%") { // the filters have no arithmetic
			where = "n in (0, 2) and id < 900"
		}
		b.did(write.Delete(ctx, b.table, where))
	}
	b.did(write.Update(ctx, b.table, "n = 5", write.Set{"name": "five"}))
	return b
}

func rewritten(t *testing.T) readTable {
	b := newBook(t, "id long, name string, n integer", nil, nil)
	b.people(0, 100)
	b.people(100, 100)
	b.did(write.Delete(ctx, b.table, "n = 3 and id < 100"))
	b.did(write.Delete(ctx, b.table, "id >= 100"))
	return b.all()
}

func overwritten(t *testing.T) readTable {
	b := newBook(t, "id long, name string, n integer", nil, nil)
	b.people(0, 50)
	b.people(50, 50)
	b.did(write.Overwrite(ctx, b.table, write.Values([][]any{{1, "one", 1}, {2, "two", 2}, {3, "three", 3}})))
	b.did(write.ReplaceWhere(ctx, b.table, "n = 2", write.Values([][]any{{20, "twenty", 2}, {21, nil, 2}})))
	return b.all()
}

func partitionsOverwritten(t *testing.T) readTable {
	b := newBook(t, "id long, name string, n integer, p string", []string{"p"}, nil)
	b.people(0, 60, func(id int) any { return []any{"a", "b/c", nil}[id%3] })
	b.did(write.OverwritePartitions(ctx, b.table, write.Values([][]any{{100, "new", 1, "b/c"}, {101, "new", 2, nil}})))
	b.did(write.Delete(ctx, b.table, "p = 'a'"))
	return b.all()
}

func changed(t testing.TB, properties map[string]string) *book {
	b := newBook(t, "id long, name string, n integer", nil, properties)
	b.people(0, 200)
	b.did(write.Delete(ctx, b.table, "n = 3"))
	b.did(write.Update(ctx, b.table, "n = 4", write.Set{"name": nil, "n": 40}))
	merge := func(rows ...[]any) {
		into := write.MergeInto{Key: []string{"id"}, Matched: func(row []schema.Value) write.Act {
			if row[1].IsNull() {
				return write.Drop
			}
			return write.Put
		}}
		b.did(write.Merge(ctx, b.table, into, write.Values(rows)))
	}
	merge([]any{1, "merged", 100}, []any{2, nil, 0}, []any{1000, "inserted", 100})
	b.people(2000, 20)
	merge([]any{2001, "merged", 1}, []any{5, nil, 0}, []any{6, "merged", 1}, []any{1001, "inserted", 2})
	return b
}

func restored(t *testing.T) readTable {
	b := changed(t, map[string]string{vectors: "true"})
	b.did(write.Restore(ctx, b.table, 2))
	b.people(5000, 5)
	b.did(write.Restore(ctx, b.table, 4))
	return b.all()
}

func columnsAdded(t *testing.T) readTable {
	b := newBook(t, "id long, name string, n integer", nil, nil)
	b.people(0, 10)
	b.alter(write.AddColumn(write.Column("more", schema.Decimal(10, 2)), write.Place{}), write.AddColumn(write.Column("at", schema.Of(schema.Timestamp)), write.Place{}))
	b.people(10, 10, func(id int) any { return "1.50" }, func(id int) any { return moment("2022-07-16T00:00:00Z") })
	b.alter(write.AddColumn(write.Column("first", schema.Of(schema.StringType)), write.First()))
	b.append([]any{"f", 20, "name 20", 6, nil, nil})
	b.did(write.Update(ctx, b.table, "id = 3", write.Set{"first": "set later"}))
	return b.all()
}

func mapped(t testing.TB) *book {
	b := newBook(t, "id long, name string, n integer, gone string", nil, nil)
	b.people(0, 20, func(id int) any { return "old" })
	b.alter(write.RenameColumn("n", "number of it"))
	b.alter(write.DropColumn("gone"))
	b.append([]any{20, "name 20", 6})
	b.alter(write.AddColumn(write.Column("gone", schema.Of(schema.Long)), write.First()), write.MoveColumn("name", write.First()))
	b.append([]any{"name 21", 7, 21, 0})
	b.did(write.Delete(ctx, b.table, "id = 5"))
	return b
}

func mappedByID(t *testing.T) readTable {
	b := newBook(t, "id long, name string, n integer", nil, map[string]string{"delta.columnMapping.mode": "id"})
	b.people(0, 20)
	b.alter(write.RenameColumn("n", "m"))
	b.people(20, 5)
	return b.all()
}

func widened(t *testing.T) readTable {
	b := newBook(t, "id integer, f float, s short", nil, nil)
	b.append([]any{1, float32(0.5), 7}, []any{2, nil, nil})
	b.alter(write.WidenColumn("id", schema.Of(schema.Long)), write.WidenColumn("f", schema.Of(schema.DoubleType)), write.WidenColumn("s", schema.Of(schema.Integer)))
	b.append([]any{1 << 40, 0.1, 1 << 20})
	return b.all()
}

func ruled(t testing.TB) *book {
	b := newBook(t, "id long, name string, n integer", nil, nil)
	b.people(0, 10)
	b.alter(write.AddConstraint("not_negative", "id >= 0"), write.CommentColumn("n", "of the name"), write.Describe("people", "what the tests write"))
	b.people(10, 10)
	return b
}

func checkpointed(t testing.TB) *book { return onlyCheckpoint(t, nil, 0) }

// onlyCheckpoint has a checkpoint and no commit before it.
func onlyCheckpoint(t testing.TB, properties map[string]string, partActions int) *book {
	all := map[string]string{vectors: "true"}
	maps.Copy(all, properties)
	b := changed(t, all)
	s, err := b.table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.table.Checkpoint(ctx, s, delta.CheckpointOptions{PartActions: partActions}); err != nil {
		t.Fatal(err)
	}
	report, err := b.table.CleanLog(ctx, delta.CleanOptions{KeepSince: time.Now().Add(time.Hour), Now: time.Now().Add(2 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(report.Deleted, func(key string) bool { return strings.HasSuffix(key, ".json") }) {
		t.Fatalf("the commits are still there: %+v", report)
	}
	return b
}

func laidOut(t testing.TB, o layout.Options) readTable {
	b := changed(t, map[string]string{vectors: "true"})
	if _, err := layout.Optimize(ctx, b.table, o); err != nil {
		t.Fatal(err)
	}
	return b.all()
}

func nested(t *testing.T) readTable {
	path := filepath.Join(t.TempDir(), "it's a table")
	b := &book{t, delta.New(localStore(t, path)), path}
	point := schema.Type{Primitive: schema.Struct, Nested: &schema.Nested{Fields: []schema.Field{
		write.Column("x", schema.Of(schema.Integer)), write.Column("y", schema.Of(schema.StringType)),
	}}}
	list := schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: schema.Of(schema.Long), ContainsNull: true}}
	points := schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: point, ContainsNull: true}}
	dictionary := schema.Type{Primitive: schema.Map, Nested: &schema.Nested{Key: schema.Of(schema.StringType), Element: schema.Of(schema.DoubleType), ContainsNull: true}}
	b.did(write.Create(ctx, b.table, write.Definition{Columns: []schema.Field{
		write.Column("id", schema.Of(schema.Long)), write.Column("s", point), write.Column("a", list), write.Column("p", points), write.Column("m", dictionary),
	}}, write.Source{}))
	text, n, c, null := schema.StringValue, schema.IntValue, schema.CompoundValue, schema.NullValue()
	one := c(n(1), text("one"))
	b.append(
		[]any{1, one, c(n(1), n(2), null), c(one, c(null, null), null), c(text("a"), schema.DoubleValue(0.5), text("b"), null)},
		[]any{2, c(null, text("")), c(), c(), c()},
		[]any{3, nil, nil, nil, nil},
		[]any{4, c(n(-7), null), c(null), c(c(n(2), text("ü"))), c(text(""), schema.DoubleValue(-1))},
	)
	b.append([]any{5, nil, nil, nil, nil})
	b.did(write.Delete(ctx, b.table, "id = 2"))
	return b.all()
}

// compacted has a compaction file in the place of some commits, and checksums.
func compacted(t *testing.T) readTable {
	b := changed(t, map[string]string{vectors: "true"})
	if _, err := b.table.CompactLog(ctx, 1, 4); err != nil {
		t.Fatal(err)
	}
	for _, v := range b.all().versions {
		s, err := b.table.SnapshotAt(ctx, v)
		if err == nil {
			err = b.table.WriteChecksum(ctx, s)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.all()
}

func cloned(t *testing.T, shallow bool) readTable {
	b := changed(t, map[string]string{vectors: "true"})
	s, err := b.table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	store, err := local.New(filepath.Join(t.TempDir(), "clone"), local.Options{NoSync: true, Outside: []string{b.path}})
	if err != nil {
		t.Fatal(err)
	}
	to := &book{t, delta.New(store), store.String()}
	if _, err := clone.Clone(ctx, b.table, s, to.table, clone.Options{Deep: !shallow}); err != nil {
		t.Fatal(err)
	}
	to.people(3000, 3)
	to.did(write.Delete(ctx, to.table, "id = 3001 or id = 20"))
	return to.all()
}
