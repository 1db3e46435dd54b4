package scan_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// numbered makes a file of n rows, ids counting from first.
func numbered(city string, first, n int) shopFile {
	f := shopFile{city: schema.StringValue(city)}
	for i := first; i < first+n; i++ {
		f.rows = append(f.rows, []schema.Value{
			schema.IntValue(int64(i)),
			{},
			schema.StringValue(fmt.Sprintf("name %d", i%10)),
			{Kind: schema.Dec, I: int64(i) * 100},
			schema.DoubleValue(float64(i) / 2), schema.IntValue(int64(i) * 1e6), schema.IntValue(int64(i)),
		})
	}
	return f
}

func collect(t tester, s *scan.Scan) [][]schema.Value {
	t.Helper()
	rows := [][]schema.Value{}
	for row, err := range s.Rows(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, slices.Clone(row))
	}
	return rows
}

func ids(rows [][]schema.Value) []int64 {
	out := make([]int64, len(rows))
	for i, row := range rows {
		out[i] = row[0].I
	}
	return out
}

func where(t tester, text string) *expr.Predicate {
	t.Helper()
	p, err := expr.Parse(text, shop)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func orderBy(t tester, text string) []expr.Order {
	t.Helper()
	o, err := expr.ParseOrderBy(text, shop)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestScan(t *testing.T) {
	onStores(t, func(t *testing.T, store objstore.Store) {
		berlin, paris := numbered("Berlin", 0, 20), numbered("Paris", 20, 20)
		berlin.dead = []uint32{0, 6, 7, 19}
		paris.missing = 4
		snapshot := writeShop(t, store, []shopFile{berlin, paris, {city: schema.NullValue(), rows: numbered("", 40, 3).rows}}, nil)

		for _, tc := range []struct {
			o    scan.Options
			want []int64
		}{
			{scan.Options{Columns: []string{"id"}, Where: where(t, `id < 9`)}, []int64{1, 2, 3, 4, 5, 8}},
			{scan.Options{Columns: []string{"ID"}, Where: where(t, `city = 'Paris' AND score IS NULL AND id >= 38`)}, []int64{38, 39}},
			{scan.Options{Columns: []string{"id"}, Where: where(t, `score IS NULL AND at IS NOT NULL`)}, []int64{}},
			{scan.Options{Columns: []string{"id"}, Where: where(t, `city IS NULL`)}, []int64{40, 41, 42}},
			{scan.Options{Columns: []string{"id"}, Where: where(t, `name LIKE '%3' AND amount > 13`)}, []int64{23, 33}},
			{scan.Options{Columns: []string{"id"}, Limit: 5}, []int64{1, 2, 3, 4, 5}},
			{scan.Options{Columns: []string{"id"}, Limit: 17, Parallelism: 3}, []int64{1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20}},
			{scan.Options{Columns: []string{"id"}, OrderBy: orderBy(t, "id desc"), Limit: 3}, []int64{42, 41, 40}},
			{scan.Options{Columns: []string{"id"}, OrderBy: orderBy(t, "score desc, id"), Limit: 2, Where: where(t, `city = 'Paris' OR id = 5`)}, []int64{5, 20}},
			{scan.Options{Columns: []string{"id"}, OrderBy: orderBy(t, "city, name, id desc"), Limit: 5}, []int64{40, 41, 42, 10, 11}},
		} {
			s, err := scan.New(store, snapshot, tc.o)
			if err != nil {
				t.Fatal(err)
			}
			if got := ids(collect(t, s)); !slices.Equal(got, tc.want) {
				t.Errorf("%+v: %v, want %v", tc.o, got, tc.want)
			}
		}

		s, err := scan.New(store, snapshot, scan.Options{Columns: []string{"city"}, Where: where(t, `city <> 'x'`)})
		if err != nil {
			t.Fatal(err)
		}
		if got := collect(t, s); len(got) != 36 || got[0][0].S != "Berlin" || got[35][0].S != "Paris" {
			t.Errorf("%d rows of the partition column alone", len(got))
		}
		s, err = scan.New(store, snapshot, scan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Columns(); len(got) != len(shop.Fields) || got[1].Name != "city" {
			t.Errorf("columns %v", got)
		}
		want := slices.Concat(berlin.live(), paris.live())
		if got := collect(t, s)[:36]; !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestColumnErrors(t *testing.T) {
	store := mem.New()
	snapshot := writeShop(t, store, nil, nil)
	for _, name := range []string{"nosuch", "__gscd_offset", ""} {
		if _, err := scan.New(store, snapshot, scan.Options{Columns: []string{name}}); !errors.Is(err, scan.ErrColumn) {
			t.Errorf("%q: %v", name, err)
		}
	}
	other, err := schema.New(schema.Field{Name: "ID", Type: schema.Of(schema.Long)}, shop.Fields[2])
	if err != nil {
		t.Fatal(err)
	}
	for text, fits := range map[string]bool{`name = 'a'`: false, `id = 1`: false, `TRUE`: true} {
		p, err := expr.Parse(text, other)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := scan.New(store, snapshot, scan.Options{Where: p}); (err == nil) != fits || !fits && !errors.Is(err, scan.ErrColumn) {
			t.Errorf("%s of another schema: %v", text, err)
		}
	}
	if _, err := scan.New(store, snapshot, scan.Options{OrderBy: []expr.Order{{Column: 7}}}); !errors.Is(err, scan.ErrColumn) {
		t.Errorf("order by column 7: %v", err)
	}
	s, err := scan.New(store, snapshot, scan.Options{Columns: []string{}})
	if err != nil || len(s.Columns()) != 0 {
		t.Errorf("no column: %v", err)
	}
}

// What is missing or damaged is an error that names it, whatever the way of reading.
func TestFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		damage func(t *testing.T, store *mem.Store, vectors string)
		want   error
		says   string
	}{
		"data file missing": {func(t *testing.T, store *mem.Store, _ string) {
			if err := store.Delete(ctx, "part-00001.parquet"); err != nil {
				t.Fatal(err)
			}
		}, scan.ErrFileMissing, "part-00001.parquet"},
		"vector missing": {func(t *testing.T, store *mem.Store, vectors string) {
			if err := store.Delete(ctx, vectors); err != nil {
				t.Fatal(err)
			}
		}, scan.ErrFileMissing, "deletion vector of part-00000.parquet"},
		"vector damaged": {
			func(t *testing.T, store *mem.Store, vectors string) { flip(t, store, vectors, -9) },
			scan.ErrFileMismatch, "deletion vector of part-00000.parquet",
		},
		"file cut off": {func(t *testing.T, store *mem.Store, _ string) {
			data, err := store.Get(ctx, "part-00001.parquet")
			if err == nil {
				err = store.Put(ctx, "part-00001.parquet", data[:len(data)-1])
			}
			if err != nil {
				t.Fatal(err)
			}
		}, scan.ErrFileMismatch, "part-00001.parquet"},
		"page damaged": {
			func(t *testing.T, store *mem.Store, _ string) { flip(t, store, "part-00001.parquet", 30) },
			scan.ErrFileMismatch, "part-00001.parquet",
		},
		"another file": {func(t *testing.T, store *mem.Store, _ string) {
			f := numbered("Paris", 20, 19)
			f.rows[0][2] = schema.StringValue("a name that makes up for the row, nearly")
			add := encodeShop(t, store, "part-00001.parquet", f)
			t.Logf("%d bytes", add.Size)
		}, scan.ErrFileMismatch, "part-00001.parquet"},
	} {
		t.Run(name, func(t *testing.T) {
			store := mem.New()
			berlin := numbered("Berlin", 0, 20)
			berlin.dead = []uint32{3}
			snapshot := writeShop(t, store, []shopFile{berlin, numbered("Paris", 20, 20)}, nil)
			key, err := dv.KeyOfPath(snapshot.Files()[0].DeletionVector.PathOrInlineDV)
			if err != nil {
				t.Fatal(err)
			}
			tc.damage(t, store, key)
			for _, o := range []scan.Options{{}, {Parallelism: 1}, {OrderBy: orderBy(t, "id"), Limit: 1}, {OrderBy: orderBy(t, "id")}} {
				s, err := scan.New(store, snapshot, o)
				if err != nil {
					t.Fatal(err)
				}
				var got error
				for _, err := range s.Batches(ctx) {
					got = err
				}
				if !errors.Is(got, tc.want) || !strings.Contains(got.Error(), tc.says) || !strings.Contains(got.Error(), "version 0 of") {
					t.Errorf("%+v: %v", o, got)
				}
			}
		})
	}
}

// flip changes one byte of an object; at counts from the end where it is negative.
func flip(t *testing.T, store *mem.Store, key string, at int) {
	t.Helper()
	data, err := store.Get(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	data = slices.Clone(data)
	if at < 0 {
		at += len(data)
	}
	data[at] ^= 0xff
	if err := store.Put(ctx, key, data); err != nil {
		t.Fatal(err)
	}
}

func TestRowsOfTheStatisticsAreChecked(t *testing.T) {
	store := mem.New()
	f := numbered("Berlin", 0, 5)
	add := encodeShop(t, store, "a.parquet", f)
	add.Stats = strings.Replace(add.Stats, `"numRecords":5`, `"numRecords":6`, 1)
	snapshot := commitFile(t, store, add)
	s, err := scan.New(store, snapshot, scan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, err = range s.Batches(ctx) {
	}
	if !errors.Is(err, scan.ErrFileMismatch) || !strings.Contains(err.Error(), "has 5 rows, its statistics say 6") {
		t.Errorf("got %v", err)
	}
}

func TestCancelAndLeave(t *testing.T) {
	store := mem.New()
	var files []shopFile
	for i := range 12 {
		files = append(files, numbered("Berlin", i*10, 10))
	}
	snapshot := writeShop(t, store, files, nil)
	for _, o := range []scan.Options{{Parallelism: 3}, {OrderBy: orderBy(t, "id"), MemoryLimit: 1, TempDir: t.TempDir()}} {
		s, err := scan.New(store, snapshot, o)
		if err != nil {
			t.Fatal(err)
		}
		for range s.Rows(ctx) {
			break // goleak sees what would go on reading
		}
		canceled, cancel := context.WithCancel(ctx)
		if o.OrderBy != nil { // all rows are read before the first is out
			cancel()
		}
		var got error
		for _, err := range s.Rows(canceled) {
			cancel()
			got = err
		}
		cancel()
		if !errors.Is(got, context.Canceled) {
			t.Errorf("%+v: %v", o, got)
		}
		if o.TempDir != "" {
			if left, err := os.ReadDir(o.TempDir); err != nil || len(left) > 0 {
				t.Errorf("left on disk: %v, %v", left, err)
			}
		}
	}
}

// counting counts what is read.
type counting struct {
	objstore.Store
	gets, ranges atomic.Int64
}

func (c *counting) Get(ctx context.Context, key string) ([]byte, error) {
	c.gets.Add(1)
	return c.Store.Get(ctx, key)
}

func (c *counting) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	c.ranges.Add(1)
	return c.Store.GetRange(ctx, key, offset, length)
}

func TestOnlyWhatIsNeededIsRead(t *testing.T) {
	store := &counting{Store: mem.New()}
	var files []shopFile
	for i := range 10 {
		files = append(files, numbered(fmt.Sprintf("city %d", i), i*100, 100))
	}
	snapshot := writeShop(t, store, files, nil)
	for _, tc := range []struct {
		o    scan.Options
		gets int64
	}{
		{scan.Options{}, 10},
		{scan.Options{Where: where(t, `id = 250`)}, 1},
		{scan.Options{Where: where(t, `id BETWEEN 250 AND 330 OR city = 'city 9'`)}, 3},
		{scan.Options{Where: where(t, `city IN ('city 1', 'city 2')`)}, 2},
		{scan.Options{Where: where(t, `at >= '1970-01-01 00:15:00'`)}, 1},
		{scan.Options{Where: where(t, `name = 'nobody'`)}, 0},
		{scan.Options{Where: where(t, `score IS NULL`)}, 0},
		{scan.Options{Limit: 10, Parallelism: 1}, 1},
	} {
		store.gets.Store(0)
		store.ranges.Store(0)
		s, err := scan.New(store, snapshot, tc.o)
		if err != nil {
			t.Fatal(err)
		}
		collect(t, s)
		if gets, ranges := store.gets.Load(), store.ranges.Load(); gets != tc.gets || ranges != 0 {
			t.Errorf("%v limit %d: %d gets and %d ranges, want %d and 0", tc.o.Where, tc.o.Limit, gets, ranges, tc.gets)
		}
	}
}

func TestRowGroupsAreSkipped(t *testing.T) {
	store := mem.New()
	snapshot := writeShop(t, store, []shopFile{numbered("Berlin", 0, 21)}, nil) // three row groups
	flip(t, store, "part-00000.parquet", 30)                                    // in the first one
	for text, readable := range map[string]bool{`id BETWEEN 10 AND 12`: true, `id >= 6`: false} {
		s, err := scan.New(store, snapshot, scan.Options{Where: where(t, text), Columns: []string{"id"}})
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		for b, scanErr := range s.Batches(ctx) {
			if err = scanErr; err == nil {
				rows += b.Rows
			}
		}
		if (err == nil) != readable || readable && rows != 3 {
			t.Errorf("%s: %d rows, %v", text, rows, err)
		}
	}
}

func TestLongTextsCutBatches(t *testing.T) {
	store := mem.New()
	f := numbered("Berlin", 0, 40)
	for i := range f.rows {
		f.rows[i][2] = schema.StringValue(strings.Repeat("x", 1<<20)) // small in the file, not in memory
	}
	snapshot := writeShop(t, store, []shopFile{f}, nil)
	s, err := scan.New(store, snapshot, scan.Options{Limit: 39})
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for b, err := range s.Batches(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if b.Rows > 4 {
			t.Fatalf("a batch of %d MiB", b.Rows)
		}
		rows += b.Rows
	}
	if rows != 39 {
		t.Errorf("%d rows", rows)
	}
}

func TestLargeFilesAreReadByRanges(t *testing.T) {
	store := &counting{Store: mem.New()}
	f := numbered("Berlin", 0, 30)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range f.rows { // a file above 1 MiB that does not compress
		text := make([]byte, 60<<10)
		for j := range text {
			text[j] = byte(' ' + random.IntN(90))
		}
		f.rows[i][2] = schema.StringValue(string(text))
	}
	snapshot := writeShop(t, store, []shopFile{f}, nil)
	if size := snapshot.Files()[0].Size; size <= 1<<20 {
		t.Fatalf("the file has only %d bytes", size)
	}
	store.gets.Store(0)
	store.ranges.Store(0)
	s, err := scan.New(store, snapshot, scan.Options{Columns: []string{"id"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := ids(collect(t, s)); len(got) != 30 || store.gets.Load() != 0 || store.ranges.Load() == 0 {
		t.Errorf("%d rows, %d gets, %d ranges", len(got), store.gets.Load(), store.ranges.Load())
	}
	if s, err = scan.New(store, snapshot, scan.Options{}); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, s); !slices.EqualFunc(got, f.live(), slices.Equal) {
		t.Errorf("%d rows differ", len(got))
	}
	if err := store.Delete(ctx, "part-00000.parquet"); err != nil {
		t.Fatal(err)
	}
	for _, err = range s.Batches(ctx) {
	}
	if !errors.Is(err, scan.ErrFileMissing) {
		t.Errorf("got %v", err)
	}
}

// genShop draws a table whose columns often repeat.
func genShop(t *rapid.T) []shopFile {
	var files []shopFile
	for range rapid.IntRange(0, 4).Draw(t, "files") {
		f := shopFile{noStats: rapid.IntRange(0, 3).Draw(t, "noStats") == 0, pageRows: rapid.IntRange(0, 3).Draw(t, "pageRows")}
		if city := rapid.SampledFrom([]string{"", "Berlin", "Paris/Nord", "東京"}).Draw(t, "city"); city != "" {
			f.city = schema.StringValue(city)
		}
		if rapid.IntRange(0, 3).Draw(t, "older") == 0 {
			f.missing = rapid.IntRange(2, 6).Draw(t, "missing")
		}
		n := rapid.IntRange(1, 20).Draw(t, "rows")
		for i := range n {
			row := make([]schema.Value, len(shop.Fields))
			for c := range row {
				if c != cityColumn && rapid.IntRange(0, 4).Draw(t, "null") > 0 {
					row[c] = genShopCell(t, c)
				}
			}
			f.rows = append(f.rows, row)
			if rapid.IntRange(0, 4).Draw(t, "dead") == 0 {
				f.dead = append(f.dead, uint32(i))
			}
		}
		files = append(files, f)
	}
	return files
}

func genShopCell(t *rapid.T, column int) schema.Value {
	n := rapid.Int64Range(-4, 4).Draw(t, "n")
	switch shop.Fields[column].Type.Primitive {
	case schema.StringType:
		return schema.StringValue(rapid.SampledFrom([]string{"", "a", "ab", "b", strings.Repeat("long", 12) + "er", strings.Repeat("long", 12)}).Draw(t, "s"))
	case schema.DecimalType:
		return schema.Value{Kind: schema.Dec, I: n * 50}
	case schema.DoubleType:
		return schema.DoubleValue(rapid.SampledFrom([]float64{math.NaN(), math.Inf(-1), -1, 0, math.Copysign(0, -1), 2.5}).Draw(t, "d"))
	case schema.Timestamp:
		return schema.IntValue(n * 333)
	}
	return schema.IntValue(n)
}

var shopFilters = []string{
	``, `id = 2`, `id > 2 OR city = 'Berlin'`, `city IS NULL`, `NOT city = '東京'`, `city LIKE 'P%'`, `name = 'a'`, `name LIKE 'long%er'`, `name > 'longlong'`,
	`name >= '` + strings.Repeat("long", 12) + `e'`, `amount BETWEEN -1 AND 0.5`, `score > 1`, `score = 0`, `score = 'NaN'`, `score <> -1`, `score < 'NaN'`, `at > '1970-01-01 00:00:00.000332'`, `at <= '1969-12-31 23:59:59.999'`,
	`day IN ('1970-01-01', '1970-01-03')`, `day IS NULL OR name IS NULL`, `id NOT IN (0, 1) AND amount IS NOT NULL`, `id < 0 AND id > 1`, `id <> 1 AND NOT (name = 'b' OR score > 0)`,
}

// The rows are those of the files, filtered and sorted one by one in memory,
// whatever is skipped, spilled or read side by side.
func TestScanIsTheNaiveRead(t *testing.T) {
	temp := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		files, store := genShop(t), mem.New()
		snapshot := writeShop(t, store, files, nil)
		o := scan.Options{
			Parallelism: rapid.IntRange(1, 3).Draw(t, "parallelism"), TempDir: temp,
			Limit:       rapid.SampledFrom([]int64{0, 0, 1, 3, 1000}).Draw(t, "limit"),
			MemoryLimit: rapid.SampledFrom([]int64{1, 2000, 0}).Draw(t, "memory"),
		}
		if text := rapid.SampledFrom(shopFilters).Draw(t, "where"); text != "" {
			o.Where = where(t, text)
		}
		if text := rapid.SampledFrom([]string{"", "id", "name desc, id", "score, amount desc", "city desc", "day, at"}).Draw(t, "order"); text != "" {
			o.OrderBy = orderBy(t, text)
		}
		columns := rapid.SampledFrom([][]string{nil, {"name", "id"}, {"city"}, {}}).Draw(t, "columns")
		o.Columns = columns

		s, err := scan.New(store, snapshot, o)
		if err != nil {
			t.Fatal(err)
		}
		var got [][]schema.Value
		for batch, err := range s.Batches(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			if batch.Rows == 0 {
				t.Fatal("an empty batch")
			}
			for r := range batch.Rows {
				row := []schema.Value{}
				for _, c := range batch.Columns {
					row = append(row, c[r])
				}
				got = append(got, row)
			}
		}
		if want := naive(files, o); !slices.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("%+v\ngot  %v\nwant %v", o, got, want)
		}
	})
}

func naive(files []shopFile, o scan.Options) [][]schema.Value {
	var rows [][]schema.Value
	for _, f := range files {
		for _, row := range f.live() {
			if o.Where != nil {
				columns := make([][]schema.Value, len(row))
				for c := range row {
					columns[c] = row[c : c+1]
				}
				if len(o.Where.NewEvaluator().Select(columns, []int32{0})) == 0 {
					continue
				}
			}
			rows = append(rows, row)
		}
	}
	if len(o.OrderBy) > 0 {
		slices.SortStableFunc(rows, func(a, b []schema.Value) int {
			for _, by := range o.OrderBy {
				if c := by.Compare(a[by.Column], b[by.Column]); c != 0 {
					return c
				}
			}
			return 0
		})
	}
	if o.Limit > 0 && int64(len(rows)) > o.Limit {
		rows = rows[:o.Limit]
	}
	for i, row := range rows {
		if o.Columns != nil {
			rows[i] = []schema.Value{}
			for _, name := range o.Columns {
				rows[i] = append(rows[i], row[shop.Index(name)])
			}
		}
	}
	return rows
}
