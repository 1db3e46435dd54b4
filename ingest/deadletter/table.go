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
	"github.com/gscd-io/gscd/format"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/settled"
)

// Suffix is what the location of a dead-letter table has behind its table's.
const Suffix = "__dead_letter"

// columns of the table, in order. Those from state on say what became
// of the entry; files of earlier releases lack them.
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
	{Name: "state", Type: schema.Of(schema.StringType)},
	{Name: "resolved_at", Type: schema.Of(schema.Timestamp)},
	{Name: "resolved_version", Type: schema.Of(schema.Long)},
	{Name: "note", Type: schema.Of(schema.StringType)},
	{Name: "made_version", Type: schema.Of(schema.Long)},
	{Name: "row", Type: schema.Of(schema.Integer)},
}

// propertyFormat is the property in which a later form of the table would say so.
const propertyFormat = "gscd.format_version"

// Table is the dead-letter table of one table. It is created with its first
// entry. Not safe for concurrent use.
type Table struct {
	store objstore.Store
	table *delta.Table
	snap  *delta.Snapshot // nil before the table exists
	// known are the places in the files of scanned, last the highest offset of
	// each partition among them. Entries never go: what is known stays.
	known   map[settled.Place]bool
	last    map[change.PartitionID]int64
	scanned map[string]bool
}

// Open makes the Table; it reads nothing yet.
func Open(store objstore.Store) *Table { return &Table{store: store} }

// Refresh takes the newest version, and learns which entries it has.
func (t *Table) Refresh(ctx context.Context) error {
	if err := t.newest(ctx); err != nil {
		return fmt.Errorf("open %s: %w", t.store, err)
	}
	if t.known == nil {
		t.known, t.last, t.scanned = map[settled.Place]bool{}, map[change.PartitionID]int64{}, map[string]bool{}
	}
	if t.snap == nil {
		return nil
	}
	for _, add := range t.snap.Files() {
		if t.scanned[add.Path] {
			continue
		}
		err := t.scan(ctx, add, append(columns[:3:3], columns[18]), func(cells []schema.Value) error {
			t.remember(settled.Place{Topic: strings.Clone(cells[0].S), Partition: int32(cells[1].I), Offset: cells[2].I, Row: int32(cells[3].I)})
			return nil
		})
		if err != nil {
			return err
		}
		t.scanned[add.Path] = true
	}
	return nil
}

func (t *Table) newest(ctx context.Context) (err error) {
	if t.snap != nil {
		if t.snap, err = t.table.Update(ctx, t.snap); err != nil {
			return err
		}
		return t.refuseNewer()
	}
	table, err := delta.Open(ctx, t.store)
	if errors.Is(err, delta.ErrNotATable) {
		t.table = delta.New(t.store)
		return nil
	}
	if err != nil {
		return err
	}
	t.table = table
	if t.snap, err = table.Snapshot(ctx); err != nil {
		return err
	}
	return t.refuseNewer()
}

// refuseNewer looks at the form of the table. It has had one so far, of which no property tells.
func (t *Table) refuseNewer() error {
	if found, ok := t.snap.Property(propertyFormat); ok && found != "1" {
		t.snap = nil
		return &format.Newer{What: "property " + propertyFormat + " of the dead-letter table", Found: found, Known: "1"}
	}
	return nil
}

func (t *Table) remember(p settled.Place) {
	id := change.PartitionID{Topic: p.Topic, Partition: p.Partition}
	t.known[p] = true
	t.last[id] = max(t.Last(id), p.Offset)
}

// Last is the highest offset of a partition that had an entry at the last Refresh
// or Write, -1 without any.
func (t *Table) Last(id change.PartitionID) int64 {
	if last, ok := t.last[id]; ok {
		return last
	}
	return -1
}

// Has reports whether a place had an entry then.
func (t *Table) Has(p settled.Place) bool { return t.known[p] }

// Write enters the entries that are not there yet, in one commit.
func (t *Table) Write(ctx context.Context, entries []Entry) error {
	const attempts = 10
	for range attempts {
		if t.known == nil {
			if err := t.Refresh(ctx); err != nil {
				return err
			}
		}
		var rows [][]schema.Value
		batch := map[settled.Place]bool{}
		for i := range entries {
			e := &entries[i]
			if t.Has(e.Place()) || batch[e.Place()] {
				continue
			}
			batch[e.Place()] = true
			rows = append(rows, e.cells())
		}
		if len(rows) == 0 {
			return nil
		}
		tx := delta.NewTransaction(t.table, t.snap)
		tx.IsBlindAppend = true
		add, err := t.put(ctx, rows)
		if err != nil {
			return fmt.Errorf("write %s: %w", t.store, err)
		}
		tx.Add(add)
		done, err := t.commit(ctx, tx, "WRITE", len(rows))
		if err != nil {
			return fmt.Errorf("write %s: %w", t.store, err)
		}
		if done {
			for p := range batch {
				t.remember(p)
			}
			t.scanned[add.Path] = true
			return nil
		}
		if err := t.Refresh(ctx); err != nil { // someone else wrote: look again
			return err
		}
	}
	return fmt.Errorf("write %s: %d attempts met other commits; is another ingester at work on this table?", t.store, attempts)
}

// put stores rows as a file.
func (t *Table) put(ctx context.Context, rows [][]schema.Value) (*action.Add, error) {
	encoder, err := parquet.NewEncoder(columns, parquet.EncoderOptions{})
	if err != nil {
		return nil, err
	}
	data, st, err := encoder.Encode(rows)
	if err != nil {
		return nil, err
	}
	key := "part-" + uuid.NewString() + ".parquet"
	if err := t.store.Put(ctx, key, data); err != nil {
		return nil, err
	}
	fields := make([]schema.Field, len(columns))
	for i, c := range columns {
		fields[i] = schema.Field{Name: c.Name, Type: c.Type}
	}
	return &action.Add{
		Path: action.EncodePath(key), PartitionValues: map[string]*string{}, Size: int64(len(data)),
		ModificationTime: time.Now().UnixMilli(), DataChange: true, Stats: stats.Encode(stats.Leaves(fields), st, nil),
	}, nil
}

// commit commits a transaction; it creates the table, and adds the columns that
// one of an earlier release lacks. done is false where another commit came first.
func (t *Table) commit(ctx context.Context, tx *delta.Transaction, operation string, rows int) (done bool, err error) {
	list := make([]schema.Field, len(columns))
	for i, c := range columns {
		list[i] = schema.Field{Name: c.Name, Type: c.Type, Nullable: true}
	}
	s, err := schema.New(list...)
	if err != nil {
		return false, err
	}
	switch {
	case t.snap == nil:
		created := time.Now().UnixMilli()
		tx.SetProtocol(delta.ProtocolFor())
		tx.SetMetadata(action.Metadata{
			ID: uuid.NewString(), Name: "dead letters", Format: action.Format{Provider: "parquet"},
			SchemaString: s.String(), PartitionColumns: []string{}, Configuration: map[string]string{}, CreatedTime: &created,
		})
	case len(t.snap.Schema().Fields) < len(columns):
		meta := *t.snap.Metadata()
		meta.SchemaString = s.String()
		tx.SetMetadata(meta)
		tx.IsBlindAppend = false
	}
	tx.SetCommitInfo(operation, nil, map[string]string{"numOutputRows": fmt.Sprint(rows)}, nil)
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
	if err := t.newest(ctx); err != nil {
		return fmt.Errorf("open %s: %w", t.store, err)
	}
	if t.snap == nil {
		return nil
	}
	for _, add := range t.snap.Files() {
		if err := t.eachOf(ctx, add, fn); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table) eachOf(ctx context.Context, add *action.Add, fn func(Entry) error) error {
	return t.scan(ctx, add, columns, func(cells []schema.Value) error {
		e, err := entryOf(cells)
		if err != nil {
			return err
		}
		return fn(e)
	})
}

// Sync makes the columns say what became of each entry, in one commit that
// writes the files anew whose entries changed. It gives the number of these.
func (t *Table) Sync(ctx context.Context, of func(*Entry) settled.Resolution) (changed int, err error) {
	const attempts = 10
	for range attempts {
		if err := t.newest(ctx); err != nil {
			return 0, fmt.Errorf("open %s: %w", t.store, err)
		}
		if t.snap == nil {
			return 0, nil
		}
		tx := delta.NewTransaction(t.table, t.snap)
		changed = 0
		for _, add := range t.snap.Files() {
			n, err := t.syncFile(ctx, tx, add, of)
			if err != nil {
				return 0, fmt.Errorf("write %s: %w", t.store, err)
			}
			changed += n
		}
		if changed == 0 {
			return 0, nil
		}
		done, err := t.commit(ctx, tx, "UPDATE", changed)
		if err != nil {
			return 0, fmt.Errorf("write %s: %w", t.store, err)
		}
		if done {
			return changed, nil
		}
	}
	return 0, fmt.Errorf("write %s: %d attempts met other commits; try again", t.store, attempts)
}

func (t *Table) syncFile(ctx context.Context, tx *delta.Transaction, add *action.Add, of func(*Entry) settled.Resolution) (changed int, err error) {
	// Most files say what is so: their large columns are not read.
	differs := errors.New("it differs")
	look := func(e Entry) error {
		if of(&e) != e.Copied {
			return differs
		}
		return nil
	}
	small := []parquet.Column{columns[0], columns[1], columns[2], columns[8], columns[13], columns[14], columns[15], columns[16], columns[17], columns[18]}
	err = t.scan(ctx, add, small, func(c []schema.Value) error {
		e := Entry{Topic: c[0].S, Partition: int32(c[1].I), Offset: c[2].I, OpenLabel: c[3].S, Copied: resolutionOf(c[4:]), Made: madeOf(c[8]), Row: int32(c[9].I)}
		return look(e)
	})
	if !errors.Is(err, differs) {
		return 0, err
	}
	var rows [][]schema.Value
	err = t.eachOf(ctx, add, func(e Entry) error {
		if now := of(&e); now != e.Copied {
			e.Copied = now
			changed++
		}
		rows = append(rows, e.cells())
		return nil
	})
	if err != nil {
		return 0, err
	}
	anew, err := t.put(ctx, rows)
	if err != nil {
		return 0, err
	}
	tx.Remove(delta.RemoveOf(add, time.Now(), true))
	tx.Add(anew)
	return changed, nil
}

func (t *Table) scan(ctx context.Context, add *action.Add, want []parquet.Column, fn func(cells []schema.Value) error) error {
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
	at, version := schema.Value{}, schema.Value{}
	if e.Copied.At != 0 {
		at, version = schema.IntValue(e.Copied.At*1000), schema.IntValue(e.Copied.Version)
	}
	made := schema.Value{}
	if e.Made >= 0 {
		made = schema.IntValue(e.Made)
	}
	row := schema.Value{}
	if e.Row != 0 {
		row = schema.IntValue(int64(e.Row))
	}
	return []schema.Value{
		text(e.Topic), schema.IntValue(int64(e.Partition)), schema.IntValue(e.Offset), timestamp,
		text(e.Reason), text(e.Detail), text(e.Column), text(e.Label), text(e.OpenLabel),
		raw(e.Key), raw(e.Value), schema.IntValue(e.Length), headers,
		text(string(e.Copied.State)), at, version, text(e.Copied.Note), made, row,
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
		Key: raw(c[9]), Value: raw(c[10]), Length: c[11].I, Copied: resolutionOf(c[13:]), Made: madeOf(c[17]), Row: int32(c[18].I),
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

func madeOf(c schema.Value) int64 {
	if c.IsNull() {
		return -1
	}
	return c.I
}

// resolutionOf reads the columns from state on. An entry of a release without them
// says nothing: not even that it is active.
func resolutionOf(c []schema.Value) settled.Resolution {
	r := settled.Resolution{State: settled.State(strings.Clone(c[0].S)), Note: strings.Clone(c[3].S)}
	if !c[1].IsNull() {
		r.At, r.Version = c[1].I/1000, c[2].I
	}
	return r
}
