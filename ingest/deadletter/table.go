package deadletter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
	"github.com/gscd-io/gscd/ingest/change"
)

// Suffix is what the location of a dead-letter table has behind its table's.
const Suffix = "__dead_letter"

// columns of the table, in order.
var columns = []parquet.Column{
	{Name: "topic", Type: schema.Of(schema.StringType)},
	{Name: "partition", Type: schema.Of(schema.Integer)},
	{Name: "offset", Type: schema.Of(schema.Long)},
	{Name: "timestamp", Type: schema.Of(schema.Timestamp)},
	{Name: "reason", Type: schema.Of(schema.StringType)},
	{Name: "detail", Type: schema.Of(schema.StringType)},
	{Name: "column", Type: schema.Of(schema.StringType)},
	{Name: "label", Type: schema.Of(schema.StringType)},
	{Name: "open_label", Type: schema.Of(schema.StringType)},
	{Name: "key", Type: schema.Of(schema.BinaryType)},
	{Name: "value", Type: schema.Of(schema.BinaryType)},
	{Name: "length", Type: schema.Of(schema.Long)},
	{Name: "headers", Type: schema.Of(schema.StringType)},
}

// Table is the dead-letter table of one table. It is created with its first
// entry. Not safe for concurrent use.
type Table struct {
	store objstore.Store
	// known are the coordinates that are in the table, read once.
	known map[change.PartitionID]map[int64]bool
	snap  *delta.Snapshot
	table *delta.Table
}

// Open makes the Table; it reads nothing yet.
func Open(store objstore.Store) *Table { return &Table{store: store} }

func (t *Table) load(ctx context.Context) error {
	if t.known != nil {
		return nil
	}
	known := map[change.PartitionID]map[int64]bool{}
	table, err := delta.Open(ctx, t.store)
	if errors.Is(err, delta.ErrNotATable) {
		t.table, t.known, t.snap = delta.New(t.store), known, nil
		return nil
	}
	if err != nil {
		return err
	}
	t.table = table
	if t.snap, err = table.Snapshot(ctx); err != nil {
		return err
	}
	err = t.scan(ctx, columns[:3], func(cells []schema.Value) error {
		remember(known, change.PartitionID{Topic: strings.Clone(cells[0].S), Partition: int32(cells[1].I)}, cells[2].I)
		return nil
	})
	if err != nil {
		return err
	}
	t.known = known
	return nil
}

func remember(known map[change.PartitionID]map[int64]bool, id change.PartitionID, offset int64) {
	if known[id] == nil {
		known[id] = map[int64]bool{}
	}
	known[id][offset] = true
}

// Write enters the entries that are not there yet, in one commit.
func (t *Table) Write(ctx context.Context, entries []Entry) error {
	const attempts = 10
	for range attempts {
		if err := t.load(ctx); err != nil {
			return fmt.Errorf("open %s: %w", t.store, err)
		}
		var rows [][]schema.Value
		batch := map[change.PartitionID]map[int64]bool{}
		for i := range entries {
			e := &entries[i]
			id := change.PartitionID{Topic: e.Topic, Partition: e.Partition}
			if t.known[id][e.Offset] || batch[id][e.Offset] {
				continue
			}
			remember(batch, id, e.Offset)
			rows = append(rows, e.cells())
		}
		if len(rows) == 0 {
			return nil
		}
		done, err := t.commit(ctx, rows)
		if err != nil {
			return fmt.Errorf("write %s: %w", t.store, err)
		}
		if done {
			for id, offsets := range batch {
				for o := range offsets {
					remember(t.known, id, o)
				}
			}
			return nil
		}
		t.known = nil // someone else wrote: look again
	}
	return fmt.Errorf("write %s: %d attempts met other commits; is another ingester at work on this table?", t.store, attempts)
}

func (t *Table) commit(ctx context.Context, rows [][]schema.Value) (bool, error) {
	encoder, err := parquet.NewEncoder(columns, parquet.EncoderOptions{})
	if err != nil {
		return false, err
	}
	data, st, err := encoder.Encode(rows)
	if err != nil {
		return false, err
	}
	key := "part-" + uuid.NewString() + ".parquet"
	if err := t.store.Put(ctx, key, data); err != nil {
		return false, err
	}
	tx := delta.NewTransaction(t.table, t.snap)
	fields := make([]stats.Field, len(columns))
	list := make([]schema.Field, len(columns))
	for i, c := range columns {
		fields[i] = stats.Field{Name: c.Name, Type: c.Type}
		list[i] = schema.Field{Name: c.Name, Type: c.Type, Nullable: true}
	}
	if t.snap == nil {
		s, err := schema.New(list...)
		if err != nil {
			return false, err
		}
		created := time.Now().UnixMilli()
		tx.SetProtocol(delta.ProtocolFor())
		tx.SetMetadata(action.Metadata{
			ID: uuid.NewString(), Name: "dead letters", Format: action.Format{Provider: "parquet"},
			SchemaString: s.String(), PartitionColumns: []string{}, Configuration: map[string]string{}, CreatedTime: &created,
		})
	}
	tx.IsBlindAppend = true
	tx.Add(&action.Add{
		Path: action.EncodePath(key), PartitionValues: map[string]*string{}, Size: int64(len(data)),
		ModificationTime: time.Now().UnixMilli(), DataChange: true, Stats: stats.Encode(fields, st, nil),
	})
	tx.SetCommitInfo("WRITE", nil, map[string]string{"numOutputRows": fmt.Sprint(len(rows))}, nil)
	outcome, err := tx.Commit(ctx)
	if err != nil || !outcome.Committed {
		return false, err
	}
	t.snap = outcome.Snapshot
	if t.snap.Version()%50 == 49 {
		// Only a convenience for readers: the log alone is enough.
		_, err = t.table.Checkpoint(ctx, t.snap, delta.CheckpointOptions{})
	}
	return true, err
}

// Each calls fn with every entry until it gives an error, file by file. The
// entry's bytes are fn's. A table without a dead letter has none.
func (t *Table) Each(ctx context.Context, fn func(Entry) error) error {
	t.known = nil
	if err := t.load(ctx); err != nil {
		return fmt.Errorf("open %s: %w", t.store, err)
	}
	return t.scan(ctx, columns, func(cells []schema.Value) error {
		e, err := entryOf(cells)
		if err != nil {
			return err
		}
		return fn(e)
	})
}

func (t *Table) scan(ctx context.Context, want []parquet.Column, fn func(cells []schema.Value) error) error {
	if t.snap == nil {
		return nil
	}
	for _, add := range t.snap.Files() {
		key, err := action.Key(add.Path)
		if err != nil {
			return err
		}
		f, err := parquet.Open(objstore.NewReaderAt(ctx, t.store, key, add.Size), add.Size)
		if err != nil {
			return fmt.Errorf("open %s: %w", key, err)
		}
		dead, err := delta.ReadDeletionVector(ctx, t.store, add)
		if err != nil {
			return err
		}
		cells := make([]schema.Value, len(want))
		for b, err := range f.Scan(ctx, want, parquet.ScanOptions{}) {
			if err != nil {
				return fmt.Errorf("read %s: %w", key, err)
			}
			for i := range b.Rows {
				if dead != nil && dead.Contains(uint32(b.FirstRow+int64(i))) {
					continue
				}
				for c := range cells {
					cells[c] = b.Columns[c][i]
				}
				if err := fn(cells); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (e *Entry) cells() []schema.Value {
	text := func(s string) schema.Value {
		if s == "" {
			return schema.Value{}
		}
		return schema.StringValue(strings.ToValidUTF8(s, "\uFFFD"))
	}
	raw := func(b []byte) schema.Value {
		if b == nil {
			return schema.Value{}
		}
		return schema.BinaryValue(string(b))
	}
	timestamp := schema.Value{}
	if e.Timestamp >= 0 {
		timestamp = schema.IntValue(e.Timestamp * 1000)
	}
	headers := schema.Value{}
	if len(e.Headers) > 0 {
		if b, err := json.Marshal(e.Headers); err == nil {
			headers = schema.StringValue(string(b))
		}
	}
	return []schema.Value{
		text(e.Topic), schema.IntValue(int64(e.Partition)), schema.IntValue(e.Offset), timestamp,
		text(e.Reason), text(e.Detail), text(e.Column), text(e.Label), text(e.OpenLabel),
		raw(e.Key), raw(e.Value), schema.IntValue(e.Length), headers,
	}
}

func entryOf(c []schema.Value) (Entry, error) {
	raw := func(v schema.Value) []byte {
		if v.IsNull() {
			return nil
		}
		return []byte(v.S)
	}
	e := Entry{
		Topic: strings.Clone(c[0].S), Partition: int32(c[1].I), Offset: c[2].I, Timestamp: -1,
		Reason: strings.Clone(c[4].S), Detail: strings.Clone(c[5].S), Column: strings.Clone(c[6].S),
		Label: strings.Clone(c[7].S), OpenLabel: strings.Clone(c[8].S),
		Key: raw(c[9]), Value: raw(c[10]), Length: c[11].I,
	}
	if !c[3].IsNull() {
		e.Timestamp = c[3].I / 1000
	}
	if c[12].S != "" {
		if err := json.Unmarshal([]byte(c[12].S), &e.Headers); err != nil {
			return e, fmt.Errorf("headers of %s/%d offset %d: %w", e.Topic, e.Partition, e.Offset, err)
		}
	}
	return e, nil
}
