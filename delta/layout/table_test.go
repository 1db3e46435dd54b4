package layout_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
)

// hidden is a column of data files that the schema does not have.
var hidden = parquet.Column{Name: "__where", Type: schema.Of(schema.Long)}

var columns = []schema.Field{
	{Name: "id", Type: schema.Of(schema.Long), Nullable: true},
	{Name: "name", Type: schema.Of(schema.StringType), Nullable: true},
	{Name: "price", Type: schema.Decimal(20, 2), Nullable: true},
	{Name: "weight", Type: schema.Of(schema.DoubleType), Nullable: true},
	{Name: "day", Type: schema.Of(schema.Date), Nullable: true},
	{Name: "city", Type: schema.Of(schema.StringType), Nullable: true},
}

// fixture is a table in memory. Before each commit that is not its own, it does what
// meanwhile says.
type fixture struct {
	t         testing.TB
	store     *meanwhileStore
	table     *delta.Table
	partition bool
	next      int64
	ids       map[string][]int64 // by data file, in the order of its rows
}

// meanwhileStore lets something happen right before a commit file is written.
type meanwhileStore struct {
	objstore.Store
	before func(key string)
}

func (m *meanwhileStore) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	if f := m.before; f != nil && strings.HasSuffix(key, ".json") {
		m.before = nil
		f(key)
		m.before = f
	}
	return m.Store.PutIfAbsent(ctx, key, data)
}

func newFixture(t testing.TB, partition bool) *fixture {
	f := &fixture{t: t, store: &meanwhileStore{Store: mem.New()}, partition: partition, ids: map[string][]int64{}}
	f.table = delta.New(f.store)
	s, err := schema.New(columns...)
	f.must(err)
	m := action.Metadata{ID: uuid.NewString(), Format: action.Format{Provider: "parquet"}, SchemaString: s.String(), PartitionColumns: []string{},
		Configuration: map[string]string{delta.PropertyDeletionVectors: "true"}}
	if partition {
		m.PartitionColumns = []string{"city"}
	}
	tx := delta.NewTransaction(f.table, nil)
	tx.SetProtocol(delta.ProtocolFor(delta.FeatureDeletionVectors))
	tx.SetMetadata(m)
	f.commit(tx)
	return f
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) commit(tx *delta.Transaction) *delta.Snapshot {
	f.t.Helper()
	outcome, err := tx.Commit(context.Background())
	f.must(err)
	if !outcome.Committed {
		f.t.Fatalf("conflict: %v", outcome.Conflict)
	}
	return outcome.Snapshot
}

func (f *fixture) newest() *delta.Snapshot {
	f.t.Helper()
	s, err := f.table.Snapshot(context.Background())
	f.must(err)
	return s
}

var cities = []string{"Wuhan", "Xi'an", ""}

// cells gives the row of an id, the hidden cell last.
func cells(id int64) []schema.Value {
	scattered := int64(uint64(id) * 2654435761 % 100003)
	row := []schema.Value{
		schema.IntValue(id), schema.StringValue(fmt.Sprintf("name %d", scattered%997)), {Kind: schema.Dec, I: scattered * 7},
		schema.DoubleValue(float64(scattered) / 3), schema.IntValue(scattered % 365), schema.StringValue(cities[id%2]), schema.IntValue(id + 1_000_000),
	}
	if id%11 == 5 {
		row[1], row[4] = schema.Value{}, schema.Value{}
	}
	return row
}

// widenedCells gives the row of an id as a version with wider types has it.
func widenedCells(s *delta.Snapshot, id int64) []schema.Value {
	row := cells(id)
	if t := s.Schema().Fields[2].Type; t.Scale == 4 {
		row[2].I *= 100
	}
	if t := s.Schema().Fields[4].Type; t.Primitive == schema.TimestampNTZ && !row[4].IsNull() {
		row[4].I *= 24 * 3600 * 1_000_000
	}
	return row
}

// add writes a file of some rows into a partition; bare leaves the hidden column out.
func (f *fixture) add(tx *delta.Transaction, rows int, bare bool) string {
	f.t.Helper()
	var ids []int64
	var data [][]schema.Value
	city := cities[f.next%2]
	for len(ids) < rows {
		id := f.next
		f.next++
		row := cells(id)
		if f.partition && row[5].S != city {
			continue
		}
		ids = append(ids, id)
		if bare {
			row = row[:6]
		}
		if f.partition {
			row = slices.Delete(row, 5, 6)
		}
		data = append(data, row)
	}
	var list []parquet.Column
	var fields []schema.Field
	for _, c := range columns {
		if f.partition && c.Name == "city" {
			continue
		}
		list = append(list, parquet.Column{Name: c.Name, Type: c.Type})
		fields = append(fields, schema.Field{Name: c.Name, Type: c.Type})
	}
	if !bare {
		list = append(list, hidden)
	}
	e, err := parquet.NewEncoder(list, parquet.EncoderOptions{KeyValue: map[string]string{"first": fmt.Sprint(ids[0])}})
	f.must(err)
	raw, st, err := e.Encode(data)
	f.must(err)
	st.Columns = st.Columns[:len(fields)]
	values, folder := map[string]*string{}, ""
	if f.partition {
		values["city"] = &city
		folder = action.PartitionFolder("city", &city) + "/"
	}
	key := folder + "part-" + uuid.NewString() + ".parquet"
	f.must(f.store.Put(context.Background(), key, raw))
	path := action.EncodePath(key)
	f.ids[path] = ids
	tx.Add(&action.Add{Path: path, PartitionValues: values, Size: int64(len(raw)), ModificationTime: time.Now().UnixMilli(), DataChange: true, Stats: stats.Encode(stats.Leaves(fields), st, nil)})
	return path
}

func (f *fixture) append(files, rows int) *delta.Snapshot {
	f.t.Helper()
	tx := delta.NewTransaction(f.table, f.newest())
	for range files {
		f.add(tx, rows, false)
	}
	return f.commit(tx)
}

// readIDs gives the ids of all rows of a version, sorted, after having looked at
// every cell of every row, the hidden ones too.
func (f *fixture) readIDs(s *delta.Snapshot) []int64 {
	f.t.Helper()
	var all []int64
	for _, add := range s.Files() {
		for _, id := range f.readFile(s, add) {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return all
}

// readFile gives the ids of the live rows of a file in order.
func (f *fixture) readFile(s *delta.Snapshot, add *action.Add) (ids []int64) {
	f.t.Helper()
	ctx := context.Background()
	dead, err := delta.ReadDeletionVector(ctx, f.store, add)
	f.must(err)
	key, err := action.Key(add.Path)
	f.must(err)
	raw, err := f.store.Get(ctx, key)
	f.must(err)
	if int64(len(raw)) != add.Size {
		f.t.Errorf("%s has %d bytes, the log says %d", key, len(raw), add.Size)
	}
	file, err := parquet.OpenBytes(raw)
	f.must(err)
	if n, _ := stats.NumRecords(add.Stats); n != file.NumRows() {
		f.t.Errorf("%s has %d rows, the statistics say %d", key, file.NumRows(), n)
	}
	known, err := stats.Parse(add.Stats, s.Schema())
	f.must(err)
	list := make([]parquet.Column, 0, len(columns)+1)
	for _, c := range s.Schema().Fields {
		list = append(list, parquet.Column{Name: c.Name, Type: c.Type})
	}
	list = append(list, hidden)
	_, has := file.Find(hidden)
	for b, err := range file.Scan(ctx, list, parquet.ScanOptions{}) {
		f.must(err)
		for i := range b.Rows {
			if dead != nil && dead.Contains(uint32(b.FirstRow)+uint32(i)) {
				continue
			}
			id := b.Columns[0][i].I
			want := widenedCells(s, id)
			for c := range want {
				got := b.Columns[c][i]
				switch {
				case c == 5 && f.partition:
					got = schema.StringValue(*add.PartitionValues["city"])
				case c == 6 && !has:
					got = want[6]
				}
				if got != want[c] {
					f.t.Fatalf("%s: id %d, column %d: %+v, want %+v", key, id, c, got, want[c])
				}
				if c < 6 {
					bounds := known.Bounds(columns[c].Name)
					if !got.IsNull() && (!bounds.Min.IsNull() && schema.Compare(got, bounds.Min) < 0 || !bounds.Max.IsNull() && schema.Compare(got, bounds.Max) > 0) {
						f.t.Fatalf("%s: id %d, column %d: %+v lies outside of %+v", key, id, c, got, bounds)
					}
				}
			}
			ids = append(ids, id)
		}
	}
	return ids
}

// kill deletes rows by id in a commit of its own, as another writer does. A file of
// which no row is left leaves the table.
func (f *fixture) kill(doomed map[int64]bool) *delta.Snapshot {
	f.t.Helper()
	ctx := context.Background()
	s := f.newest()
	tx := delta.NewTransaction(f.table, s)
	for _, add := range s.Files() {
		key, err := action.Key(add.Path)
		f.must(err)
		raw, err := f.store.Get(ctx, key)
		f.must(err)
		file, err := parquet.OpenBytes(raw)
		f.must(err)
		dead, err := delta.ReadDeletionVector(ctx, f.store, add)
		f.must(err)
		if dead == nil {
			dead = dv.New()
		}
		before := dead.Cardinality()
		for b, err := range file.Scan(ctx, []parquet.Column{{Name: "id", Type: schema.Of(schema.Long)}}, parquet.ScanOptions{}) {
			f.must(err)
			for i := range b.Rows {
				if doomed[b.Columns[0][i].I] {
					dead.Add(uint32(b.FirstRow) + uint32(i))
				}
			}
		}
		if dead.Cardinality() == before {
			continue
		}
		tx.Remove(delta.RemoveOf(add, time.Now(), true))
		if dead.Cardinality() == file.NumRows() {
			continue
		}
		var p dv.Packer
		id := uuid.New()
		offset, size, n, err := p.Append(dead)
		f.must(err)
		f.must(f.store.Put(ctx, dv.FileName(id), p.Bytes()))
		again := *add
		again.DataChange = true
		again.DeletionVector = &action.DeletionVector{StorageType: "u", PathOrInlineDV: dv.PathOfID(id), Offset: &offset, SizeInBytes: size, Cardinality: n}
		tx.Add(&again)
	}
	tx.SetCommitInfo("DELETE", nil, nil, nil)
	return f.commit(tx)
}
