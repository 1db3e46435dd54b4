package lineage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/diff"
	"github.com/gscd-io/gscd/query/rowkey"
	"github.com/gscd-io/gscd/savepoint"
)

// ErrSeveralRows is wrapped where a version has several rows of the key.
var ErrSeveralRows = errors.New("several rows have the key")

// HistoryOptions say of which key, and of which versions, the history is.
type HistoryOptions struct {
	// Key are the cells of all columns of the key, in its order.
	Key []rowkey.Cell
	// After is a version whose state is the first to be looked at, which may have begun
	// before; below 0: the oldest that can be read.
	After int64
	// RolledBack gives the states too that a rollback took back.
	RolledBack bool
}

// Step is how closely a part of the history is known.
type Step string

// The steps: every commit, or the savepoints alone, between which states may be missing.
const (
	ByCommit    Step = "commit"
	BySavepoint Step = "savepoint"
)

// Moment is the version at which something is seen first.
type Moment struct {
	Version int64
	// Committed is when; zero where the log does not tell.
	Committed time.Time
	// Label is the label whose changes the version holds, "" where there are no labels.
	Label string
	Step  Step
	// RolledBack tells that a rollback took the version back.
	RolledBack bool
}

// End is how a state ended.
type End string

// The ends. Reverted is by a rollback.
const (
	Lasts    End = ""
	Updated  End = "updated"
	Deleted  End = "deleted"
	Reverted End = "rolled back"
)

// State is what a key was for a while.
type State struct {
	// From and To are when it came and went: the event's time, else the commit's. To is
	// zero while it lasts. They don't go back where event times do.
	From, To time.Time
	// Row is by KeyHistory.Columns.
	Row []schema.Value
	// Changed are the places of the columns that differ from the state before it, which
	// ended where this one began; nil where there was none.
	Changed []int
	// Came is where it was first seen; nil where it was so before the first version that
	// was looked at. Went is where it was gone.
	Came, Went *Moment
	// Source is the event that made it, nil where it is not known; Ended that which ended it.
	Source *Event
	End    End
	Ended  *Event
}

// KeyHistory is the states of a key, the oldest first.
type KeyHistory struct {
	Columns []schema.Field
	States  []State
	// First and Last are the versions between which it was looked for, Files how many
	// files were opened for it.
	First, Last int64
	Files       int
	// Savepoints counts the steps from one savepoint to the next, without the commits
	// between them.
	Savepoints int
}

// History gives the states of a key up to a version. labels is nil for a table that gscd
// did not write. Columns are those of the version; one that was dropped before is not
// seen. The error wraps rowkey.ErrKey or ErrSeveralRows, or names the file or the version
// that can't be read.
func History(ctx context.Context, table *delta.Table, at *delta.Snapshot, labels *savepoint.Map, o HistoryOptions) (*KeyHistory, error) {
	w, err := newWalker(table, at, labels, o)
	if err != nil {
		return nil, err
	}
	if err := w.walk(ctx); err != nil {
		return nil, err
	}
	return &w.history, nil
}

// take notes what the key is at a moment: found, or nil where it has no row.
func (w *walker) take(ctx context.Context, found *located, m *Moment, known bool, v visit) error {
	before := w.now
	w.now = found
	switch {
	case before == nil && found == nil:
		return nil
	case before == nil:
		w.begin(found, m, known)
		return nil
	case found == nil:
		event, err := w.deletion(ctx, v, before)
		if err != nil {
			return err
		}
		end := Deleted
		if v.rollback {
			end, event = Reverted, nil
		}
		w.end(m, end, event)
		return nil
	}
	changed := differ(w.history.Columns, before.cells, found.cells)
	if len(changed) == 0 {
		if found.event == nil { // another engine rewrote the row, and its event was lost
			found.event = before.event
		}
		return nil
	}
	end := Updated
	if v.rollback {
		end = Reverted
	}
	w.end(m, end, found.event)
	w.begin(found, m, known)
	w.history.States[len(w.history.States)-1].Changed = changed
	return nil
}

// begin opens a state.
func (w *walker) begin(found *located, m *Moment, known bool) {
	s := State{Row: found.cells, Source: found.event, From: m.Committed}
	if found.event != nil {
		s.From = found.event.Time
	}
	// What a rollback brings back began when it began first.
	if n := len(w.history.States); n > 0 && w.history.States[n-1].End != Reverted && s.From.Before(w.history.States[n-1].To) {
		s.From = w.history.States[n-1].To
	}
	if known {
		s.Came = m
	}
	w.history.States = append(w.history.States, s)
}

// end closes the last state.
func (w *walker) end(m *Moment, how End, event *Event) {
	s := &w.history.States[len(w.history.States)-1]
	s.Went, s.End, s.Ended, s.To = m, how, event, m.Committed
	if event != nil && how != Reverted {
		s.To = event.Time
	}
	if s.To.Before(s.From) {
		s.To = s.From
	}
}

// keyText gives the key as it was asked for.
func keyText(cells []rowkey.Cell) string {
	parts := make([]string, len(cells))
	for i, c := range cells {
		parts[i] = c.Column + "=NULL"
		if c.Text != nil {
			parts[i] = c.Column + "=" + *c.Text
		}
	}
	return strings.Join(parts, ",")
}

func (w *walker) several(version int64) error {
	return fmt.Errorf("%w: version %d, %s; name columns that tell its rows apart", ErrSeveralRows, version, keyText(w.o.Key))
}

// differ gives the places of the cells that differ.
func differ(columns []schema.Field, a, b []schema.Value) (places []int) {
	for i := range columns {
		if !diff.Equal(columns[i].Type, a[i], b[i]) {
			places = append(places, i)
		}
	}
	return slices.Clip(places)
}
