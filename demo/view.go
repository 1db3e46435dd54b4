package demo

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/deadletter"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/savepoint"
)

// open is the open label's name.
func (v *view) open() string { return v.labels.Calendar.Name(v.progress.State.Open) }

// due reports whether changes that were held for the open label still wait.
func (v *view) due() bool {
	for _, f := range v.progress.Held {
		if f.Label <= v.progress.State.Open {
			return true
		}
	}
	return false
}

// seal gives the map's entry of a sealed label, and why it was sealed.
func (v *view) seal(ctx context.Context, label string) (savepoint.Entry, *progress.Evidence, error) {
	r, err := v.labels.Resolve(label, true)
	if err != nil {
		return savepoint.Entry{}, nil, err
	}
	e, err := v.labels.Evidence(ctx, v.table, r.Entry)
	return r.Entry, e, err
}

// rows are the rows as of a label, in order of the key.
func (v *view) rows(ctx context.Context, label string) ([]schema.Field, [][]schema.Value, error) {
	r, err := v.labels.Resolve(label, false)
	if err != nil {
		return nil, nil, err
	}
	at, err := v.table.SnapshotAt(ctx, r.Entry.Version)
	if err != nil {
		return nil, nil, fmt.Errorf("as of %s: %w", label, err)
	}
	reading, err := scan.New(v.table.Store(), at, scan.Options{})
	if err != nil {
		return nil, nil, err
	}
	var rows [][]schema.Value
	for row, err := range reading.Rows(ctx) {
		if err != nil {
			return nil, nil, fmt.Errorf("as of %s: %w", label, err)
		}
		rows = append(rows, slices.Clone(row))
	}
	slices.SortFunc(rows, func(a, b []schema.Value) int { return cmp.Compare(a[0].I, b[0].I) })
	return reading.Columns(), rows, nil
}

// printRows prints the rows as of a label.
func (v *view) printRows(ctx context.Context, p *page, label string) error {
	columns, rows, err := v.rows(ctx, label)
	if err != nil {
		return err
	}
	w, err := output.NewWriter(output.Table, p.out, columns)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := w.Write(row); err != nil {
			return err
		}
	}
	return w.Close()
}

// printCities prints a line for each user and a column for each label.
func (v *view) printCities(ctx context.Context, p *page, labels ...string) error {
	names := map[int64]string{}
	cities := map[int64][]any{}
	for i, label := range labels {
		_, rows, err := v.rows(ctx, label)
		if err != nil {
			return err
		}
		for _, row := range rows {
			id := row[0].I
			if cities[id] == nil {
				cities[id] = make([]any, len(labels))
				for j := range cities[id] {
					cities[id][j] = "-"
				}
			}
			names[id], cities[id][i] = row[1].S, row[2].S
		}
	}
	w, err := output.NewRecordWriter(output.Table, p.out, append([]string{"id", "name"}, labels...))
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(names)) {
		if err := w.Write(append([]any{id, names[id]}, cities[id]...)...); err != nil {
			return err
		}
	}
	return w.Close()
}

// printMap prints the map, with as many of its columns as fit a terminal.
func (v *view) printMap(ctx context.Context, p *page) error {
	list, err := v.labels.Summaries(ctx, v.table, v.snapshot)
	if err != nil {
		return err
	}
	w, err := output.NewRecordWriter(output.Table, p.out, []string{"label", "version", "state", "rows", "drift", "late", "attributes"})
	if err != nil {
		return err
	}
	for _, s := range list {
		if err := w.Write(s.Name, s.Version, string(s.State), s.Rows, s.Counts.Drift, s.Counts.Late, s.Attributes); err != nil {
			return err
		}
	}
	return w.Close()
}

// printDeadLetters prints what could not be applied.
func printDeadLetters(ctx context.Context, s *stage, p *page) error {
	w, err := output.NewRecordWriter(output.Table, p.out, []string{"partition", "offset", "key", "reason", "open_label"})
	if err != nil {
		return err
	}
	var list []deadletter.Entry
	err = deadletter.Open(s.deadLetters).Each(ctx, func(e deadletter.Entry) error {
		list = append(list, e)
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b deadletter.Entry) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
	for _, e := range list {
		if err := w.Write(e.Partition, e.Offset, string(e.Key), e.Reason, e.OpenLabel); err != nil {
			return err
		}
	}
	return w.Close()
}
