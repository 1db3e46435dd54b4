package ingest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/ingest/deadletter"
	"github.com/gscd-io/gscd/ingest/settled"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
)

// Dismiss gives dead letters up: from the open label on they don't count any more.
// They stay dead letters, with their bytes. No row changes. A running ingester
// takes the new version up by itself. pick tells of an active entry, without its
// bytes, whether it is meant; with dryRun nothing is committed.
func Dismiss(ctx context.Context, store, deadLetters objstore.Store, pick func(*deadletter.Entry) bool, note string, dryRun bool) ([]Replayed, error) {
	for range conflictTries {
		list, conflict, err := dismiss(ctx, store, deadLetters, pick, note, dryRun)
		if err != nil || conflict == nil {
			return list, err
		}
	}
	return nil, fmt.Errorf("dismiss: %d attempts met other commits; try again", conflictTries)
}

func dismiss(ctx context.Context, store, deadLetters objstore.Store, pick func(*deadletter.Entry) bool, note string, dryRun bool) ([]Replayed, *delta.Conflict, error) {
	table, err := savepoint.OpenTable(ctx, store)
	if err != nil {
		return nil, nil, err
	}
	s, err := table.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	m, err := savepoint.Read(ctx, table, s)
	if err != nil {
		return nil, nil, err
	}
	p := m.Progress.Clone()
	states, err := deadletter.ReadStates(ctx, store, m.Calendar, p)
	if err != nil {
		return nil, nil, err
	}
	version := s.Version() + 1
	resolution := settled.Resolution{State: settled.Dismissed, At: time.Now().UnixMilli(), Version: version, Note: note}
	var list []Replayed
	var items []settled.Item
	err = deadletter.Open(deadLetters).Each(ctx, func(e deadletter.Entry) error {
		if states.Of(&e).State != settled.Active || !pick(&e) {
			return nil
		}
		e.Key, e.Value, e.Headers = nil, nil, nil
		list = append(list, Replayed{Entry: e, State: settled.Dismissed, Version: version, Detail: note})
		items = append(items, settled.Item{Place: e.Place(), Resolution: resolution})
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(list, func(a, b Replayed) int { return a.Entry.Place().Compare(b.Entry.Place()) })
	if dryRun || len(items) == 0 {
		for i := range list {
			list[i].Version = -1
		}
		return list, nil, nil
	}
	if p.Settled, err = settled.Write(ctx, store, p.Settled, items); err != nil {
		return nil, nil, err
	}
	if p.Resolved == nil {
		p.Resolved = map[string]int64{}
	}
	p.Resolved[m.Calendar.Name(p.State.Open)] += int64(len(items))
	p.Totals.Dismissed += int64(len(items))
	p.Kind, p.Late, p.Seals = progress.Maintenance, nil, nil
	savepoint.NoteUnseen(s, p)
	tx := delta.NewTransaction(table, s)
	_, conflict, err := savepoint.Commit(ctx, tx, p, "DISMISS", map[string]string{"deadLetters": fmt.Sprint(len(items)), "note": note})
	return list, conflict, err
}

// SyncDeadLetters makes the dead-letter table's columns say what became of each
// entry, as the newest version of the table tells. It gives how many changed.
func SyncDeadLetters(ctx context.Context, store, deadLetters objstore.Store) (int, error) {
	table, err := savepoint.OpenTable(ctx, store)
	if err != nil {
		return 0, err
	}
	s, err := table.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	m, err := savepoint.Read(ctx, table, s)
	if err != nil {
		return 0, err
	}
	states, err := deadletter.ReadStates(ctx, store, m.Calendar, m.Progress)
	if err != nil {
		return 0, err
	}
	return deadletter.Open(deadLetters).Sync(ctx, states.Of)
}
