package upsert

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/alloctest"
	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/faulty"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
)

// savedTable is a table that random commits are made on.
type savedTable struct {
	t       *testing.T
	r       *rand.Rand
	store   objstore.Store
	table   *delta.Table
	w       *Writer
	base    *delta.Snapshot
	s       *schema.Schema
	o       Options
	strings bool // keys are no integers
}

func newSavedTable(t *testing.T, seed uint64, store objstore.Store) *savedTable {
	kind := schema.Long
	x := &savedTable{t: t, r: rand.New(rand.NewPCG(seed, 1)), store: store, table: delta.New(store), strings: seed%3 == 0}
	if x.strings {
		kind = schema.StringType
	}
	var err error
	if x.s, err = schema.New(schema.Field{Name: "id", Type: schema.Of(kind), Nullable: true}, schema.Field{Name: "v", Type: schema.Of(schema.Long), Nullable: true}); err != nil {
		t.Fatal(err)
	}
	x.o = Options{Key: []string{"id"}}
	x.w = New(store, x.o)
	return x
}

func (x *savedTable) commit(tx *delta.Transaction, written *Written) {
	x.t.Helper()
	out, err := tx.Commit(x.t.Context())
	if err != nil || !out.Committed {
		x.t.Fatalf("%+v, %v", out, err)
	}
	if err := x.w.Applied(written); err != nil {
		x.t.Fatal(err)
	}
	x.base = out.Snapshot
}

// batch inserts, updates and deletes keys below 3,000.
func (x *savedTable) batch(size int) {
	x.t.Helper()
	tx := delta.NewTransaction(x.table, x.base)
	if x.base == nil {
		tx.SetProtocol(delta.ProtocolFor(delta.FeatureDeletionVectors))
		tx.SetMetadata(action.Metadata{ID: "table-1", Format: action.Format{Provider: "parquet"}, SchemaString: x.s.String(), PartitionColumns: []string{},
			Configuration: map[string]string{delta.PropertyDeletionVectors: "true"}})
	}
	b := &Batch{Schema: x.s}
	for _, n := range x.r.Perm(3000)[:size] {
		id := schema.IntValue(int64(n))
		if x.strings {
			id = schema.StringValue(fmt.Sprint("key ", n))
		} else if n == 7 {
			id = schema.NullValue()
		}
		key := string(id.AppendEncoded(nil))
		ref := x.w.Index().Get(key)
		if ref != 0 {
			b.Replaced = append(b.Replaced, ref)
		}
		if x.r.IntN(4) == 0 {
			if ref != 0 {
				b.Removed = append(b.Removed, key)
			}
			continue
		}
		b.Rows = append(b.Rows, []schema.Value{id, schema.IntValue(x.r.Int64())})
		b.Keys, b.Tags = append(b.Keys, key), append(b.Tags, 0)
	}
	written, err := x.w.Write(x.t.Context(), b, tx)
	if err != nil {
		x.t.Fatal(err)
	}
	x.commit(tx, written)
}

// step makes one commit of some kind.
func (x *savedTable) step() {
	x.t.Helper()
	switch x.r.IntN(6) {
	case 0: // files are joined
		if files := x.w.Files(); len(files) > 2 {
			tx := delta.NewTransaction(x.table, x.base)
			written, err := x.w.Join(x.t.Context(), []uint32{files[0].Segment, files[1].Segment}, x.s, nil, nil, tx)
			if err != nil {
				x.t.Fatal(err)
			}
			x.commit(tx, written)
		}
	case 1: // someone goes back to an older version
		version := x.r.Int64N(x.base.Version() + 1)
		to, err := x.table.SnapshotAt(x.t.Context(), version)
		if err != nil {
			x.t.Fatal(err)
		}
		tx := delta.NewTransaction(x.table, x.base)
		now, then := map[action.FileKey]*action.Add{}, map[action.FileKey]*action.Add{}
		for _, a := range x.base.Files() {
			now[a.Key()] = a
		}
		for _, a := range to.Files() {
			then[a.Key()] = a
		}
		for k, a := range now {
			if then[k] == nil {
				tx.Remove(delta.RemoveOf(a, x.w.now(), true))
			}
		}
		for k, a := range then {
			if now[k] == nil {
				tx.Add(a)
			}
		}
		out, err := tx.Commit(x.t.Context())
		if err != nil || !out.Committed {
			x.t.Fatalf("%+v, %v", out, err)
		}
		x.base = out.Snapshot
		if err := x.w.Follow(x.t.Context(), x.base); err != nil {
			x.t.Fatal(err)
		}
	default:
		x.batch(1 + x.r.IntN(400))
	}
}

// places gives where the row of each key lies.
func (x *savedTable) places(w *Writer) map[string]string {
	out := map[string]string{}
	for n := range int64(3000) {
		keys := []schema.Value{schema.IntValue(n), schema.StringValue(fmt.Sprint("key ", n))}
		if n == 7 {
			keys = append(keys, schema.NullValue())
		}
		for _, v := range keys {
			key := string(v.AppendEncoded(nil))
			if ref := w.Index().Get(key); ref != 0 {
				out[key] = fmt.Sprintf("%s row %d tag %d", w.Path(ref.Segment()), ref.Row(), ref.Tag())
			}
		}
	}
	return out
}

// TestSavedIndexEqualsRebuild saves the index at some commit, beside further ones, makes
// more, and holds what Open makes of the file against an index that is built anew.
func TestSavedIndexEqualsRebuild(t *testing.T) {
	used := 0
	for seed := range uint64(24) {
		x := newSavedTable(t, seed, mem.New())
		x.batch(2000)
		for range x.r.IntN(8) {
			x.step()
		}
		path := filepath.Join(t.TempDir(), "cache", "index")
		saving, err := x.w.Save(t.Context(), path, x.base)
		if err != nil {
			t.Fatal(err)
		}
		for range x.r.IntN(3) {
			x.step() // while it is saved
		}
		if err := saving.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range x.r.IntN(8) {
			x.step()
		}
		anew, err := Open(t.Context(), x.store, x.base, x.o)
		if err != nil {
			t.Fatal(err)
		}
		o := x.o
		o.Saved = path
		refused := error(nil)
		o.SavedFault = func(err error) { refused = err }
		got, err := Open(t.Context(), x.store, x.base, o)
		if err != nil {
			t.Fatal(err)
		}
		if refused == nil {
			used++
		} else if !errors.Is(refused, errSaved) {
			t.Errorf("seed %d: %v", seed, refused)
		}
		if want := x.places(anew); !maps.Equal(x.places(got), want) || got.Index().Len() != len(want) || !maps.Equal(x.places(x.w), want) {
			t.Fatalf("seed %d: the index that was saved has %d keys, one built anew %d, that of the writer %d", seed, got.Index().Len(), len(want), x.w.Index().Len())
		}
		// What was opened goes on as any other.
		x.w = got
		x.batch(300)
	}
	if used < 20 {
		t.Errorf("%d of 24 files were used", used)
	}
}

// TestSavedIndexIsRefused alters the file, the table or the key: the index is built anew.
func TestSavedIndexIsRefused(t *testing.T) {
	x := newSavedTable(t, 1, mem.New())
	x.batch(1500)
	x.batch(200)
	path := filepath.Join(t.TempDir(), "index")
	saving, err := x.w.Save(t.Context(), path, x.base)
	if err == nil {
		err = saving.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	open := func(data []byte, base *delta.Snapshot, o Options) error {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		var refused error
		o.Saved, o.SavedFault = path, func(err error) { refused = err }
		w, err := Open(t.Context(), x.store, base, o)
		if err != nil {
			t.Fatal(err)
		}
		if w.Index().Len() != x.w.Index().Len() && base == x.base {
			t.Fatalf("%d keys, want %d", w.Index().Len(), x.w.Index().Len())
		}
		return refused
	}
	if err := open(good, x.base, x.o); err != nil {
		t.Fatalf("as it was written: %v", err)
	}
	for n := 0; n < len(good); n += 1 + n/3 {
		if err := open(good[:n], x.base, x.o); !errors.Is(err, errSaved) {
			t.Errorf("cut to %d of %d bytes: %v", n, len(good), err)
		}
	}
	for range 60 {
		bad, at := slices.Clone(good), x.r.IntN(len(good))
		bad[at] ^= 1 << x.r.IntN(8)
		if err := open(bad, x.base, x.o); !errors.Is(err, errSaved) {
			t.Errorf("byte %d altered: %v", at, err)
		}
	}
	for what, data := range map[string][]byte{
		"with more behind it": append(slices.Clone(good), 0), "of another format": append([]byte("gscdidx9"), good[8:]...),
	} {
		if err := open(data, x.base, x.o); !errors.Is(err, errSaved) {
			t.Errorf("%s: %v", what, err)
		}
	}
	older, err := x.table.SnapshotAt(t.Context(), x.base.Version()-1)
	if err != nil {
		t.Fatal(err)
	}
	if err := open(good, older, x.o); err == nil || !strings.Contains(err.Error(), "version") {
		t.Errorf("of a later version: %v", err)
	}
	other := newSavedTable(t, 1, mem.New())
	other.batch(10)
	other.o.Saved = path
	var refused error
	other.o.SavedFault = func(err error) { refused = err }
	if w, err := Open(t.Context(), other.store, other.base, other.o); err != nil || w.Index().Len() != other.w.Index().Len() {
		t.Errorf("of another table under the same id: %v", err)
	}
	_ = refused // its files are others, so nothing of the file is taken; that may be found out or not
	o := x.o
	o.TagColumns = []string{"other"}
	if err := open(good, x.base, o); !errors.Is(err, errSaved) {
		t.Errorf("with other tags: %v", err)
	}
}

// TestSavedIndexSparesRequests counts what a start asks of the store with a saved index
// and without.
func TestSavedIndexSparesRequests(t *testing.T) {
	counted := faulty.New(mem.New())
	data, reads := 0, 0
	counted.Fail(func(c faulty.Call) *faulty.Fault {
		if strings.HasSuffix(c.Key, ".parquet") && c.Op != faulty.Put {
			data++
		} else if strings.HasSuffix(c.Key, ".bin") && c.Op != faulty.Put {
			reads++
		}
		return nil
	})
	x := newSavedTable(t, 1, counted)
	for range 12 {
		x.batch(100)
	}
	path := filepath.Join(t.TempDir(), "index")
	saving, err := x.w.Save(t.Context(), path, x.base)
	if err == nil {
		err = saving.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	o := x.o
	o.Saved, o.SavedFault = path, func(err error) { t.Error(err) }
	requests := func(o Options) [2]int {
		data, reads = 0, 0
		if _, err := Open(t.Context(), x.store, x.base, o); err != nil {
			t.Fatal(err)
		}
		return [2]int{data, reads}
	}
	files := len(x.base.Files())
	if with, without := requests(o), requests(x.o); with != [2]int{} || without[0] != files {
		t.Errorf("requests for data files and vectors with a saved index %v, without %v, of %d files", with, without, files)
	}
	x.batch(100)
	if with, without := requests(o), requests(x.o); with[0] != 1 || without[0] != files+1 {
		t.Errorf("one batch later, with a saved index %v, without %v", with, without)
	}
}

// FuzzReadSaved reads bytes that may be anything.
func FuzzReadSaved(f *testing.F) {
	f.Add([]byte(savedMagic))
	f.Add(append([]byte(savedMagic), bytes.Repeat([]byte{255}, 64)...))
	f.Add(append([]byte(savedMagic+"\x02\x00\x00\x00\x00\x00\x00\x00{}"), make([]byte, 32)...))
	store := mem.New()
	f.Fuzz(func(t *testing.T, data []byte) {
		y := newSavedTable(t, 1, store)
		if y.base, _ = y.table.Snapshot(t.Context()); y.base == nil {
			y.batch(5)
		}
		alloctest.Within(t, len(data), 64, 1<<20, func() {
			w := New(store, y.o)
			if err := w.readSaved(bytes.NewReader(data), int64(len(data)), y.base); err == nil && len(w.segments) > 0 {
				t.Error("bytes with a right sum by chance")
			}
		})
	})
}
