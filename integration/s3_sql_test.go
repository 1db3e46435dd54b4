//go:build integration

package integration

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/counting"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/objstore/s3"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/query/sql"
	"github.com/gscd-io/gscd/savepoint"
)

// tenDays records the changes of ten days of a table of a dozen bytes of what is asked
// for a row, and four hundred of what is not: 3,000 new rows a day, and 200 of the day
// before changed. A day's data file has about a megabyte.
func tenDays(t *testing.T) (path string, labels []string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "wide.jsonl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := bufio.NewWriter(f)
	rng := rand.New(rand.NewPCG(1, 2))
	offset := 0
	put := func(day, id, version int) {
		var note strings.Builder
		for range 50 {
			fmt.Fprintf(&note, "%08x", rng.Uint32())
		}
		at := time.Date(2022, 7, 7+day, 1, 0, 0, 0, time.UTC).Add(time.Duration(offset) * time.Millisecond).UnixMilli()
		fmt.Fprintf(out, `{"partition":0,"offset":%d,"ts":%d,"key":{"id":%d},"value":{"op":"u","before":null,"after":{"id":%d,"city":"%s","amount":%d,"note":"%s","version":%d},"source":{"connector":"mysql","name":"shop","db":"shop","table":"wide","file":"bin.000001","pos":%d,"ts_ms":%d}}}`+"\n",
			offset, at, id, id, []string{"Beijing", "Wuhan", "Xi'an"}[id%3], id*10+version, note.String(), version, 100*(offset+1), at)
		offset++
	}
	for day := range 11 { // the eleventh closes the tenth
		if day < 10 {
			labels = append(labels, time.Date(2022, 7, 7+day, 0, 0, 0, 0, time.UTC).Format(time.DateOnly))
		}
		for n := range 3000 {
			put(day, day*3000+n+1, 0)
			if day > 0 && n%15 == 0 {
				put(day, (day-1)*3000+n+1, day)
			}
		}
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	return path, labels
}

// requests counts what goes over the wire, by method.
type requests struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return tripper(func(r *http.Request) (*http.Response, error) {
		what := r.Method
		if r.Method == http.MethodGet && r.URL.Query().Has("list-type") {
			what = "LIST"
		}
		c.mu.Lock()
		c.counts[what]++
		c.mu.Unlock()
		return next.RoundTrip(r)
	})
}

func (c *requests) take() (s string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, what := range []string{"PUT", "GET", "HEAD", "LIST", "POST", "DELETE"} {
		if c.counts[what] > 0 {
			s += fmt.Sprintf(" %d %s", c.counts[what], what)
			n += c.counts[what]
		}
	}
	c.counts = map[string]int{}
	return strings.TrimSpace(s), n
}

func sortedCSV(t *testing.T, raw []byte) [][]string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(string(raw))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		t.Fatal("no header")
	}
	rows = rows[1:]
	slices.SortFunc(rows, func(a, b []string) int { return slices.Compare(a, b) })
	return rows
}

func sameCSV(t *testing.T, what string, got, want [][]string) {
	t.Helper()
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%s: %d rows, want %d; the first are %.300v, want %.300v", what, len(got), len(want), got, want)
	}
}

// Ten days on local disk and in a bucket. The rows that SQL gives are those of the
// plain reader, from both, and a statement reads no more than the columns and files
// that it needs: counted in files, requests and bytes.
func TestS3SQL(t *testing.T) {
	path, days := tenDays(t)
	g := startGateway(t, "--keep-alive")
	g.environment(t)
	onDisk := filepath.Join(t.TempDir(), "wide")
	const inBucket = "s3://" + gatewayBucket + "/wide"
	for _, location := range []string{onDisk, inBucket} {
		gscd(t, "ingest", "--location", location, "--topic", "shop.shop.wide", "--input", path, "--timezone", "UTC", "--key", "id",
			"--batch-rows", "4000", "--now", "2022-07-17T12:00:00Z", "--log-level", "warn")
	}
	plain := func(location, label, columns string, more ...string) [][]string {
		t.Helper()
		return sortedCSV(t, gscd(t, append([]string{"query", "--table", location, "--as-of", label, "--columns", columns, "--format", "csv"}, more...)...))
	}
	answered := func(location, statement string, more ...string) [][]string {
		t.Helper()
		return sortedCSV(t, gscd(t, append([]string{"query", "--table", location, statement, "--format", "csv", "--log-level", "error"}, more...)...))
	}

	// Rows, by the program.
	for _, location := range []string{onDisk, inBucket} {
		for i, label := range days {
			want := plain(location, label, "id,city,amount,version")
			equal(t, "rows of "+label, len(want), 3000*(i+1))
			sameCSV(t, location+", "+label, answered(location, "SELECT id, city, amount, version FROM wide WHERE dt = '"+label+"'"), want)
		}
		sameCSV(t, location+", all columns", answered(location, "SELECT * EXCLUDE (dt) FROM wide WHERE dt = '2022-07-09'"), plain(location, "2022-07-09", "id,city,amount,note,version"))
		sameCSV(t, location+", --as-of", answered(location, "SELECT id, version FROM wide WHERE city = 'Xi''an'", "--as-of", "2022-07-12"),
			plain(location, "2022-07-12", "id,version", "--where", "city = 'Xi''an'"))
		var want [][]string
		before, after := plain(location, "2022-07-10", "id,version"), plain(location, "2022-07-11", "id,version")
		versions := map[string]string{}
		for _, row := range before {
			versions[row[0]] = row[1]
		}
		for _, row := range after {
			if old, ok := versions[row[0]]; ok && old != row[1] {
				want = append(want, []string{row[0], old, row[1]})
			}
		}
		equal(t, "changed rows", len(want), 200)
		sameCSV(t, location+", two days joined", answered(location, "SELECT a.id, b.version, a.version FROM wide a JOIN wide b USING (id) WHERE a.dt = '2022-07-11' AND b.dt = '2022-07-10' AND a.version <> b.version"), want)
		want = nil
		for i, label := range days[2:9] {
			sum := 0
			for _, row := range plain(location, label, "amount") {
				n := 0
				fmt.Sscan(row[0], &n)
				sum += n
			}
			want = append(want, []string{label, fmt.Sprint(3000 * (i + 3)), fmt.Sprint(sum)})
		}
		sameCSV(t, location+", a range", answered(location, "SELECT dt, count(*), sum(amount) FROM wide WHERE dt BETWEEN '2022-07-09' AND '2022-07-15' GROUP BY dt"), want)
	}

	// What is read for them, by a counting store.
	sent := &requests{counts: map[string]int{}}
	o := g.options()
	o.Transport = sent.wrap
	bucket, err := s3.Open(ctx, gatewayBucket, "wide", o)
	if err != nil {
		t.Fatal(err)
	}
	disk, err := local.New(onDisk, local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	newest := snapshotOf(t, bucket)
	var sizes int64
	for _, add := range newest.Files() {
		sizes += add.Size
	}
	t.Logf("%d files, %d bytes", len(newest.Files()), sizes)
	for _, c := range []struct {
		statement string
		columns   []string
		days      []string
		files     int
	}{
		{"SELECT city, count(*), sum(amount) FROM wide WHERE dt = '2022-07-16' GROUP BY city", []string{"city", "amount"}, []string{"2022-07-16"}, 10},
		// DuckDB counts rows by the first column.
		{"SELECT count(*) FROM wide WHERE dt = '2022-07-16'", []string{"id"}, []string{"2022-07-16"}, 10},
		{"SELECT a.id, b.version, a.version FROM wide a JOIN wide b USING (id) WHERE a.dt = '2022-07-11' AND b.dt = '2022-07-10' AND a.version <> b.version", []string{"id", "version"}, []string{"2022-07-10", "2022-07-11"}, 5},
		{"SELECT dt, count(*), sum(amount) FROM wide WHERE dt BETWEEN '2022-07-07' AND '2022-07-16' GROUP BY dt", []string{"amount"}, days, 10},
		{"SELECT note FROM wide WHERE dt = '2022-07-16' AND id > 26000 AND version = 0", []string{"id", "note", "version"}, []string{"2022-07-16"}, 2},
		{"SELECT * FROM wide WHERE dt = '2022-07-08'", []string{"id", "city", "amount", "note", "version"}, []string{"2022-07-08"}, 2},
	} {
		sent.take()
		counted := counting.New(bucket)
		stats, rows := runSQL(t, counted, c.statement)
		onWire, _ := sent.take()
		diskStats, diskRows := runSQL(t, disk, c.statement)
		slices.Sort(rows)
		slices.Sort(diskRows)
		sameList(t, c.statement, rows, diskRows)
		data := counted.Data()
		opened := counted.Opened()
		t.Logf("%s\n%d rows, %d days, %d files of %d bytes; %d gets, %d bytes of data and vectors; log: %s; on the wire: %s; on disk: %d files",
			c.statement, len(rows), stats.Days, stats.Files, stats.Bytes, data.Gets, data.Read, counted.Log(), onWire, diskStats.Files)
		equal(t, c.statement+": files opened", len(opened), c.files)
		equal(t, c.statement+": files", stats.Files, c.files)
		// Of each file the end, and the columns with what lies between neighbours of them
		// where that is less than a request is worth; and the deletion vectors.
		bound := int64(0)
		days := map[string]bool{}
		for _, label := range c.days {
			for _, add := range labelFiles(t, bucket, label) {
				if add.DeletionVector != nil {
					bound += int64(add.DeletionVector.SizeInBytes) + 8
				}
				days[add.Path] = true
			}
		}
		for _, key := range opened {
			if !days[key] {
				t.Errorf("%s: %s is no file of those days", c.statement, key)
			}
			file, err := bucket.Get(ctx, key)
			if err != nil {
				t.Fatal(err)
			}
			f, err := parquet.OpenBytes(file)
			if err != nil {
				t.Fatal(err)
			}
			spans, ok := f.Spans(c.columns, func(int) bool { return true }, 0)
			if !ok {
				t.Fatal("a file of ours has a bloom filter")
			}
			bound += parquet.FooterGuess
			for i, s := range spans {
				bound += s.To - s.From
				if i > 0 {
					bound += min(s.From-spans[i-1].To, 128<<10)
				}
			}
		}
		if data.Read > bound {
			t.Errorf("%s: %d bytes were read, at most %d are needed", c.statement, data.Read, bound)
		}
		if data.Heads+data.Lists+data.Puts+data.ConditionalPuts > 0 {
			t.Errorf("%s: %s", c.statement, data)
		}
	}

	// The end by an interrupt: nothing goes on, nothing stays.
	dir := t.TempDir()
	ended, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = sql.Run(ended, "SELECT count(*) FROM wide a, wide b WHERE a.note > b.note", sql.Options{Tables: []sql.Table{sqlTable(t, bucket)}, TempDir: dir})
	if err == nil {
		t.Error("a cross join of millions was over at once")
	} else if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func snapshotOf(t *testing.T, store objstore.Store) *delta.Snapshot {
	t.Helper()
	table, err := delta.Open(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// labelFiles are the files of the version of a label.
func labelFiles(t *testing.T, store objstore.Store, label string) []*action.Add {
	t.Helper()
	table, err := delta.Open(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	newest, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m, err := savepoint.Read(ctx, table, newest)
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Resolve(label, true)
	if err != nil {
		t.Fatal(err)
	}
	at, err := table.SnapshotAt(ctx, r.Entry.Version)
	if err != nil {
		t.Fatal(err)
	}
	return at.Files()
}

// sqlTable is a store as the table wide.
func sqlTable(t *testing.T, store objstore.Store) sql.Table {
	return sql.Table{Names: []string{"wide"}, Open: func(ctx context.Context) (*sql.Source, error) {
		s := &sql.Source{Name: "wide", Store: store}
		var err error
		if s.Table, err = delta.Open(ctx, store); err != nil {
			return nil, err
		}
		if s.Newest, err = s.Table.Snapshot(ctx); err != nil {
			return nil, err
		}
		s.Labels, err = savepoint.Read(ctx, s.Table, s.Newest)
		return s, err
	}}
}

func runSQL(t *testing.T, store objstore.Store, statement string) (sql.Stats, []string) {
	t.Helper()
	rows, err := sql.Run(ctx, statement, sql.Options{Tables: []sql.Table{sqlTable(t, store)}, TempDir: t.TempDir()})
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer rows.Close()
	var list []string
	for row, err := range rows.All() {
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		list = append(list, fmt.Sprint(row))
	}
	return rows.Stats(), list
}
