package lineage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/marker"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/query/rowkey"
	"github.com/gscd-io/gscd/savepoint"
)

// located is a row of the key and the file that it is in.
type located struct {
	path  string
	cells []schema.Value
	event *Event
}

// visit is a version on the way, and what its commit says of itself.
type visit struct {
	moment   Moment
	markers  []progress.MarkerFile
	rollback bool
}

// walker goes from version to version with a key in hand.
type walker struct {
	table   *delta.Table
	at      *delta.Snapshot
	labels  *savepoint.Map
	o       HistoryOptions
	sources sources
	encoded string // the key as delete markers have it

	find *scan.Reader // the key's columns
	read *scan.Reader // all columns and the hidden ones

	now     *located
	label   string          // of the last commit of gscd
	jumped  *delta.Snapshot // the version that was jumped to last
	pinned  map[int64]bool  // versions that must have their files
	history KeyHistory
}

func newWalker(table *delta.Table, at *delta.Snapshot, labels *savepoint.Map, o HistoryOptions) (*walker, error) {
	w := &walker{table: table, at: at, labels: labels, o: o}
	s := at.Schema()
	w.history = KeyHistory{Columns: s.Fields, First: -1, Last: -1}
	w.pinned = map[int64]bool{at.Version(): true}
	if labels != nil {
		w.sources = sourcesOf(labels.Progress)
		for _, version := range labels.Pinned() {
			w.pinned[version] = true
		}
	}
	var columns []schema.Field
	var key []byte
	for _, c := range o.Key {
		i := s.IndexFold(c.Column)
		if i < 0 {
			return nil, fmt.Errorf("%w: there is no column %s", rowkey.ErrKey, c.Column)
		}
		var v schema.Value
		if c.Text != nil {
			var err error
			if v, err = expr.ParseValue(*c.Text, s.Fields[i]); err != nil {
				return nil, fmt.Errorf("%w: %w", rowkey.ErrKey, err)
			}
		}
		columns, key = append(columns, s.Fields[i]), v.AppendEncoded(key)
	}
	w.encoded = string(key)
	narrow, err := schema.New(columns...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", rowkey.ErrKey, err)
	}
	where, err := rowkey.Predicate(o.Key, narrow)
	if err != nil {
		return nil, err
	}
	if w.find, err = scan.NewReader(table.Store(), at, columns, where); err != nil {
		return nil, err
	}
	w.read, err = scan.NewReader(table.Store(), at, append(slices.Clone(s.Fields), hidden...), nil)
	return w, err
}

// walk visits the versions up to that of the snapshot, oldest first.
func (w *walker) walk(ctx context.Context) error {
	listing, err := deltalog.List(ctx, w.table.Store(), 0)
	if err != nil {
		return err
	}
	versions := slices.DeleteFunc(listing.Versions(), func(v int64) bool { return v > w.at.Version() || v < w.o.After })
	for len(versions) > 0 {
		n := 1
		for n < len(versions) && versions[n] == versions[n-1]+1 {
			n++
		}
		if err := w.run(ctx, versions[0], versions[n-1]); err != nil {
			return err
		}
		versions = versions[n:]
	}
	return nil
}

// run visits versions whose commits are all there, but maybe that of the first.
func (w *walker) run(ctx context.Context, from, to int64) error {
	var lost *delta.VersionNotFoundError
	for c, err := range w.table.Commits(ctx, from, to) {
		if errors.As(err, &lost) && lost.Version == from { // a checkpoint without its commit
			if err := w.jump(ctx, visit{moment: Moment{Version: from, Label: w.label}}); err != nil || from == to {
				return err
			}
			return w.run(ctx, from+1, to)
		}
		if err != nil {
			return err
		}
		v, err := w.visit(c)
		if err != nil {
			return err
		}
		if v.moment.RolledBack && !w.o.RolledBack {
			continue
		}
		if w.history.First >= 0 && w.history.Last == c.Version-1 || c.Version == 0 {
			v.moment.Step = ByCommit
			err = w.step(ctx, c.Adds, c.Removes, v)
		} else {
			err = w.jump(ctx, v)
		}
		if errors.Is(err, scan.ErrFileMissing) && !w.pinned[c.Version] {
			continue // its commit is kept, and a vacuum took its files
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// visit reads what a commit says of itself.
func (w *walker) visit(c delta.VersionCommit) (v visit, err error) {
	v.moment = Moment{Version: c.Version, Committed: c.Committed.UTC()}
	if stamp := action.ParseInfo(c.Info).Timestamp; stamp > 0 { // of a file that was restored or copied the time is another one
		v.moment.Committed = time.UnixMilli(stamp).UTC()
	}
	if w.labels == nil {
		return v, nil
	}
	for _, span := range w.labels.Progress.Undone {
		in := func(version int64) bool { return version >= span.From && version <= span.To }
		// A rolled-back version that is asked for has what led to it.
		v.moment.RolledBack = v.moment.RolledBack || in(c.Version) && !in(w.at.Version())
	}
	if len(c.Info) > 0 {
		p, err := progress.Decode(c.Info)
		if err != nil {
			return v, fmt.Errorf("version %d: %w", c.Version, err)
		}
		if p != nil {
			w.label = p.Label
			v.markers, v.rollback = p.Markers, p.Kind == progress.Rollback
			if len(p.Seals) > 0 { // it names the label that it opens; rows are of the one that it closes
				v.moment.Label = w.labels.Calendar.Name(p.Seals[len(p.Seals)-1].Label)
				return v, nil
			}
		}
	}
	v.moment.Label = w.label
	return v, nil
}

// step takes what one commit did.
func (w *walker) step(ctx context.Context, adds []*action.Add, removes []*action.Remove, v visit) error {
	gone := make(map[string]*action.DeletionVector, len(removes))
	for _, r := range removes {
		gone[r.Key().Path] = r.DeletionVector
	}
	return w.change(ctx, adds, gone, v, v.rollback)
}

// jump takes what became of the table since the version before that was visited, from the
// files of both.
func (w *walker) jump(ctx context.Context, v visit) error {
	before, err := w.filesAt(ctx, w.history.Last)
	if err != nil {
		return err
	}
	after, err := w.filesAt(ctx, v.moment.Version)
	if err != nil {
		return err
	}
	v.moment.Step = BySavepoint
	if v.rollback { // what it left out is undone: nothing lies between
		v.moment.Step = ByCommit
	} else if w.history.First >= 0 {
		w.history.Savepoints++
	}
	had := make(map[action.FileKey]bool, len(before))
	for _, add := range before {
		had[add.Key()] = true
	}
	has := make(map[action.FileKey]bool, len(after))
	var adds []*action.Add
	for _, add := range after {
		if has[add.Key()] = true; !had[add.Key()] {
			adds = append(adds, add)
		}
	}
	gone := map[string]*action.DeletionVector{}
	for _, add := range before {
		if !has[add.Key()] {
			gone[add.Key().Path] = add.DeletionVector
		}
	}
	return w.change(ctx, adds, gone, v, true)
}

// filesAt gives the files of a version; none below 0.
func (w *walker) filesAt(ctx context.Context, version int64) ([]*action.Add, error) {
	if version < 0 {
		return nil, nil
	}
	if w.jumped == nil || w.jumped.Version() != version {
		s, err := w.table.SnapshotAt(ctx, version)
		if err != nil {
			return nil, err
		}
		w.jumped = s
	}
	return w.jumped.Files(), nil
}

// change looks for the key in what was added and took its file away. back tells that
// files may have got rows back.
func (w *walker) change(ctx context.Context, adds []*action.Add, gone map[string]*action.DeletionVector, v visit, back bool) error {
	found := w.now
	if found != nil {
		if _, lost := gone[found.path]; lost {
			found = nil
		}
	}
	for _, add := range adds {
		path := add.Key().Path
		was, again := gone[path]
		if again && !back && (w.now == nil || path != w.now.path) && !revives(was, add.DeletionVector) {
			continue // of a file that did not have the key more rows are deleted
		}
		if !again && w.now != nil && path == w.now.path && found == w.now {
			continue // it was there: only its statistics are new
		}
		rows, err := w.lookIn(ctx, add)
		if err != nil {
			return fmt.Errorf("version %d: %w", v.moment.Version, err)
		}
		for _, row := range rows {
			if found != nil {
				return w.several(v.moment.Version)
			}
			found = row
		}
	}
	first := w.history.First < 0
	if first {
		w.history.First = v.moment.Version
	}
	w.history.Last = v.moment.Version
	m := v.moment
	return w.take(ctx, found, &m, !first || v.moment.Version == 0, v)
}

// revives tells that a file may have got rows back with another deletion vector.
func revives(was, is *action.DeletionVector) bool {
	return was != nil && (is == nil || is.Cardinality < was.Cardinality)
}

// lookIn reads the rows of the key in a file.
func (w *walker) lookIn(ctx context.Context, add *action.Add) (found []*located, err error) {
	skip, err := w.find.CanSkip(add)
	if err != nil || skip {
		return nil, err
	}
	w.history.Files++
	places, err := w.find.Find(ctx, add)
	if err != nil || places.IsEmpty() {
		return nil, err
	}
	err = w.read.Read(ctx, add, places, func(b *scan.Batch) error {
		for r := range b.Rows {
			row := &located{path: add.Key().Path}
			for c := range w.history.Columns {
				row.cells = append(row.cells, b.Columns[c][r])
			}
			var meta []schema.Value
			for c := range hidden {
				meta = append(meta, b.Columns[len(w.history.Columns)+c][r])
			}
			row.event = w.sources.event(meta)
			found = append(found, row)
		}
		return nil
	})
	return found, err
}

// deletion finds the event that deleted the key, in the delete markers that a version
// names, newest first; nil where there is none, as of a truncate, or its file is gone.
func (w *walker) deletion(ctx context.Context, v visit, row *located) (*Event, error) {
	for _, f := range slices.Backward(v.markers) {
		set, err := marker.Load(ctx, w.table.Store(), []progress.MarkerFile{f})
		if errors.Is(err, objstore.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("version %d: %w", v.moment.Version, err)
		}
		m, ok := set.Get(w.encoded, f.Label)
		if !ok {
			continue
		}
		event := w.sources.marked(m)
		if row.event != nil && event.Topic == row.event.Topic && event.Partition == row.event.Partition && event.Offset <= row.event.Offset {
			return nil, nil // of an earlier life of the key
		}
		return event, nil
	}
	return nil, nil
}
