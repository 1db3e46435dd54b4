package integration

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/ingest/recording"
	"github.com/gscd-io/gscd/savepoint"
)

// sqlColumns reads the column types of a CREATE TABLE of the recordings' SQL.
func sqlColumns(t testing.TB, file, table string) map[string]decode.ColumnSpec {
	t.Helper()
	raw := string(readFile(t, sharedFile(t, "cdc/recorded/sql/"+file)))
	_, ddl, ok := strings.Cut(raw, "CREATE TABLE "+table+" (")
	if !ok {
		t.Fatalf("no %s in %s", table, file)
	}
	ddl, _, _ = strings.Cut(ddl, "ENGINE")
	column := regexp.MustCompile(`(?m)^\s+(\w+)\s+([A-Z]+(?:\([^)]*\))?(?: UNSIGNED)?)`)
	specs := map[string]decode.ColumnSpec{}
	for _, m := range column.FindAllStringSubmatch(ddl, -1) {
		if m[1] == "PRIMARY" {
			continue
		}
		spec, err := decode.ParseColumnType(m[2])
		if err != nil {
			t.Fatal(err)
		}
		specs[m[1]] = spec
	}
	return specs
}

// recordedStream is a recording with a state for the end of each day.
type recordedStream struct {
	name, table string // of the SQL and of the expected CSV
	files       []string
	key         []string
	columns     map[string]decode.ColumnSpec
	ddl         string // the file of the connector's DDL topic
}

func recordedStreams(t testing.TB) []recordedStream {
	return []recordedStream{
		{"s1.orders", "orders", []string{"s1.shop.orders.jsonl"}, []string{"id"}, sqlColumns(t, "00-schema.sql", "shop.orders"), ""},
		{"s1.stock", "stock", []string{"s1.shop.stock.jsonl"}, []string{"warehouse", "sku"}, sqlColumns(t, "00-schema.sql", "shop.stock"), ""},
		{"s3.stock", "stock", []string{"s3.shop.stock.p0.jsonl", "s3.shop.stock.p1.jsonl", "s3.shop.stock.p2.jsonl"}, []string{"warehouse", "sku"}, nil, ""},
		{"s1.orders by its DDL", "orders", []string{"s1.shop.orders.jsonl"}, []string{"id"}, nil, "s1.jsonl"},
	}
}

// options are those of the table that the stream fills.
func (s recordedStream) options(t testing.TB) func(*ingest.Options) {
	return func(o *ingest.Options) {
		o.Calendar, o.Key = calendar(t, "day", "UTC"), s.key
		o.Decode = decode.Options{Columns: s.columns, KeyColumns: s.key}
		if s.ddl != "" {
			o.SchemaTopic = &ingest.SchemaTopic{Topic: "s1", Open: func(context.Context) (ingest.Source, io.Closer, error) {
				r, err := recording.Open([]string{sharedFile(t, "cdc/recorded/"+s.ddl)}, recording.Options{})
				return r, r, err
			}}
		}
		if s.columns == nil {
			return
		}
		o.Decode.Debezium = decode.Debezium{Decimals: "base64", Unsigned: "long", Binary: "base64"}
		o.Columns = map[string]schema.Type{}
		for name, spec := range s.columns {
			o.Columns[name] = spec.Type
		}
	}
}

func (s recordedStream) paths(t testing.TB) (paths []string) {
	for _, name := range s.files {
		paths = append(paths, sharedFile(t, "cdc/recorded/"+name))
	}
	return paths
}

// recordedLine is a line of a recording with its place in the binlog. A
// tombstone has the place of the delete before it.
type recordedLine struct {
	line      []byte
	partition int32
	offset    int64
	file      string
	pos, row  int64
	time      time.Time
}

func (s recordedStream) lines(t testing.TB) (out []recordedLine) {
	t.Helper()
	type source struct {
		File     string
		Pos, Row int64
		TS       int64 `json:"ts_ms"`
	}
	for _, path := range s.paths(t) {
		var last recordedLine
		for _, line := range linesOf(t, path) {
			var r struct {
				Partition int32
				Offset    int64
				Payload   *string
			}
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatal(err)
			}
			l := recordedLine{line: line, partition: r.Partition, offset: r.Offset, file: last.file, pos: last.pos, row: last.row, time: last.time}
			if r.Payload != nil {
				var v struct {
					Source  *source
					Payload struct{ Source *source }
				}
				if err := json.Unmarshal([]byte(*r.Payload), &v); err != nil {
					t.Fatal(err)
				}
				from := cmp.Or(v.Source, v.Payload.Source)
				l.file, l.pos, l.row, l.time = from.File, from.Pos, from.Row, time.UnixMilli(from.TS)
			}
			out, last = append(out, l), l
		}
	}
	return out
}

// asWritten orders lines as the source wrote them.
func asWritten(lines []recordedLine) []recordedLine {
	out := slices.Clone(lines)
	slices.SortStableFunc(out, func(a, b recordedLine) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.pos, b.pos), cmp.Compare(a.row, b.row))
	})
	return out
}

// writeLines writes a recording of raw lines, in order of partition and offset.
func writeLines(t testing.TB, lines []recordedLine) string {
	t.Helper()
	lines = slices.Clone(lines)
	slices.SortFunc(lines, func(a, b recordedLine) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.offset, b.offset))
	})
	var text []byte
	for _, l := range lines {
		text = append(append(text, l.line...), '\n')
	}
	path := filepath.Join(t.TempDir(), "recording.jsonl")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// recordedEnd is the clock at which the recordings are to be replayed.
var recordedEnd = time.Date(2022, 7, 18, 12, 0, 0, 0, time.UTC)

var recordedDays = []string{"2022-07-15", "2022-07-16", "2022-07-17"}

// readOn goes on with a longer recording, as a new process.
func (r *rig) readOn(t testing.TB, clock time.Time, paths ...string) {
	t.Helper()
	r.source, r.clock = openRecording(t, paths...), clock
	r.restart()
	r.mustWork()
}

// checkDays holds the sealed days and the open one against what the server had.
// The stream ends with a change of 18 July: its state so far is the "partial" one.
func (s recordedStream) checkDays(t testing.TB, r *rig) {
	t.Helper()
	sameList(t, "sealed", r.sealed(), recordedDays)
	for _, e := range r.labels().Entries {
		switch e.State {
		case savepoint.Sealed:
			s.checkTable(t, e.Name+"/"+s.table+".csv", r.typedRows(e.Version))
		case savepoint.Open:
			equal(t, "the open day", e.Name, "2022-07-18")
			s.checkTable(t, "2022-07-18-partial/"+s.table+".csv", r.typedRows(e.Version))
		}
	}
	for _, d := range r.deadLetters() {
		t.Errorf("dead letter: partition %d offset %d: %s: %s", d.Partition, d.Offset, d.Reason, d.Detail)
	}
	r.checkVersions(false)
}

// checkTable compares rows with a table as the server printed it. Columns that
// it does not have must be NULL.
func (s recordedStream) checkTable(t testing.TB, name string, got []map[string]typed) {
	t.Helper()
	all, err := csv.NewReader(strings.NewReader(string(readFile(t, sharedFile(t, "cdc/recorded/expected/"+name))))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	header, want := all[0], all[1:]
	if len(got) != len(want) {
		t.Errorf("%s: %d rows, want %d", name, len(got), len(want))
	}
	for _, cells := range want {
		w := map[string]string{}
		for i, column := range header {
			w[column] = cells[i]
		}
		at := slices.IndexFunc(got, func(row map[string]typed) bool {
			return !slices.ContainsFunc(s.key, func(k string) bool { return !row[k].isText(w[k]) })
		})
		if at < 0 {
			t.Errorf("%s: no row %v", name, w)
			continue
		}
		for column, text := range w {
			if g, there := got[at][column]; !there || !g.isText(text) {
				t.Errorf("%s: %s, column %s: %s %s (there: %v), want %s", name, w[s.key[0]], column, g.t, g, there, text)
			}
		}
		for column, g := range got[at] {
			if _, there := w[column]; !there && !g.v.IsNull() {
				t.Errorf("%s: %s, column %s: %s, which the server does not have", name, w[s.key[0]], column, g)
			}
		}
	}
}

// isText compares a cell with what the server printed.
func (c typed) isText(want string) bool {
	if c.v.IsNull() || want == `\N` {
		return c.v.IsNull() && want == `\N`
	}
	hex, isHex := strings.CutPrefix(want, "0x")
	switch c.v.Kind {
	case schema.Float, schema.Double, schema.Dec:
		return c.isNumber(want)
	case schema.Bool:
		return isHex && hex == map[bool]string{false: "00", true: "01"}[c.v.I == 1]
	case schema.Binary:
		return c.String() == want
	case schema.String:
		return c.v.S == want
	}
	if isHex {
		n, ok := new(big.Int).SetString(hex, 16)
		return ok && n.Int64() == c.v.I
	}
	if strings.Contains(want, ".") {
		want = strings.TrimRight(strings.TrimRight(want, "0"), ".")
	}
	switch {
	case c.t.Primitive == schema.Timestamp:
		want = strings.Replace(want, " ", "T", 1) + "Z"
	case c.t.Primitive == schema.Long && strings.Contains(want, ":"):
		return clockText(c.v.I) == want
	}
	return c.String() == want
}

// TestRecordedDays replays what a connector recorded over three days, in many
// ways; the rows at the end of each day are the server's in all of them.
func TestRecordedDays(t *testing.T) {
	for _, s := range recordedStreams(t) {
		fresh := func(t *testing.T, change ...func(*ingest.Options)) *rig {
			return rigOn(t, mem.New(), mem.New(), nil, append([]func(*ingest.Options){s.options(t)}, change...)...)
		}
		for _, size := range []struct{ rows, poll int }{{0, 0}, {1, 1}, {7, 5}, {50, 200}} {
			t.Run(fmt.Sprintf("%s/batches of %d polled by %d", s.name, size.rows, size.poll), func(t *testing.T) {
				t.Parallel()
				r := fresh(t, func(o *ingest.Options) {
					o.BatchRows, o.PollRecords, o.CopyOnWrite = size.rows, size.poll, size.rows == 7
				})
				r.readOn(t, recordedEnd, s.paths(t)...)
				s.checkDays(t, r)
			})
		}
		lines := s.lines(t)
		written := asWritten(lines)
		t.Run(s.name+"/in three pieces", func(t *testing.T) {
			t.Parallel()
			r := fresh(t)
			for third := 1; third <= 2; third++ {
				piece := written[:len(written)*third/3]
				r.readOn(t, piece[len(piece)-1].time.Add(time.Second), writeLines(t, piece))
			}
			if n := len(r.log()); n < 3 {
				t.Errorf("only %d versions before the last piece", n)
			}
			r.readOn(t, recordedEnd, s.paths(t)...)
			s.checkDays(t, r)
		})
		t.Run(s.name+"/one partition far ahead", func(t *testing.T) {
			t.Parallel()
			// The first piece has partition 0 whole, the others begun; what is held
			// waits through a restart.
			r := fresh(t)
			var piece []recordedLine
			for _, l := range lines {
				if l.partition == 0 || l.offset < 3 {
					piece = append(piece, l)
				}
			}
			r.readOn(t, time.Date(2022, 7, 15, 23, 0, 0, 0, time.UTC), writeLines(t, piece))
			sameList(t, "sealed", r.sealed(), nil)
			r.readOn(t, recordedEnd, s.paths(t)...)
			s.checkDays(t, r)
		})
		t.Run(s.name+"/with a rollback to the first day in the middle", func(t *testing.T) {
			t.Parallel()
			r := fresh(t, func(o *ingest.Options) { o.BatchRows = 20 })
			// As far as the source was on the 17th at noon.
			noon := time.Date(2022, 7, 17, 12, 0, 0, 0, time.UTC)
			cut := slices.IndexFunc(written, func(l recordedLine) bool { return l.time.After(noon) })
			r.readOn(t, noon, writeLines(t, written[:cut]))
			sameList(t, "sealed", r.sealed(), recordedDays[:2])
			plan := r.rollback(recordedDays[0])
			sameList(t, "rolled back", plan.Labels, recordedDays[1:])
			s.checkTable(t, recordedDays[0]+"/"+s.table+".csv", r.typedRows(plan.Committed))
			r.readOn(t, recordedEnd, s.paths(t)...)
			s.checkDays(t, r)
			// And once more, after everything was read.
			r.rollback(recordedDays[0])
			r.readOn(t, recordedEnd, s.paths(t)...)
			s.checkDays(t, r)
		})
		if s.name != "s1.orders" {
			continue // one stream is enough
		}
		t.Run(s.name+"/killed after every third write", func(t *testing.T) {
			t.Parallel()
			for k := int64(0); ; k += 3 {
				r := fresh(t)
				r.source, r.clock = openRecording(t, s.paths(t)...), recordedEnd
				r.killAfter(k)
				err := r.work()
				if err == nil {
					break
				}
				r.store.hooks(nil, nil)
				r.dead.hooks(nil, nil)
				r.readOn(t, recordedEnd, s.paths(t)...)
				if s.checkDays(t, r); t.Failed() {
					t.Fatalf("killed after %d writes", k)
				}
			}
		})
	}
}

// TestRecordedTypes replays about forty types with a load, DDL and a TRUNCATE.
// The load is stamped with the time of the recording, so everything counts in
// that day, which stays open.
func TestRecordedTypes(t *testing.T) {
	unsigned, err := decode.ParseColumnType("bigint unsigned") // what the records' schema can't tell
	if err != nil {
		t.Fatal(err)
	}
	s := recordedStream{name: "t1.alltypes", table: "alltypes", files: []string{"t1.zoo.alltypes.jsonl"}, key: []string{"id"}}
	for _, size := range []int{0, 1, 4} {
		t.Run(fmt.Sprint("batches of ", size), func(t *testing.T) {
			t.Parallel()
			source := openRecording(t, s.paths(t)...)
			r := rigOn(t, mem.New(), mem.New(), source, s.options(t), func(o *ingest.Options) {
				o.BatchRows, o.PollRecords = size, size
				o.Decode.Columns = map[string]decode.ColumnSpec{"C_UBIG": unsigned}
				o.Columns = map[string]schema.Type{"c_ubig": unsigned.Type}
			})
			r.clock = time.UnixMilli(source.MaxBrokerTimestamp())
			r.mustWork()
			resolved, err := r.labels().Resolve("2026-11-29", false)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "state of the day", resolved.Entry.State, savepoint.Open)
			equal(t, "labels", len(r.labels().Entries), 1)
			s.checkTable(t, "2022-07-16-types-end/alltypes.csv", r.typedRows(resolved.Entry.Version))
			// A column keeps the type that it was made with: after MODIFY c_med
			// BIGINT one value does not fit it. TRUNCATE takes its row away.
			dead := r.deadLetters()
			if len(dead) != 1 || dead[0].Reason != "value" || dead[0].Column != "c_med" || !strings.Contains(string(dead[0].Value), `"c_med":9000000000`) {
				t.Errorf("dead letters %+v", dead)
			}
			equal(t, "missing fates", r.progress().Totals.Missing(), 0)
		})
	}
}
