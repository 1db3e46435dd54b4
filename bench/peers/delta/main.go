// Command delta does one measure of the Delta library on tables below a folder, and
// prints its seconds, its peak memory and what it found. bench/peers/delta_peers.py does
// the same with delta-rs and DuckDB; bench/peers/delta.sh runs them in turn.
//
//	delta MEASURE DIR
package main

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

var ctx = context.Background()

func main() {
	if len(os.Args) != 3 || measures[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: delta MEASURE DIR")
		os.Exit(2)
	}
	m := &measure{name: os.Args[1], dir: os.Args[2]}
	found, err := measures[m.name](m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "delta:", m.name+":", err)
		os.Exit(1)
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		fmt.Fprintln(os.Stderr, "delta:", err)
		os.Exit(1)
	}
	fmt.Printf("gscd %s %.3f s, %d MiB at most, %v\n", m.name, m.took.Seconds(), usage.Maxrss/1024, found)
}

// measure is a measure under way: what is before start is no part of it.
type measure struct {
	name, dir string
	began     time.Time
	took      time.Duration
}

func (m *measure) start() { m.began = time.Now() }
func (m *measure) stop()  { m.took = time.Since(m.began) }

func (m *measure) table(name string) (*delta.Table, error) {
	dir := filepath.Join(m.dir, name)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	store, err := local.New(dir, local.Options{})
	if err != nil {
		return nil, err
	}
	return delta.New(store), nil
}

func (m *measure) snapshot(name string) (*delta.Table, *delta.Snapshot, error) {
	table, err := m.table(name)
	if err != nil {
		return nil, nil, err
	}
	s, err := table.Snapshot(ctx)
	return table, s, err
}

var measures = map[string]func(*measure) (any, error){
	"make-log":      func(m *measure) (any, error) { return nil, makeLog(m, "log", 1000, 100) },
	"make-large":    func(m *measure) (any, error) { return nil, makeLog(m, "large", 100, 10_000) },
	"open-log":      func(m *measure) (any, error) { return open(m, "log") },
	"open-large":    func(m *measure) (any, error) { return open(m, "large") },
	"prune":         prune,
	"checkpoint":    checkpoint,
	"append":        func(m *measure) (any, error) { return fill(m, "rows", 1_000_000, 1) },
	"append-rows":   func(m *measure) (any, error) { return fill(m, "by-rows", 1_000_000, 1) },
	"fill-peer":     func(m *measure) (any, error) { return fill(m, "peer", 1_000_000, 1) },
	"fill-ten":      func(m *measure) (any, error) { return fill(m, "ten", 10_000_000, 10) },
	"fill-ten-peer": func(m *measure) (any, error) { return fill(m, "ten-peer", 10_000_000, 10) },
	"fill-small":    func(m *measure) (any, error) { return fill(m, "small", 1_000_000, 1000) },
	"delete":        remove,
	"merge":         func(m *measure) (any, error) { return merge(m, "rows", 1_000_000) },
	"merge-ten":     func(m *measure) (any, error) { return merge(m, "ten", 10_000_000) },
	"optimize":      func(m *measure) (any, error) { return optimize(m, "small", layout.Options{}) },
	"zorder": func(m *measure) (any, error) {
		return optimize(m, "ten", layout.Options{OrderBy: []string{"bucket", "amount"}, TargetSize: 8 << 20})
	},
}

// makeLog writes the log of a table whose files nobody opens.
func makeLog(m *measure, name string, commits, files int) error {
	dir := filepath.Join(m.dir, name, "_delta_log")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for v := range commits {
		var b bytes.Buffer
		fmt.Fprintf(&b, `{"commitInfo":{"timestamp":%d,"operation":"WRITE","operationParameters":{"mode":"Append"},"engineInfo":"bench"}}`+"\n", 1700000000000+v)
		if v == 0 {
			b.WriteString(`{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}` + "\n")
			b.WriteString(`{"metaData":{"id":"6f1d1c0e-5a60-4c3e-9f1e-0d6a3b1c2d3e","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"name\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}},{\"name\":\"amount\",\"type\":\"double\",\"nullable\":true,\"metadata\":{}}]}","partitionColumns":[],"configuration":{},"createdTime":1700000000000}}` + "\n")
		}
		for f := range files {
			n := v*files + f
			fmt.Fprintf(&b, `{"add":{"path":"part-%05d-%08d-0000-4000-8000-000000000000-c000.snappy.parquet","partitionValues":{},"size":%d,"modificationTime":%d,"dataChange":true,"stats":"{\"numRecords\":1000,\"minValues\":{\"id\":%d,\"name\":\"aaaa%08d\",\"amount\":0.5},\"maxValues\":{\"id\":%d,\"name\":\"zzzz%08d\",\"amount\":%d.25},\"nullCount\":{\"id\":0,\"name\":3,\"amount\":0}}"}}`+"\n",
				f, n, 1_000_000+n, 1700000000000+v, n*1000, n, n*1000+999, n, n)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%020d.json", v)), b.Bytes(), 0o666); err != nil {
			return err
		}
	}
	return nil
}

func open(m *measure, name string) (any, error) {
	table, err := m.table(name)
	if err != nil {
		return nil, err
	}
	m.start()
	s, err := table.Snapshot(ctx)
	m.stop()
	if err != nil {
		return nil, err
	}
	return s.NumFiles(), nil
}

func prune(m *measure) (any, error) {
	_, s, err := m.snapshot("log")
	if err != nil {
		return nil, err
	}
	m.start()
	where, err := expr.Parse("id BETWEEN 50000000 AND 50999999", s.Schema())
	if err != nil {
		return nil, err
	}
	left := 0
	for _, f := range s.Files() {
		if !scan.CanSkipFile(f, s.Schema(), where) {
			left++
		}
	}
	m.stop()
	return left, nil
}

func checkpoint(m *measure) (any, error) {
	table, s, err := m.snapshot("large")
	if err != nil {
		return nil, err
	}
	m.start()
	_, err = table.Checkpoint(ctx, s, delta.CheckpointOptions{})
	m.stop()
	return s.NumFiles(), err
}

var columns = []schema.Field{
	write.Column("id", schema.Of(schema.Long)), write.Column("bucket", schema.Of(schema.Long)),
	write.Column("city", schema.Of(schema.StringType)), write.Column("amount", schema.Of(schema.Long)),
	write.Column("price", schema.Of(schema.DoubleType)), write.Column("note", schema.Of(schema.StringType)),
}

var cities = []string{"Beijing", "Hangzhou", "Wuhan", "Shanghai", "Chengdu", "Nanjing", "Xi'an", "Suzhou"}

// rows are those of the keys from to to, every step-th, as delta_peers.py has them.
func rows(from, to, step, version int64) iter.Seq2[[]schema.Value, error] {
	return func(yield func([]schema.Value, error) bool) {
		row := make([]schema.Value, len(columns))
		for i := from; i < to; i += step {
			row[0], row[1] = schema.IntValue(i), schema.IntValue(i*7919%100)
			row[2], row[3] = schema.StringValue(cities[i%8]), schema.IntValue((i*104729+version)%1_000_000)
			row[4], row[5] = schema.DoubleValue(float64(i%1000)+0.25), schema.StringValue(fmt.Sprint("customer ", i%5000))
			if !yield(row, nil) {
				return
			}
		}
	}
}

// batches are the first n rows, by columns.
func batches(n int64) (list []*scan.Batch) {
	const size = 4096
	for row := range rows(0, n, 1, 0) {
		if len(list) == 0 || list[len(list)-1].Rows == size {
			b := &scan.Batch{Columns: make([][]schema.Value, len(columns))}
			for c := range b.Columns {
				b.Columns[c] = make([]schema.Value, 0, size)
			}
			list = append(list, b)
		}
		b := list[len(list)-1]
		for c, v := range row {
			b.Columns[c] = append(b.Columns[c], v)
		}
		b.Rows++
	}
	return list
}

// fill makes a table and appends so many rows to it in so many commits.
func fill(m *measure, name string, n int64, commits int64) (any, error) {
	table, err := m.table(name)
	if err != nil {
		return nil, err
	}
	properties := map[string]string{}
	if name == "rows" || name == "ten" {
		properties[delta.PropertyDeletionVectors] = "true"
	}
	if _, err := write.Create(ctx, table, write.Definition{Columns: columns, Properties: properties}, write.Source{}); err != nil {
		return nil, err
	}
	source := func(c int64) write.Source { return write.Rows(rows(c*n/commits, (c+1)*n/commits, 1, 0)) }
	if name == "rows" { // by columns that are there, as delta-rs gets an Arrow table
		made := batches(n)
		source = func(int64) write.Source {
			return write.Batches(func(yield func(*scan.Batch, error) bool) {
				for _, b := range made {
					if !yield(b, nil) {
						return
					}
				}
			})
		}
	}
	m.start()
	for c := range commits {
		if _, err := write.Append(ctx, table, source(c)); err != nil {
			return nil, err
		}
	}
	m.stop()
	return n, nil
}

func remove(m *measure) (any, error) {
	table, err := m.table("rows")
	if err != nil {
		return nil, err
	}
	m.start()
	r, err := write.Delete(ctx, table, "bucket = 7")
	m.stop()
	return fmt.Sprint(r.Deleted, " deleted"), err
}

// merge brings 10,000 rows by key, half of them new.
func merge(m *measure, name string, n int64) (any, error) {
	table, err := m.table(name)
	if err != nil {
		return nil, err
	}
	m.start()
	r, err := write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}}, write.Rows(rows(n/2, n/2+n, n/10_000, 1)))
	m.stop()
	return fmt.Sprint(r.Updated, " updated, ", r.Inserted, " inserted"), err
}

func optimize(m *measure, name string, o layout.Options) (any, error) {
	table, err := m.table(name)
	if err != nil {
		return nil, err
	}
	m.start()
	r, err := layout.Optimize(ctx, table, o)
	m.stop()
	if err != nil {
		return nil, err
	}
	where, err := expr.Parse("bucket = 50 AND amount < 10000", r.Snapshot.Schema())
	if err != nil {
		return nil, err
	}
	files := r.Snapshot.Files()
	opened := 0
	for _, f := range files {
		if !scan.CanSkipFile(f, r.Snapshot.Schema(), where) {
			opened++
		}
	}
	return fmt.Sprintf("%d files replaced by %d; %d of %d opened for a filter", r.FilesRemoved, r.FilesAdded, opened, len(files)), nil
}
