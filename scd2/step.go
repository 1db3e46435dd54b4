package scd2

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/rowhash"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/spill"
	"github.com/gscd-io/gscd/delta/write"
	"github.com/gscd-io/gscd/query/diff"
	"github.com/gscd-io/gscd/savepoint"
)

// stepper takes one label.
type stepper struct {
	*builder
	entry savepoint.Entry
	to    *delta.Snapshot // the source as of the label
	step  Step

	placing *placing
	schema  *schema.Schema // of the history table
	since   schema.Value   // where the label begins
	open    schema.Value
	now     schema.Value // the load time
	places  []int        // of the source's columns
	hash    *rowhash.Hasher
	// opens and closes count the rows that are to be opened and closed.
	opens, closes int64
	// later are the states of keys that are not the first of the label, where there may be
	// several.
	later *spill.File
	dir   spill.Dir
	// Places of the history's own columns; -1 for none.
	from, till, current, hashed, loaded int
}

func (s *stepper) prepare() (err error) {
	s.schema = s.st.snapshot.Schema()
	if s.placing, err = place(s.st, s.schema, s.to.Schema()); err != nil {
		return err
	}
	s.places, s.now = s.placing.places(), schema.IntValue(s.o.Now().UnixMicro())
	if s.open, err = s.st.open(); err != nil {
		return err
	}
	c := s.st.Columns
	s.from, s.till, s.current = s.schema.Index(c.ValidFrom), s.schema.Index(c.ValidTo), s.schema.Index(c.IsCurrent)
	s.hashed, s.loaded = -1, -1
	if c.RowHash != "" {
		s.hashed = s.schema.Index(c.RowHash)
	}
	if c.LoadTime != "" {
		s.loaded = s.schema.Index(c.LoadTime)
	}
	if s.from < 0 || s.till < 0 || s.current < 0 || c.RowHash != "" && s.hashed < 0 || c.LoadTime != "" && s.loaded < 0 {
		return fmt.Errorf("the history table lacks one of its columns %q: another program dropped or renamed it; build the table anew", c.list())
	}
	if s.hashed >= 0 {
		s.hash = rowhash.New(s.st.hashed(s.schema), s.placing.places())
	}
	s.since = s.st.boundary(s.src.Labels.Calendar, s.entry.Label)
	return nil
}

// changes gives what became of the keys from the last label to this one. anew asks for a
// look at all rows.
func (s *stepper) changes(ctx context.Context, anew bool) (iter.Seq2[change, error], error) {
	last, ok := s.st.lastTaken()
	switch {
	case !ok:
		return s.first(ctx), nil
	case last.version == s.entry.Version: // empty labels share the version of their seal
		return func(func(change, error) bool) {}, nil
	case anew || s.lost(last):
		return s.against(ctx)
	}
	from, err := s.src.Table.SnapshotAt(ctx, last.version)
	if err != nil {
		return nil, fmt.Errorf("open version %d of %s, the savepoint of %s: %w; `gscd check` says more", last.version, s.src.Address, last.name, err)
	}
	key, ok := keyIn(s.st, s.to.Schema())
	if _, had := keyIn(s.st, from.Schema()); !ok || !had { // without a value until now
		return s.against(ctx)
	}
	return s.compared(ctx, from, key)
}

// keyIn names the key columns in a version of the source; ok is false where it lacks one.
func keyIn(st *state, columns *schema.Schema) (names []string, ok bool) {
	for _, stored := range st.Key {
		for i := range columns.Fields {
			if columns.Fields[i].Stored() == stored {
				names = append(names, columns.Fields[i].Name)
			}
		}
	}
	return names, len(names) == len(st.Key)
}

// lost tells that the savepoint of a label is deleted: what it held is no longer to be read
// from the source, but stands in the history.
func (s *stepper) lost(t taken) bool {
	for _, e := range s.src.Labels.Entries {
		if e.Label == t.label && !e.Kept {
			return e.State == savepoint.DeletedOne
		}
	}
	return false
}

// compared gives the changes between two versions of the source: what they share is not read.
func (s *stepper) compared(ctx context.Context, from *delta.Snapshot, key []string) (iter.Seq2[change, error], error) {
	columns := s.to.Schema()
	o := diff.Options{Key: key, Columns: columns.Names(), MemoryLimit: s.o.Memory / 4, TempDir: s.o.TempDir}
	d, err := diff.New(s.src.Table.Store(), from, s.to, o)
	if err != nil {
		return nil, err
	}
	given := &placing{}
	for _, c := range d.Columns() {
		i := columns.Index(c.To)
		if i < 0 {
			return nil, fmt.Errorf("column %q is not in version %d of %s", c.To, s.to.Version(), s.src.Address)
		}
		at := s.placing.at[i]
		given.at, given.cast = append(given.at, at), append(given.cast, caster(c.Type, s.schema.Fields[at].Type))
	}
	return func(yield func(change, error) bool) {
		older, newer := make([]schema.Value, len(s.schema.Fields)), make([]schema.Value, len(s.schema.Fields))
		for c, err := range d.Changes(ctx) {
			if err != nil {
				yield(change{}, err)
				return
			}
			out := change{kind: kinds[c.Kind]}
			if c.Old != nil {
				err, out.before = given.row(c.Old, older), older
			}
			if c.New != nil {
				err, out.after = errors.Join(err, given.row(c.New, newer)), newer
			}
			if !yield(out, err) || err != nil {
				return
			}
		}
	}, nil
}

var kinds = map[diff.Kind]Kind{diff.Inserted: New, diff.Updated: Changed, diff.Deleted: Deleted}

// first gives the rows of the first label: they are all new.
func (s *stepper) first(ctx context.Context) iter.Seq2[change, error] {
	return func(yield func(change, error) bool) {
		for row, err := range sourceRows(ctx, s.src, s.to, s.placing, len(s.schema.Fields), nil, s.o) {
			if !yield(change{kind: New, after: row}, err) || err != nil {
				return
			}
		}
	}
}

// against compares the open rows of the history with the rows of the label.
func (s *stepper) against(ctx context.Context) (iter.Seq2[change, error], error) {
	where, err := expr.Parse(quote(s.st.Columns.IsCurrent)+" = TRUE", s.schema)
	if err != nil {
		return nil, err
	}
	key := s.placing.key
	before := sorted(ctx, s.out, s.st.snapshot, key, where, s.o)
	after := sourceRows(ctx, s.src, s.to, s.placing, len(s.schema.Fields), key, s.o)
	return compare(before, after, key, s.placing.places()), nil
}

// rows gives the rows to merge. Of a key that is live that is the row that begins with the
// label, of another one a mark: a row with the key alone, which is neither open nor has an
// end. Its begin is where the row before it ends.
func (s *stepper) rows(changes iter.Seq2[change, error]) rows {
	return func(yield func([]schema.Value, error) bool) {
		row := make([]schema.Value, len(s.schema.Fields))
		for c, err := range changes {
			if err != nil {
				yield(nil, err)
				return
			}
			s.count(c.before != nil, c.after != nil)
			if c.before != nil {
				s.closes++
			}
			if c.after == nil {
				s.mark(row, c.before, s.since)
			} else {
				s.state(row, c.after, s.since, s.open, true)
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// write commits the rows to merge. Those of the first label, which are all new and may be
// many, are appended.
func (s *stepper) write(ctx context.Context, list rows) (write.Result, error) {
	names := s.schema.Names()
	options := append(s.o.writing(), s.marks()...)
	if _, ok := s.st.lastTaken(); !ok && s.later == nil {
		return write.Append(ctx, s.out, write.Rows(list, names...), options...)
	}
	return write.Merge(ctx, s.out, write.MergeInto{
		Key: s.keyNames(), NullSafe: true, Where: quote(s.st.Columns.IsCurrent) + " = TRUE",
		Matched: s.act(write.Both, write.Put), NotMatched: s.act(write.Put, write.Skip), Update: s.closeRow, Also: write.Rows(s.between(), names...),
	}, write.Rows(list, names...), options...)
}

// count counts what became of a key.
func (s *stepper) count(before, after bool) {
	switch {
	case before && after:
		s.step.Changed++
	case before:
		s.step.Deleted++
	case after:
		s.step.New++
	}
}

// state makes a row of the history: a state of the source and its interval.
func (s *stepper) state(row, of []schema.Value, from, till schema.Value, current bool) {
	clear(row)
	for _, i := range s.places {
		row[i] = of[i]
	}
	row[s.from], row[s.till], row[s.current] = from, till, schema.BoolValue(current)
	if s.hash != nil {
		row[s.hashed] = schema.StringValue(s.hash.Sum(row).String())
	}
	if s.loaded >= 0 {
		row[s.loaded] = s.now
	}
	s.opens++
}

// mark makes a row that only ends one.
func (s *stepper) mark(row, key []schema.Value, at schema.Value) {
	clear(row)
	for _, k := range s.placing.key {
		row[k] = key[k]
	}
	row[s.from], row[s.current] = at, schema.BoolValue(false)
}

// act chooses by whether a row is a state or a mark.
func (s *stepper) act(state, mark write.Act) func([]schema.Value) write.Act {
	return func(row []schema.Value) write.Act {
		if row[s.current].I == 0 && row[s.till].IsNull() {
			return mark
		}
		return state
	}
}

// closeRow ends the open row of a key where the next one begins.
func (s *stepper) closeRow(next, row []schema.Value) error {
	next[s.till], next[s.current] = row[s.from], schema.BoolValue(false)
	return nil
}

func (s *stepper) keyNames() []string {
	var names []string
	for _, k := range s.placing.key {
		names = append(names, s.schema.Fields[k].Name)
	}
	return names
}

// marks are what the commit says of itself.
func (s *stepper) marks() []write.Option {
	txns := map[string]int64{appLabel + s.entry.Name: s.entry.Version, appSource: max(s.st.source, s.entry.Version)}
	info := map[string]any{"label": s.entry.Name, "source_version": s.entry.Version, "source_id": s.st.Source}
	if len(s.step.Attributes) > 0 {
		info["attributes"] = s.step.Attributes
	}
	return []write.Option{
		write.WithTxn(appSteps, s.st.steps+1), write.WithTxns(maps.Clone(txns)), write.WithCommitInfo(map[string]any{Property: info}),
	}
}
