package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/savepoint"
)

// point is a version that a command line names.
type point struct {
	name     string // as it was asked for
	label    any    // its label or named savepoint, nil where it has none
	snapshot *delta.Snapshot
}

// pointNamed finds a version by what --as-of takes, by the name of a savepoint, or by
// @VERSION.
func (a *app) pointNamed(ctx context.Context, t *openedTable, name string) (p point, err error) {
	p = point{name: name, label: name}
	version, isVersion := strings.CutPrefix(name, "@")
	switch {
	case isVersion:
		n, err := strconv.ParseInt(version, 10, 64)
		if err != nil || n < 0 {
			return p, usagef("%s: write @ and the number of a version", name)
		}
		p.label = nil
		if p.snapshot, err = t.versionAt(ctx, n, false); err != nil {
			return p, fmt.Errorf("table %s: %w", t.Name, err)
		}
	case t.labels == nil:
		return p, fmt.Errorf("table %s: %w: it has no labels, name versions as @3", t.Name, savepoint.ErrForeign)
	default:
		i := slices.IndexFunc(t.labels.Named, func(n savepoint.Named) bool { return n.Name == name })
		if i < 0 {
			p.snapshot, err = a.asOf(ctx, t, name, false)
		} else if p.snapshot, err = t.table.SnapshotAt(ctx, t.labels.Named[i].Version); err != nil {
			err = fmt.Errorf("savepoint %s: %w; `gscd check` says more", name, err)
		}
		if err != nil {
			return p, err
		}
	}
	if err := savepoint.Verify(ctx, t.table, p.snapshot); err != nil {
		return p, fmt.Errorf("table %s: %w; run gscd check", t.Name, err)
	}
	return p, nil
}

// goneFiles says of an error in reading the rows of a day which days can be read still.
func (t *openedTable) goneFiles(ctx context.Context, name string, err error) error {
	if !errors.Is(err, scan.ErrFileMissing) && !errors.Is(err, scan.ErrFileMismatch) {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if list := t.stillReadable(ctx); list != "" {
		return fmt.Errorf("read %s: %w; %s; run gscd check", name, err, list)
	}
	return fmt.Errorf("read %s: %w; run gscd check", name, err)
}

// stillReadable says which sealed days have all of their files, "" where that is not known.
func (t *openedTable) stillReadable(ctx context.Context) string {
	whole, err := t.wholeDays(ctx)
	switch {
	case t.labels == nil || err != nil:
		return ""
	case len(whole) == 0:
		return "no sealed day has all of its files"
	}
	const most = 10
	list := strings.Join(whole[max(0, len(whole)-most):], ", ")
	if len(whole) > most {
		list = fmt.Sprintf("%d days, the last are %s", len(whole), list)
	}
	return "what can still be read: " + list
}

// wholeDays names the sealed labels none of whose files and deletion vectors is missing
// from the storage.
func (t *openedTable) wholeDays(ctx context.Context) (names []string, err error) {
	if t.labels == nil {
		return nil, nil
	}
	there := map[string]bool{}
	for o, err := range t.store.List(ctx, "", "") {
		if err != nil {
			return nil, err
		}
		there[o.Key] = true
	}
	days := map[int64][]string{}
	var versions []int64
	for _, e := range t.labels.Entries {
		if e.State == savepoint.Sealed && !e.Kept {
			days[e.Version] = append(days[e.Version], e.Name)
			versions = append(versions, e.Version)
		}
	}
	slices.Sort(versions)
	whole := map[int64]bool{}
	err = t.table.EachSnapshot(ctx, slices.Compact(versions), func(version int64, s *delta.Snapshot, err error) error {
		if err != nil {
			return nil // a day that can't be opened is not one to name
		}
		for _, add := range s.Files() {
			store, key, err := delta.Locate(t.store, add.Path)
			if err != nil || store == objstore.Store(t.store) && !there[key] {
				return nil
			}
			if add.DeletionVector == nil {
				continue
			}
			if key, stored, err := delta.VectorKey(add.DeletionVector); err != nil || stored && !there[key] {
				return nil
			}
		}
		whole[version] = true
		return nil
	})
	for _, e := range t.labels.Entries {
		if e.State == savepoint.Sealed && !e.Kept && whole[e.Version] {
			names = append(names, e.Name)
		}
	}
	return names, err
}
