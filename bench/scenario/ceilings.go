package scenario

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gscd-io/gscd/bench"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/counting"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
)

// runConsume reads the topic to its end and drops the records.
func runConsume(ctx context.Context, s *Spec, _ Env, r *Result) error {
	return consume(ctx, s, r, func(ctx context.Context, blocks <-chan change.Block) error {
		for range blocks {
		}
		return nil
	})
}

// runDecode reads and decodes the records, and drops them.
func runDecode(ctx context.Context, s *Spec, _ Env, r *Result) error {
	var decoders []decode.Decoder
	for range max(1, s.Decoders) {
		d, err := decode.New("debezium-json", decodeOptions(s))
		if err != nil {
			return err
		}
		decoders = append(decoders, d)
	}
	return consume(ctx, s, r, func(_ context.Context, blocks <-chan change.Block) error {
		var running sync.WaitGroup
		var fault atomic.Pointer[error]
		for _, d := range decoders {
			running.Go(func() {
				var c change.Change
				for b := range blocks {
					arena := &change.Arena{}
					for _, record := range b.Records {
						if err := d.Decode(record, arena, &c); err != nil {
							fault.Store(&err)
						}
					}
				}
			})
		}
		running.Wait()
		if err := fault.Load(); err != nil {
			return *err
		}
		return nil
	})
}

// consume hands all records of the source to work, which runs until the channel is closed.
func consume(ctx context.Context, s *Spec, r *Result, work func(context.Context, <-chan change.Block) error) error {
	m := &meter{}
	src, err := openSource(s, m)
	if err != nil {
		return err
	}
	defer src.Close()
	states, _, err := src.Partitions(ctx)
	if err != nil {
		return err
	}
	from, left := map[change.PartitionID]int64{}, int64(0)
	for _, st := range states {
		from[st.ID] = st.Earliest
		left += st.End - st.Earliest
	}
	if left != s.events() {
		return fmt.Errorf("the topic has %d records, not the %d of the workload", left, s.events())
	}
	m.begin()
	if err := src.Assign(ctx, from); err != nil {
		return err
	}
	blocks, done := make(chan change.Block, ahead), make(chan error, 1)
	go func() { done <- work(ctx, blocks) }()
	for left > 0 && err == nil {
		var got []change.Block
		if got, err = src.Poll(ctx, blockRecords); err == nil {
			err = ctx.Err()
		}
		for _, b := range got {
			left -= int64(len(b.Records))
			r.Done += int64(len(b.Records))
			blocks <- b
		}
	}
	close(blocks)
	if fault := <-done; err == nil {
		err = fault
	}
	m.end(r)
	return err
}

// rowsOf makes the rows of a batch as ingest hands them to the encoder: n keys from on, with
// hidden cells.
func rowsOf(s *Spec, n int, from int64) (columns []parquet.Column, rows [][]schema.Value) {
	types := bench.ColumnTypes(s.Params.Columns)
	for _, name := range bench.ColumnNames(s.Params.Columns) {
		columns = append(columns, parquet.Column{Name: name, Type: types[name]})
	}
	columns = append(columns, ingest.Hidden...)
	for i := range int64(n) {
		id, version := 1+(from+i)*7919%max(1, s.Params.Rows+s.events()), from+i+1
		row := bench.Row(s.Params.Columns, id, version)
		rows = append(rows, append(row,
			schema.IntValue(0), schema.IntValue(version-1), schema.IntValue(0), schema.IntValue(7), schema.IntValue(1000+version*300), schema.IntValue(0),
			schema.IntValue(s.Params.Time(version-1)*1000), schema.BoolValue(false)))
	}
	return columns, rows
}

// encodedBatches is how many different batches are encoded in turn.
const encodedBatches = 4

// runEncode encodes batches of rows as data files, and drops them.
func runEncode(ctx context.Context, s *Spec, _ Env, r *Result) error {
	var columns []parquet.Column
	var sets [][][]schema.Value
	for i := range encodedBatches {
		c, rows := rowsOf(s, s.Batch, int64(i*s.Batch))
		columns, sets = c, append(sets, rows)
	}
	e, err := parquet.NewEncoder(columns, parquet.EncoderOptions{})
	if err != nil {
		return err
	}
	m := &meter{}
	m.begin()
	for i := range s.Batches {
		if err := ctx.Err(); err != nil {
			return err
		}
		data, _, err := e.Encode(sets[i%len(sets)])
		if err != nil {
			return err
		}
		r.BytesWritten += int64(len(data))
		r.Done += int64(s.Batch)
	}
	m.end(r)
	r.OwnBytes = r.BytesWritten
	runtime.KeepAlive(sets)
	return nil
}

// runWrite stores what a commit of each batch stores at least: a data file, a file of
// deletion vectors, and the commit, one behind the other where one names the other.
func runWrite(ctx context.Context, s *Spec, env Env, r *Result) error {
	return writeAt(ctx, s, env, s.Table, r)
}

// runDisk is runWrite on the local disk, wherever tables are.
func runDisk(ctx context.Context, s *Spec, env Env, r *Result) error {
	dir, err := os.MkdirTemp(s.Scratch, "disk-")
	if err != nil {
		return err
	}
	return writeAt(ctx, s, env, dir, r)
}

func writeAt(ctx context.Context, s *Spec, env Env, address string, r *Result) error {
	store, err := env.Open(ctx, address)
	if err != nil {
		return err
	}
	counted := counting.New(store)
	columns, rows := rowsOf(s, s.Batch, 0)
	e, err := parquet.NewEncoder(columns, parquet.EncoderOptions{})
	if err != nil {
		return err
	}
	data, _, err := e.Encode(rows)
	if err != nil {
		return err
	}
	vectors, commit := data[:min(len(data), 2*s.Batch)], make([]byte, 4<<10)
	for i := range commit {
		commit[i] = ' '
	}
	m := &meter{}
	m.begin()
	for i := range s.Batches {
		var both [2]error
		var writing sync.WaitGroup
		writing.Go(func() { both[0] = counted.Put(ctx, fmt.Sprintf("part-%05d.bin", i), data) })
		writing.Go(func() { both[1] = counted.Put(ctx, fmt.Sprintf("vector-%05d.bin", i), vectors) })
		writing.Wait()
		for _, err := range both {
			if err != nil {
				return err
			}
		}
		if err := counted.PutIfAbsent(ctx, fmt.Sprintf("_delta_log/%020d.txt", i), commit); err != nil {
			return err
		}
		r.Done += int64(s.Batch)
		r.Commits++
	}
	m.end(r)
	r.count(counted)
	r.OwnBytes = int64(len(data)) * r.Commits
	return nil
}

// RemoveBelow deletes all that is in a folder of a store.
func RemoveBelow(ctx context.Context, store objstore.Store, folder string) error {
	var keys []string
	for o, err := range store.List(ctx, folder+"/", "") {
		if err != nil {
			return err
		}
		keys = append(keys, o.Key)
	}
	const parallel = 16
	return objstore.InParallel(ctx, len(keys), parallel, func(ctx context.Context, i int) error { return store.Delete(ctx, keys[i]) })
}
