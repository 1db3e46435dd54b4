package delta_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
)

const idSchema = `{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}`

var ctx = context.Background()

// tester is what testing.T and rapid.T have in common.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// clock is a settable time.
type clock struct{ at time.Time }

func (c *clock) now() time.Time          { return c.at }
func (c *clock) advance(d time.Duration) { c.at = c.at.Add(d) }
func newClock() *clock                   { return &clock{time.Date(2024, 3, 1, 12, 0, 0, 0, time.UTC)} }
func pointer[T any](v T) *T              { return &v }
func metadata(id string) action.Metadata {
	return action.Metadata{
		ID: id, Format: action.Format{Provider: "parquet"}, SchemaString: idSchema,
		PartitionColumns: []string{}, Configuration: delta.ProtectiveProperties(3650),
	}
}

// newTable makes a table with deletion vectors at version 0, on one clock with its store.
func newTable(t tester, c *clock) (*mem.Store, *delta.Table, *delta.Snapshot) {
	t.Helper()
	store := mem.New()
	store.SetClock(c.now)
	table := delta.New(store, delta.WithClock(c.now), delta.WithEngineInfo("gscd/test"))
	x := delta.NewTransaction(table, nil)
	x.SetMetadata(metadata("table"))
	x.SetProtocol(delta.ProtocolFor(delta.FeatureDeletionVectors))
	return store, table, commit(t, x)
}

// commit commits, which must succeed.
func commit(t tester, x *delta.Transaction) *delta.Snapshot {
	t.Helper()
	out, err := x.Commit(ctx)
	if err != nil || !out.Committed {
		t.Fatalf("commit: %+v, %v", out, err)
	}
	return out.Snapshot
}

func add(path string) *action.Add {
	return &action.Add{Path: path, Size: int64(len(path)), ModificationTime: 1, DataChange: true, Stats: `{"numRecords":10}`}
}

// withVector is the same file under the n-th deletion vector.
func withVector(a *action.Add, n int) *action.Add {
	again := *a
	again.DeletionVector = &action.DeletionVector{StorageType: "u", PathOrInlineDV: vectorPath(n), Offset: pointer(int32(1)), SizeInBytes: 34, Cardinality: int64(n)}
	return &again
}

func vectorPath(n int) string { return fmt.Sprintf("^-aqEH.-t@S}K{v%05d", n%1000) }

func files(s *delta.Snapshot) string {
	var list []string
	for _, a := range s.Files() {
		text := a.Path
		if a.DeletionVector != nil {
			text += fmt.Sprintf("(%d)", a.DeletionVector.Cardinality)
		}
		list = append(list, text)
	}
	return strings.Join(list, " ")
}

// state is everything of a snapshot that a reopened one must show too.
func state(s *delta.Snapshot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version %d files %s txns", s.Version(), files(s))
	for txn := range s.Txns() {
		fmt.Fprintf(&b, " %s=%d", txn.AppID, txn.Version)
	}
	fmt.Fprintf(&b, " metadata %s", s.Metadata().ID)
	for _, key := range slices.Sorted(maps.Keys(s.Metadata().Configuration)) {
		fmt.Fprintf(&b, " %s=%s", key, s.Metadata().Configuration[key])
	}
	fmt.Fprintf(&b, " protocol %d,%d %v %v", s.Protocol().MinReaderVersion, s.Protocol().MinWriterVersion, s.Protocol().ReaderFeatures, s.Protocol().WriterFeatures)
	return b.String()
}

// flaky fails chosen calls of a store.
type flaky struct {
	objstore.Store
	mu    sync.Mutex
	calls int
	// fail says what call n does, counted from 0. apply: the write happens all the same.
	fail func(n int, op, key string) (apply bool, err error)
}

func (f *flaky) next(op, key string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.calls
	f.calls++
	return f.fail(n, op, key)
}

func (f *flaky) Get(ctx context.Context, key string) ([]byte, error) {
	if _, err := f.next("get", key); err != nil {
		return nil, err
	}
	return f.Store.Get(ctx, key)
}

func (f *flaky) Head(ctx context.Context, key string) (objstore.Object, error) {
	if _, err := f.next("head", key); err != nil {
		return objstore.Object{}, err
	}
	return f.Store.Head(ctx, key)
}

func (f *flaky) Put(ctx context.Context, key string, data []byte) error {
	apply, err := f.next("put", key)
	if err == nil || apply {
		if err := f.Store.Put(ctx, key, data); err != nil {
			return err
		}
	}
	return err
}

func (f *flaky) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	apply, err := f.next("putIfAbsent", key)
	if err == nil || apply {
		if err := f.Store.PutIfAbsent(ctx, key, data); err != nil {
			return err
		}
	}
	return err
}

func (f *flaky) Delete(ctx context.Context, key string) error {
	apply, err := f.next("delete", key)
	if err == nil || apply {
		if err := f.Store.Delete(ctx, key); err != nil {
			return err
		}
	}
	return err
}

func (f *flaky) List(ctx context.Context, prefix, startAfter string) iter.Seq2[objstore.Object, error] {
	if _, err := f.next("list", prefix); err != nil {
		return func(yield func(objstore.Object, error) bool) { yield(objstore.Object{}, err) }
	}
	return f.Store.List(ctx, prefix, startAfter)
}

func keys(t testing.TB, store objstore.Store, prefix string) []string {
	t.Helper()
	var list []string
	for o, err := range store.List(ctx, prefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, strings.TrimPrefix(o.Key, prefix))
	}
	return list
}
