package write_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/write"
)

var errBroken = errors.New("the storage broke")

// breaking fails one call of a store, counted from 0.
type breaking struct {
	objstore.Store
	mu    sync.Mutex
	calls int
	at    int
}

func (b *breaking) next() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	if b.calls-1 == b.at {
		return errBroken
	}
	return nil
}

// made gives the calls so far. What reads ahead may still be at work behind an error.
func (b *breaking) made() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls
}

func (b *breaking) Get(ctx context.Context, key string) ([]byte, error) {
	if err := b.next(); err != nil {
		return nil, err
	}
	return b.Store.Get(ctx, key)
}

func (b *breaking) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	if err := b.next(); err != nil {
		return nil, err
	}
	return b.Store.GetRange(ctx, key, offset, length)
}

func (b *breaking) Put(ctx context.Context, key string, data []byte) error {
	if err := b.next(); err != nil {
		return err
	}
	return b.Store.Put(ctx, key, data)
}

func (b *breaking) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	if err := b.next(); err != nil {
		return err
	}
	return b.Store.PutIfAbsent(ctx, key, data)
}

// Whichever call of the storage fails, an operation is done or not done, says so, and
// leaves nothing behind.
func TestEveryCallMayFail(t *testing.T) {
	ops := map[string]func(*delta.Table) (write.Result, error){
		"append": func(t *delta.Table) (write.Result, error) {
			return write.Append(ctx, t, values([]any{7, "a", 1}, []any{8, "c", 1}))
		},
		"overwrite": func(t *delta.Table) (write.Result, error) { return write.Overwrite(ctx, t, values([]any{7, "a", 1})) },
		"delete":    func(t *delta.Table) (write.Result, error) { return write.Delete(ctx, t, "id = 1 OR id = 3") },
		"update": func(t *delta.Table) (write.Result, error) {
			return write.Update(ctx, t, "id <> 2", write.Set{"n": 5, "p": "x"})
		},
		"merge": func(t *delta.Table) (write.Result, error) {
			return write.Merge(ctx, t, write.MergeInto{Key: []string{"id"}}, values([]any{1, "m", 1}, []any{9, "m", 1}))
		},
		"replace where": func(t *delta.Table) (write.Result, error) {
			return write.ReplaceWhere(ctx, t, "n < 1", values([]any{4, "z", 0}))
		},
		"restore": func(t *delta.Table) (write.Result, error) { return write.Restore(ctx, t, 0) },
		"constraint": func(t *delta.Table) (write.Result, error) {
			return write.Alter(ctx, t, []write.Change{write.AddConstraint("c", "n < 100")})
		},
		"replace": func(t *delta.Table) (write.Result, error) {
			return write.Replace(ctx, t, write.Definition{Columns: columns(noTester{}, "a long")}, values([]any{1}))
		},
	}
	for name, op := range ops {
		for _, mode := range []string{"rewrite with feed", "vectors", "vectors with feed"} {
			t.Run(name+" "+mode, func(t *testing.T) {
				for i := 0; ; i++ {
					store := mem.New()
					table := delta.New(store)
					must(t)(write.Create(ctx, table, write.Definition{Columns: columns(t, "id long, p string, n long"), PartitionBy: []string{"p"}, Properties: modes[mode]},
						values([]any{1, "a", 0}, []any{2, "a", 1}, []any{3, "b", 0})))
					must(t)(write.Append(ctx, table, values([]any{4, "a", 0})))
					before, objects := rows(t, table, -1), dataFiles(t, table)
					broken := &breaking{Store: store, at: i}
					r, err := op(delta.New(broken))
					if broken.made() <= i {
						if err != nil || !r.Committed {
							t.Fatalf("nothing failed: %+v, %v", r, err)
						}
						if i < 2 {
							t.Errorf("%d calls", i)
						}
						return
					}
					if err == nil {
						continue // it helped itself
					}
					if !errors.Is(err, errBroken) || r.Committed {
						t.Fatalf("call %d: %+v, %v", i, r, err)
					}
					if got := rows(t, table, -1); !slices.Equal(got, before) {
						t.Fatalf("call %d: %q, was %q", i, got, before)
					}
					if got := dataFiles(t, table); !slices.Equal(got, objects) {
						t.Fatalf("call %d left %q beside %q", i, got, objects)
					}
				}
			})
		}
	}
}

type noTester struct{}

func (noTester) Helper()                           {}
func (noTester) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// A cancelled context ends an operation, and takes back what it has stored.
func TestCancel(t *testing.T) {
	table := create(t, "id long", "", nil)
	ctx, cancel := context.WithCancel(ctx)
	_, err := write.Append(ctx, table, write.Values([][]any{{1}, {"x"}}))
	if !errors.Is(err, write.ErrRow) || !strings.Contains(err.Error(), "row 1") {
		t.Error(err)
	}
	cancel()
	if _, err := write.Append(ctx, table, values([]any{1})); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got := dataFiles(t, table); len(got) != 0 {
		t.Errorf("%q", got)
	}
}
