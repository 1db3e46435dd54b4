// Command workload writes the same changes for gscd and for its peers: a table of gscd
// with so many rows, the rows as Parquet, a recorded topic of the changes, and the same
// changes as one Parquet file a batch. bench/peers/run measures on them.
//
//	workload DIR ROWS BATCH BATCHES
//
// Below DIR: gscd/ (the table), base/ (its rows), events.jsonl, batches/NNNNN.parquet
// (columns of the row and op: c, u or d; of a key that a batch changes more than once
// its last change only, as MERGE allows one), final.parquet (the last change of each
// key that changed, from which the rows that must come out follow).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gscd-io/gscd/bench"
	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/recording"
	"github.com/gscd-io/gscd/snapshotter"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: workload DIR ROWS BATCH BATCHES")
		os.Exit(2)
	}
	var n [3]int64
	for i, text := range os.Args[2:] {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v <= 0 {
			fmt.Fprintf(os.Stderr, "workload: %s: give a number above 0\n", text)
			os.Exit(2)
		}
		n[i] = v
	}
	if err := run(context.Background(), os.Args[1], n[0], int(n[1]), int(n[2])); err != nil {
		fmt.Fprintln(os.Stderr, "workload:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, rows int64, batch, batches int) error {
	for _, name := range []string{"base", "batches"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o777); err != nil {
			return err
		}
	}
	fields, err := makeTable(ctx, dir, rows)
	if err != nil {
		return err
	}
	return writeChanges(dir, fields, bench.NewWorkload(rows), batch, batches)
}

// makeTable makes gscd's table, and writes its rows as Parquet; it gives the columns.
func makeTable(ctx context.Context, dir string, rows int64) ([]schema.Field, error) {
	store, err := local.New(filepath.Join(dir, "gscd"), local.Options{NoSync: true})
	if err != nil {
		return nil, err
	}
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		return nil, err
	}
	if err := bench.MakeTable(ctx, store, cal, rows); err != nil {
		return nil, err
	}
	table, err := delta.Open(ctx, store)
	if err != nil {
		return nil, err
	}
	snap, err := table.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	fields := snap.Schema().Fields
	reading, err := scan.New(store, snap, scan.Options{})
	if err != nil {
		return nil, err
	}
	out, err := create(filepath.Join(dir, "base", "00000.parquet"), fields)
	if err != nil {
		return nil, err
	}
	for b, err := range reading.Batches(ctx) {
		if err != nil {
			return nil, err
		}
		list := make([][]schema.Value, b.Rows)
		for i := range list {
			list[i] = make([]schema.Value, len(fields))
			for c := range fields {
				list[i][c] = b.Columns[c][i]
			}
		}
		if err := out.Append(list); err != nil {
			return nil, err
		}
	}
	return fields, out.close()
}

// writeChanges writes the changes in their three forms.
func writeChanges(dir string, fields []schema.Field, w *bench.Workload, batch, batches int) error {
	f, err := os.Create(filepath.Join(dir, "events.jsonl"))
	if err != nil {
		return err
	}
	topic := recording.NewWriter(f, recording.Readable)
	with := append(slices.Clone(fields), schema.Field{Name: "op", Type: schema.Of(schema.StringType), Nullable: true})
	last := newFold()
	for n := range batches {
		here := newFold()
		for range batch {
			r := w.Next()
			if err := topic.Write(r); err != nil {
				return err
			}
			id, row, err := parse(r.Value, fields)
			if err != nil {
				return fmt.Errorf("event %d: %w", r.Offset, err)
			}
			here.put(id, row)
			last.put(id, row)
		}
		if err := here.write(filepath.Join(dir, "batches", fmt.Sprintf("%05d.parquet", n)), with); err != nil {
			return err
		}
	}
	if err := errors.Join(topic.Flush(), f.Close()); err != nil {
		return err
	}
	return last.write(filepath.Join(dir, "final.parquet"), with)
}

// parse gives the key and the row of a Debezium envelope, op behind it. Of a delete
// the row is the one before.
func parse(value []byte, fields []schema.Field) (id int64, row []schema.Value, err error) {
	var e struct {
		Before, After map[string]any
		Op            string
	}
	if err := json.Unmarshal(value, &e); err != nil {
		return 0, nil, err
	}
	image := e.After
	if e.Op == "d" {
		image = e.Before
	}
	row = make([]schema.Value, len(fields)+1)
	for i, f := range fields {
		switch v := image[f.Name].(type) {
		case nil:
		case string:
			row[i] = schema.StringValue(v)
		case float64:
			if f.Type.Primitive == schema.DoubleType {
				row[i] = schema.DoubleValue(v)
			} else {
				row[i] = schema.IntValue(int64(v))
			}
		default:
			return 0, nil, fmt.Errorf("column %s: %T", f.Name, v)
		}
		if f.Name == "id" {
			id = row[i].I
		}
	}
	row[len(fields)] = schema.StringValue(e.Op)
	return id, row, nil
}

// fold keeps the last change of each key, in the order of their first ones.
type fold struct {
	at   map[int64]int
	rows [][]schema.Value
}

func newFold() *fold { return &fold{at: map[int64]int{}} }

func (f *fold) put(id int64, row []schema.Value) {
	if i, known := f.at[id]; known {
		f.rows[i] = row
		return
	}
	f.at[id] = len(f.rows)
	f.rows = append(f.rows, row)
}

func (f *fold) write(name string, fields []schema.Field) error {
	out, err := create(name, fields)
	if err != nil {
		return err
	}
	if err := out.Append(f.rows); err != nil {
		return err
	}
	return out.close()
}

// output is a Parquet file that is being written.
type output struct {
	*parquet.Stream
	file *os.File
}

func create(name string, fields []schema.Field) (*output, error) {
	columns := make([]parquet.Column, len(fields))
	for i := range fields {
		columns[i] = parquet.ColumnOf(&fields[i])
	}
	e, err := parquet.NewEncoder(columns, parquet.EncoderOptions{})
	if err != nil {
		return nil, err
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	return &output{e.Stream(f), f}, nil
}

func (o *output) close() error {
	if _, err := o.Finish(nil); err != nil {
		return err
	}
	return o.file.Close()
}
