package scd2

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/spill"
	"github.com/gscd-io/gscd/delta/write"
)

// Keep is where the steps of a history are kept for diagnosis: tables with the rows that
// each label opened and closed, partitioned by label.
type Keep struct {
	// Open gives the table of a name: new, changed, closed or deleted.
	Open func(ctx context.Context, name string) (*delta.Table, error)
}

// The tables of steps.
const (
	keptNew     = "new"
	keptChanged = "changed"
	keptClosed  = "closed"
	keptDeleted = "deleted"
)

var keptNames = []string{keptNew, keptChanged, keptClosed, keptDeleted}

// The columns that tables of steps have beside those of the history.
const (
	keptLabel   = "label"
	keptColumns = "changed_columns"
)

// keepStep keeps what a label opened and closed. All of it is in the history table, so that
// a run that was broken off before this is made good by the next one.
func (b *builder) keepStep(ctx context.Context, t taken) error {
	k := &keeper{builder: b, schema: b.st.snapshot.Schema(), label: t.name, files: map[string]*spill.File{}, dir: spill.Dir{Parent: b.o.TempDir}}
	defer k.dir.Close()
	for _, f := range k.schema.Fields {
		if strings.EqualFold(f.Name, keptLabel) || strings.EqualFold(f.Name, keptColumns) {
			return fmt.Errorf("keep steps: %w: the source has a column %q, and tables of steps add one", ErrSettings, f.Name)
		}
	}
	if err := k.gather(ctx, t); err != nil {
		return fmt.Errorf("keep steps of %s: %w", t.name, err)
	}
	for _, name := range keptNames {
		if err := k.store(ctx, name); err != nil {
			return fmt.Errorf("keep steps of %s: table %s: %w", t.name, name, err)
		}
	}
	return nil
}

// keeper keeps the steps of one label.
type keeper struct {
	*builder
	schema *schema.Schema
	label  string
	dir    spill.Dir
	files  map[string]*spill.File
}

// gather sorts the rows that the label opened and closed into files, one for each table.
func (k *keeper) gather(ctx context.Context, t taken) error {
	for _, name := range keptNames {
		f, err := k.dir.Create(len(k.schema.Fields) + 1)
		if err != nil {
			return err
		}
		k.files[name] = f
	}
	c, cal := k.st.Columns, k.src.Labels.Calendar
	from, to := k.literal(k.st.boundary(cal, t.label)), k.literal(k.st.boundary(cal, t.label+1))
	opened := fmt.Sprintf("%s >= %s AND %s < %s", quote(c.ValidFrom), from, quote(c.ValidFrom), to)
	closed := fmt.Sprintf("%s >= %s AND %s < %s AND %s = FALSE", quote(c.ValidTo), from, quote(c.ValidTo), to, quote(c.IsCurrent))
	var key []int
	for _, stored := range k.st.Key {
		i := k.schema.Index(k.st.Fields[stored])
		if i < 0 {
			return fmt.Errorf("the history table lacks its key column %q", k.st.Fields[stored])
		}
		key = append(key, i)
	}
	before, err := k.atTime(ctx, closed, key, k.schema.Index(c.ValidTo))
	if err != nil {
		return err
	}
	after, err := k.atTime(ctx, opened, key, k.schema.Index(c.ValidFrom))
	if err != nil {
		return err
	}
	width := len(k.schema.Fields)
	for ch, err := range compare(before, after, append(order(key), width), nil) {
		if err != nil {
			return err
		}
		if err := k.sort(ch); err != nil {
			return err
		}
	}
	for _, f := range k.files {
		if err := f.End(); err != nil {
			return err
		}
	}
	return nil
}

// atTime reads rows of the history by key and a time, which is behind the cells.
func (k *keeper) atTime(ctx context.Context, where string, key []int, at int) (rows, error) {
	filter, err := expr.Parse(where, k.schema)
	if err != nil {
		return nil, err
	}
	return func(yield func([]schema.Value, error) bool) {
		row := make([]schema.Value, len(k.schema.Fields)+1)
		for cells, err := range sorted(ctx, k.out, k.st.snapshot, append(append([]int{}, key...), at), filter, k.o) {
			if err != nil {
				yield(nil, err)
				return
			}
			copy(row, cells)
			row[len(row)-1] = cells[at]
			if !yield(row, nil) {
				return
			}
		}
	}, nil
}

// sort puts a change into its files. The last cell of a row names the columns that changed.
func (k *keeper) sort(c change) error {
	last := len(k.schema.Fields)
	add := func(name string, row []schema.Value, text schema.Value) error {
		row[last] = text
		return k.files[name].Add(row)
	}
	switch c.kind {
	case New:
		return add(keptNew, c.after, schema.Value{})
	case Deleted:
		return errors.Join(add(keptDeleted, c.before, schema.Value{}), add(keptClosed, c.before, schema.Value{}))
	}
	own := k.st.Columns.list()
	var names []string
	for i, f := range k.schema.Fields {
		if !schema.Equal(c.before[i], c.after[i]) && !contains(own, f.Name) {
			names = append(names, f.Name)
		}
	}
	return errors.Join(add(keptChanged, c.after, schema.StringValue(strings.Join(names, ","))), add(keptClosed, c.before, schema.Value{}))
}

func contains(list []string, name string) bool {
	for _, n := range list {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// fields are the columns of a table of steps.
func (k *keeper) fields(name string) []schema.Field {
	fields := []schema.Field{{Name: keptLabel, Type: schema.Of(schema.StringType), Nullable: true}}
	if name == keptChanged {
		fields = append(fields, schema.Field{Name: keptColumns, Type: schema.Of(schema.StringType), Nullable: true})
	}
	for _, f := range k.schema.Fields {
		fields = append(fields, plainField(f, f.Name))
	}
	return fields
}

// store replaces the rows of the label in a table.
func (k *keeper) store(ctx context.Context, name string) error {
	table, err := k.o.Keep.Open(ctx, name)
	if err != nil {
		return err
	}
	fields := k.fields(name)
	s, err := table.Snapshot(ctx)
	switch {
	case errors.Is(err, delta.ErrNotATable):
		d := write.Definition{Columns: fields, PartitionBy: []string{keptLabel}, Properties: map[string]string{delta.PropertyColumnMapping: "name"}}
		if _, err := write.Create(ctx, table, d, write.Source{}, k.o.writing()...); err != nil && !errors.Is(err, write.ErrExists) {
			return err
		}
	case err != nil:
		return err
	default:
		if err := fit(ctx, table, s, fields); err != nil {
			return err
		}
	}
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	where := quote(keptLabel) + " = '" + k.label + "'"
	_, err = write.ReplaceWhere(ctx, table, where, write.Rows(k.rows(name), names...),
		append(k.o.writing(), write.WithTxns(map[string]int64{appSteps: k.st.steps}))...)
	return err
}

func (k *keeper) rows(name string) iter.Seq2[[]schema.Value, error] {
	return func(yield func([]schema.Value, error) bool) {
		label := schema.StringValue(k.label)
		var row []schema.Value
		for cells, err := range k.files[name].All() {
			if err != nil {
				yield(nil, err)
				return
			}
			last := len(cells) - 1
			row = append(row[:0], label)
			if name == keptChanged {
				row = append(row, cells[last])
			}
			if !yield(append(row, cells[:last]...), nil) {
				return
			}
		}
	}
}

// fit gives a table of steps the columns that it lacks.
func fit(ctx context.Context, table *delta.Table, s *delta.Snapshot, fields []schema.Field) error {
	var changes []write.Change
	for _, f := range fields {
		i := s.Schema().IndexFold(f.Name)
		switch {
		case i < 0:
			changes = append(changes, write.AddColumn(f, write.Place{}))
		case sameType(plainType(s.Schema().Fields[i].Type), plainType(f.Type)):
		case delta.Widens(s.Schema().Fields[i].Type, f.Type):
			changes = append(changes, write.WidenColumn(schema.FormatPath(f.Name), f.Type))
		default:
			return fmt.Errorf("%w: column %q is %s there, and %s in the history: keep the steps at another address", ErrSettings, f.Name, s.Schema().Fields[i].Type, f.Type)
		}
	}
	if len(changes) == 0 {
		return nil
	}
	_, err := write.Alter(ctx, table, changes)
	return err
}

// finishKept keeps the steps of the last label where a run was broken off before it did,
// and takes away those of labels that were undone.
func (b *builder) finishKept(ctx context.Context) error {
	if b.o.Keep == nil {
		return nil
	}
	has := map[string]bool{}
	for _, t := range b.st.taken {
		has[t.name] = true
	}
	behind := false
	for _, name := range keptNames {
		table, err := b.o.Keep.Open(ctx, name)
		if err != nil {
			return err
		}
		s, err := table.Snapshot(ctx)
		if errors.Is(err, delta.ErrNotATable) {
			behind = true
			continue
		}
		if err != nil {
			return err
		}
		txn, _ := s.Txn(appSteps)
		behind = behind || txn.Version < b.st.steps
		if err := forget(ctx, table, s, has); err != nil {
			return fmt.Errorf("keep steps: table %s: %w", name, err)
		}
	}
	if last, ok := b.st.lastTaken(); ok && behind {
		return b.keepStep(ctx, last)
	}
	return nil
}

// forget deletes the rows of labels that the history does not have.
func forget(ctx context.Context, table *delta.Table, s *delta.Snapshot, has map[string]bool) error {
	i := s.Schema().Index(keptLabel)
	if i < 0 || !contains(s.Metadata().PartitionColumns, keptLabel) {
		return fmt.Errorf("%w: it is no table of steps", ErrForeign)
	}
	stored := s.Schema().Fields[i].Stored()
	for _, a := range s.Files() {
		v := a.PartitionValues[stored]
		if v == nil || has[*v] {
			continue
		}
		if _, err := write.Delete(ctx, table, quote(keptLabel)+" = '"+strings.ReplaceAll(*v, "'", "''")+"'"); err != nil {
			return err
		}
	}
	return nil
}
