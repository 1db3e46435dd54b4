package integration

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/gscd-io/gscd/delta/objstore"
)

// errKilled is what every call of a store answers after its process was killed.
var errKilled = errors.New("the process was killed")

// gate is a store whose calls can be watched, failed and stopped. before and
// after see the name of a call and its key; an error of theirs is the call's.
type gate struct {
	objstore.Store
	mu            sync.Mutex
	before, after func(call, key string) error
	dead          bool
}

func (g *gate) hooks(before, after func(call, key string) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before, g.after, g.dead = before, after, false
}

func (g *gate) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dead = true
}

func (g *gate) ask(hook func() func(call, key string) error, call, key string) error {
	g.mu.Lock()
	dead, h := g.dead, hook()
	g.mu.Unlock()
	if dead {
		return errKilled
	}
	if h == nil {
		return nil
	}
	if err := h(call, key); err != nil {
		return fmt.Errorf("%s %s: %w", call, key, err)
	}
	return nil
}

func (g *gate) around(call, key string, do func() error) error {
	if err := g.ask(func() func(string, string) error { return g.before }, call, key); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return g.ask(func() func(string, string) error { return g.after }, call, key)
}

func (g *gate) Get(ctx context.Context, key string) (data []byte, err error) {
	err = g.around("get", key, func() error { data, err = g.Store.Get(ctx, key); return err })
	return data, err
}

func (g *gate) GetRange(ctx context.Context, key string, offset, length int64) (data []byte, err error) {
	err = g.around("get range", key, func() error { data, err = g.Store.GetRange(ctx, key, offset, length); return err })
	return data, err
}

func (g *gate) Head(ctx context.Context, key string) (o objstore.Object, err error) {
	err = g.around("head", key, func() error { o, err = g.Store.Head(ctx, key); return err })
	return o, err
}

func (g *gate) Put(ctx context.Context, key string, data []byte) error {
	return g.around("put", key, func() error { return g.Store.Put(ctx, key, data) })
}

func (g *gate) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return g.around("put if absent", key, func() error { return g.Store.PutIfAbsent(ctx, key, data) })
}

func (g *gate) Delete(ctx context.Context, key string) error {
	return g.around("delete", key, func() error { return g.Store.Delete(ctx, key) })
}

func (g *gate) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Object, error] {
	return func(yield func(objstore.Object, error) bool) {
		if err := g.around("list", prefix, func() error { return nil }); err != nil {
			yield(objstore.Object{}, err)
			return
		}
		g.Store.List(ctx, prefix, after)(yield)
	}
}

// isCommit tells the key of a commit of the log.
func isCommit(key string) bool {
	name, ok := strings.CutPrefix(key, "_delta_log/")
	return ok && len(name) == len("00000000000000000000.json") && strings.HasSuffix(name, ".json")
}
