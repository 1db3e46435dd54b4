package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// day is a label as the status page shows it.
type day struct {
	savepoint.Entry
	// seal is what the label's seal says, nil where it has none.
	seal *sealSummary
}

// sealSummary is the part of an evidence that the page shows.
type sealSummary struct {
	sealedAt         string
	rows, late       int64
	deadLetters      int64
	attributes       []string
	inserts, updates int64
	deletes          int64
}

// sealKey is a label and the version that sealed it.
type sealKey struct {
	label   snapshotter.Label
	version int64
}

// calendarPage remembers what the seals of a table said: they never change.
type calendarPage struct {
	mu    sync.Mutex
	seals map[sealKey]*sealSummary
}

// The bounds of a calendar page.
const (
	mostDays     = 124 // the days of four months
	calendarWait = 10 * time.Second
	sealReaders  = 8
)

// days gives the newest labels of a table, oldest first; none before it was
// loaded. It reads the commit of each seal once.
func (w *watch) days(ctx context.Context) ([]day, error) {
	v, _ := w.state()
	if v.Snapshot == nil || v.Table == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, calendarWait)
	defer cancel()
	m, err := savepoint.Read(ctx, v.Table, v.Snapshot)
	if err != nil {
		return nil, err
	}
	entries := m.Entries
	entries = entries[max(0, len(entries)-mostDays):]
	c := &w.calendar
	c.mu.Lock() // several who ask read the seals once
	defer c.mu.Unlock()
	seals := map[sealKey]*sealSummary{} // of this page alone: the others may be forgotten
	var read []savepoint.Entry
	for _, e := range entries {
		if e.State != savepoint.Sealed && !e.Kept {
			continue
		}
		if known := c.seals[sealKey{e.Label, e.Version}]; known != nil {
			seals[sealKey{e.Label, e.Version}] = known
		} else {
			read = append(read, e)
		}
	}
	found, faults := make([]*sealSummary, len(read)), make([]error, len(read))
	turns := make(chan struct{}, sealReaders)
	var group sync.WaitGroup
	for i, e := range read {
		turns <- struct{}{}
		group.Go(func() {
			defer func() { <-turns }()
			seal, err := m.Seal(ctx, v.Table, e)
			if err != nil {
				faults[i] = fmt.Errorf("%s: %w", e.Name, err)
				return
			}
			found[i] = summaryOf(seal.Evidence)
		})
	}
	group.Wait()
	for i, e := range read {
		if found[i] != nil {
			seals[sealKey{e.Label, e.Version}] = found[i]
		}
	}
	c.seals = seals
	days := make([]day, len(entries))
	for i, e := range entries {
		days[i] = day{e, seals[sealKey{e.Label, e.Version}]}
	}
	return days, cmp.Or(faults...)
}

func summaryOf(e *progress.Evidence) *sealSummary {
	return &sealSummary{
		sealedAt: e.SealedAt, rows: e.Rows, late: e.Counts.Late, deadLetters: e.DeadLetters,
		attributes: slices.Clone(e.Attributes), inserts: e.Counts.Inserts, updates: e.Counts.Updates, deletes: e.Counts.Deletes,
	}
}
