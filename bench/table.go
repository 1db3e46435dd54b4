package bench

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/upsert"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// fileRows is how many rows a file of a made table of ten columns holds: about 64 MB.
const fileRows = 1_500_000

// MakeTable makes a table with the keys 1 to rows, as a load would have left
// it, its partition 0 at offset 0, the 16th of July 2022 open.
func MakeTable(ctx context.Context, store objstore.Store, cal *snapshotter.Calendar, rows int64) error {
	return Shape{Rows: rows, Columns: len(names)}.Make(ctx, store, cal)
}

// Shape says what table to make.
type Shape struct {
	Rows    int64
	Columns int // at least ten
	// Begin is a time of the open label in milliseconds since 1970, 0 for the 16th of July 2022.
	Begin int64
	// Topic is the table's, "" for Topic, and Partitions how many it has, 0 for one.
	Topic      string
	Partitions int
}

// Make makes a table of the shape, see MakeTable.
func (t Shape) Make(ctx context.Context, store objstore.Store, cal *snapshotter.Calendar) error {
	rows, columns, begin := t.Rows, t.Columns, cmp.Or(t.Begin, start)
	types, list := ColumnTypes(columns), ColumnNames(columns)
	fields := make([]schema.Field, len(list))
	for i, n := range list {
		fields[i] = schema.Field{Name: n, Type: types[n], Nullable: true}
	}
	s, err := schema.New(fields...)
	if err != nil {
		return err
	}
	open := cal.Label(begin * 1000)
	p := &progress.Progress{Kind: progress.Create, Label: cal.Name(open), Rows: rows, LastSeal: -1, ColumnsAtOpen: list}
	p.State = snapshotter.State{First: open, Open: open, Wait: (10 * time.Minute).Microseconds()}
	p.State.Lines = []snapshotter.Line{{Server: change.Server{Name: "shop", ID: 223344}}}
	for i := range max(1, t.Partitions) {
		p.State.AddPartition(change.PartitionID{Topic: cmp.Or(t.Topic, Topic), Partition: int32(i)}, 0)
	}

	properties := delta.ProtectiveProperties(3650)
	properties[delta.PropertyDeletionVectors] = "true"
	for k, v := range (savepoint.Settings{Calendar: cal, Key: []string{"id"}, SourceFormat: "debezium-json"}).Properties() {
		properties[k] = v
	}
	created := time.Now().UnixMilli()
	tx := delta.NewTransaction(delta.New(store), nil)
	tx.SetProtocol(delta.ProtocolFor(delta.FeatureDeletionVectors))
	tx.SetMetadata(action.Metadata{
		ID: uuid.NewString(), Name: "orders", Format: action.Format{Provider: "parquet"}, SchemaString: s.String(),
		PartitionColumns: []string{}, Configuration: properties, CreatedTime: &created,
	})
	w := upsert.New(store, upsert.Options{Key: []string{"id"}, Hidden: ingest.Hidden})
	made, perFile := newRenderer(columns), int64(fileRows*len(names)/columns)
	for from := int64(1); from <= rows; from += perFile {
		b := &upsert.Batch{Schema: s, Footer: map[string]string{}}
		for id := from; id < min(from+perFile, rows+1); id++ {
			row := appendCells(make([]schema.Value, 0, columns+len(ingest.Hidden)), made, columns, id, 0)
			row = append(row, schema.IntValue(0), schema.IntValue(-1), schema.IntValue(0), schema.IntValue(6), schema.IntValue(id), schema.IntValue(0),
				schema.IntValue(begin*1000), schema.BoolValue(false))
			b.Rows = append(b.Rows, row)
			b.Keys = append(b.Keys, "")
			b.Tags = append(b.Tags, 0)
		}
		if _, err := w.Write(ctx, b, tx); err != nil {
			return fmt.Errorf("make a table of %d rows: %w", rows, err)
		}
	}
	_, conflict, err := savepoint.Commit(ctx, tx, p, "CREATE TABLE", nil)
	if err == nil && conflict != nil {
		err = fmt.Errorf("there is a table already: %s", conflict)
	}
	return err
}
