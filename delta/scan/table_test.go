package scan_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
)

var ctx = context.Background()

// tester is what testing.T and rapid.T have in common.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// shop is the schema of the tables that tests write; city partitions it.
var shop = func() *schema.Schema {
	column := func(name string, t schema.Type) schema.Field {
		return schema.Field{Name: name, Type: t, Nullable: true}
	}
	s, err := schema.New(
		column("id", schema.Of(schema.Long)), column("city", schema.Of(schema.StringType)),
		column("name", schema.Of(schema.StringType)), column("amount", schema.Decimal(20, 2)),
		column("score", schema.Of(schema.DoubleType)), column("at", schema.Of(schema.Timestamp)),
		column("day", schema.Of(schema.Date)),
	)
	if err != nil {
		panic(err)
	}
	return s
}()

const cityColumn = 1

// shopFile is the rows of one file (all of one city) and which of them a
// deletion vector hides. Columns from `missing` on are not in the file; hidden
// adds a bookkeeping column; noStats leaves the statistics out.
type shopFile struct {
	city     schema.Value
	rows     [][]schema.Value // by shop's columns
	dead     []uint32
	missing  int
	noStats  bool
	pageRows int // 0: one page a row group
}

// live gives the rows that a reader must see.
func (f shopFile) live() [][]schema.Value {
	var out [][]schema.Value
	for i, row := range f.rows {
		hidden := false
		for _, d := range f.dead {
			hidden = hidden || int(d) == i
		}
		if hidden {
			continue
		}
		seen := append([]schema.Value(nil), row...)
		seen[cityColumn] = f.city
		for c := range seen {
			if f.missing > 0 && c >= f.missing {
				seen[c] = schema.Value{}
			}
		}
		out = append(out, seen)
	}
	return out
}

// writeShop makes a table of such files in a store.
func writeShop(t tester, store objstore.Store, files []shopFile, properties map[string]string) *delta.Snapshot {
	t.Helper()
	table := delta.New(store)
	x := delta.NewTransaction(table, nil)
	x.SetMetadata(action.Metadata{
		ID: "shop", Format: action.Format{Provider: "parquet"}, SchemaString: shop.String(),
		PartitionColumns: []string{"city"}, Configuration: properties,
	})
	x.SetProtocol(delta.ProtocolFor(delta.FeatureDeletionVectors))
	var packer dv.Packer
	vectors := uuid.New()
	for i, f := range files {
		add := encodeShop(t, store, fmt.Sprintf("part-%05d.parquet", i), f)
		if len(f.dead) > 0 {
			bitmap := dv.New()
			bitmap.AddMany(f.dead)
			offset, size, cardinality, err := packer.Append(bitmap)
			if err != nil {
				t.Fatal(err)
			}
			add.DeletionVector = &action.DeletionVector{
				StorageType: "u", PathOrInlineDV: dv.PathOfID(vectors), Offset: &offset, SizeInBytes: size, Cardinality: cardinality,
			}
		}
		x.Add(add)
	}
	if packer.Len() > 0 {
		if err := store.Put(ctx, dv.FileName(vectors), packer.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	outcome, err := x.Commit(ctx)
	if err != nil || !outcome.Committed {
		t.Fatalf("commit: %+v, %v", outcome, err)
	}
	return outcome.Snapshot
}

// groupRows are the rows of a row group of the files.
var groupRows = 7

// encodeShop writes one data file, with a hidden column behind the others.
func encodeShop(t tester, store objstore.Store, key string, f shopFile) *action.Add {
	t.Helper()
	var columns []parquet.Column
	var fields []schema.Field
	var places []int
	for c, field := range shop.Fields {
		if c == cityColumn || f.missing > 0 && c >= f.missing {
			continue
		}
		columns = append(columns, parquet.Column{Name: field.Name, Type: field.Type})
		fields = append(fields, field)
		places = append(places, c)
	}
	columns = append(columns, parquet.Column{Name: "__gscd_offset", Type: schema.Of(schema.Long)})
	encoder, err := parquet.NewEncoder(columns, parquet.EncoderOptions{RowGroupRows: groupRows, PageRows: f.pageRows})
	if err != nil {
		t.Fatal(err)
	}
	rows := make([][]schema.Value, len(f.rows))
	for i, row := range f.rows {
		for _, c := range places {
			rows[i] = append(rows[i], row[c])
		}
		rows[i] = append(rows[i], schema.IntValue(int64(i)))
	}
	data, known, err := encoder.Encode(rows)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Put(ctx, key, data); err != nil {
		t.Fatal(err)
	}
	known.Columns = known.Columns[:len(fields)]
	wide := len(f.dead) == 0
	add := &action.Add{
		Path: action.EncodePath(key), Size: int64(len(data)), ModificationTime: 1, DataChange: true,
		PartitionValues: map[string]*string{"city": action.FormatPartitionValue(f.city, schema.Of(schema.StringType))},
		Stats:           stats.Encode(stats.Leaves(fields), known, &wide),
	}
	if f.noStats {
		add.Stats = fmt.Sprintf(`{"numRecords":%d}`, len(f.rows))
		if len(f.dead) == 0 {
			add.Stats = ""
		}
	}
	return add
}

// onStores runs a test on a table in memory and on one on disk.
func onStores(t *testing.T, test func(t *testing.T, store objstore.Store)) {
	t.Run("mem", func(t *testing.T) { test(t, mem.New()) })
	t.Run("local", func(t *testing.T) {
		store, err := local.New(t.TempDir(), local.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		test(t, store)
	})
}

// commitFile makes a table of one file that is written already.
func commitFile(t tester, store objstore.Store, add *action.Add) *delta.Snapshot {
	t.Helper()
	x := delta.NewTransaction(delta.New(store), nil)
	x.SetMetadata(action.Metadata{
		ID: "shop", Format: action.Format{Provider: "parquet"}, SchemaString: shop.String(), PartitionColumns: []string{"city"},
	})
	x.SetProtocol(delta.ProtocolFor(delta.FeatureDeletionVectors))
	x.Add(add)
	outcome, err := x.Commit(ctx)
	if err != nil || !outcome.Committed {
		t.Fatalf("commit: %+v, %v", outcome, err)
	}
	return outcome.Snapshot
}
