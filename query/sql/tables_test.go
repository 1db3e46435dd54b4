//go:build cgo

package sql_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/ingest/recording"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/query/sql"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

var ctx = context.Background()

// firstDay is the label of day 0 of the tables here; they have days of sealed
// labels and one that is open.
var firstDay = time.Date(2022, 7, 7, 0, 0, 0, 0, time.UTC)

const sealedDays = 10

// dt is the label of a day.
func dt(day int) string { return firstDay.AddDate(0, 0, day).Format(time.DateOnly) }

// shopTypes are the types of the columns of user_dim.
var shopTypes = map[string]string{
	"id": "bigint", "name": "string", "city": "string", "amount": "decimal(12,2)", "born": "date",
	"seen": "datetime(6)", "score": "double", "photo": "blob", "vip": "tinyint(1)",
}

// recordUsers writes the changes of user_dim: 20 users on day 0; on each later day
// one more, an update of three, and a delete. From day 5 on rows have the column vip.
func recordUsers(w *bytes.Buffer) {
	offset := 0
	put := func(day int, op string, id int, row map[string]any) {
		at := firstDay.AddDate(0, 0, day).Add(time.Hour + time.Duration(offset)*time.Second).UnixMilli()
		value := map[string]any{"op": op, "before": nil, "after": row, "source": map[string]any{
			"connector": "mysql", "name": "shop", "db": "shop", "table": "user_dim", "file": "bin.000001", "pos": 100 * (offset + 1), "ts_ms": at,
		}}
		if op == "d" {
			value["before"], value["after"] = map[string]any{"id": id}, nil
		}
		line, err := json.Marshal(map[string]any{"partition": 0, "offset": offset, "ts": at, "key": map[string]any{"id": id}, "value": value})
		if err != nil {
			panic(err)
		}
		w.Write(append(line, '\n'))
		offset++
	}
	user := func(day, id int) map[string]any {
		row := map[string]any{
			"id": id, "name": fmt.Sprintf("user %d of day %d", id, day), "city": []any{"Beijing", "Wuhan", nil}[id%3],
			"amount": fmt.Sprintf("%d.%02d", id*1000+day, day), "born": 10_000 + id, "seen": int64(1_650_000_000_000_000 + id),
			"score": float64(id) / 4, "photo": "AAECAw==",
		}
		if day >= 5 {
			row["vip"] = id%2 == 0
		}
		return row
	}
	for id := 1; id <= 20; id++ {
		put(0, "c", id, user(0, id))
	}
	for day := 1; day <= sealedDays; day++ {
		put(day, "c", 20+day, user(day, 20+day))
		for _, id := range []int{day, day + 10, 20 + day} {
			put(day, "u", id, user(day, id))
		}
		if day%2 == 0 {
			put(day, "d", day-1, nil)
		}
	}
}

// recordOrders writes the changes of orders: five orders a day, of users 1 to 5.
func recordOrders(w *bytes.Buffer) {
	offset := 0
	for day := range sealedDays + 1 {
		for n := range 5 {
			at := firstDay.AddDate(0, 0, day).Add(2*time.Hour + time.Duration(n)*time.Minute).UnixMilli()
			fmt.Fprintf(w, `{"partition":0,"offset":%d,"ts":%d,"key":{"id":%d},"value":{"op":"c","before":null,"after":{"id":%d,"uid":%d,"price":%d},"source":{"connector":"mysql","name":"shop","db":"shop","table":"orders","file":"bin.000001","pos":%d,"ts_ms":%d}}}`+"\n",
				offset, at, offset+1, offset+1, n+1, 10*day+n, 100*(offset+1), at)
			offset++
		}
	}
}

// recordOddColumns writes three rows and deletes one.
func recordOddColumns(w *bytes.Buffer) {
	for i, op := range []string{"c", "c", "c", "d"} {
		id := i%3 + 1
		if op == "d" {
			id = 2
		}
		at := firstDay.Add(time.Duration(i) * 8 * time.Hour).Add(time.Hour).UnixMilli() // the delete is of the day after
		row := fmt.Sprintf(`{"id":%d,"filename":"f%d","file_row_number":%d,"file_index":%d,"rowid":%d}`, id, id, id, 10*id, 100*id)
		before, after := "null", row
		if op == "d" {
			before, after = row, "null"
		}
		fmt.Fprintf(w, `{"partition":0,"offset":%d,"ts":%d,"key":{"id":%d},"value":{"op":"%s","before":%s,"after":%s,"source":{"connector":"mysql","name":"shop","db":"shop","table":"odd","file":"bin.000001","pos":%d,"ts_ms":%d}}}`+"\n",
			i, at, id, op, before, after, 100*(i+1), at)
	}
}

// recordOwnDays writes two days of a table that has a column dt itself.
func recordOwnDays(w *bytes.Buffer) {
	for day := range 2 {
		at := firstDay.AddDate(0, 0, day).Add(time.Hour).UnixMilli()
		fmt.Fprintf(w, `{"partition":0,"offset":%d,"ts":%d,"key":{"id":1},"value":{"op":"u","before":null,"after":{"id":1,"dt":"own"},"source":{"connector":"mysql","name":"shop","db":"shop","table":"days","file":"bin.000001","pos":%d,"ts_ms":%d}}}`+"\n",
			day, at, 100*(day+1), at)
	}
}

// ingestInto runs the pipeline over a recording up to its end.
func ingestInto(t testing.TB, store objstore.Store, name string, record func(*bytes.Buffer), types map[string]string) {
	t.Helper()
	var lines bytes.Buffer
	record(&lines)
	path := filepath.Join(t.TempDir(), name+".jsonl")
	if err := os.WriteFile(path, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := recording.Open([]string{path}, recording.Options{Topic: name})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	calendar, err := snapshotter.NewCalendar("day", "UTC", "00:00")
	if err != nil {
		t.Fatal(err)
	}
	clock := time.UnixMilli(r.MaxBrokerTimestamp())
	r.SetNow(clock)
	o := ingest.Options{
		Name: name, Store: store, DeadLetterStore: mem.New(), Calendar: calendar, Key: []string{"id"}, Log: zap.NewNop(),
		Now: func() time.Time { return clock }, UntilEnd: true, Columns: map[string]schema.Type{},
		Decode: decode.Options{KeyColumns: []string{"id"}, Columns: map[string]decode.ColumnSpec{}, Debezium: decode.Debezium{Binary: "base64"}},
	}
	for column, text := range types {
		spec, err := decode.ParseColumnType(text)
		if err != nil {
			t.Fatal(err)
		}
		if column != "vip" { // it is added later
			o.Columns[column] = spec.Type
		}
		o.Decode.Columns[column] = spec
	}
	lane, err := ingest.New(o, r)
	if err != nil {
		t.Fatal(err)
	}
	if err := lane.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// shop is where both tables lie. Tests that change them make their own.
type shop struct{ users, orders objstore.Store }

func newShop(t testing.TB, open func(name string) objstore.Store) shop {
	t.Helper()
	s := shop{open("user_dim"), open("orders")}
	ingestInto(t, s.users, "user_dim", recordUsers, shopTypes)
	ingestInto(t, s.orders, "orders", recordOrders, map[string]string{"id": "bigint", "uid": "bigint", "price": "bigint"})
	return s
}

var onDisk = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "gscd-sql-test-")
	if err != nil {
		panic(err)
	}
	return dir
})

var (
	makeShared sync.Once
	sharedShop shop
)

// localShop gives the tables in folders. They are made once for all tests.
func localShop(t testing.TB) shop {
	t.Helper()
	makeShared.Do(func() {
		sharedShop = newShop(t, func(name string) objstore.Store { return openLocal(t, filepath.Join(onDisk(), name)) })
	})
	return sharedShop
}

func openLocal(t testing.TB, dir string) objstore.Store {
	t.Helper()
	store, err := local.New(dir, local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// ownShop gives tables in folders that the test may change.
func ownShop(t testing.TB) (shop, string) {
	t.Helper()
	localShop(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(onDisk())); err != nil {
		t.Fatal(err)
	}
	return shop{openLocal(t, filepath.Join(dir, "user_dim")), openLocal(t, filepath.Join(dir, "orders"))}, dir
}

func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		_ = flag.Set("rapid.checks", "30") // a check is two queries
	}
	code := m.Run()
	os.RemoveAll(onDisk())
	os.Exit(code)
}

// table is a store as a table of a statement.
func table(store objstore.Store, names ...string) sql.Table {
	return sql.Table{Names: names, Open: func(context.Context) (*sql.Source, error) { return openSource(store, names[0]) }}
}

func openSource(store objstore.Store, name string) (*sql.Source, error) {
	s := &sql.Source{Name: name, Store: store}
	var err error
	if s.Table, err = delta.Open(ctx, store); err != nil {
		return nil, err
	}
	if s.Newest, err = s.Table.Snapshot(ctx); err != nil {
		return nil, err
	}
	s.Labels, err = savepoint.Read(ctx, s.Table, s.Newest)
	if errors.Is(err, savepoint.ErrForeign) {
		err = nil
	}
	return s, err
}

func (s shop) tables() []sql.Table {
	return []sql.Table{table(s.users, "user_dim", "t"), table(s.orders, "orders")}
}

// answer is what a statement gave.
type answer struct {
	csv     string // without the header
	columns []schema.Field
	stats   sql.Stats
	notices []string
}

// ask runs a statement over tables.
func ask(t testing.TB, o sql.Options, statement string) (answer, error) {
	t.Helper()
	var a answer
	o.Notice = func(text string) { a.notices = append(a.notices, text) }
	if o.TempDir == "" {
		o.TempDir = t.TempDir()
	}
	defer func() {
		if left, err := os.ReadDir(o.TempDir); err != nil || len(left) > 0 {
			t.Errorf("%s: left behind: %v, %v", statement, left, err)
		}
	}()
	rows, err := sql.Run(ctx, statement, o)
	if err != nil {
		return a, err
	}
	defer rows.Close()
	a.columns, a.stats = rows.Columns(), rows.Stats()
	a.csv, err = printed(a.columns, rows.All())
	return a, err
}

func printed(columns []schema.Field, rows func(func([]schema.Value, error) bool)) (string, error) {
	var out bytes.Buffer
	w, err := output.NewWriter(output.CSV, &out, columns)
	if err != nil {
		return "", err
	}
	for row, err := range rows {
		if err != nil {
			return out.String(), err
		}
		if err := w.Write(row); err != nil {
			return "", err
		}
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	_, body, _ := strings.Cut(out.String(), "\n")
	return body, nil
}

// mustAsk is ask where nothing may go wrong.
func mustAsk(t testing.TB, o sql.Options, statement string) answer {
	t.Helper()
	a, err := ask(t, o, statement)
	if err != nil {
		t.Fatalf("%s\n%v", statement, err)
	}
	return a
}

// plainRows gives the rows of a version by the plain reader, in the order of id.
func plainRows(t testing.TB, store objstore.Store, at *delta.Snapshot) string {
	t.Helper()
	reading, err := scan.New(store, at, scan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := printed(reading.Columns(), reading.Rows(ctx))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
