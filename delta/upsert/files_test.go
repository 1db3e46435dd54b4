package upsert_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/upsert"
)

// meeting is a store whose puts wait for one another: each ends when as many are under
// way as are to meet.
type meeting struct {
	objstore.Store
	waiting, most atomic.Int64
	met           chan struct{}
	once          sync.Once
	fault         error // of the first
	calls         atomic.Int64
}

func (m *meeting) Put(ctx context.Context, key string, data []byte) error {
	if n := m.calls.Add(1); m.fault != nil && n == 1 {
		return m.fault
	}
	n := m.waiting.Add(1)
	defer m.waiting.Add(-1)
	for old := m.most.Load(); n > old && !m.most.CompareAndSwap(old, n); old = m.most.Load() {
	}
	if n == 3 {
		m.once.Do(func() { close(m.met) }) // others may come when one has left
	}
	select {
	case <-m.met:
	case <-time.After(5 * time.Second):
		return errors.New("nobody else came")
	case <-ctx.Done():
		return ctx.Err()
	}
	return m.Store.Put(ctx, key, data)
}

func cities(t *testing.T) *upsert.Batch {
	t.Helper()
	s, err := schema.New(schema.Field{Name: "id", Type: schema.Of(schema.Long), Nullable: true}, schema.Field{Name: "city", Type: schema.Of(schema.StringType), Nullable: true})
	if err != nil {
		t.Fatal(err)
	}
	b := &upsert.Batch{Schema: s, PartitionBy: []string{"city"}}
	for i, city := range []string{"Beijing", "Wuhan", "Xi'an", "Suzhou", "Nanjing", "Chengdu"} {
		b.Rows = append(b.Rows, []schema.Value{schema.IntValue(int64(i)), schema.StringValue(city)})
		b.Keys = append(b.Keys, city)
		b.Tags = append(b.Tags, 0)
	}
	return b
}

// The files of a batch's partitions are on their way at the same time, and not all at
// once.
func TestPartitionsAreStoredTogether(t *testing.T) {
	m := &meeting{Store: mem.New(), met: make(chan struct{})}
	w := upsert.New(m, upsert.Options{Key: []string{"id"}})
	written, err := w.Write(t.Context(), cities(t), delta.NewTransaction(delta.New(m), nil))
	if err != nil {
		t.Fatal(err)
	}
	if most := m.most.Load(); most < 3 || most > 4 || len(written.Files()) != 6 {
		t.Errorf("%d files, %d of them at one time", len(written.Files()), most)
	}
}

// One that can't be stored ends the others, and its error is told.
func TestPartitionThatIsNotStored(t *testing.T) {
	fault := errors.New("the disk is full")
	m := &meeting{Store: mem.New(), met: make(chan struct{}), fault: fault}
	w := upsert.New(m, upsert.Options{Key: []string{"id"}})
	began := time.Now()
	_, err := w.Write(t.Context(), cities(t), delta.NewTransaction(delta.New(m), nil))
	if !errors.Is(err, fault) || err.Error() != "write data file: the disk is full" || time.Since(began) > 3*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}
