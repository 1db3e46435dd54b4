package write

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/spill"
)

// Act is what a Merge does with a row.
type Act uint8

const (
	// Put updates a row that matches, with the columns that the Source has, and inserts
	// one that does not.
	Put Act = iota
	// Drop deletes a row that matches, and does not insert one that does not.
	Drop
	// Skip leaves the table as it is.
	Skip
	// Both updates a row that matches, and inserts the row of the Source too: of a row that
	// is to be closed and its successor. As an act of
	// rows that do not match it is Skip.
	Both
)

// MergeInto says how the rows of a Source come into a table by key.
type MergeInto struct {
	// Key names the columns that a row of the table and one of the Source must have
	// alike. NULL is like nothing, or with NullSafe like NULL.
	Key      []string
	NullSafe bool
	// Where is a filter on rows of the table: others match no row of the Source, and files
	// that have none of them are not read. "" takes all.
	Where string
	// Update makes a row of the table that matches the new one, by the row of the Source:
	// next has the old cells. nil sets the columns that the Source has.
	Update func(next, row []schema.Value) error
	// Also are rows that are inserted beside, whatever keys they have. It is read after the
	// Source, once for each attempt.
	Also Source
	// Matched says what is done with a row of the Source whose key the table has, and
	// NotMatched with others; nil puts. The cells are in the order of the table's
	// columns; those that the Source lacks have their defaults.
	Matched, NotMatched func(row []schema.Value) Act
}

// Merge brings the rows of a Source into a table by key: rows that match are updated or
// deleted, others inserted. Only the key columns of files that may have such keys are
// read, and then the rows that match. A Source that takes more than half of WithMemory goes
// to temporary files by key, and the table is gone through once for each part of it that
// fits. A key that it has twice is refused, with the key (ErrDuplicateKey).
func Merge(ctx context.Context, table *delta.Table, into MergeInto, s Source, options ...Option) (Result, error) {
	op := newOperation(table, options)
	var m *merge
	defer func() {
		if m != nil {
			m.dir.Close()
		}
	}()
	return op.run(ctx, func(ctx context.Context, p *plan) (bool, error) {
		var err error
		if m == nil {
			m, err = readMerge(p, into, s)
		} else if !m.layout.sameRows(p.layout) {
			err = &delta.ConflictError{Version: p.snapshot.Version(), Rule: delta.RuleMetadata}
		}
		if err == nil {
			err = m.apply(ctx, p)
		}
		if err != nil {
			return false, fmt.Errorf("merge into %s: %w", table.Store(), err)
		}
		m.info(p)
		return p.counts.Inserted+p.counts.Updated+p.counts.Deleted > 0, nil
	})
}

// merge is the rows of a Source, by key.
type merge struct {
	into   MergeInto
	layout *layout
	given  []bool // columns that the source has
	key    []int  // places of the key columns
	nulls  bool   // a row has NULL in the first of them, which may match
	total  int64  // rows
	chunk         // those at hand

	// Where they are more than fit: all of them, each file a chunk, and what is known of
	// the first key column.
	dir       spill.Dir
	files     []*spill.File
	low, high schema.Value
}

// chunk is some rows of a Source: all that have the keys that it has.
type chunk struct {
	rows  [][]schema.Value
	byKey map[string]int32 // rows without NULL in the key
	byInt map[int64]int32  // the same, where the key is one column of integers; else nil
	first []schema.Value   // cells of the first key column, sorted
	acts  []Act            // of rows that match
}

// readMerge reads a Source. The error wraps ErrColumn, ErrDuplicateKey or ErrRow.
func readMerge(p *plan, into MergeInto, s Source) (*merge, error) {
	feeder, err := newFeeder(s, p.layout, p.rules)
	if err != nil {
		return nil, err
	}
	m := &merge{into: into, layout: p.layout, given: feeder.given, dir: spill.Dir{Parent: p.op.o.tempDir}}
	if len(into.Key) == 0 {
		return nil, fmt.Errorf("%w: a merge needs key columns", ErrColumn)
	}
	for _, name := range into.Key {
		i := p.layout.schema.IndexFold(name)
		switch {
		case i < 0:
			return nil, fmt.Errorf("%w: key column %q; the table has %q", ErrColumn, name, p.layout.schema.Names())
		case !feeder.given[i]:
			return nil, fmt.Errorf("%w: the rows to merge lack the key column %q", ErrColumn, name)
		case !p.layout.schema.Fields[i].Type.IsLeaf():
			return nil, fmt.Errorf("%w: key column %q is %s", ErrColumn, name, p.layout.schema.Fields[i].Type)
		}
		m.key = append(m.key, i)
	}
	for i, given := range m.given {
		if given && !slices.Contains(m.key, i) {
			if err := settable(&p.layout.schema.Fields[i]); err != nil {
				return nil, err
			}
		}
	}
	// What is put onto a matching row is checked then; a row that only deletes need not
	// fit. So nothing is checked yet.
	unchecked := *feeder
	unchecked.rules = p.rules.unchecked()
	if err := m.gather(unchecked.all(s), p.op.o.memory/2); err != nil {
		m.dir.Close()
		return nil, err
	}
	if m.files == nil {
		return m, m.index(p)
	}
	return m, nil
}

// index makes the rows at hand a chunk.
func (m *merge) index(p *plan) error {
	m.byKey, m.byInt, m.first = make(map[string]int32, len(m.rows)), nil, nil
	var buf []byte
	for i, row := range m.rows {
		var whole bool
		if buf, whole = m.appendKey(buf[:0], row); whole {
			if _, twice := m.byKey[string(buf)]; twice {
				return fmt.Errorf("%w: %s", ErrDuplicateKey, p.rules.shown(row, m.key))
			}
			m.byKey[string(buf)] = int32(i)
			if first := row[m.key[0]]; !first.IsNull() {
				m.first = append(m.first, first)
			} else {
				m.nulls = true
			}
		}
	}
	slices.SortFunc(m.first, expr.Compare)
	if f := p.layout.schema.Fields[m.key[0]]; len(m.key) == 1 && schema.KindOf(f.Type) == schema.Int && len(m.first) == len(m.byKey) {
		m.byInt = make(map[int64]int32, len(m.byKey))
		for i, row := range m.rows {
			if v := row[m.key[0]]; !v.IsNull() {
				m.byInt[v.I] = int32(i)
			}
		}
	}
	m.acts = make([]Act, len(m.rows))
	for i, row := range m.rows {
		if m.into.Matched != nil {
			m.acts[i] = m.into.Matched(row)
		}
	}
	return nil
}

// appendKey appends the key of a row; whole is false where it has a NULL that is like nothing.
func (m *merge) appendKey(dst []byte, row []schema.Value) (key []byte, whole bool) {
	for _, c := range m.key {
		if row[c].IsNull() && !m.into.NullSafe {
			return dst, false
		}
		dst = appendKeyCell(dst, row[c])
	}
	return dst, true
}

// appendKeyCell appends a cell so that cells that are equal for SQL have one form.
func appendKeyCell(dst []byte, v schema.Value) []byte {
	switch v.Kind {
	case schema.Float:
		if f := v.Float32(); f == 0 {
			v = schema.FloatValue(0)
		} else if f != f {
			v = schema.FloatValue(float32(math.NaN()))
		}
	case schema.Double:
		if f := v.Float64(); f == 0 {
			v = schema.DoubleValue(0)
		} else if f != f {
			v = schema.DoubleValue(math.NaN())
		}
	}
	return v.AppendEncoded(dst)
}

// mayHave reports whether a key may be in a file, by what is known of the first key column.
func (m *merge) mayHave(b expr.Bounds) bool {
	if m.nulls && !b.NoNulls {
		return true
	}
	if len(m.first) == 0 || b.AllNulls {
		return false
	}
	v := m.first[0]
	if v.Kind == schema.Float || v.Kind == schema.Double { // statistics say nothing of NaN
		return true
	}
	from := 0
	if b.Min.Kind == v.Kind {
		from, _ = slices.BinarySearchFunc(m.first, b.Min, expr.Compare)
	}
	if from == len(m.first) {
		return false
	}
	// A maximum of text may be cut; whoever does not raise it cuts to 32 bytes or more.
	if b.Max.Kind != v.Kind || len(b.Max.S) >= 32 {
		return true
	}
	return expr.Compare(m.first[from], b.Max) <= 0
}

// mayHaveAny is mayHave of all chunks.
func (m *merge) mayHaveAny(b expr.Bounds) bool {
	switch {
	case m.files == nil:
		return m.mayHave(b)
	case m.nulls && !b.NoNulls:
		return true
	case m.low.IsNull() || b.AllNulls:
		return false
	case m.low.Kind == schema.Float || m.low.Kind == schema.Double:
		return true
	case b.Min.Kind == m.high.Kind && expr.Compare(m.high, b.Min) < 0:
		return false
	}
	return b.Max.Kind != m.low.Kind || len(b.Max.S) >= 32 || expr.Compare(m.low, b.Max) <= 0
}

// apply finds the rows of the table that match and puts the changes into the plan.
func (m *merge) apply(ctx context.Context, p *plan) error {
	where, err := m.where(p)
	if err != nil {
		return err
	}
	asked := m.key[:1]
	if where != nil {
		asked = append(slices.Clone(asked), where.Columns()...)
	}
	bounds := p.reader.bounds(asked)
	firstOf := func(a *action.Add) expr.Bounds { return bounds(a)(expr.Column{Place: m.key[0]}) }
	may := func(a *action.Add) bool {
		return m.mayHaveAny(firstOf(a)) && (where == nil || !where.CanSkip(bounds(a)))
	}
	var candidates []*action.Add
	reads := delta.Reads{Match: may}
	for _, a := range p.snapshot.Files() {
		if may(a) {
			candidates = append(candidates, a)
			reads.Files = append(reads.Files, a.Key())
		}
	}
	found := make([]*touched, len(candidates))
	chunks := max(len(m.files), 1)
	matched := make([]*dv.Bitmap, chunks) // rows of the source that match, by chunk
	parts := make([][]*dv.Bitmap, chunks) // rows of the table that end, by chunk and file
	updates := false
	for k := range chunks {
		if err := m.load(p, k); err != nil {
			return err
		}
		hits := make([][]uint32, len(candidates))
		now := make([]*touched, len(candidates))
		err := objstore.InParallel(ctx, len(candidates), p.reader.parallel, func(ctx context.Context, i int) (err error) {
			if m.mayHave(firstOf(candidates[i])) {
				now[i], hits[i], err = m.match(ctx, p, candidates[i], where)
			}
			return err
		})
		if err != nil {
			return err
		}
		matched[k], parts[k] = dv.New(), make([]*dv.Bitmap, len(candidates))
		for i, t := range now {
			matched[k].AddMany(hits[i])
			for _, s := range hits[i] {
				updates = updates || m.acts[s] == Put || m.acts[s] == Both
			}
			switch {
			case t == nil:
			case found[i] == nil:
				found[i], parts[k][i] = t, t.rows
			default:
				parts[k][i] = t.rows
				all := found[i].rows.Clone()
				all.Or(t.rows)
				found[i].rows = all
			}
		}
	}
	p.scanned = time.Now()
	partly := slices.ContainsFunc(found, func(t *touched) bool { return t != nil && !t.whole() })
	// Inserts and deletes show by themselves, unless a file is written anew.
	c := p.changer(ctx, p.feed() && (updates || partly && !p.vectors()))
	err = m.change(ctx, p, c, found, parts, matched, updates)
	if err == nil {
		err = m.insertAlso(p, c)
	}
	if err := c.close(ctx, err); err != nil {
		return err
	}
	p.counts.Source = m.total
	p.tx.SetReads(reads)
	return nil
}

// where is the filter on rows of the table, nil for none.
func (m *merge) where(p *plan) (*expr.Predicate, error) {
	if m.into.Where == "" {
		return nil, nil
	}
	return expr.Parse(m.into.Where, p.layout.schema)
}

// match finds the rows of a file that end by the chunk at hand, and the rows of the chunk
// that match.
func (m *merge) match(ctx context.Context, p *plan, add *action.Add, where *expr.Predicate) (t *touched, hits []uint32, err error) {
	var buf []byte
	row := make([]schema.Value, len(m.layout.schema.Fields))
	columns := m.key
	var evaluator *expr.Evaluator
	if where != nil {
		columns = append(slices.Clone(columns), where.Columns()...)
		slices.Sort(columns)
		columns = slices.Compact(columns)
		evaluator = where.NewEvaluator()
	}
	t, err = p.reader.touch(ctx, add, columns, func(f *parquet.File, group int) bool {
		of := p.reader.groupBounds(add, f, group)
		return !m.mayHave(of(expr.Column{Place: m.key[0]})) || where != nil && where.CanSkip(of)
	}, func(b *block, sel []int32) []int32 {
		if evaluator != nil {
			sel = evaluator.Select(b.columns, sel)
		}
		kept := sel[:0]
		if m.byInt != nil {
			cells := b.columns[m.key[0]]
			low, high := m.first[0].I, m.first[len(m.first)-1].I
			for _, r := range sel {
				v := &cells[r]
				if v.I < low || v.I > high || v.IsNull() {
					continue
				}
				if s, ok := m.byInt[v.I]; ok {
					hits = append(hits, uint32(s))
					if m.acts[s] != Skip {
						kept = append(kept, r)
					}
				}
			}
			return kept
		}
		for _, r := range sel {
			for _, c := range m.key {
				row[c] = b.columns[c][r]
			}
			var whole bool
			if buf, whole = m.appendKey(buf[:0], row); !whole {
				continue
			}
			if s, ok := m.byKey[string(buf)]; ok {
				hits = append(hits, uint32(s))
				if m.acts[s] != Skip {
					kept = append(kept, r)
				}
			}
		}
		return kept
	})
	return t, hits, err
}

// change ends the rows that were found, chunk by chunk where new ones come in their
// place, and inserts the rows of the source that match none.
func (m *merge) change(ctx context.Context, p *plan, c *changer, found []*touched, parts [][]*dv.Bitmap, matched []*dv.Bitmap, updates bool) error {
	for k := range matched {
		if err := m.load(p, k); err != nil {
			return err
		}
		for i, t := range found {
			if t == nil || !updates || parts[k][i] == nil {
				continue
			}
			var err error
			if len(matched) == 1 {
				err = c.end(ctx, t, m.replace(p))
			} else {
				part := *t
				part.rows, part.done = parts[k][i], false
				err = c.read(ctx, &part, false, m.replace(p))
				t.done = true
			}
			if err != nil {
				return err
			}
		}
		if err := m.insert(p, c, matched[k]); err != nil {
			return err
		}
	}
	if updates && len(matched) == 1 {
		return nil
	}
	for _, t := range found { // no row of the table need be read for the source
		if t != nil {
			if err := c.end(ctx, t, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// replace gives what makes a new row of one that matches.
func (m *merge) replace(p *plan) replace {
	var buf []byte
	next := make([]schema.Value, len(m.layout.schema.Fields))
	return func(old []schema.Value) ([]schema.Value, error) {
		buf, _ = m.appendKey(buf[:0], old)
		s := m.byKey[string(buf)]
		if m.acts[s] == Drop {
			return nil, nil
		}
		copy(next, old)
		if m.into.Update != nil {
			if err := m.into.Update(next, m.rows[s]); err != nil {
				return nil, err
			}
		}
		for i, given := range m.given {
			if given && m.into.Update == nil {
				next[i] = m.rows[s][i]
			}
		}
		if err := p.rules.recompute(next, func(c int) bool { return m.given[c] }); err != nil {
			return nil, err
		}
		return next, nil
	}
}

func (m *merge) insert(p *plan, c *changer, matched *dv.Bitmap) error {
	for i, row := range m.rows {
		if matched.Contains(uint32(i)) {
			if m.acts[i] != Both {
				continue
			}
		} else if m.into.NotMatched != nil && m.into.NotMatched(row) != Put {
			continue
		}
		if err := p.rules.inserts(row, m.given); err != nil {
			return err
		}
		if err := c.insert(row); err != nil {
			return err
		}
	}
	return p.setMarks(p.rules.marks())
}

// insertAlso inserts the rows of MergeInto.Also.
func (m *merge) insertAlso(p *plan, c *changer) error {
	feeder, err := newFeeder(m.into.Also, p.layout, p.rules)
	if err != nil {
		return err
	}
	for row, err := range feeder.all(m.into.Also) {
		if err == nil {
			err = p.rules.inserts(row, feeder.given)
		}
		if err == nil {
			err = c.insert(row)
		}
		if err != nil {
			return err
		}
	}
	return p.setMarks(p.rules.marks())
}

// info names the commit as Spark does.
func (m *merge) info(p *plan) {
	var on []string
	for _, c := range m.key {
		name := m.layout.schema.Fields[c].Name
		on = append(on, fmt.Sprintf("(t.%s = s.%s)", name, name))
	}
	type clause struct {
		ActionType string `json:"actionType"`
	}
	c := &p.counts
	metrics := map[string]int64{
		"numSourceRows": c.Source, "numTargetRowsInserted": c.Inserted, "numTargetRowsUpdated": c.Updated, "numTargetRowsDeleted": c.Deleted,
		"numTargetRowsMatchedUpdated": c.Updated, "numTargetRowsMatchedDeleted": c.Deleted, "numTargetRowsCopied": c.Copied,
		"numOutputRows": c.Inserted + c.Updated + c.Copied, "numTargetFilesAdded": c.FilesAdded, "numTargetFilesRemoved": c.FilesRemoved,
		"numTargetBytesAdded": c.BytesAdded, "numTargetBytesRemoved": c.BytesRemoved, "numTargetChangeFilesAdded": c.ChangeFiles,
	}
	p.vectorMetrics(metrics, "numTargetDeletionVectors")
	p.info("MERGE", map[string]string{
		"predicate":                    jsonText([]string{strings.Join(on, " AND ")}),
		"matchedPredicates":            jsonText(clauses(clause{"update"}, c.Updated > 0, clause{"delete"}, c.Deleted > 0)),
		"notMatchedPredicates":         jsonText(clauses(clause{"insert"}, c.Inserted > 0, clause{}, false)),
		"notMatchedBySourcePredicates": "[]",
	}, metrics)
}

func clauses[T any](a T, hasA bool, b T, hasB bool) []T {
	list := []T{}
	if hasA {
		list = append(list, a)
	}
	if hasB {
		list = append(list, b)
	}
	return list
}
