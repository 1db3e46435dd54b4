package layout

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/schema"
)

// optimizer is one run.
type optimizer struct {
	table       *delta.Table
	o           Options
	report      *Report
	base        *delta.Snapshot // the newest version that is known
	planned     *delta.Snapshot
	fields      []schema.Field // the columns as outputs have them
	all         bool           // every file is written anew
	isPartition map[string]bool
	isOrder     map[string]bool
	vectors     bool               // deletion vectors may be written
	tracking    *delta.RowTracking // nil where rows need not keep their numbers
	done, total int64
}

// replans is how often bins that other writers have moved are planned anew.
const replans = 4

// Optimize writes rows of the newest version into other files, in one or more commits
// that change no row. Other writers may commit at the same time: rows that they delete
// meanwhile are deleted in the new files too, and where they moved the rows themselves
// or changed the columns, the bin is planned anew.
//
// The error wraps ErrColumn or delta.ErrUnsupportedFeature before anything is written,
// ErrInconsistent where a file is not as the log says, ErrContended where others always
// came first. After an error the Report tells what was committed.
func Optimize(ctx context.Context, table *delta.Table, options Options) (*Report, error) {
	x := &optimizer{table: table, report: &Report{}}
	err := x.run(ctx, options)
	x.report.Snapshot = x.base
	if err != nil {
		err = fmt.Errorf("optimize %s: %w", table.Store(), err)
	}
	return x.report, err
}

func (x *optimizer) run(ctx context.Context, options Options) error {
	var err error
	if x.base, err = x.table.Snapshot(ctx); err != nil {
		return err
	}
	var only map[string]bool
	for try := range replans {
		if x.o, err = options.resolved(x.base); err != nil {
			return err
		}
		if err := x.takeOver(); err != nil {
			return err
		}
		told := x.report
		if try > 0 {
			told = &Report{} // what is left is told already
		}
		bins, err := x.o.plan(x.base, only, told)
		if err != nil {
			return err
		}
		lost, err := x.runBins(ctx, bins)
		if err != nil || len(lost) == 0 {
			return err
		}
		x.report.Replanned += len(lost)
		only = map[string]bool{}
		for _, b := range lost {
			only[b.partition.folder] = true
		}
		if err := pause(ctx, rand.N(shortestPause<<(2*try))); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: tried %d times; let them rest, or ask for fewer partitions", ErrContended, replans)
}

// untouched are features whose rules are kept by what writes rows as they are, under
// the names and with the types that the columns have.
var untouched = []string{
	delta.FeatureInvariants, delta.FeatureCheckConstraints, delta.FeatureGeneratedColumns, delta.FeatureIdentityColumns,
	delta.FeatureColumnDefaults, delta.FeatureColumnMapping, delta.FeatureTypeWidening, delta.FeatureTypeWidening + "-preview",
	delta.FeatureRowTracking, delta.FeatureInCommitTimestamp, delta.FeatureClustering, delta.VoidColumns,
}

// takeOver reads from the snapshot what holds for all of its bins. The error wraps
// delta.ErrUnsupportedFeature.
func (x *optimizer) takeOver() error {
	s := x.base
	x.planned, x.isPartition, x.isOrder = s, map[string]bool{}, map[string]bool{}
	x.fields = s.Schema().Fields
	for _, name := range s.Metadata().PartitionColumns {
		x.isPartition[name] = true
	}
	for _, name := range x.o.OrderBy {
		x.isOrder[s.Schema().Fields[s.Schema().IndexFold(name)].Name] = true
	}
	if err := x.table.CheckWritable(s, untouched...); err != nil {
		return err
	}
	var err error
	if x.tracking, err = s.RowTracking(); err != nil {
		return err
	}
	on, _ := s.Property(delta.PropertyDeletionVectors)
	x.vectors = on == "true" && slices.Contains(delta.FeaturesOf(s.Protocol()), delta.FeatureDeletionVectors)
	return nil
}

// runBins writes bins anew and commits them, some at a time. It gives those that
// others have made void.
func (x *optimizer) runBins(ctx context.Context, bins []*bin) (lost []*bin, err error) {
	x.done, x.total = 0, 0
	for _, b := range bins {
		x.total += b.bytes()
	}
	x.tell()
	if x.o.DryRun {
		for _, b := range bins {
			x.report.FilesRemoved += len(b.files)
			x.report.BytesRemoved += b.bytes()
			for _, add := range b.files {
				if add.DeletionVector != nil {
					x.report.VectorsRemoved++
					x.report.RowsPurged += add.DeletionVector.Cardinality
				}
			}
		}
		return nil, nil
	}
	var ready []*rewritten
	var bytes int64
	defer func() {
		for _, r := range ready {
			r.writer.close()
		}
	}()
	commit := func() error {
		void, err := x.commit(ctx, ready)
		for _, r := range ready {
			r.writer.close()
		}
		ready, bytes = nil, 0
		lost = append(lost, void...)
		return err
	}
	for len(bins) > 0 {
		b := bins[0]
		bins = bins[1:]
		if !x.refresh(b) {
			lost = append(lost, b)
			continue
		}
		if !b.uniform {
			parts, err := x.splitByExtra(ctx, b)
			if err != nil {
				return lost, err
			}
			bins = append(parts, bins...)
			continue
		}
		r, err := x.rewrite(ctx, b)
		if err != nil {
			return lost, err
		}
		ready, bytes = append(ready, r), bytes+b.bytes()
		if bytes >= x.o.BatchBytes {
			if err := commit(); err != nil {
				return lost, err
			}
		}
	}
	if len(ready) > 0 {
		err = commit()
	}
	return lost, err
}

// refresh takes the files of a bin as they are in the newest version that is known. It
// reports false where one has left the table, or the columns are others.
func (x *optimizer) refresh(b *bin) bool {
	if !sameColumns(x.planned, x.base) {
		return false
	}
	for i, add := range b.files {
		live, ok := x.base.File(add.Path)
		if !ok {
			return false
		}
		b.files[i] = live
	}
	return true
}

// splitByExtra parts a bin by whether its files have any of the extra columns: what is
// empty in a mixed file would be taken for what was written so. Bins that are not worth
// it any more are left out.
func (x *optimizer) splitByExtra(ctx context.Context, b *bin) ([]*bin, error) {
	if len(x.o.Extra) == 0 || len(b.files) < 2 {
		b.uniform = true
		return []*bin{b}, nil
	}
	with, without := &bin{partition: b.partition, uniform: true}, &bin{partition: b.partition, uniform: true}
	for _, add := range b.files {
		in, err := openInput(ctx, x.table.Store(), add)
		if err != nil {
			return nil, err
		}
		if x.hasExtra(in) {
			with.files = append(with.files, add)
		} else {
			without.files = append(without.files, add)
		}
	}
	var parts []*bin
	for _, part := range []*bin{with, without} {
		mixed := len(part.files) < len(b.files)
		if len(part.files) > 0 && (!mixed || len(x.o.OrderBy) > 0 || x.all || x.o.worthWhile(part)) {
			parts = append(parts, part)
		}
	}
	return parts, nil
}

// sameColumns tells that rows planned for one version fit another.
func sameColumns(a, b *delta.Snapshot) bool {
	for _, key := range []string{delta.PropertyRowTracking, delta.PropertyRowIDColumn, delta.PropertyRowVersionColumn} {
		if a.Metadata().Configuration[key] != b.Metadata().Configuration[key] {
			return false
		}
	}
	return a.Metadata().ID == b.Metadata().ID && a.Metadata().SchemaString == b.Metadata().SchemaString &&
		slices.Equal(a.Metadata().PartitionColumns, b.Metadata().PartitionColumns)
}

func (x *optimizer) tell() {
	if x.o.Progress != nil {
		x.o.Progress(min(x.done, x.total), x.total)
	}
}

const (
	commitTries   = 20
	shortestPause = 10 * time.Millisecond
)

// commit makes the outputs of bins part of the table, and follows what others commit
// until it comes first. It gives the bins that others have made void.
func (x *optimizer) commit(ctx context.Context, ready []*rewritten) (void []*bin, err error) {
	for try := range commitTries {
		acts, still, lost, err := x.gather(ctx, ready)
		void = append(void, lost...)
		if ready = still; err != nil || len(ready) == 0 {
			return void, err
		}
		acts.describe(&x.o)
		if committed, err := x.store(ctx, acts); err != nil || committed {
			return void, err
		}
		if try > 0 {
			if err := pause(ctx, rand.N(shortestPause<<min(try, 8))); err != nil {
				return void, err
			}
		}
		if ready, err = x.follow(ctx, ready, &void); err != nil || len(ready) == 0 {
			return void, err
		}
	}
	return void, fmt.Errorf("%w: %d commits in a row", ErrContended, commitTries)
}

// gather makes the transaction that puts the outputs of bins into the newest version that
// is known. It gives the bins that it has, and those that others have made void.
func (x *optimizer) gather(ctx context.Context, ready []*rewritten) (acts *actions, still []*rewritten, void []*bin, err error) {
	tx := delta.NewTransaction(x.table, x.base)
	tx.Implements(untouched...)
	tx.KeepsRowNumbers = x.tracking != nil
	acts = &actions{tx: tx, report: &Report{}}
	for i, r := range ready {
		ok, err := x.put(ctx, r, acts)
		if err != nil {
			return nil, append(still, ready[i:]...), void, err
		}
		if ok {
			still = append(still, r)
		} else {
			r.writer.close()
			void = append(void, r.bin)
		}
	}
	return acts, still, void, nil
}

// store commits a transaction; false where another commit came first.
func (x *optimizer) store(ctx context.Context, acts *actions) (committed bool, err error) {
	if err := acts.storeVectors(ctx, x.table); err != nil {
		return false, err
	}
	outcome, err := acts.tx.Commit(ctx)
	if err != nil {
		return false, err
	}
	if !outcome.Committed {
		x.report.Conflicts++
		return false, nil
	}
	x.base = outcome.Snapshot
	x.report.Versions = append(x.report.Versions, outcome.Version)
	x.report.take(acts.report)
	return true, nil
}

// follow moves on to the newest version, and finds what its commits did to the inputs.
func (x *optimizer) follow(ctx context.Context, ready []*rewritten, void *[]*bin) (still []*rewritten, err error) {
	newer, err := x.table.Update(ctx, x.base)
	if err != nil {
		return nil, err
	}
	moved := map[string]bool{} // paths that were removed as a change of layout alone
	known := true
	for c, err := range x.table.Commits(ctx, x.base.Version()+1, newer.Version()) {
		if errors.Is(err, delta.ErrVersionNotFound) {
			known = false // cleaned away already: nothing can be told of what they did
			break
		}
		if err != nil {
			return nil, err
		}
		for _, r := range c.Removes {
			if !r.DataChange {
				moved[r.Path] = true
			}
		}
	}
	same := known && sameColumns(x.base, newer)
	x.base = newer
	for _, r := range ready {
		ok := same
		for _, in := range r.inputs {
			_, live := newer.File(in.add.Path)
			in.gone = in.gone || !live
			ok = ok && (live || !moved[in.add.Path])
		}
		if ok {
			still = append(still, r)
		} else {
			*void = append(*void, r.bin)
		}
	}
	return still, nil
}

// actions are the actions of a commit in the making.
type actions struct {
	tx     *delta.Transaction
	report *Report
	sizes  []int64
	pack   vectorPack
}

// lostShare is the share of rows deleted meanwhile from which a bin is rather planned
// anew.
const lostShare = 0.5

// put puts the actions of a bin into the transaction. ok is false where the bin is void:
// a vacuum took the outputs for garbage, rows came back, most are gone, or they can't be marked as deleted.
func (x *optimizer) put(ctx context.Context, r *rewritten, acts *actions) (ok bool, err error) {
	if ok, err := r.writer.present(ctx); err != nil || !ok {
		return false, err
	}
	dead := make([]*dv.Bitmap, len(r.inputs)) // since they were read
	var died int64
	now := x.table.Now()
	removes := make([]*action.Remove, 0, len(r.inputs))
	var removed Report
	for i, in := range r.inputs {
		live, there := x.base.File(in.add.Path)
		if in.gone || !there {
			dead[i] = dv.New()
			dead[i].AddRange(0, uint32(in.rows))
			if in.dead != nil {
				dead[i].AndNot(in.dead)
			}
		} else {
			if live.Key() != in.add.Key() {
				if dead[i], ok, err = x.diedSince(ctx, in, live); err != nil || !ok {
					return false, err
				}
			}
			removes = append(removes, delta.RemoveOf(live, now, false))
			removed.FilesRemoved++
			removed.BytesRemoved += live.Size
			removed.RowsPurged += in.deadRows()
			if live.DeletionVector != nil {
				removed.VectorsRemoved++
			}
		}
		if dead[i] != nil {
			died += dead[i].Cardinality()
		}
	}
	if died > 0 && (!x.vectors || float64(died) > lostShare*float64(r.rows)) {
		return false, nil
	}
	for _, out := range r.writer.outputs {
		add := *out.add
		if died > 0 {
			gone, err := out.trail.dead(dead)
			if err != nil {
				return false, err
			}
			switch n := gone.Cardinality(); {
			case n == out.stats.NumRows:
				continue
			case n > 0:
				loose := false
				add.Stats = r.writer.encodeStats(out, &loose)
				if add.DeletionVector, err = acts.pack.add(gone); err != nil {
					return false, err
				}
			}
		}
		acts.tx.Add(&add)
		acts.sizes = append(acts.sizes, add.Size)
		acts.report.FilesAdded++
		acts.report.BytesAdded += add.Size
	}
	for _, remove := range removes {
		acts.tx.Remove(remove)
	}
	removed.RowsFollowed = died
	acts.report.take(&removed)
	return true, nil
}

// diedSince gives the rows of an input that others have deleted since it was read. ok
// is false where some came back.
func (x *optimizer) diedSince(ctx context.Context, in *input, live *action.Add) (died *dv.Bitmap, ok bool, err error) {
	now, err := delta.ReadDeletionVector(ctx, x.table.Store(), live)
	if err != nil {
		return nil, false, err
	}
	if now == nil {
		now = dv.New()
	}
	died = now.Clone()
	if in.dead != nil {
		back := in.dead.Clone()
		if back.AndNot(now); !back.IsEmpty() {
			return nil, false, nil
		}
		died.AndNot(in.dead)
	}
	return died, true, nil
}

// take adds the counts of a commit.
func (r *Report) take(o *Report) {
	r.FilesRemoved += o.FilesRemoved
	r.FilesAdded += o.FilesAdded
	r.BytesRemoved += o.BytesRemoved
	r.BytesAdded += o.BytesAdded
	r.VectorsRemoved += o.VectorsRemoved
	r.RowsPurged += o.RowsPurged
	r.RowsFollowed += o.RowsFollowed
}

// describe writes the commitInfo as Spark does.
func (a *actions) describe(o *Options) {
	predicate := jsonList()
	if o.Where != nil {
		predicate = jsonList(o.Where.Text())
	}
	operation, parameters := "OPTIMIZE", map[string]string{"predicate": predicate, "auto": "false", "clusterBy": "[]", "zOrderBy": jsonList(o.OrderBy...)}
	switch {
	case o.clustered:
		parameters["clusterBy"], parameters["zOrderBy"] = jsonList(o.OrderBy...), "[]"
	case o.Curve == Hilbert && len(o.OrderBy) > 0:
		parameters["curve"] = string(Hilbert)
	}
	if o.PurgeOnly {
		operation, parameters = "REORG", map[string]string{"predicate": predicate, "applyPurge": "true"}
	}
	a.tx.SetCommitInfo(operation, parameters, a.metrics(), nil)
}

// metrics counts what a commit replaces, as Spark does.
func (a *actions) metrics() map[string]string {
	slices.Sort(a.sizes)
	size := func(part, of int) string {
		if len(a.sizes) == 0 {
			return "0"
		}
		return fmt.Sprint(a.sizes[(len(a.sizes)-1)*part/of])
	}
	return map[string]string{
		"numRemovedFiles": fmt.Sprint(a.report.FilesRemoved), "numRemovedBytes": fmt.Sprint(a.report.BytesRemoved),
		"numAddedFiles": fmt.Sprint(a.report.FilesAdded), "numAddedBytes": fmt.Sprint(a.report.BytesAdded),
		"numDeletionVectorsRemoved": fmt.Sprint(a.report.VectorsRemoved),
		"minFileSize":               size(0, 4), "p25FileSize": size(1, 4), "p50FileSize": size(2, 4), "p75FileSize": size(3, 4), "maxFileSize": size(4, 4),
	}
}

// jsonList writes names as a list of JSON.
func jsonList(names ...string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = string(action.AppendString(nil, n))
	}
	return "[" + strings.Join(quoted, ",") + "]"
}
