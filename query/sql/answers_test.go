//go:build cgo

package sql_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"go.uber.org/goleak"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/objstore/s3"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/sql"
	"github.com/gscd-io/gscd/savepoint"
)

const openNotice = "2022-07-17 is not sealed: it is the open label, and its rows may still change"

// A day by dt is what the plain reader gives for its label; a statement without dt
// is what it gives for the newest version.
func TestRowsOfADay(t *testing.T) {
	s := localShop(t)
	src, err := openSource(s.users, "user_dim")
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range src.Labels.Entries {
		defer sql.SetMaxParts(i % 3)() // so that both ways of reading are taken
		at := src.Newest
		if e.State == savepoint.Sealed {
			if at, err = src.Table.SnapshotAt(ctx, e.Version); err != nil {
				t.Fatal(err)
			}
		}
		columns := `amount, born, city, id, name, photo, score, seen`
		if at.Schema().Index("vip") >= 0 {
			columns += ", vip"
		}
		a := mustAsk(t, sql.Options{Tables: s.tables()}, "SELECT "+columns+" FROM user_dim WHERE dt = '"+e.Name+"'")
		if want := plainRows(t, s.users, at); sorted(a.csv) != sorted(want) || a.csv == "" {
			t.Errorf("%s: got\n%swant\n%s", e.Name, sorted(a.csv), sorted(want))
		}
		if a.stats.Days != 1 || a.stats.Files != at.NumFiles() {
			t.Errorf("%s: %+v, want 1 day and %d files", e.Name, a.stats, at.NumFiles())
		}
	}
	for _, statement := range []string{"SELECT * EXCLUDE (dt) FROM user_dim", "SELECT * EXCLUDE (dt) FROM t", "FROM (SELECT * FROM user_dim) SELECT * EXCLUDE dt"} {
		a := mustAsk(t, sql.Options{Tables: s.tables()}, statement)
		if want := plainRows(t, s.users, src.Newest); sorted(a.csv) != sorted(want) {
			t.Errorf("%s: got\n%swant\n%s", statement, a.csv, want)
		}
		if len(a.notices) != 1 || a.notices[0] != openNotice {
			t.Errorf("%s: %q", statement, a.notices)
		}
	}
	// A natural join joins by the label.
	n := mustAsk(t, sql.Options{Tables: s.tables()}, "SELECT count(*), count(DISTINCT dt) FROM orders NATURAL JOIN (SELECT id AS uid, dt FROM user_dim)")
	if want := mustAsk(t, sql.Options{Tables: s.tables()}, "SELECT count(*), count(DISTINCT o.dt) FROM orders o JOIN user_dim u ON o.uid = u.id AND o.dt = u.dt"); n.csv != want.csv || n.stats.Days != 22 {
		t.Errorf("a natural join: %s %+v, want %s", n.csv, n.stats, want.csv)
	}
	// The column comes last, and is the open label.
	a := mustAsk(t, sql.Options{Tables: s.tables()}, "SELECT * FROM orders WHERE id = 1")
	if a.csv != "1,1,0,2022-07-17\n" || a.columns[3].Name != "dt" {
		t.Errorf("got %s %v", a.csv, a.columns)
	}
}

// Only the files of the days that are asked for are needed: all others are gone.
func TestOtherDaysAreNotOpened(t *testing.T) {
	s, dir := ownShop(t)
	src, err := openSource(s.users, "user_dim")
	if err != nil {
		t.Fatal(err)
	}
	keep := map[string]bool{}
	for _, label := range []string{"2022-07-09", "2022-07-10"} {
		r, err := src.Labels.Resolve(label, true)
		if err != nil {
			t.Fatal(err)
		}
		at, err := src.Table.SnapshotAt(ctx, r.Entry.Version)
		if err != nil {
			t.Fatal(err)
		}
		for _, add := range at.Files() {
			keep[add.Path] = true
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "user_dim", "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	removed := 0
	for _, f := range files {
		if !keep[filepath.Base(f)] {
			removed++
			if err := os.Remove(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(keep) != 4 || removed != 7 {
		t.Fatalf("%d files kept, %d removed", len(keep), removed)
	}
	for statement, files := range map[string]int{
		"SELECT count(*) FROM user_dim WHERE dt = '2022-07-09'":                                                                                3,
		"SELECT count(*) FROM user_dim a JOIN user_dim b USING (id) WHERE a.dt = '2022-07-09' AND b.dt = '2022-07-10' AND a.name <> b.name":    4,
		"SELECT dt, count(*), sum(amount) FROM user_dim WHERE dt BETWEEN '2022-07-09' AND '2022-07-10' GROUP BY dt":                            4,
		"SELECT dt, count(*), sum(amount) FROM user_dim WHERE dt::DATE BETWEEN DATE '2022-07-09' AND DATE '2022-07-10' GROUP BY dt ORDER BY 1": 4,
	} {
		if a := mustAsk(t, sql.Options{Tables: s.tables()}, statement); a.stats.Files != files {
			t.Errorf("%s: %d files, want %d", statement, a.stats.Files, files)
		}
	}
	_, err = ask(t, sql.Options{Tables: s.tables()}, "SELECT count(*) FROM user_dim WHERE dt = '2022-07-11'")
	if !errors.Is(err, scan.ErrFileMissing) || !strings.Contains(err.Error(), "run gscd check") {
		t.Errorf("a day whose files are gone: %v", err)
	}
}

func TestDamagedFiles(t *testing.T) {
	s, dir := ownShop(t)
	files, err := filepath.Glob(filepath.Join(dir, "orders", "*.parquet"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	info, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], make([]byte, info.Size()), 0o600); err != nil {
		t.Fatal(err)
	}
	if a, err := ask(t, sql.Options{Tables: s.tables()}, "SELECT * FROM orders"); err == nil || !strings.Contains(err.Error(), "No magic bytes") {
		t.Errorf("a file of zeroes: %q, %v", a.csv, err)
	}
	if err := os.Truncate(files[0], info.Size()-1); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t, sql.Options{Tables: s.tables()}, "SELECT * FROM orders"); !errors.Is(err, scan.ErrFileMismatch) {
		t.Errorf("a file that is a byte short: %v", err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", files[0]); err != nil {
		t.Fatal(err)
	}
	if a, err := ask(t, sql.Options{Tables: s.tables()}, "SELECT * FROM orders"); err == nil {
		t.Errorf("a link that leads out of the table is followed: %q", a.csv)
	}
}

// A folder may be called as a pattern is written; only its own files are read.
func TestNamesLikePatterns(t *testing.T) {
	_, dir := ownShop(t)
	odd := filepath.Join(dir, "a [b]* ?'\"")
	if err := os.CopyFS(odd, os.DirFS(filepath.Join(dir, "user_dim"))); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "a bc d'\""), os.DirFS(filepath.Join(dir, "orders"))); err != nil {
		t.Fatal(err)
	}
	o := sql.Options{Tables: []sql.Table{table(openLocal(t, odd), "odd")}}
	if a := mustAsk(t, o, "SELECT count(*) FROM odd WHERE dt = '2022-07-09'"); a.csv != "21\n" || a.stats.Fetched > 0 {
		t.Errorf("got %s, %+v", a.csv, a.stats)
	}
}

// Columns may be called as DuckDB calls the places of rows; the rows that are deleted
// stay so.
func TestColumnsLikePlaces(t *testing.T) {
	store := mem.New()
	ingestInto(t, store, "odd", recordOddColumns, map[string]string{"id": "bigint", "filename": "string", "file_row_number": "bigint", "file_index": "bigint", "rowid": "bigint"})
	src, err := openSource(store, "odd")
	if err != nil || !slices.ContainsFunc(src.Newest.Files(), func(f *action.Add) bool { return f.DeletionVector != nil }) {
		t.Fatalf("no row of a file is deleted: %v", err)
	}
	for _, parts := range []int{0, 32} {
		restore := sql.SetMaxParts(parts)
		a := mustAsk(t, sql.Options{Tables: []sql.Table{table(store, "odd")}}, "SELECT id, filename, file_row_number, file_index, rowid FROM odd ORDER BY id")
		restore()
		if a.csv != "1,f1,1,10,100\n3,f3,3,30,300\n" {
			t.Errorf("%d: got %s", parts, a.csv)
		}
	}
}

// What can't be answered is said, and in the words of --as-of.
func TestLabelsWithoutAnswer(t *testing.T) {
	s, _ := ownShop(t)
	src, err := openSource(s.users, "user_dim")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2022, 7, 20, 0, 0, 0, 0, time.UTC)
	if _, err := savepoint.Delete(ctx, src.Table, "2022-07-09", now); err != nil {
		t.Fatal(err)
	}
	if _, err := savepoint.Rollback(ctx, src.Table, "2022-07-14", savepoint.RollbackOptions{Now: now}); err != nil {
		t.Fatal(err)
	}
	o := sql.Options{Tables: s.tables()}
	for statement, want := range map[string]error{
		"SELECT * FROM user_dim WHERE dt = '2022-07-01'":                                                                                       savepoint.ErrBefore,
		"SELECT * FROM user_dim WHERE dt = DATE '2022-07-01'":                                                                                  savepoint.ErrBefore,
		"SELECT * FROM user_dim WHERE dt = '2022-07-09'":                                                                                       savepoint.ErrDeleted,
		"SELECT * FROM user_dim WHERE dt = DATE '2022-07-10' - INTERVAL 1 DAY":                                                                 savepoint.ErrDeleted,
		"SELECT * FROM user_dim WHERE dt = TIMESTAMP '2022-07-01'":                                                                             savepoint.ErrBefore,
		"SELECT * FROM user_dim WHERE dt::DATE = DATE '2022-07-10' - 1":                                                                        savepoint.ErrDeleted,
		"SELECT * FROM user_dim WHERE dt IN ('2022-07-08', '2022-07-09')":                                                                      savepoint.ErrDeleted,
		"SELECT * FROM user_dim WHERE dt = '2022-07-16'":                                                                                       savepoint.ErrRolledBack,
		"SELECT * FROM user_dim WHERE '2022-08-01' = dt":                                                                                       savepoint.ErrAfter,
		"SELECT * FROM user_dim WHERE dt = '20220708'":                                                                                         savepoint.ErrNoLabel,
		"SELECT * FROM user_dim WHERE dt = 'yesterday'":                                                                                        savepoint.ErrNoLabel,
		"SELECT * FROM (SELECT * FROM user_dim) WHERE dt = '2022-07-01'":                                                                       savepoint.ErrBefore,
		"EXPLAIN SELECT * FROM user_dim WHERE dt = '2022-07-01'":                                                                               savepoint.ErrBefore,
		"SELECT 1 FROM user_dim a JOIN user_dim b USING (id) WHERE a.dt = '2022-07-07' AND b.dt = '2022-07-06'":                                savepoint.ErrBefore,
		"SELECT 1 FROM user_dim a JOIN user_dim b USING (id) WHERE a.dt = '2022-07-07' AND b.dt = strftime(DATE '2022-07-07' - 1, '%Y-%m-%d')": savepoint.ErrBefore,
	} {
		if a, err := ask(t, o, statement); !errors.Is(err, want) {
			t.Errorf("%s: %q, %v, want %v", statement, a.csv, err, want)
		}
	}
	for _, c := range []struct{ statement, want, notice string }{
		{"SELECT dt FROM user_dim WHERE dt BETWEEN '2022-07-08' AND '2022-07-10' GROUP BY dt ORDER BY dt", "2022-07-08\n2022-07-10\n",
			"1 label left out, for there is nothing to answer it with: 2022-07-09 (deleted)"},
		{"SELECT dt FROM user_dim WHERE dt > '2022-07-13' GROUP BY dt ORDER BY dt", "2022-07-14\n",
			"3 labels left out, for there is nothing to answer them with: 2022-07-15 (rolled-back), 2022-07-16 (rolled-back), 2022-07-17 (rolled-back)"},
		{"SELECT dt FROM user_dim WHERE dt BETWEEN '2022-06-01' AND '2022-07-07' GROUP BY dt", "2022-07-07\n", ""},
		{"SELECT count(*) FROM user_dim WHERE dt = '2022-07-08' AND name <> '2022-01-01'", "21\n", ""},
		{"SELECT count(*) FROM user_dim WHERE dt >= '2022-08-01'", "0\n", ""},
		{"SELECT count(*) FROM user_dim WHERE dt LIKE '2021-%'", "0\n", ""},
		// A rolled-back savepoint has a name of its own.
		{"SELECT count(*), min(dt) FROM user_dim WHERE dt = '2022-07-16@" + version(t, src, "2022-07-16") + "'", "25,2022-07-16@" + version(t, src, "2022-07-16") + "\n",
			"2022-07-16@" + version(t, src, "2022-07-16") + " is a savepoint that was rolled back"},
		{"SELECT count(*) FROM user_dim", "24\n", "2022-07-15 is not sealed: it is the open label, and its rows may still change"},
	} {
		a, err := ask(t, o, c.statement)
		if err != nil || a.csv != c.want || strings.Join(a.notices, "\n") != c.notice {
			t.Errorf("%s: %q %q, %v", c.statement, a.csv, a.notices, err)
		}
	}
}

// version is that of a label's seal.
func version(t *testing.T, s *sql.Source, label string) string {
	t.Helper()
	r, err := s.Labels.Resolve(label, true)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.FormatInt(r.Entry.Version, 10)
}

func TestSealed(t *testing.T) {
	s := localShop(t)
	o := sql.Options{Tables: s.tables(), Sealed: true}
	for _, statement := range []string{
		"SELECT * FROM user_dim", "SELECT * FROM user_dim WHERE dt = '2022-07-17'", "SELECT * FROM user_dim WHERE dt > '2022-07-15'",
		"SELECT count(*) FROM orders a JOIN user_dim b ON a.uid = b.id WHERE a.dt = '2022-07-09'",
	} {
		if a, err := ask(t, o, statement); !errors.Is(err, savepoint.ErrNotSealed) {
			t.Errorf("%s: %q, %v", statement, a.csv, err)
		}
	}
	if _, err := ask(t, o, "SELECT * FROM user_dim WHERE dt = '2022-07-18'"); !errors.Is(err, savepoint.ErrAfter) {
		t.Errorf("after the open label: %v", err)
	}
	if a := mustAsk(t, o, "SELECT count(*) FROM user_dim WHERE dt >= '2022-07-15' AND dt < '2022-07-17'"); a.csv != "49\n" {
		t.Errorf("sealed days: %s", a.csv)
	}
}

// A fixed version is what every table is, whatever the statement says of dt.
func TestFixed(t *testing.T) {
	s := localShop(t)
	fix := func(label string) sql.Options {
		tables := s.tables()
		for i := range tables {
			open := tables[i].Open
			tables[i].Open = func(ctx context.Context) (*sql.Source, error) {
				src, err := open(ctx)
				if err != nil {
					return nil, err
				}
				r, err := src.Labels.Resolve(label, true)
				if err != nil {
					return nil, err
				}
				src.Fixed, err = src.Table.SnapshotAt(ctx, r.Entry.Version)
				src.FixedLabel = label
				return src, err
			}
		}
		return sql.Options{Tables: tables, Sealed: true}
	}
	for statement, want := range map[string]string{
		"SELECT count(*), min(dt), max(dt) FROM user_dim":                            "21,2022-07-09,2022-07-09\n",
		"SELECT count(*) FROM user_dim WHERE dt = '2022-07-09'":                      "21\n",
		"SELECT count(*) FROM user_dim WHERE dt = '2022-07-10'":                      "0\n",
		"SELECT count(*), max(u.dt) FROM user_dim u JOIN orders o ON o.uid = u.id":   "12,2022-07-09\n",
		"SELECT count(*) FROM (DESCRIBE user_dim) WHERE column_name IN ('vip','dt')": "1\n",
	} {
		if a := mustAsk(t, fix("2022-07-09"), statement); a.csv != want || len(a.notices) > 0 {
			t.Errorf("%s: %q %q, want %q", statement, a.csv, a.notices, want)
		}
	}
}

// remote is a store that is not local and counts what is read of data files.
type remote struct {
	objstore.Store
	parts atomic.Int64
}

func (r *remote) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	if strings.HasSuffix(key, ".parquet") && !strings.HasPrefix(key, "_delta_log") {
		r.parts.Add(1)
	}
	return r.Store.GetRange(ctx, key, offset, length)
}

// bucket opens a folder of an S3 storage in this process.
func bucket(t *testing.T, folder string) objstore.Store {
	t.Helper()
	for _, name := range []string{"AWS_PROFILE", "AWS_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} {
		t.Setenv(name, "")
	}
	backend := s3mem.New()
	if err := backend.CreateBucket("lake"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	t.Cleanup(server.Close)
	client, err := s3.NewClient(ctx, s3.Options{Endpoint: server.URL, PathStyle: true, AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	store, err := client.Store("lake", folder)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// copyTo copies a table.
func copyTo(t *testing.T, to, from objstore.Store) objstore.Store {
	t.Helper()
	for o, err := range from.List(ctx, "", "") {
		if err != nil {
			t.Fatal(err)
		}
		data, err := from.Get(ctx, o.Key)
		if err == nil {
			err = to.Put(ctx, o.Key, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// Tables of other stores are copied, only the days that are asked for, and nothing
// of them stays.
func TestOtherStores(t *testing.T) {
	t.Run("memory", func(t *testing.T) { testStore(t, mem.New(), mem.New()) })
	t.Run("S3", func(t *testing.T) { testStore(t, bucket(t, "user_dim"), bucket(t, "orders")) })
}

func testStore(t *testing.T, users, orders objstore.Store) {
	local := localShop(t)
	counting := &remote{Store: copyTo(t, users, local.users)}
	s := shop{counting, copyTo(t, orders, local.orders)}
	for statement, files := range map[string]int64{
		"SELECT * FROM user_dim WHERE dt = '2022-07-09' ORDER BY id":                                                                                 3,
		"SELECT a.id, a.name, b.name FROM user_dim a JOIN user_dim b USING (id) WHERE a.dt = '2022-07-09' AND b.dt = '2022-07-10' ORDER BY id":       4,
		"SELECT dt, count(*), sum(amount) FROM user_dim WHERE dt BETWEEN '2022-07-09' AND '2022-07-11' GROUP BY dt ORDER BY dt":                      5,
		"SELECT u.dt, sum(price) FROM orders o JOIN user_dim u ON o.uid = u.id AND o.dt = u.dt WHERE u.dt = '2022-07-09' AND o.id > 3 GROUP BY u.dt": 3,
		"SELECT dt, count(*), sum(amount), max(vip) FROM user_dim GROUP BY dt ORDER BY dt":                                                           11,
		"EXPLAIN SELECT * FROM user_dim": 0, "DESCRIBE user_dim": 0,
	} {
		counting.parts.Store(0)
		a := mustAsk(t, sql.Options{Tables: s.tables()}, statement)
		if got := counting.parts.Load(); got != files {
			t.Errorf("%s: %d files were copied, want %d", statement, got, files)
		}
		if want := mustAsk(t, sql.Options{Tables: local.tables()}, statement); !strings.HasPrefix(statement, "E") && a.csv != want.csv {
			t.Errorf("%s: got\n%swant\n%s", statement, a.csv, want.csv)
		}
		if files > 0 && a.stats.Fetched != a.stats.Bytes || files == 0 && a.stats.Fetched > 0 {
			t.Errorf("%s: %+v", statement, a.stats)
		}
	}
	_, err := ask(t, sql.Options{Tables: s.tables(), TempLimit: 5000}, "SELECT * FROM user_dim WHERE dt = '2022-07-09'")
	if !errors.Is(err, sql.ErrTempLimit) || !strings.Contains(err.Error(), "--temp-limit") {
		t.Errorf("more than the limit: %v", err)
	}
	for o := range users.List(ctx, "", "") {
		if strings.HasSuffix(o.Key, ".parquet") && !strings.HasPrefix(o.Key, "_delta_log") {
			if err := users.Delete(ctx, o.Key); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err = ask(t, sql.Options{Tables: s.tables()}, "SELECT * FROM user_dim"); !errors.Is(err, scan.ErrFileMissing) {
		t.Errorf("files that are gone: %v", err)
	}
}

// Every type of DuckDB comes out exactly, in text and in JSON.
func TestTypes(t *testing.T) {
	column := func(p schema.Primitive) schema.Type { return schema.Of(p) }
	for _, c := range []struct {
		expression string
		of         schema.Type
		text       string
	}{
		{"NULL", column(schema.Integer), ""},
		{"true", column(schema.Boolean), "true"},
		{"(-128)::TINYINT", column(schema.Byte), "-128"},
		{"(-32768)::SMALLINT", column(schema.Short), "-32768"},
		{"(-2147483648)::INTEGER", column(schema.Integer), "-2147483648"},
		{"(-9223372036854775808)::BIGINT", column(schema.Long), "-9223372036854775808"},
		{"255::UTINYINT", column(schema.Short), "255"},
		{"65535::USMALLINT", column(schema.Integer), "65535"},
		{"4294967295::UINTEGER", column(schema.Long), "4294967295"},
		{"18446744073709551615::UBIGINT", schema.Decimal(20, 0), "18446744073709551615"},
		{"170141183460469231731687303715884105727::HUGEINT", schema.Decimal(38, 0), "170141183460469231731687303715884105727"},
		{"(-170141183460469231731687303715884105728)::HUGEINT", schema.Decimal(38, 0), "-170141183460469231731687303715884105728"},
		{"(-9223372036854775809)::HUGEINT", schema.Decimal(38, 0), "-9223372036854775809"},
		{"sum(x) FROM (VALUES (9223372036854775807), (9223372036854775807)) v(x)", schema.Decimal(38, 0), "18446744073709551614"},
		{"340282366920938463463374607431768211455::UHUGEINT", schema.Decimal(38, 0), "340282366920938463463374607431768211455"},
		{"'12345678901234567890123456789012345678901234567890'::BIGNUM", schema.Decimal(38, 0), "12345678901234567890123456789012345678901234567890"},
		{"'-98765432109876543210987654321098765432109876543210'::BIGNUM", schema.Decimal(38, 0), "-98765432109876543210987654321098765432109876543210"},
		{"1.5::DECIMAL(4,1)", schema.Decimal(4, 1), "1.5"},
		{"(-0.05)::DECIMAL(9,2)", schema.Decimal(9, 2), "-0.05"},
		{"123456789012.345678::DECIMAL(18,6)", schema.Decimal(18, 6), "123456789012.345678"},
		{"(-12345678901234567890.123456789012345678)::DECIMAL(38,18)", schema.Decimal(38, 18), "-12345678901234567890.123456789012345678"},
		{"0.1::FLOAT", column(schema.FloatType), "0.1"},
		{"1e300::DOUBLE", column(schema.DoubleType), "1e+300"},
		{"'nan'::DOUBLE", column(schema.DoubleType), "NaN"},
		{"'-inf'::FLOAT", column(schema.FloatType), "-Infinity"},
		{"'張三 𝄞 long enough to be kept elsewhere'", column(schema.StringType), "張三 𝄞 long enough to be kept elsewhere"},
		{"''", column(schema.StringType), `""`},
		{"'\\x00\\xFF'::BLOB", column(schema.BinaryType), "0x00ff"},
		{"DATE '2022-07-16'", column(schema.Date), "2022-07-16"},
		{"DATE '0001-01-01'", column(schema.Date), "0001-01-01"},
		{"'infinity'::DATE", column(schema.Date), "infinity"},
		{"TIMESTAMP '2022-07-16 08:00:00.123456'", column(schema.TimestampNTZ), "2022-07-16T08:00:00.123456"},
		{"TIMESTAMPTZ '2022-07-16 08:00:00.5+08'", column(schema.Timestamp), "2022-07-16T00:00:00.500000Z"},
		{"'-infinity'::TIMESTAMP", column(schema.TimestampNTZ), "-infinity"},
		{"TIMESTAMP_S '2022-07-16 08:00:01'", column(schema.TimestampNTZ), "2022-07-16T08:00:01.000000"},
		{"TIMESTAMP_MS '2022-07-16 08:00:01.25'", column(schema.TimestampNTZ), "2022-07-16T08:00:01.250000"},
		{"TIMESTAMP_NS '1969-07-16 08:00:01.123456789'", column(schema.StringType), "1969-07-16T08:00:01.123456789"},
		{"TIME '23:59:59.5'", column(schema.StringType), "23:59:59.500000"},
		{"TIMETZ '01:02:03-05:30'", column(schema.StringType), "01:02:03.000000-05:30"},
		{"TIMETZ '01:02:03+08'", column(schema.StringType), "01:02:03.000000+08:00"},
		{"INTERVAL '14 months -3 days 01:00:00.5'", column(schema.StringType), "1 year 2 months -3 days 01:00:00.5"},
		{"INTERVAL '-1 second'", column(schema.StringType), "-00:00:01"},
		{"INTERVAL 0 DAY", column(schema.StringType), "00:00:00"},
		{"UUID '123e4567-e89b-12d3-a456-426614174000'", column(schema.StringType), "123e4567-e89b-12d3-a456-426614174000"},
		{"'01011'::BIT", column(schema.StringType), "01011"},
		{"'b'::ENUM ('a', 'b')", column(schema.StringType), "b"},
		{`'{"n": 1.500000000000000000001,` + "\n" + `"s": [1, 2]}'::JSON AS j`, column(schema.Struct), `"{""n"":1.500000000000000000001,""s"":[1,2]}"`},
		{"[1, NULL, 3]", column(schema.Array), `"[1,null,3]"`},
		{"[1.50, 2.25]::DECIMAL(5,2)[2]", column(schema.Array), `"[1.50,2.25]"`},
		{"[]::INTEGER[]", column(schema.Array), "[]"},
		{"{'a': 'x', 'b': {'c': [DATE '2022-07-16']}, 'd': NULL}", column(schema.Struct), `"{""a"":""x"",""b"":{""c"":[""2022-07-16""]},""d"":null}"`},
		{"MAP {1: 'a', 2: NULL}", column(schema.Map), `"{""1"":""a"",""2"":null}"`},
		{"MAP {DATE '2022-07-16': [TIMESTAMPTZ '2022-07-16 00:00:00+00']}", column(schema.Map), `"{""2022-07-16"":[""2022-07-16T00:00:00.000000Z""]}"`},
		{"union_value(n := 5)", column(schema.Struct), "5"},
		{"[union_value(s := 'x')]", column(schema.Array), `"[""x""]"`},
	} {
		a := mustAsk(t, sql.Options{Threads: 1}, "SELECT "+c.expression)
		if a.csv != c.text+"\n" {
			t.Errorf("%s: got %q, want %q", c.expression, a.csv, c.text)
		}
		of := a.columns[0].Type
		of.Nested = nil
		if of != c.of {
			t.Errorf("%s: it is %s, want %s", c.expression, of, c.of)
		}
	}
	a := mustAsk(t, sql.Options{}, "SELECT 1 AS id, 2 AS ID, 3 AS id, 4 AS id_1, 5")
	var names []string
	for _, c := range a.columns {
		names = append(names, c.Name)
	}
	if got := strings.Join(names, ","); got != "id,ID_1,id_2,id_1_1,5" {
		t.Errorf("names that come twice: %s", got)
	}
	// Many rows, with NULLs, through several chunks.
	a = mustAsk(t, sql.Options{}, "SELECT CASE WHEN r % 3 > 0 THEN r END, CASE WHEN r % 5 > 0 THEN [r, NULL] END FROM range(5000) t(r) ORDER BY r")
	lines := strings.Split(a.csv, "\n")
	if len(lines) != 5001 || lines[0] != "," || lines[4999] != `4999,"[4999,null]"` || lines[3000] != "," || lines[4001] != `4001,"[4001,null]"` {
		t.Errorf("%d lines: %q", len(lines), lines[4999])
	}
}

// What is against a statement says where.
func TestPositions(t *testing.T) {
	s := localShop(t)
	for _, c := range []struct {
		statement    string
		line, column int
		message      string
		excerpt      string
	}{
		{"SELECT foo FROM user_dim", 1, 8, `"foo" not found`, "  SELECT foo FROM user_dim\n         ^"},
		{"SELECT id,\n  foo\nFROM user_dim WHERE dt = '2022-07-09'", 2, 3, `"foo" not found`, "    foo\n    ^"},
		{"SELECT 'é', '張', foo FROM user_dim", 1, 18, `"foo" not found`, "  SELECT 'é', '張', foo FROM user_dim\n                    ^"},
		{"EXPLAIN SELECT foo FROM user_dim WHERE dt = DATE '2022-07-09'", 1, 16, `"foo" not found`, ""},
		{"explain (format json)\nSELECT foo FROM user_dim", 2, 8, `"foo" not found`, ""},
		{"-- a\nEXPLAIN ANALYZE SELECT * FROM nowhere", 2, 31, "there is no table nowhere; the tables are user_dim, t, orders", ""},
		{"SELECT * FROM user_dim WHER id = 1", 1, 29, "syntax error", ""},
		{"SELECT dt, id FROM user_dim GROUP BY dt", 1, 12, "GROUP BY", ""},
		{"SELECT nofunc(id) FROM user_dim", 1, 8, "nofunc", ""},
		{"SELECT id FROM user_dim, orders", 1, 8, "Ambiguous", ""},
		{"SELECT user_dim.dt FROM user_dim, orders WHERE dt = '2022-07-09'", 1, 48, "Ambiguous", ""},
		{"SELECT " + strings.Repeat("id, ", 40) + "foo FROM user_dim", 1, 168, `"foo" not found`, "…"},
		{"SELECT * FROM user_dim WHERE name = 7 AND dt = '2022-07-09' AND born = 'x'", 1, 0, "", ""},
	} {
		_, err := ask(t, sql.Options{Tables: s.tables()}, c.statement)
		var e *sql.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", c.statement, err)
			continue
		}
		if c.column == 0 {
			continue // an error in running it, perhaps without a place
		}
		if e.Line != c.line || e.Column != c.column || !e.Rejected || !strings.Contains(e.Message, c.message) || !strings.Contains(e.Excerpt, c.excerpt) {
			t.Errorf("%s: line %d, column %d, rejected %v: %s\n%s", c.statement, e.Line, e.Column, e.Rejected, e.Message, e.Excerpt)
		}
	}
	_, err := ask(t, sql.Options{Tables: s.tables()}, "SELECT name::INTEGER FROM user_dim WHERE dt = '2022-07-09'")
	var e *sql.Error
	if !errors.As(err, &e) || e.Rejected || !strings.Contains(e.Message, "Could not convert") {
		t.Errorf("an error in running: %v", err)
	}
}

// Rows come while they are made; the first are there long before the last.
func TestStreaming(t *testing.T) {
	const all = 200_000_000
	rows, err := sql.Run(ctx, "SELECT range AS n, range::VARCHAR || ' is a text of some length' AS s FROM range(200000000)", sql.Options{MemoryLimit: 100 << 20, TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for row, err := range rows.All() {
		if err != nil {
			t.Fatal(err)
		}
		if row[1].S == "" {
			t.Fatal(row)
		}
		if n++; n == 100_000 {
			break
		}
	}
	began := time.Now()
	rows.Close()
	rows.Close()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("%d rows of %d were read, and the end took %v", n, all, took)
	}
}

// An interrupt ends what runs, in planning and in the middle of the rows.
func TestInterrupt(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s := localShop(t)
	for _, statement := range []string{
		"SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range + b.range = 7",
		"SELECT a.range FROM range(1000000000) a WHERE a.range % 3 = 1",
		"SELECT count(*) FROM user_dim, range(100000000000) WHERE dt = '2022-07-09'",
	} {
		ctx, cancel := context.WithTimeout(ctx, 150*time.Millisecond)
		began := time.Now()
		rows, err := sql.Run(ctx, statement, sql.Options{Tables: s.tables(), TempDir: t.TempDir()})
		if err == nil {
			for _, fault := range rows.All() {
				err = fault
			}
			rows.Close()
		}
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", statement, err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: it ended after %v", statement, took)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := sql.Run(ended, "SELECT 1", sql.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

// DuckDB keeps to the memory that it is given, and goes to disk; the disk too has a
// limit, and an end.
func TestMemoryLimit(t *testing.T) {
	const sorting = "SELECT md5(r::VARCHAR) || md5((r + 1)::VARCHAR) AS s FROM range(800000) t(r) ORDER BY s"
	dir := t.TempDir()
	rows, err := sql.Run(ctx, sorting, sql.Options{MemoryLimit: 40 << 20, Threads: 2, TempDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	n, last := 0, ""
	for row, err := range rows.All() {
		if err != nil || row[0].S < last {
			t.Fatalf("row %d: %q behind %q, %v", n, row[0].S, last, err)
		}
		if n++; n == 1 {
			if spilled, err := filepath.Glob(filepath.Join(dir, "gscd-sql-*", "spill", "*")); err != nil || len(spilled) == 0 {
				t.Errorf("nothing is on disk: %v", err)
			}
		}
		last = strings.Clone(row[0].S)
	}
	rows.Close()
	if left, err := os.ReadDir(dir); n != 800_000 || err != nil || len(left) > 0 {
		t.Errorf("%d rows; left on disk: %v, %v", n, left, err)
	}
	_, err = ask(t, sql.Options{MemoryLimit: 40 << 20, TempLimit: 1 << 20, Threads: 2}, sorting)
	var e *sql.Error
	if !errors.As(err, &e) || e.Rejected || !strings.Contains(e.Message, "--memory-limit") {
		t.Errorf("no room on disk: %v", err)
	}
}

// A table that gscd did not write has no dt; one with a column dt of its own has the
// label as gscd_dt.
func TestOtherTables(t *testing.T) {
	store := mem.New()
	ingestInto(t, store, "days", recordOwnDays, map[string]string{"id": "bigint", "dt": "string"})
	o := sql.Options{Tables: []sql.Table{table(store, "days", "shop.days")}}
	for statement, want := range map[string]string{
		"SELECT * FROM days":                                                    "1,own,2022-07-08\n",
		"SELECT * FROM days WHERE dt = 'own'":                                   "1,own,2022-07-08\n",
		"SELECT dt, gscd_dt FROM days WHERE gscd_dt = '2022-07-07'":             "own,2022-07-07\n",
		"SELECT dt, gscd_dt FROM shop.days WHERE gscd_dt::DATE < '2022-07-08'":  "own,2022-07-07\n",
		`SELECT dt, gscd_dt FROM "shop.days" WHERE gscd_dt = DATE '2022-07-07'`: "own,2022-07-07\n",
		"SELECT count(*) FROM days GROUP BY gscd_dt":                            "1\n1\n",
	} {
		if a := mustAsk(t, o, statement); a.csv != want {
			t.Errorf("%s: %q, want %q", statement, a.csv, want)
		}
	}
}
