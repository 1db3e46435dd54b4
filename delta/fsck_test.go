package delta_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore/mem"
)

// Files that are missing, of another size, or nobody's are told, and the missing ones
// leave the table where that is asked for.
func TestCheckFiles(t *testing.T) {
	clock := time.Now()
	store := mem.New()
	table := delta.New(store, delta.WithClock(func() time.Time { return clock }))
	put := func(key string, size int) {
		t.Helper()
		if err := store.Put(ctx, key, bytes.Repeat([]byte{1}, size)); err != nil {
			t.Fatal(err)
		}
	}
	offset := int32(1)
	vector := func(id string) *action.DeletionVector {
		return &action.DeletionVector{StorageType: "u", PathOrInlineDV: id, Offset: &offset, SizeInBytes: 10, Cardinality: 1}
	}
	short, gone := vector("vBn[lx{q8@P<9BNH/isA"), vector("ab^-aqEH.-t@S}K{vb[*k^")
	shortKey, _, err := delta.VectorKey(short)
	if err != nil {
		t.Fatal(err)
	}
	goneKey, _, err := delta.VectorKey(gone)
	if err != nil {
		t.Fatal(err)
	}
	tx := delta.NewTransaction(table, nil)
	tx.SetProtocol(delta.ProtocolFor(delta.FeatureDeletionVectors))
	tx.SetMetadata(action.Metadata{ID: "id", Format: action.Format{Provider: "parquet"}, SchemaString: `{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}}]}`, PartitionColumns: []string{}})
	for _, a := range []struct {
		key    string
		vector *action.DeletionVector
	}{{"good.parquet", nil}, {"missing 1.parquet", nil}, {"long.parquet", nil}, {"short vector.parquet", short}, {"no vector.parquet", gone}} {
		tx.Add(&action.Add{Path: action.EncodePath(a.key), PartitionValues: map[string]*string{}, Size: 5, DataChange: true, Stats: `{"numRecords":3}`, DeletionVector: a.vector})
	}
	if outcome, err := tx.Commit(ctx); err != nil || !outcome.Committed {
		t.Fatal(outcome, err)
	}
	put("good.parquet", 5)
	put("long.parquet", 6)
	put("short vector.parquet", 5)
	put("no vector.parquet", 5)
	put("nobody's.parquet", 7)
	put(shortKey, 18)
	clock = clock.Add(3 * time.Hour)
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	got, err := table.CheckFiles(ctx, s, true)
	if err != nil {
		t.Fatal(err)
	}
	want := []delta.FileFault{
		{Kind: delta.MissingFile, Key: "missing 1.parquet", Path: "missing%201.parquet", Size: -1, Want: 5},
		{Kind: delta.MissingVector, Key: goneKey, Path: "no%20vector.parquet", Size: -1, Want: 19},
		{Kind: delta.OrphanFile, Key: "nobody's.parquet", Size: 7, Want: -1},
		{Kind: delta.WrongSize, Key: shortKey, Path: "short%20vector.parquet", Size: 18, Want: 19},
		{Kind: delta.WrongSize, Key: "long.parquet", Path: "long.parquet", Size: 6, Want: 5},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	version, lost, err := table.ForgetMissing(ctx)
	if err != nil || version != 1 || len(lost) != 1 || lost[0] != want[0] {
		t.Fatal(version, lost, err)
	}
	if s, err = table.Snapshot(ctx); err != nil || s.NumFiles() != 4 {
		t.Errorf("%v, %v", s, err)
	}
	if version, lost, err = table.ForgetMissing(ctx); err != nil || version != -1 || len(lost) != 0 {
		t.Errorf("nothing is missing: %d, %v, %v", version, lost, err)
	}
}
