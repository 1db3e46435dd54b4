//go:build cgo

package sql

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/savepoint"
)

// reading is what a statement sees of a table.
type reading struct {
	*Source
	// fields are the columns in SQL, without the label's.
	fields []schema.Field
	// labelColumn is the name of the label's column; "" where there is none.
	labelColumn string
	days        []day
	schema      *schema.Schema // of fields, see columns
}

// remote tells whether files are to be fetched before DuckDB can open them.
func (r *reading) remote() bool {
	_, isLocal := r.Store.(*local.Store)
	return !isLocal
}

// day is a label and the version that answers it. The label is "" in tables
// without labels.
type day struct {
	label    string
	version  int64
	snapshot *delta.Snapshot // nil until open
}

func newReading(s *Source) *reading {
	r := &reading{Source: s, fields: s.Newest.Schema().Fields}
	if s.Fixed != nil {
		r.fields = s.Fixed.Schema().Fields
	}
	if s.Labels == nil {
		return r
	}
	for _, name := range []string{"dt", "gscd_dt"} {
		if !slices.ContainsFunc(r.fields, func(f schema.Field) bool { return strings.EqualFold(f.Name, name) }) {
			r.labelColumn = name
			break
		}
	}
	return r
}

// hasDays tells whether the table's label can be asked for.
func (r *reading) hasDays() bool { return r.labelColumn != "" && r.Fixed == nil }

// useNewest makes the newest version what is seen, or the one that is fixed.
func (r *reading) useNewest(o *Options, notice func(*reading, string)) error {
	switch {
	case r.Fixed != nil:
		r.days = []day{{r.FixedLabel, r.Fixed.Version(), r.Fixed}}
		return nil
	case r.Labels == nil:
		if o.Sealed {
			return fmt.Errorf("table %s: %w: it has no labels", r.Name, savepoint.ErrNotSealed)
		}
		r.days = []day{{"", r.Newest.Version(), r.Newest}}
		return nil
	}
	open := r.Labels.Calendar.Name(r.Labels.Progress.State.Open)
	if o.Sealed {
		return fmt.Errorf("table %s: %s is %w: it is the open label; ask for days by %s", r.Name, open, savepoint.ErrNotSealed, cmp.Or(r.labelColumn, "--as-of"))
	}
	notice(r, r.Labels.OpenNotice())
	r.days = []day{{open, r.Newest.Version(), r.Newest}}
	return nil
}

// useDays makes some entries of the map, open or kept, what is seen.
func (r *reading) useDays(entries []savepoint.Entry, o *Options, notice func(*reading, string)) error {
	var incomplete []string
	why := ""
	for _, e := range entries {
		answer, err := r.Labels.Resolve(e.Name, o.Sealed)
		if err != nil {
			return fmt.Errorf("table %s: %w", r.Name, err)
		}
		if reason, ok := strings.CutPrefix(answer.Notice, e.Name+" is incomplete: "); ok {
			incomplete, why = append(incomplete, e.Name), reason
		} else if answer.Notice != "" {
			notice(r, answer.Notice)
		}
		d := day{label: e.Name, version: answer.Entry.Version}
		if answer.Entry.State == savepoint.Open {
			d.version, d.snapshot = r.Newest.Version(), r.Newest
		}
		r.days = append(r.days, d)
	}
	switch n := len(incomplete); {
	case n == 1:
		notice(r, fmt.Sprintf("%s is incomplete: %s", incomplete[0], why))
	case n > 1:
		notice(r, fmt.Sprintf("%d labels from %s to %s are incomplete: %s", n, incomplete[0], incomplete[n-1], why))
	}
	return nil
}

// open opens the versions of the days, and compares each with what its commit
// says of it.
func (r *reading) open(ctx context.Context) error {
	opened := map[int64]*delta.Snapshot{r.Newest.Version(): r.Newest}
	var missing []int64
	for _, d := range r.days {
		if d.snapshot != nil {
			opened[d.version] = d.snapshot
		} else if opened[d.version] == nil && !slices.Contains(missing, d.version) {
			missing = append(missing, d.version)
		}
	}
	slices.Sort(missing)
	err := r.Table.EachSnapshot(ctx, missing, func(version int64, s *delta.Snapshot, err error) error {
		if err != nil {
			return fmt.Errorf("table %s: version %d: %w; `gscd check` says more", r.Name, version, err)
		}
		opened[version] = s
		return nil
	})
	if err != nil {
		return err
	}
	verified := map[int64]bool{}
	for i := range r.days {
		d := &r.days[i]
		d.snapshot = opened[d.version]
		if verified[d.version] {
			continue
		}
		verified[d.version] = true
		if err := savepoint.Verify(ctx, r.Table, d.snapshot); err != nil {
			return fmt.Errorf("table %s: %w; run gscd check", r.Name, err)
		}
	}
	return nil
}
