package write

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/schema"
)

// Change is one step of Alter; AddColumn and others make them.
type Change func(*alteration) error

// Alter changes columns, properties and constraints of a table, all in one commit that
// writes no rows. The protocol rises where a change asks for it: dropping and renaming
// columns turn on column mapping. An error that is no other one wraps ErrChange.
func Alter(ctx context.Context, table *delta.Table, changes []Change, options ...Option) (Result, error) {
	return newOperation(table, options).run(ctx, func(ctx context.Context, p *plan) (bool, error) {
		now := p.snapshot.Metadata()
		a := &alteration{ctx: ctx, plan: p, metadata: *now, fields: slices.Clone(p.snapshot.Schema().Fields)}
		a.metadata.Configuration = maps.Clone(now.Configuration)
		if a.metadata.Configuration == nil {
			a.metadata.Configuration = map[string]string{}
		}
		a.metadata.PartitionColumns = append([]string{}, now.PartitionColumns...)
		p.tx.SetReads(delta.Reads{})
		for _, change := range changes {
			if err := change(a); err != nil {
				return false, fmt.Errorf("alter %s: %w", table.Store(), err)
			}
		}
		changed, err := a.finish()
		if err != nil {
			return false, fmt.Errorf("alter %s: %w", table.Store(), err)
		}
		if len(a.steps) == 1 {
			p.info(a.steps[0].operation, a.steps[0].parameters, nil)
		} else {
			var names []string
			for _, s := range a.steps {
				names = append(names, s.operation)
			}
			p.info("ALTER TABLE", map[string]string{"changes": jsonText(names)}, nil)
		}
		return changed, nil
	})
}

// alteration is a table on its way to other columns and properties.
type alteration struct {
	ctx      context.Context
	plan     *plan
	metadata action.Metadata
	fields   []schema.Field
	features []string
	steps    []step
}

// step is a change as commitInfo names it.
type step struct {
	operation  string
	parameters map[string]string
}

func (a *alteration) step(operation string, parameters map[string]string) {
	a.steps = append(a.steps, step{operation, parameters})
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrChange}, args...)...)
}

// finish puts metadata and protocol into the transaction where they have changed.
func (a *alteration) finish() (changed bool, err error) {
	s, err := schema.New(a.fields...)
	if err != nil {
		return false, refuse("%w", err)
	}
	if err := checkNames(a.fields, a.metadata.Configuration); err != nil {
		return false, err
	}
	if len(a.metadata.PartitionColumns) >= len(a.fields) {
		return false, refuse("no column would be left but those of partitions")
	}
	a.metadata.SchemaString = s.String()
	mapped, err := mappedSchema(&a.metadata)
	if err != nil {
		return false, err
	}
	if _, err := layoutOf(mapped, &a.metadata); err != nil {
		return false, err
	}
	old := a.plan.snapshot.Metadata()
	if a.metadata.SchemaString != old.SchemaString || !maps.Equal(a.metadata.Configuration, old.Configuration) ||
		a.metadata.Name != old.Name || a.metadata.Description != old.Description || !slices.Equal(a.metadata.PartitionColumns, old.PartitionColumns) {
		a.plan.tx.SetMetadata(a.metadata)
		changed = true
	}
	protocol := delta.WithFeatures(*a.plan.snapshot.Protocol(), featuresFor(a.features, a.fields, a.metadata.Configuration)...)
	if !sameProtocol(&protocol, a.plan.snapshot.Protocol()) {
		a.plan.tx.SetProtocol(protocol)
		changed = true
	}
	return changed, nil
}

// find gives the place of a column.
func (a *alteration) find(name string) (int, error) {
	for i := range a.fields {
		if strings.EqualFold(a.fields[i].Name, name) {
			return i, nil
		}
	}
	var names []string
	for _, f := range a.fields {
		names = append(names, f.Name)
	}
	return -1, fmt.Errorf("%w: %q; the table has %q", ErrColumn, name, names)
}

func (a *alteration) isMapped() bool {
	mode := a.metadata.Configuration[delta.PropertyColumnMapping]
	return mode == "name" || mode == "id"
}

// mapColumns turns on column mapping, with the names that files have.
func (a *alteration) mapColumns() {
	if a.isMapped() {
		return
	}
	a.metadata.Configuration[delta.PropertyColumnMapping] = "name"
	a.assign(false)
}

func (a *alteration) assign(fresh bool) {
	maxID := maxColumnID(&a.metadata)
	a.fields = assignIDs(a.fields, &maxID, fresh)
	a.metadata.Configuration[delta.PropertyMaxColumnID] = strconv.Itoa(int(maxID))
}

// unused refuses to take away or rename a column that a rule of the table is about.
func (a *alteration) unused(column int) error {
	name := a.fields[column].Name
	s, err := schema.New(a.fields...)
	if err != nil {
		return refuse("%w", err)
	}
	r := rulesOf(&layout{schema: s, metadata: &a.metadata})
	if r.fault != nil {
		return r.fault
	}
	for _, c := range r.checks {
		if slices.Contains(c.where.Columns(), column) {
			return refuse("%s is about column %q: drop it before", c.name, name)
		}
	}
	for i, g := range r.generated {
		if i == column || slices.Contains(g.columns, column) {
			return refuse("column %q is generated as %s", a.fields[i].Name, g.text)
		}
	}
	return nil
}

// Place says where a column goes.
type Place struct {
	first bool
	after string
}

// First is the place before all columns, After the one behind another column; the zero
// Place is behind all.
func First() Place              { return Place{first: true} }
func After(column string) Place { return Place{after: column} }

func (a *alteration) index(at Place) (int, error) {
	switch {
	case at.first:
		return 0, nil
	case at.after == "":
		return len(a.fields), nil
	}
	i, err := a.find(at.after)
	return i + 1, err
}

func (at Place) parameters(m map[string]string) map[string]string {
	if at.first {
		m["position"] = "FIRST"
	} else if at.after != "" {
		m["position"] = "AFTER " + at.after
	}
	return m
}

// AddColumn adds a column, which is NULL in the rows that are there.
func AddColumn(f schema.Field, at Place) Change {
	return func(a *alteration) error {
		if _, err := a.find(f.Name); err == nil {
			return refuse("there is a column %q", f.Name)
		}
		if !f.Nullable {
			return refuse("column %q is NOT NULL, but the rows that are there have no value of it", f.Name)
		}
		for _, key := range []string{metadataGeneration, metadataDefault} {
			if _, ok := f.Metadata[key]; ok {
				return refuse("column %q has %s, which the rows that are there would lack", f.Name, key)
			}
		}
		i, err := a.index(at)
		if err != nil {
			return err
		}
		a.fields = slices.Insert(a.fields, i, f)
		if a.isMapped() {
			a.assign(true)
		}
		column := at.parameters(map[string]string{})
		a.step("ADD COLUMNS", map[string]string{"columns": jsonText([]any{map[string]any{"column": fieldJSON(f), "position": column["position"]}})})
		return nil
	}
}

// fieldJSON is a column as commitInfo shows it.
func fieldJSON(f schema.Field) any {
	return map[string]any{"name": f.Name, "type": f.Type.String(), "nullable": f.Nullable, "metadata": f.Metadata}
}

// DropColumn takes a column away. Files keep it, unseen.
func DropColumn(name string) Change {
	return func(a *alteration) error {
		i, err := a.find(name)
		if err != nil {
			return err
		}
		if slices.Contains(a.metadata.PartitionColumns, a.fields[i].Name) {
			return refuse("column %q is a partition column", a.fields[i].Name)
		}
		clustered, err := a.plan.snapshot.ClusteringColumns()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(clustered, func(path []string) bool { return path[0] == a.fields[i].Stored() }) {
			return refuse("the table is clustered by column %q", a.fields[i].Name)
		}
		if err := a.unused(i); err != nil {
			return err
		}
		a.mapColumns()
		a.step("DROP COLUMNS", map[string]string{"columns": jsonText([]string{a.fields[i].Name})})
		a.fields = slices.Delete(a.fields, i, i+1)
		return nil
	}
}

// RenameColumn gives a column another name.
func RenameColumn(from, to string) Change {
	return func(a *alteration) error {
		i, err := a.find(from)
		if err != nil {
			return err
		}
		if j, err := a.find(to); err == nil && j != i {
			return refuse("there is a column %q", a.fields[j].Name)
		}
		if err := a.unused(i); err != nil {
			return err
		}
		a.mapColumns()
		old := a.fields[i].Name
		if p := slices.Index(a.metadata.PartitionColumns, old); p >= 0 {
			a.metadata.PartitionColumns[p] = to
		}
		a.fields[i].Name = to
		a.step("RENAME COLUMN", map[string]string{"oldColumnPath": old, "newColumnPath": to})
		return nil
	}
}

// MoveColumn puts a column to another place.
func MoveColumn(name string, at Place) Change {
	return func(a *alteration) error {
		i, err := a.find(name)
		if err != nil {
			return err
		}
		f := a.fields[i]
		if strings.EqualFold(at.after, name) {
			return refuse("column %q can't be behind itself", f.Name)
		}
		a.fields = slices.Delete(a.fields, i, i+1)
		to, err := a.index(at)
		if err != nil {
			return err
		}
		a.fields = slices.Insert(a.fields, to, f)
		a.step("CHANGE COLUMN", at.parameters(map[string]string{"column": jsonText(fieldJSON(f))}))
		return nil
	}
}

// WidenColumn gives a column a wider type, such as long in place of integer. It turns on
// type widening, which older engines can't read.
func WidenColumn(name string, to schema.Type) Change {
	return func(a *alteration) error {
		i, err := a.find(name)
		if err != nil {
			return err
		}
		f := &a.fields[i]
		if !f.Type.IsLeaf() || !delta.Widens(f.Type, to) {
			return refuse("column %q is %s, which does not widen to %s", f.Name, f.Type, to)
		}
		type change struct {
			From string `json:"fromType"`
			To   string `json:"toType"`
		}
		var changes []any
		if raw, ok := f.Metadata[metadataTypeChanges]; ok {
			var before []map[string]any
			if err := json.Unmarshal(raw, &before); err != nil {
				return refuse("column %q has %s that can't be read: %w", f.Name, metadataTypeChanges, err)
			}
			for _, c := range before {
				changes = append(changes, c)
			}
		}
		f.Metadata = withMetadata(f.Metadata, metadataTypeChanges, append(changes, change{f.Type.String(), to.String()}))
		f.Type = to
		a.metadata.Configuration[delta.PropertyTypeWidening] = "true"
		a.step("CHANGE COLUMN", map[string]string{"column": jsonText(fieldJSON(*f))})
		return nil
	}
}

const (
	metadataTypeChanges = "delta.typeChanges"
	metadataComment     = "comment"
)

// CommentColumn describes a column; "" takes its description away.
func CommentColumn(name, text string) Change {
	return ofColumn(name, func(f *schema.Field) {
		if text == "" {
			f.Metadata = maps.Clone(f.Metadata)
			delete(f.Metadata, metadataComment)
			return
		}
		f.Metadata = withMetadata(f.Metadata, metadataComment, text)
	})
}

// AllowNull lets a column be NULL.
func AllowNull(name string) Change {
	return ofColumn(name, func(f *schema.Field) { f.Nullable = true })
}

// SetDefault gives a column a default for rows to come, as SQL writes it: 5, 'text',
// DATE '2024-01-01'. "" takes the default away.
func SetDefault(name, literal string) Change {
	return func(a *alteration) error {
		i, err := a.find(name)
		if err != nil {
			return err
		}
		if literal != "" {
			if _, err := literalOf(literal, &a.fields[i]); err != nil {
				return refuse("the default of column %q: %w", a.fields[i].Name, err)
			}
		}
		return ofColumn(name, func(f *schema.Field) {
			if literal == "" {
				f.Metadata = maps.Clone(f.Metadata)
				delete(f.Metadata, metadataDefault)
				return
			}
			f.Metadata = withMetadata(f.Metadata, metadataDefault, literal)
		})(a)
	}
}

// ofColumn is a change of what is said of one column.
func ofColumn(name string, change func(*schema.Field)) Change {
	return func(a *alteration) error {
		i, err := a.find(name)
		if err != nil {
			return err
		}
		change(&a.fields[i])
		a.step("CHANGE COLUMN", map[string]string{"column": jsonText(fieldJSON(a.fields[i]))})
		return nil
	}
}

// Describe names and describes the table.
func Describe(name, description string) Change {
	return func(a *alteration) error {
		a.metadata.Name, a.metadata.Description = name, description
		a.step("SET TBLPROPERTIES", map[string]string{"properties": jsonText(map[string]string{"comment": description})})
		return nil
	}
}
