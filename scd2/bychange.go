package scd2

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
	"github.com/gscd-io/gscd/ingest/marker"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/query/changes"
)

// columnTime is the hidden column of the source's data files with the event time of the
// change that gave a row.
const columnTime = "__gscd_time"

// list gives the rows to merge for the label.
func (s *stepper) list(ctx context.Context, anew bool) (rows, error) {
	if s.st.Granularity == ByChange && !anew {
		list, err := s.byChange(ctx)
		if list != nil || err != nil {
			return list, err
		}
	}
	changes, err := s.changes(ctx, anew)
	if err != nil {
		return nil, err
	}
	return s.rows(changes), nil
}

// between gives the rows that begin, or begin and end, inside of the label after the first
// one of their key. They are known when the rows to merge have been gone through.
func (s *stepper) between() rows {
	return func(yield func([]schema.Value, error) bool) {
		if s.later == nil {
			return
		}
		for row, err := range s.later.All() {
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// byChange gives the rows to merge from the change data of the label; nil where there is
// none, or not any more, so that only the label's last state is known.
func (s *stepper) byChange(ctx context.Context) (rows, error) {
	if !s.follows() {
		return nil, nil
	}
	sorter, err := s.gather(ctx)
	if sorter == nil || err != nil {
		return nil, err
	}
	if s.later, err = s.dir.Create(len(s.schema.Fields)); err != nil {
		sorter.Close()
		return nil, err
	}
	return func(yield func([]schema.Value, error) bool) {
		defer sorter.Close()
		err := s.states(sorter, func(row []schema.Value) bool { return yield(row, nil) })
		if end := s.later.End(); err == nil {
			err = end
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(nil, err)
		}
	}, nil
}

var errEnough = errors.New("no more rows are wanted")

// follows tells that the label before this one is the last that was taken, or that this is
// the source's first one.
func (s *stepper) follows() bool {
	last, ok := s.st.lastTaken()
	if !ok {
		return s.entry.Label == s.src.Labels.Progress.State.First
	}
	return last.label == s.entry.Label-1
}

// The cells behind those of the history in a row of the sort.
const (
	cellVersion = iota
	cellPhase   // what the version did to the key
	cellTime
	cellsMore
)

// The phases: the row before, the row is gone, the row after.
const (
	phaseBefore = iota
	phaseGone
	phaseAfter
)

// gather puts the changes of the label in order of key and version; nil where change data
// is not there.
func (s *stepper) gather(ctx context.Context) (sorter *scan.Sorter, err error) {
	feed, err := changes.Open(s.src.Table, s.to, s.src.Labels, changes.Options{Key: []string{}, Memory: s.o.Memory / 8, TempDir: s.o.TempDir})
	if err != nil {
		return nil, err
	}
	width := len(s.schema.Fields)
	by := append(append(order{}, s.placing.key...), width+cellVersion, width+cellPhase)
	sorter = scan.NewSorter(width+cellsMore, by.compare, s.o.Memory/8, s.o.TempDir)
	kept := false
	defer func() {
		if !kept {
			sorter.Close()
		}
	}()
	row := make([]schema.Value, width+cellsMore)
	at, times := int64(-1), map[string]int64{}
	latest, deleted := int64(0), &deletes{src: s.src, read: map[string]bool{}}
	for c, err := range feed.Labels(ctx, s.entry.Name, s.entry.Name) {
		if lostChanges(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if c.Version != at {
			if at = c.Version; at == s.entry.Version {
				return nil, nil // a seal changes no row: these are net changes of the label
			}
			if latest, err = s.timesOf(ctx, at, times); err != nil {
				return nil, err
			}
			if err := deleted.of(ctx, at, times); err != nil {
				return nil, err
			}
			if latest == noTime {
				latest = c.Committed.UnixMicro()
			}
		}
		clear(row)
		if err := s.placing.row(c.Row, row[:width]); err != nil {
			return nil, err
		}
		time, known := times[s.keyOf(row)]
		if !known {
			time = latest
		}
		row[width+cellVersion], row[width+cellTime] = schema.IntValue(at), schema.IntValue(time)
		var phases []int64
		switch c.Kind {
		case scan.UpdatePreimage:
			phases = []int64{phaseBefore}
		case scan.Delete:
			phases = []int64{phaseBefore, phaseGone}
		default:
			phases = []int64{phaseAfter}
		}
		for _, p := range phases {
			row[width+cellPhase] = schema.IntValue(p)
			if err := sorter.Add(row); err != nil {
				return nil, err
			}
		}
	}
	kept = true
	return sorter, nil
}

// lostChanges tells that change data can't be read, so that the label's last state must do.
func lostChanges(err error) bool {
	return errors.Is(err, scan.ErrNoChanges) || errors.Is(err, scan.ErrFileMissing) || errors.Is(err, delta.ErrVersionNotFound)
}

// keyOf is the key of a row as text.
func (s *stepper) keyOf(row []schema.Value) string {
	var key []byte
	for _, k := range s.placing.key {
		key = row[k].AppendEncoded(key)
	}
	return string(key)
}

const noTime = int64(-1 << 63)

// deletes finds when keys were deleted, in the delete markers of the source's commits.
type deletes struct {
	src  *Source
	read map[string]bool // files
}

// of adds the times of the keys that a version deleted to a map. Markers that are gone, two
// labels later, have none.
func (d *deletes) of(ctx context.Context, version int64, times map[string]int64) error {
	info, err := d.src.Table.CommitInfo(ctx, version)
	if err != nil {
		return err
	}
	p, err := progress.Decode(info)
	if err != nil || p == nil {
		return err
	}
	for _, f := range slices.Backward(p.Markers) { // the newest marker of a key counts
		if d.read[f.Key] || f.Label != p.State.Open {
			continue
		}
		d.read[f.Key] = true
		set, err := marker.Load(ctx, d.src.Table.Store(), []progress.MarkerFile{f})
		if errors.Is(err, objstore.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for key, meta := range set.All() {
			if _, written := times[key]; !written {
				times[key] = meta.Time
			}
		}
	}
	return nil
}

// timesOf fills a map of the event times of the keys that a version wrote, from the files
// that it added, and gives the latest. A batch of keys is held.
func (s *stepper) timesOf(ctx context.Context, version int64, times map[string]int64) (latest int64, err error) {
	clear(times)
	latest = noTime
	commit, err := s.src.Table.Commit(ctx, version)
	if err != nil {
		return latest, err
	}
	var fields []schema.Field
	var at []int
	columns := s.to.Schema()
	for i := range columns.Fields {
		if slices.Contains(s.placing.key, s.placing.at[i]) {
			fields, at = append(fields, columns.Fields[i]), append(at, i)
		}
	}
	fields = append(fields, schema.Field{Name: columnTime, Type: schema.Of(schema.Timestamp), Nullable: true})
	reader, err := scan.NewReader(s.src.Table.Store(), s.to, fields, nil)
	if err != nil {
		return latest, err
	}
	older := map[string]bool{}
	for _, r := range commit.Removes {
		older[r.Key().Path] = true
	}
	cells, row := make([]schema.Value, len(columns.Fields)), make([]schema.Value, len(s.schema.Fields))
	for _, add := range commit.Adds {
		n, known := stats.NumRecords(add.Stats)
		if !add.DataChange || older[add.Key().Path] || !known {
			continue
		}
		all := dv.New()
		all.AddRange(0, uint32(n))
		err := reader.Read(ctx, add, all, func(b *scan.Batch) error {
			for r := range b.Rows {
				v := b.Columns[len(at)][r]
				if v.IsNull() {
					continue
				}
				for i, place := range at {
					cells[place] = b.Columns[i][r]
				}
				if err := s.placing.row(cells, row); err != nil {
					return err
				}
				times[s.keyOf(row)] = v.I
				latest = max(latest, v.I)
			}
			return nil
		})
		if err != nil {
			return latest, fmt.Errorf("times of version %d: %w", version, err)
		}
	}
	return latest, nil
}

// moment is a state of a key and since when; nil where it is gone.
type moment struct {
	row  []schema.Value
	from int64
}

// states goes through the changes by key and gives the first row of each to emit; the
// later ones go to a file. The error is errEnough where emit wants no more.
func (s *stepper) states(sorter *scan.Sorter, emit func([]schema.Value) bool) error {
	next, stop := iter.Pull2(iter.Seq2[[]schema.Value, error](sorter.Sorted))
	defer stop()
	width := len(s.schema.Fields)
	cal := s.src.Labels.Calendar
	low, high := cal.Start(s.entry.Label), cal.End(s.entry.Label)-1
	key := order(s.placing.key)
	row := make([]schema.Value, width)
	cells, err, more := next()
	for more {
		if err != nil {
			return err
		}
		var before []schema.Value
		var list []moment
		first := cells
		for i := 0; more && err == nil && key.compare(first, cells) == 0; i++ {
			switch phase := cells[width+cellPhase].I; {
			case phase == phaseBefore && i == 0:
				before = cells
			case phase == phaseBefore:
			default:
				m := moment{from: min(max(cells[width+cellTime].I, low), high)}
				if phase == phaseAfter {
					m.row = cells
				}
				// Times of the source may stand still or step back; the order of its changes counts.
				if n := len(list); n > 0 && m.from <= list[n-1].from {
					m.from = list[n-1].from
					list = list[:n-1]
				}
				list = append(list, m)
			}
			cells, err, more = next()
		}
		if err != nil {
			return err
		}
		if err := s.intervals(row, before, s.distinct(before, list), emit); err != nil {
			return err
		}
	}
	return nil
}

// distinct leaves out states that are like the one before.
func (s *stepper) distinct(before []schema.Value, list []moment) []moment {
	last, kept := before, list[:0]
	for _, m := range list {
		if (m.row == nil) != (last == nil) || m.row != nil && !alike(m.row, last, s.places) {
			kept = append(kept, m)
		}
		last = m.row
	}
	return kept
}

// intervals gives the rows of one key.
func (s *stepper) intervals(row, before []schema.Value, list []moment, emit func([]schema.Value) bool) error {
	if len(list) == 0 {
		return nil
	}
	s.count(before != nil, list[len(list)-1].row != nil)
	if before != nil {
		s.closes++
	}
	for i, m := range list {
		from, till, current := schema.IntValue(m.from), s.open, true
		if i+1 < len(list) {
			till, current = schema.IntValue(list[i+1].from), false
		}
		switch {
		case m.row != nil:
			s.state(row, m.row, from, till, current)
		case i == 0:
			s.mark(row, before, from)
		default:
			continue // the row before it ends there
		}
		if i == 0 {
			if !emit(row) {
				return errEnough
			}
		} else if err := s.later.Add(row); err != nil {
			return err
		}
	}
	return nil
}
