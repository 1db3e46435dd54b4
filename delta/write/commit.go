package write

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/schema"
)

// operation is one change of a table, from the first plan to the commit.
type operation struct {
	table  *delta.Table
	o      options
	result Result
	// fresh are the files of the rows of the Source, which every plan uses.
	fresh *stored
	// kept are the keys of fresh, passing those of the plan in hand.
	kept, passing []string
}

// stored is rows of a Source in files.
type stored struct {
	layout *layout
	adds   []*action.Add
	cdc    []*action.CDC
	rows   int64
	marks  map[int]int64 // of identity columns
}

func newOperation(table *delta.Table, list []Option) *operation {
	return &operation{table: table, o: optionsOf(list)}
}

// plan is what an operation means at one version.
type plan struct {
	op       *operation
	snapshot *delta.Snapshot
	layout   *layout
	rules    *rules
	reader   *reader
	tracking *delta.RowTracking // nil where rows need not keep their numbers
	tx       *delta.Transaction
	counts   Counts
	began    time.Time
	scanned  time.Time // when the rows to be changed were found; zero where none are looked for
}

// planner puts the actions of an operation into p.tx; false where there is nothing to do.
type planner func(ctx context.Context, p *plan) (due bool, err error)

// run plans an operation on the newest version and commits it, anew where others came first.
func (op *operation) run(ctx context.Context, do planner) (Result, error) {
	base, err := op.table.Snapshot(ctx)
	if err != nil {
		return op.result, err
	}
	return op.runOn(ctx, base, do)
}

func (op *operation) runOn(ctx context.Context, base *delta.Snapshot, do planner) (Result, error) {
	began := time.Now()
	for {
		op.result.Attempts++
		if op.known(base) {
			op.clean(ctx)
			op.result.Known, op.result.Version, op.result.Snapshot = true, base.Version(), base
			return op.result, nil
		}
		p, err := op.plan(base)
		if err == nil {
			p.began = began
			var due bool
			due, err = do(ctx, p)
			if err == nil && !due && op.o.app == "" {
				op.clean(ctx)
				op.result.Version, op.result.Snapshot = base.Version(), base
				return op.result, nil
			}
		}
		if err != nil {
			op.clean(ctx)
			return op.result, err
		}
		if op.o.app != "" {
			p.tx.SetTxn(op.o.app, op.o.version)
		}
		for app, version := range op.o.txns {
			p.tx.SetTxn(app, version)
		}
		newer, err := op.commit(ctx, p)
		switch {
		case err == nil && newer == nil:
			op.result.Committed, op.result.Counts = true, p.counts
			return op.result, nil
		case errors.Is(err, objstore.ErrUnknownOutcome):
			return op.result, err // what was stored may be part of the table
		case err != nil && (newer == nil || op.result.Attempts >= op.o.attempts):
			op.clean(ctx)
			return op.result, err
		}
		op.drop(ctx)
		base = newer
		if err := pause(ctx, op.result.Attempts); err != nil {
			op.clean(ctx)
			return op.result, err
		}
	}
}

// maxFollowed bounds how many commits of others a plan is put behind.
const maxFollowed = 200

// commit writes a plan, behind the commits of others where they left alone what was
// read. Where they did not, it gives the newest version, and says why in the error.
func (op *operation) commit(ctx context.Context, p *plan) (*delta.Snapshot, error) {
	for followed := 0; ; followed++ {
		out, err := p.tx.Commit(ctx)
		if err != nil {
			return nil, err
		}
		if out.Committed {
			op.result.Version, op.result.Snapshot = out.Version, out.Snapshot
			return nil, nil
		}
		newer, err := op.newest(ctx, p.tx.Base())
		if err != nil {
			return nil, err
		}
		err = p.tx.Rebase(newer)
		var conflict *delta.ConflictError
		switch {
		case errors.As(err, &conflict) && conflict.Rule == delta.RuleOwnCommit:
			op.result.Version, op.result.Snapshot = conflict.Version, newer
			if conflict.Version != newer.Version() {
				op.result.Snapshot, err = op.table.SnapshotAt(ctx, conflict.Version)
				return nil, err
			}
			return nil, nil
		case err != nil:
			return newer, err
		case followed >= maxFollowed:
			return newer, fmt.Errorf("%w: %d commits came first", delta.ErrConflict, followed)
		}
		op.result.Followed++
		if err := pause(ctx, followed); err != nil {
			return nil, err
		}
	}
}

func (op *operation) newest(ctx context.Context, base *delta.Snapshot) (*delta.Snapshot, error) {
	if base == nil {
		return op.table.Snapshot(ctx)
	}
	return op.table.Update(ctx, base)
}

// pause waits a little, longer after every attempt, so that writers don't run in step.
func pause(ctx context.Context, attempt int) error {
	longest := min(time.Second, 2*time.Millisecond<<min(attempt, 10))
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rand.N(longest) + time.Millisecond):
		return nil
	}
}

// known reports whether the table has the operation (WithTxn).
func (op *operation) known(s *delta.Snapshot) bool {
	if op.o.app == "" || s == nil {
		return false
	}
	txn, ok := s.Txn(op.o.app)
	return ok && txn.Version >= op.o.version
}

// clean removes everything that was stored, drop what was for the plan in hand. What
// can't be removed is left to VACUUM.
func (op *operation) clean(ctx context.Context) {
	op.drop(ctx)
	op.delete(ctx, op.kept)
	op.kept, op.fresh = nil, nil
}

func (op *operation) drop(ctx context.Context) {
	op.delete(ctx, op.passing)
	op.passing = nil
}

func (op *operation) delete(ctx context.Context, keys []string) {
	if len(keys) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	for _, key := range keys {
		if op.table.Store().Delete(ctx, key) != nil {
			return
		}
	}
}

// plan begins to plan on a version.
func (op *operation) plan(base *delta.Snapshot) (*plan, error) {
	if err := op.table.CheckWritable(base, implemented...); err != nil {
		return nil, fmt.Errorf("write %s: %w", op.table.Store(), err)
	}
	l, err := layoutOf(base.Schema(), base.Metadata())
	if err == nil {
		err = l.cluster(base)
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", op.table.Store(), err)
	}
	tracking, err := base.RowTracking()
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", op.table.Store(), err)
	}
	r := rulesOf(l)
	p := &plan{op: op, snapshot: base, tracking: tracking, layout: l, rules: r, began: time.Now()}
	p.reader = &reader{store: op.table.Store(), snapshot: base, layout: l, parallel: op.o.parallel}
	p.tx = delta.NewTransaction(op.table, base)
	p.tx.Implements(implemented...)
	p.tx.Isolation = op.o.isolationOf(base)
	return p, nil
}

// vectors reports whether the table takes deletion vectors.
func (p *plan) vectors() bool {
	if p.snapshot == nil { // nothing to be marked
		return false
	}
	on, _ := p.snapshot.Property(delta.PropertyDeletionVectors)
	return on == "true" && slices.Contains(delta.FeaturesOf(p.snapshot.Protocol()), delta.FeatureDeletionVectors)
}

// feed reports whether the table keeps change data.
func (p *plan) feed() bool {
	on, _ := p.snapshot.Property(delta.PropertyChangeDataFeed)
	return on == "true"
}

// files makes a set of files, with a share of the memory.
func (p *plan) files(ctx context.Context, changes bool, share int64) *fileSet {
	return newFileSet(ctx, p.op.table.Store(), p.layout, p.op.table.Now, changes, p.op.o.targetOf(p.snapshot), p.op.o.memory/share)
}

// source stores the rows of a Source, once for all plans. take looks at each row; nil
// takes them as they are. feed also writes them as change data.
func (p *plan) source(ctx context.Context, s Source, feed bool, take func(row []schema.Value) error) (*stored, error) {
	if f := p.op.fresh; f != nil {
		if !f.layout.sameRows(p.layout) {
			return nil, &delta.ConflictError{Version: p.snapshot.Version(), Rule: delta.RuleMetadata}
		}
		return f, p.setMarks(f.marks)
	}
	feeder, err := newFeeder(s, p.layout, p.rules)
	if err != nil {
		return nil, err
	}
	data := p.files(ctx, false, 1)
	var cdc *fileSet
	if feed {
		data.memory /= 2
		cdc = p.files(ctx, true, 2)
	}
	err = func() error {
		if take == nil && !feed && feeder.byColumns(s) {
			for batch, err := range feeder.batchesOf(s) {
				if err == nil {
					err = data.writeBatch(batch.Columns, batch.Rows)
				}
				if err != nil {
					return err
				}
			}
			return data.close()
		}
		for row, err := range feeder.all(s) {
			if err == nil && take != nil {
				err = take(row)
			}
			if err == nil {
				err = data.write(row, "")
			}
			if err == nil && feed {
				err = cdc.write(row, changeInsert)
			}
			if err != nil {
				return err
			}
		}
		if err := data.close(); err != nil || !feed {
			return err
		}
		return cdc.close()
	}()
	p.op.kept = append(p.op.kept, data.keys...)
	out := &stored{layout: p.layout, adds: data.adds, rows: data.rows, marks: p.rules.marks()}
	if feed {
		p.op.kept = append(p.op.kept, cdc.keys...)
		out.cdc = cdc.cdc
	}
	if err != nil {
		data.abandon()
		if feed {
			cdc.abandon()
		}
		return nil, err
	}
	p.op.fresh = out
	return out, p.setMarks(out.marks)
}

// insert makes stored rows part of the transaction.
func (p *plan) insert(s *stored) {
	for _, a := range s.adds {
		p.tx.Add(a)
		p.counts.FilesAdded++
		p.counts.BytesAdded += a.Size
	}
	for _, c := range s.cdc {
		p.addCDC(c)
	}
	p.counts.Inserted += s.rows
	p.counts.Source = s.rows
}

func (p *plan) addCDC(c *action.CDC) {
	p.tx.AddCDC(c)
	p.counts.ChangeFiles++
	p.counts.ChangeBytes += c.Size
}

// remove ends a whole file.
func (p *plan) remove(a *action.Add) {
	p.tx.Remove(delta.RemoveOf(a, p.op.table.Now(), true))
	p.counts.FilesRemoved++
	p.counts.BytesRemoved += a.Size
	if a.DeletionVector != nil {
		p.counts.VectorsRemoved++
	}
}

// info names the commit as Spark does; metrics are those of the operation besides the
// times.
func (p *plan) info(operation string, parameters map[string]string, metrics map[string]int64) {
	texts := make(map[string]string, len(metrics)+1)
	for name, n := range metrics {
		texts[name] = strconv.FormatInt(n, 10)
	}
	if metrics != nil {
		texts["executionTimeMs"] = strconv.FormatInt(time.Since(p.began).Milliseconds(), 10)
		if !p.scanned.IsZero() {
			texts["scanTimeMs"] = strconv.FormatInt(p.scanned.Sub(p.began).Milliseconds(), 10)
			texts["rewriteTimeMs"] = strconv.FormatInt(time.Since(p.scanned).Milliseconds(), 10)
		}
	}
	p.tx.KeepsRowNumbers = p.tracking != nil || p.counts.Updated+p.counts.Copied == 0
	p.tx.SetCommitInfo(operation, parameters, texts, p.op.o.info)
}

// jsonText gives a value as the text of JSON that commitInfo has in its parameters.
func jsonText(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "null" // texts and lists of them can't fail
	}
	return string(raw)
}

// predicates gives a filter as operationParameters.predicate.
func predicates(text string) string {
	if text == "" {
		return "[]"
	}
	return jsonText([]string{text})
}
