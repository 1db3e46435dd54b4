package upsert_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/upsert"
)

// keyed is a table of (id, v) that is written by key, beside a map of its rows.
type keyed struct {
	t      *testing.T
	schema *schema.Schema
	store  objstore.Store
	table  *delta.Table
	w      *upsert.Writer
	base   *delta.Snapshot
	rows   map[int64]string
	r      *rand.Rand
	step   int
}

var origin = []parquet.Column{{Name: "_origin", Type: schema.Of(schema.Long)}}

func newKeyed(t *testing.T, seed uint64) *keyed {
	s, err := schema.New(
		schema.Field{Name: "id", Type: schema.Of(schema.Long), Nullable: true}, schema.Field{Name: "v", Type: schema.Of(schema.StringType), Nullable: true})
	if err != nil {
		t.Fatal(err)
	}
	store := mem.New()
	return &keyed{t: t, schema: s, store: store, table: delta.New(store), rows: map[int64]string{}, r: rand.New(rand.NewPCG(seed, 3)),
		w: upsert.New(store, upsert.Options{Key: []string{"id"}, Hidden: origin})}
}

func keyOf(id int64) string { return string(schema.IntValue(id).AppendEncoded(nil)) }

// batch puts and deletes some rows of the keys below most.
func (k *keyed) batch(n int, most int64) {
	k.t.Helper()
	k.step++
	b := &upsert.Batch{Schema: k.schema, Killed: map[uint32]*dv.Bitmap{}}
	seen := map[int64]bool{}
	for range n {
		id := k.r.Int64N(most)
		if seen[id] {
			continue
		}
		seen[id] = true
		ref := k.w.Index().Get(keyOf(id))
		if ref != 0 {
			b.Replaced = append(b.Replaced, ref)
		}
		if k.r.IntN(5) == 0 {
			if ref != 0 {
				b.Removed = append(b.Removed, keyOf(id))
				delete(k.rows, id)
			}
			continue
		}
		k.rows[id] = fmt.Sprint(id, " of ", k.step)
		b.Rows = append(b.Rows, []schema.Value{schema.IntValue(id), schema.StringValue(k.rows[id]), schema.IntValue(id * 3)})
		b.Keys, b.Tags = append(b.Keys, keyOf(id)), append(b.Tags, uint16(id%7))
	}
	tx := k.transaction()
	written, err := k.w.Write(k.t.Context(), b, tx)
	if err != nil {
		k.t.Fatal(err)
	}
	k.commit(tx, written)
}

func (k *keyed) transaction() *delta.Transaction {
	tx := delta.NewTransaction(k.table, k.base)
	if k.base == nil {
		tx.SetProtocol(delta.ProtocolFor(delta.FeatureDeletionVectors))
		tx.SetMetadata(action.Metadata{ID: "t", Format: action.Format{Provider: "parquet"}, SchemaString: k.schema.String(), PartitionColumns: []string{},
			Configuration: map[string]string{delta.PropertyDeletionVectors: "true"}})
	}
	return tx
}

func (k *keyed) commit(tx *delta.Transaction, written *upsert.Written) {
	k.t.Helper()
	out, err := tx.Commit(k.t.Context())
	if err != nil || !out.Committed {
		k.t.Fatalf("%+v, %v", out, err)
	}
	if err := k.w.Applied(written); err != nil {
		k.t.Fatal(err)
	}
	k.base = out.Snapshot
}

// plan picks some files at random.
func (k *keyed) plan(carry bool) *upsert.Move {
	k.t.Helper()
	var ids []uint32
	files := k.w.Files()
	for _, f := range files {
		if k.r.IntN(3) > 0 {
			ids = append(ids, f.Segment)
		}
	}
	if len(ids) == 0 {
		ids = append(ids, files[0].Segment)
	}
	m, err := k.w.PlanMove(ids, k.schema, nil, upsert.MoveOptions{Footer: map[string]string{"made": "by a move"}, Carry: carry, FewRows: 100, FewBytes: 1 << 20})
	if err != nil {
		k.t.Fatal(err)
	}
	return m
}

// check holds the table, the index and an index built anew against the map.
func (k *keyed) check() {
	k.t.Helper()
	got := map[int64]string{}
	reading, err := scan.New(k.store, k.base, scan.Options{})
	if err != nil {
		k.t.Fatal(err)
	}
	for b, err := range reading.Batches(k.t.Context()) {
		if err != nil {
			k.t.Fatal(err)
		}
		for i := range b.Rows {
			got[b.Columns[0][i].I] = b.Columns[1][i].S
		}
	}
	if !maps.Equal(got, k.rows) {
		k.t.Fatalf("the table has %d rows, want %d", len(got), len(k.rows))
	}
	anew, err := upsert.Open(k.t.Context(), k.store, k.base, upsert.Options{Key: []string{"id"}, Hidden: origin})
	if err != nil {
		k.t.Fatal(err)
	}
	for _, w := range []*upsert.Writer{k.w, anew} {
		if w.Index().Len() != len(k.rows) {
			k.t.Fatalf("%d keys in the index, want %d", w.Index().Len(), len(k.rows))
		}
		var ids []int64
		var refs []upsert.Ref
		for id := range k.rows {
			ids = append(ids, id)
			refs = append(refs, w.Index().Get(keyOf(id)))
			if w == k.w && refs[len(refs)-1].Tag() != uint16(id%7) {
				k.t.Fatalf("the key %d has lost its tag", id)
			}
		}
		rows, err := w.ReadRows(k.t.Context(), refs, []parquet.Column{{Name: "id", Type: schema.Of(schema.Long)}, {Name: "v", Type: schema.Of(schema.StringType)}, origin[0]})
		if err != nil {
			k.t.Fatal(err)
		}
		for i, id := range ids {
			if rows[i][0].I != id || rows[i][1].S != k.rows[id] || rows[i][2].I != id*3 {
				k.t.Fatalf("the index says that %d is %v, want %q", id, rows[i], k.rows[id])
			}
		}
	}
}

// Files are written anew while batches delete their rows: planned, run and put with
// batches between each, again and again, copied and decoded.
func TestMove(t *testing.T) {
	for seed := range uint64(6) {
		k := newKeyed(t, seed)
		k.batch(9000, 12_000)
		copied, carried := int64(0), int64(0)
		for round := range 12 {
			sizes := []int{6000, 300, 40}
			k.batch(sizes[round%3], 12_000)
			m := k.plan(round%2 == 0)
			if k.r.IntN(2) == 0 {
				k.batch(200, 12_000)
			}
			if err := m.Run(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if k.r.IntN(3) > 0 {
				k.batch(300, 12_000)
			}
			tx := k.transaction()
			written, did, err := k.w.Put(t.Context(), m, tx)
			if err != nil {
				t.Fatal(err)
			}
			k.commit(tx, written)
			copied, carried = copied+did.Copied, carried+did.Dead
			k.check()
		}
		if copied == 0 || carried == 0 {
			t.Errorf("seed %d: %d rows were copied, %d dead ones carried", seed, copied, carried)
		}
	}
}

// All rows die before the Move is put: no file takes their place.
func TestMoveOfNothing(t *testing.T) {
	k := newKeyed(t, 1)
	k.batch(50, 100)
	m := k.plan(false)
	if err := m.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	b := &upsert.Batch{Schema: k.schema}
	for id := range k.rows {
		b.Replaced, b.Removed = append(b.Replaced, k.w.Index().Get(keyOf(id))), append(b.Removed, keyOf(id))
	}
	// All rows but one.
	last := b.Removed[len(b.Removed)-1]
	b.Replaced, b.Removed = b.Replaced[:len(b.Replaced)-1], b.Removed[:len(b.Removed)-1]
	tx := k.transaction()
	written, err := k.w.Write(t.Context(), b, tx)
	if err != nil {
		t.Fatal(err)
	}
	k.commit(tx, written)
	for id := range k.rows {
		if keyOf(id) != last {
			delete(k.rows, id)
		}
	}
	tx = k.transaction()
	if written, _, err = k.w.Put(t.Context(), m, tx); err != nil {
		t.Fatal(err)
	}
	k.commit(tx, written)
	k.check()
	// And that one, once it has moved.
	m = k.plan(true)
	if err := m.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	tx = k.transaction()
	if written, err = k.w.Write(t.Context(), &upsert.Batch{Schema: k.schema, Replaced: []upsert.Ref{k.w.Index().Get(last)}, Removed: []string{last}}, tx); err != nil {
		t.Fatal(err)
	}
	k.commit(tx, written)
	clear(k.rows)
	if _, _, err := k.w.Put(t.Context(), m, k.transaction()); !errors.Is(err, upsert.ErrMoved) {
		t.Errorf("a file that has left the table: %v", err)
	}
	k.check()
}

// Another engine moves the rows: the work is given up.
func TestMoveThatIsTooLate(t *testing.T) {
	k := newKeyed(t, 2)
	k.batch(400, 500)
	k.batch(100, 500)
	m := k.plan(false)
	if err := m.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	other, err := upsert.Open(t.Context(), k.store, k.base, upsert.Options{Key: []string{"id"}, Hidden: origin})
	if err != nil {
		t.Fatal(err)
	}
	var ids []uint32
	for _, f := range other.Files() {
		ids = append(ids, f.Segment)
	}
	tx := k.transaction()
	if _, err := other.Join(t.Context(), ids, k.schema, nil, nil, tx); err != nil {
		t.Fatal(err)
	}
	k.follow(tx)
	if _, _, err := k.w.Put(t.Context(), m, k.transaction()); !errors.Is(err, upsert.ErrMoved) {
		t.Errorf("files that have left the table: %v", err)
	}
}

// follow commits another writer's transaction, and has the Writer follow it.
func (k *keyed) follow(tx *delta.Transaction) {
	k.t.Helper()
	out, err := tx.Commit(k.t.Context())
	if err != nil || !out.Committed {
		k.t.Fatal(out, err)
	}
	if err := k.w.Follow(k.t.Context(), out.Snapshot); err != nil {
		k.t.Fatal(err)
	}
	k.base = out.Snapshot
}

// What was moved is followed: another engine deletes rows of the new file.
func TestFollowBehindAMove(t *testing.T) {
	k := newKeyed(t, 4)
	k.batch(5000, 6000)
	k.batch(3000, 6000)
	m := k.plan(false)
	if err := m.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	tx := k.transaction()
	written, _, err := k.w.Put(t.Context(), m, tx)
	if err != nil {
		t.Fatal(err)
	}
	k.commit(tx, written)
	other, err := upsert.Open(t.Context(), k.store, k.base, upsert.Options{Key: []string{"id"}, Hidden: origin})
	if err != nil {
		t.Fatal(err)
	}
	b := &upsert.Batch{Schema: k.schema}
	for id := range k.rows {
		if id%3 == 0 {
			b.Replaced, b.Removed = append(b.Replaced, other.Index().Get(keyOf(id))), append(b.Removed, keyOf(id))
			delete(k.rows, id)
		}
	}
	tx = k.transaction()
	if _, err := other.Write(t.Context(), b, tx); err != nil {
		t.Fatal(err)
	}
	k.follow(tx)
	for id := range k.rows {
		if k.w.Index().Get(keyOf(id)) == 0 {
			t.Fatalf("the key %d is lost", id)
		}
	}
	if k.w.Index().Len() != len(k.rows) {
		t.Errorf("%d keys, want %d", k.w.Index().Len(), len(k.rows))
	}
}

// A large file is read piece by piece, also long after the index was built from it.
func TestLargeFileStaysOpen(t *testing.T) {
	k := newKeyed(t, 5)
	store, err := local.New(t.TempDir(), local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	k.store, k.table, k.w = store, delta.New(store), upsert.New(store, upsert.Options{Key: []string{"id"}, Hidden: origin})
	b := &upsert.Batch{Schema: k.schema}
	noise := make([]byte, 1<<20)
	for id := range int64(16) {
		for i := range noise {
			noise[i] = byte('a' + k.r.IntN(26))
		}
		b.Rows = append(b.Rows, []schema.Value{schema.IntValue(id), schema.StringValue(string(noise)), schema.IntValue(id)})
		b.Keys, b.Tags = append(b.Keys, keyOf(id)), append(b.Tags, 0)
	}
	tx := k.transaction()
	written, err := k.w.Write(t.Context(), b, tx)
	if err != nil {
		t.Fatal(err)
	}
	k.commit(tx, written)
	if size := k.w.Files()[0].Size; size <= 8<<20 {
		t.Fatalf("a file of %d bytes is read at once", size)
	}
	w, err := upsert.Open(t.Context(), k.store, k.base, upsert.Options{Key: []string{"id"}, Hidden: origin})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := w.ReadRows(t.Context(), []upsert.Ref{w.Index().Get(keyOf(7))}, []parquet.Column{{Name: "v", Type: schema.Of(schema.StringType)}})
	if err != nil || rows[0][0].S != b.Rows[7][1].S {
		t.Error(err)
	}
}
