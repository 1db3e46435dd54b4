package bench

import (
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

// names are the columns in order.
var names = []string{"id", "customer", "status", "city", "amount", "price", "name", "note", "quantity", "updated_at"}

// fileRows is how many rows a file of a made table holds: about 64 MB.
const fileRows = 1_500_000

// MakeTable makes a table with the keys 1 to rows, as a load would have left
// it, its partition 0 at offset 0, the 16th of July 2022 open.
func MakeTable(ctx context.Context, store objstore.Store, cal *snapshotter.Calendar, rows int64) error {
	types := Columns()
	fields := make([]schema.Field, len(names))
	for i, n := range names {
		fields[i] = schema.Field{Name: n, Type: types[n], Nullable: true}
	}
	s, err := schema.New(fields...)
	if err != nil {
		return err
	}
	open := cal.Label(start * 1000)
	p := &progress.Progress{Kind: progress.Create, Label: cal.Name(open), Rows: rows, LastSeal: -1, ColumnsAtOpen: names}
	p.State = snapshotter.State{First: open, Open: open, Wait: (10 * time.Minute).Microseconds()}
	p.State.Lines = []snapshotter.Line{{Server: change.Server{Name: "shop", ID: 223344}}}
	p.State.AddPartition(change.PartitionID{Topic: Topic}, 0)

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
	for from := int64(1); from <= rows; from += fileRows {
		b := &upsert.Batch{Schema: s, Footer: map[string]string{}}
		for id := from; id < min(from+fileRows, rows+1); id++ {
			row := tableRow(id)
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

// tableRow is the row of a key before its first change, with its hidden cells.
func tableRow(id int64) []schema.Value {
	text, c := schema.StringValue, cellsOf(id, 0)
	return []schema.Value{
		schema.IntValue(id), schema.IntValue(c.customer), text(c.status), text(c.city), schema.IntValue(c.amount),
		schema.DoubleValue(c.price), text(c.name), {}, schema.IntValue(c.quantity), text(c.updated),
		schema.IntValue(0), schema.IntValue(-1), schema.IntValue(0), schema.IntValue(6), schema.IntValue(id), schema.IntValue(0),
		schema.IntValue(start * 1000), schema.BoolValue(false),
	}
}
