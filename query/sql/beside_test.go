//go:build cgo && linux

package sql_test

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gscd-io/gscd/bench"
	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/query/export"
	"github.com/gscd-io/gscd/query/sql"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

var (
	readRows  = flag.Int64("read.rows", 20_000, "rows of the table that is read beside DuckDB on plain Parquet")
	readDays  = flag.Int64("read.days", 3, "days of changes, a row in a hundred each")
	readTimes = flag.Int("read.times", 1, "how often each is read; the median counts")
)

// TestReadBesideDuckDB reads days of a table, of which one row in a hundred changes a day,
// by SQL, and the same rows as plain Parquet with DuckDB alone: every column, and one key.
// The answers are the same; how long each takes is logged. The proof is
// -read.rows=10000000 -read.days=365 -read.times=5.
func TestReadBesideDuckDB(t *testing.T) {
	dir := t.TempDir()
	store, err := local.New(filepath.Join(dir, "orders"), local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := bench.MakeTable(ctx, store, utcDays(t), *readRows); err != nil {
		t.Fatal(err)
	}
	changeDays(t, store)
	table, err := delta.Open(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	newest, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	labels, err := savepoint.Read(ctx, table, newest)
	if err != nil {
		t.Fatal(err)
	}
	var sealed []savepoint.Entry
	for _, e := range labels.Entries {
		if e.State == savepoint.Sealed {
			sealed = append(sealed, e)
		}
	}
	if len(sealed) != int(*readDays) {
		t.Fatalf("%d sealed days, want %d", len(sealed), *readDays)
	}
	plain, err := sql.NewReference()
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if err := plain.Exec(fmt.Sprintf("SET threads = %d; SET enable_geoparquet_conversion = false", runtime.NumCPU())); err != nil {
		t.Fatal(err)
	}
	for _, e := range slices.Compact([]savepoint.Entry{sealed[0], sealed[len(sealed)-1]}) {
		at, err := table.SnapshotAt(ctx, e.Version)
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join(dir, e.Name)
		writePlain(t, store, at, folder)
		source := sql.Table{Names: []string{"t"}, Open: func(context.Context) (*sql.Source, error) {
			return &sql.Source{Name: "orders", Store: store, Table: table, Newest: newest, Labels: labels, Fixed: at, FixedLabel: e.Name}, nil
		}}
		hidden := int64(0)
		for _, add := range at.Files() {
			if add.DeletionVector != nil {
				hidden += add.DeletionVector.Cardinality
			}
		}
		t.Logf("%s: %d files, %d deleted rows beside %d", e.Name, at.NumFiles(), hidden, *readRows)
		var all []string
		for _, f := range newest.Schema().Fields {
			n := f.Name
			all = append(all, fmt.Sprintf("count(%[1]s), max(%[1]s)", n))
		}
		for _, q := range [][2]string{
			{"all columns", "SELECT " + strings.Join(all, ", ") + " FROM %s"},
			{"two columns", "SELECT city, sum(amount) FROM %s GROUP BY city ORDER BY city"},
			{"one key", fmt.Sprintf("SELECT * EXCLUDE (dt) FROM %%s WHERE id = %d", *readRows/3)},
		} {
			what, query := q[0], q[1]
			var ours, theirs, oursCPU, theirsCPU []time.Duration
			for range *readTimes { // side by side, for what else runs
				began, used := time.Now(), cpuTime(t)
				got := answerOf(t, source, fmt.Sprintf(query, "t"))
				ours, oursCPU = append(ours, time.Since(began)), append(oursCPU, cpuTime(t)-used)
				began, used = time.Now(), cpuTime(t)
				fields, rows, err := plain.Query(strings.Replace(fmt.Sprintf(query, "read_parquet('"+folder+"/*.parquet')"), " EXCLUDE (dt)", "", 1))
				theirs, theirsCPU = append(theirs, time.Since(began)), append(theirsCPU, cpuTime(t)-used)
				if err != nil {
					t.Fatal(err)
				}
				want := linesOf(t, fields, slices.Values(rows))
				if got != want || got == "" {
					t.Fatalf("%s, %s: got\n%s\nwant\n%s", e.Name, what, got, want)
				}
			}
			a, b := median(ours), median(theirs)
			t.Logf("%s, %-11s: %8s, plain Parquet %8s, %.2fx; of the processors %8s and %8s, %.2fx", e.Name, what, a.Round(100*time.Microsecond), b.Round(100*time.Microsecond), float64(a)/float64(b),
				median(oursCPU).Round(100*time.Microsecond), median(theirsCPU).Round(100*time.Microsecond), float64(median(oursCPU))/float64(max(median(theirsCPU), 1)))
		}
	}
}

// cpuTime is what the process has used of the processors: it depends less on what else runs.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// changeDays ingests the days of changes.
func changeDays(t *testing.T, store objstore.Store) {
	t.Helper()
	perDay := max(1, *readRows/100)
	rng := rand.New(rand.NewPCG(7, 7))
	w := bench.NewWorkload(0)
	const dayMillis = 24 * 60 * 60 * 1000
	first := time.Date(2022, 7, 16, 0, 0, 0, 0, time.UTC).UnixMilli()
	src := &bench.Stream{N: perDay * *readDays}
	src.Make = func(offset int64) *change.Record {
		at := first + offset/perDay*dayMillis + 20*60*1000 + offset%perDay*(dayMillis-30*60*1000)/perDay
		return w.Update(offset, 1+rng.Int64N(*readRows), at)
	}
	lane, err := ingest.New(ingest.Options{
		Name: "orders", Store: store, Calendar: utcDays(t), Key: []string{"id"}, UntilEnd: true, Columns: bench.Columns(),
		BatchRows: int(max(1, perDay/4)), Decode: decode.Options{KeyColumns: []string{"id"}},
		Now: func() time.Time { return time.UnixMilli(first + *readDays*dayMillis + 60*60*1000) },
	}, src)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := lane.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d days, %d changes in %s", *readDays, src.N, time.Since(began).Round(time.Millisecond))
}

// writePlain writes the rows of a version as Parquet files without deleted rows.
func writePlain(t *testing.T, store objstore.Store, at *delta.Snapshot, folder string) {
	t.Helper()
	to, err := local.New(folder, local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	reading, err := scan.New(store, at, scan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := export.Options{Format: "parquet", PartBytes: 64 << 20}
	if _, err := export.Write(context.Background(), to, o, reading.Columns(), reading.Rows(context.Background())); err != nil {
		t.Fatal(err)
	}
}

// answerOf gives the answer of gscd, a line a row.
func answerOf(t *testing.T, table sql.Table, statement string) string {
	t.Helper()
	rows, err := sql.Run(context.Background(), statement, sql.Options{Tables: []sql.Table{table}})
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	return linesOf(t, rows.Columns(), func(yield func([]schema.Value) bool) {
		for row, err := range rows.All() {
			if err != nil {
				t.Fatal(err)
			}
			if !yield(row) {
				return
			}
		}
	})
}

func linesOf(t *testing.T, fields []schema.Field, rows iter.Seq[[]schema.Value]) string {
	t.Helper()
	var b strings.Builder
	for row := range rows {
		for i, v := range row {
			if v.IsNull() {
				b.WriteString("NULL,")
				continue
			}
			b.Write(append(schema.AppendText(nil, fields[i].Type, v), ','))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func utcDays(t *testing.T) *snapshotter.Calendar {
	t.Helper()
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	return cal
}
