package integration

import (
	"fmt"
	"slices"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/snapshotter"
)

// commit is one version of the log.
type commit struct {
	version int64
	*action.Commit
	progress *progress.Progress // nil where it is not gscd's
}

// changesData reports whether rows changed.
func (c *commit) changesData() bool {
	for _, a := range c.Adds {
		if a.DataChange {
			return true
		}
	}
	for _, r := range c.Removes {
		if r.DataChange {
			return true
		}
	}
	return false
}

// log reads every version.
func (r *rig) log() []*commit {
	r.t.Helper()
	table := r.table()
	s, err := table.Snapshot(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []*commit
	for v := int64(0); v <= s.Version(); v++ {
		c, err := table.Commit(ctx, v)
		if err != nil {
			r.t.Fatal(err)
		}
		p, err := progress.Decode(c.Info)
		if err != nil {
			r.t.Fatal(err)
		}
		out = append(out, &commit{v, c, p})
	}
	return out
}

// origin is the change that gave a row of a data file.
type origin struct {
	partition int32
	offset    int64
	time      int64
}

// origins reads the hidden columns of a data file.
func (r *rig) origins(add *action.Add) []origin {
	r.t.Helper()
	data, err := r.store.Store.Get(ctx, add.Path)
	if err != nil {
		r.t.Fatal(err)
	}
	f, err := parquet.OpenBytes(data)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []origin
	for b, err := range f.Scan(ctx, ingest.Hidden, parquet.ScanOptions{}) {
		if err != nil {
			r.t.Fatal(err)
		}
		for i := range b.Rows {
			out = append(out, origin{int32(b.Columns[0][i].I), b.Columns[1][i].I, b.Columns[6][i].I})
		}
	}
	return out
}

// checkVersions holds P2 and P3 against the whole log: every version that
// changes data names one label, whose changes alone it brings; labels go down
// at rollbacks only; every record taken has one fate, and the counts equal the
// offsets. late tells that changes of sealed labels were folded.
func (r *rig) checkVersions(late bool) {
	r.t.Helper()
	cal := r.options.Calendar
	open := snapshotter.Label(-1 << 30)
	for _, c := range r.log() {
		p := c.progress
		if p == nil {
			r.t.Errorf("version %d has no progress", c.version)
			continue
		}
		if p.State.Open < open && p.Kind != progress.Rollback {
			r.t.Errorf("version %d: the open label went down to %s", c.version, p.Label)
		}
		open = p.State.Open
		if p.Label != cal.Name(p.State.Open) {
			r.t.Errorf("version %d names %s while %s is open", c.version, p.Label, cal.Name(p.State.Open))
		}
		if p.Kind == progress.SealKind && c.changesData() {
			r.t.Errorf("version %d seals and changes data", c.version)
		}
		if n := p.Totals.Missing(); n != 0 {
			r.t.Errorf("version %d: %d records have no fate: %+v", c.version, n, p.Totals)
		}
		span := int64(0)
		for _, part := range p.State.Partitions {
			span += part.Next - part.Start
		}
		equal(r.t, fmt.Sprintf("version %d: records taken and holes", c.version), p.Totals.Taken+p.Totals.Holes, span)
		if p.Kind != progress.Batch || r.options.CopyOnWrite {
			continue // what copy-on-write rewrites is of older labels
		}
		for _, add := range c.Adds {
			if slices.ContainsFunc(c.Removes, func(rm *action.Remove) bool { return rm.Path == add.Path }) {
				continue // the same file under another deletion vector
			}
			for _, o := range r.origins(add) {
				label := max(cal.Label(o.time), p.State.First)
				if label != p.State.Open && !(late && label < p.State.Open) {
					r.t.Errorf("version %d of %s holds a change of %s (offset %d)", c.version, p.Label, cal.Name(label), o.offset)
				}
			}
		}
	}
}
