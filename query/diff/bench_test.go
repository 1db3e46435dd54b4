package diff_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
	"github.com/gscd-io/gscd/query/diff"
)

// wideRows gives rows of a customer table: a key, numbers, texts of few and of many
// values, a time.
func wideRows(ids func(yield func(int64) bool), version int64) write.Source {
	return write.Rows(func(yield func([]schema.Value, error) bool) {
		row := make([]schema.Value, 8)
		ids(func(id int64) bool {
			mixed := (id*2654435761 + version*97) & 0x7fffffff
			row[0] = schema.IntValue(id)
			row[1] = schema.StringValue("city " + strconv.FormatInt(mixed%300, 10))
			row[2] = schema.StringValue("customer number " + strconv.FormatInt(id, 36))
			row[3] = schema.Value{Kind: schema.Dec, I: mixed % 1_000_000}
			row[4] = schema.DoubleValue(float64(mixed) / 7)
			row[5] = schema.IntValue(1_700_000_000_000_000 + mixed*1000)
			row[6] = schema.IntValue(mixed % 5)
			row[7] = schema.BoolValue(mixed%2 == 0)
			return yield(row, nil)
		})
	}, "id", "city", "name", "amount", "score", "at", "level", "active")
}

// twoDays makes a table of n rows and changes one of a hundred, found by which; it gives
// the versions before and after.
func twoDays(tb testing.TB, dir string, n int64, which func(id int64) bool) (table *delta.Table, before, after *delta.Snapshot) {
	tb.Helper()
	store, err := local.New(dir, local.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	table = delta.New(store)
	_, err = write.Create(ctx, table, write.Definition{
		Columns: []schema.Field{
			write.Column("id", schema.Of(schema.Long)), write.Column("city", schema.Of(schema.StringType)), write.Column("name", schema.Of(schema.StringType)),
			write.Column("amount", schema.Decimal(12, 2)), write.Column("score", schema.Of(schema.DoubleType)), write.Column("at", schema.Of(schema.Timestamp)),
			write.Column("level", schema.Of(schema.Integer)), write.Column("active", schema.Of(schema.Boolean)),
		},
		Properties: map[string]string{delta.PropertyDeletionVectors: "true"},
	}, wideRows(func(yield func(int64) bool) {
		for id := range n {
			if !yield(id) {
				return
			}
		}
	}, 0), write.WithTargetFileSize(32<<20))
	if err != nil {
		tb.Fatal(err)
	}
	if before, err = table.Snapshot(ctx); err != nil {
		tb.Fatal(err)
	}
	changed := wideRows(func(yield func(int64) bool) {
		for id := range n {
			if which(id) && !yield(id) {
				return
			}
		}
	}, 1)
	if _, err = write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}}, changed); err != nil {
		tb.Fatal(err)
	}
	if after, err = table.Snapshot(ctx); err != nil {
		tb.Fatal(err)
	}
	return table, before, after
}

// scattered takes one of a hundred ids, near to no other; recent the newest ones.
func scattered(int64) func(id int64) bool {
	random := rand.New(rand.NewPCG(1, 2))
	return func(int64) bool { return random.IntN(100) == 0 }
}

func recent(n int64) func(id int64) bool { return func(id int64) bool { return id >= n-n/100 } }

// join compares the versions in the plain way: all rows of both, by key.
func join(tb testing.TB, table *delta.Table, before, after *delta.Snapshot) (changes int) {
	rows := map[int64]string{}
	read := func(s *delta.Snapshot, each func(id int64, row string)) {
		reading, err := scan.New(table.Store(), s, scan.Options{})
		if err != nil {
			tb.Fatal(err)
		}
		var buf []byte
		for row, err := range reading.Rows(ctx) {
			if err != nil {
				tb.Fatal(err)
			}
			buf = buf[:0]
			for _, v := range row {
				buf = v.AppendEncoded(buf)
			}
			each(row[0].I, string(buf))
		}
	}
	read(before, func(id int64, row string) { rows[id] = row })
	read(after, func(id int64, row string) {
		if rows[id] != row {
			changes++
		}
		delete(rows, id)
	})
	return changes + len(rows)
}

// GSCD_BENCH_ROWS sets the size, GSCD_BENCH_DIR where the table stays, to compare other
// programs with.
func BenchmarkDiff(b *testing.B) {
	n := int64(300_000)
	if text := os.Getenv("GSCD_BENCH_ROWS"); text != "" {
		var err error
		if n, err = strconv.ParseInt(text, 10, 64); err != nil {
			b.Fatal(err)
		}
	}
	for name, pick := range map[string]func(n int64) func(int64) bool{"scattered": scattered, "recent": recent} {
		b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
			dir := b.TempDir()
			if kept := os.Getenv("GSCD_BENCH_DIR"); kept != "" {
				dir = kept + "/" + name
			}
			table, before, after := twoDays(b, dir, n, pick(n))
			begin := time.Now()
			want := join(b, table, before, after)
			whole := time.Since(begin)
			for b.Loop() {
				d, err := diff.New(table.Store(), before, after, diff.Options{Key: []string{"id"}})
				if err != nil {
					b.Fatal(err)
				}
				got := 0
				for _, err := range d.Changes(ctx) {
					if err != nil {
						b.Fatal(err)
					}
					got++
				}
				if got != want {
					b.Fatalf("%d changes, a join finds %d", got, want)
				}
			}
			b.ReportMetric(whole.Seconds()/(b.Elapsed().Seconds()/float64(b.N)), "times-faster")
			b.ReportMetric(whole.Seconds()*1e3, "ms/join")
		})
	}
}
