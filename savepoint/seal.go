package savepoint

import (
	"context"
	"fmt"
	"sync"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/snapshotter"
)

// Seal is what the commit of a savepoint says: the evidence of its label, and
// the progress to go on from.
type Seal struct {
	Evidence *progress.Evidence
	Progress *progress.Progress
}

// Seal reads the commit that sealed an entry's label. The error wraps ErrNotSealer
// where that version did not seal it, and *delta.VersionNotFoundError where its commit file is gone.
func (m *Map) Seal(ctx context.Context, table *delta.Table, e Entry) (*Seal, error) {
	p, err := progressAt(ctx, table, e.Version)
	if err != nil {
		return nil, err
	}
	return sealIn(p, e)
}

func sealIn(p *progress.Progress, e Entry) (*Seal, error) {
	for i := range p.Seals {
		if p.Seals[i].Label == e.Label {
			return &Seal{&p.Seals[i], p}, nil
		}
	}
	return nil, fmt.Errorf("%w: version %d, which the map names for %s; `gscd check` says more", ErrNotSealer, e.Version, e.Name)
}

// DeadLettersUpTo counts the dead letters of all labels up to one that its rows
// may lack. One that was replayed, superseded or dismissed in a later label
// counts: a sealed day is as it was.
func (m *Map) DeadLettersUpTo(p *progress.Progress, label snapshotter.Label) int64 {
	return p.DeadLettersAsOf(func(name string) bool {
		l, err := m.Calendar.Parse(name)
		return err == nil && l <= label
	})
}

// readProgress reads the progress of versions, each once, side by side.
// Versions that can't be read are in faults.
func readProgress(ctx context.Context, table *delta.Table, versions []int64) (read map[int64]*progress.Progress, faults map[int64]error) {
	read, faults = map[int64]*progress.Progress{}, map[int64]error{}
	var mu sync.Mutex
	sideBySide(versions, func(v int64) {
		p, err := progressAt(ctx, table, v)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			faults[v] = err
		} else {
			read[v] = p
		}
	})
	return read, faults
}

// readers is how many objects are read at a time: enough to hide the latency of
// an object store.
const readers = 16

// sideBySide calls do with every item, some at a time.
func sideBySide[T any](items []T, do func(T)) {
	work := make(chan T)
	var wg sync.WaitGroup
	for range min(readers, len(items)) {
		wg.Go(func() {
			for item := range work {
				do(item)
			}
		})
	}
	for _, item := range items {
		work <- item
	}
	close(work)
	wg.Wait()
}
