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

// DeadLettersUpTo counts the dead letters of all labels up to one: those that its
// rows may lack.
func (m *Map) DeadLettersUpTo(p *progress.Progress, label snapshotter.Label) (n int64) {
	for name, count := range p.DeadLetters {
		if l, err := m.Calendar.Parse(name); err == nil && l <= label {
			n += count
		}
	}
	return n
}

// progressReaders is how many commits are read at a time.
const progressReaders = 16

// readProgress reads the progress of versions, each once, side by side.
// Versions that can't be read are in faults.
func readProgress(ctx context.Context, table *delta.Table, versions []int64) (read map[int64]*progress.Progress, faults map[int64]error) {
	read, faults = map[int64]*progress.Progress{}, map[int64]error{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	work := make(chan int64)
	for range min(progressReaders, len(versions)) {
		wg.Go(func() {
			for v := range work {
				p, err := progressAt(ctx, table, v)
				mu.Lock()
				if err != nil {
					faults[v] = err
				} else {
					read[v] = p
				}
				mu.Unlock()
			}
		})
	}
	for _, v := range versions {
		work <- v
	}
	close(work)
	wg.Wait()
	return read, faults
}
