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
		a := &alteration{ctx: ctx, plan: p, metadata: *now, fields: ownFields(p.snapshot.Schema().Fields)}
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
	return -1, fmt.Errorf("%w: %q; the table has %q", ErrColumn, name, namesOf(a.fields))
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

// unused refuses to take away or rename a column, or a field inside of one, that a rule of
// the table is about.
func (a *alteration) unused(at *spot) error {
	s, err := schema.New(a.fields...)
	if err != nil {
		return refuse("%w", err)
	}
	r := rulesOf(&layout{schema: s, metadata: &a.metadata})
	if r.fault != nil {
		return r.fault
	}
	for _, c := range r.checks {
		for _, ref := range c.where.Refs() {
			if names := ref.Names(s); len(names) >= len(at.path) && slices.Equal(names[:len(at.path)], at.path) {
				return refuse("%s is about column %q: drop it before", c.name, at.name())
			}
		}
	}
	for i, g := range r.generated {
		if i == at.column || slices.Contains(g.columns, at.column) {
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

// First is the place before all columns, or fields of a struct, After the one behind
// another of them; the zero Place is behind all.
func First() Place              { return Place{first: true} }
func After(column string) Place { return Place{after: column} }

// index gives the place in a list of fields.
func (at Place) index(list []schema.Field) (int, error) {
	switch {
	case at.first:
		return 0, nil
	case at.after == "":
		return len(list), nil
	}
	i := slices.IndexFunc(list, func(f schema.Field) bool { return strings.EqualFold(f.Name, at.after) })
	if i < 0 {
		return -1, fmt.Errorf("%w: %q; there are %q", ErrColumn, at.after, namesOf(list))
	}
	return i + 1, nil
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
	return func(a *alteration) error { return a.add(&a.fields, nil, f, at) }
}

// AddField adds a field to a struct, which is NULL in the rows that are there. The struct
// is a column, or inside of one by its path, see RenameColumn; the Place names a field of it.
func AddField(within string, f schema.Field, at Place) Change {
	return func(a *alteration) error {
		s, err := a.locate(within)
		if err != nil {
			return err
		}
		t := s.typ()
		if t.Primitive != schema.Struct {
			return refuse("%s is %s, no struct", s.name(), t)
		}
		return a.add(&t.Nested.Fields, s.path, f, at)
	}
}

func (a *alteration) add(list *[]schema.Field, within []string, f schema.Field, at Place) error {
	name := schema.FormatPath(append(slices.Clip(within), f.Name)...)
	if slices.ContainsFunc(*list, func(other schema.Field) bool { return strings.EqualFold(other.Name, f.Name) }) {
		return refuse("there is a column %q", name)
	}
	if !f.Nullable {
		return refuse("column %q is NOT NULL, but the rows that are there have no value of it", name)
	}
	for _, key := range []string{metadataGeneration, metadataDefault} {
		if _, ok := f.Metadata[key]; ok {
			return refuse("column %q has %s, which the rows that are there would lack", name, key)
		}
	}
	if isIdentity(&f) {
		return refuse("column %q is an identity column, whose numbers the rows that are there would lack", name)
	}
	i, err := at.index(*list)
	if err != nil {
		return err
	}
	f.Type = ownType(f.Type)
	*list = slices.Insert(*list, i, f)
	if a.isMapped() {
		a.assign(true)
	}
	column := at.parameters(map[string]string{})
	a.step("ADD COLUMNS", map[string]string{"columns": jsonText([]any{map[string]any{"column": fieldJSON(name, &f), "position": column["position"]}})})
	return nil
}

// fieldJSON is a column as commitInfo shows it.
func fieldJSON(name string, f *schema.Field) any {
	return map[string]any{"name": name, "type": f.Type.String(), "nullable": f.Nullable, "metadata": f.Metadata}
}

// DropColumn takes a column away, or a field inside of one by its path, see RenameColumn.
// Files keep it, unseen.
func DropColumn(name string) Change {
	return func(a *alteration) error {
		a.mapColumns()
		at, err := a.locateField(name)
		if err != nil {
			return err
		}
		if at.isColumn() && slices.Contains(a.metadata.PartitionColumns, at.path[0]) {
			return refuse("column %q is a partition column", at.path[0])
		}
		if !at.isColumn() && len(*at.list) == 1 {
			return refuse("%q is the only field of its struct", at.name())
		}
		clustered, err := a.plan.snapshot.ClusteringColumns()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(clustered, func(path []string) bool {
			return len(path) >= len(at.stored) && slices.Equal(path[:len(at.stored)], at.stored)
		}) {
			return refuse("the table is clustered by column %q", at.name())
		}
		if err := a.unused(at); err != nil {
			return err
		}
		a.step("DROP COLUMNS", map[string]string{"columns": jsonText([]string{at.name()})})
		*at.list = slices.Delete(*at.list, at.at, at.at+1)
		return nil
	}
}

// RenameColumn gives a column another name. A field inside of columns is told by its
// path: names with dots between them, in backticks where they have a dot themselves, and
// element, key and value for what is in arrays and maps: address.city,
// points.element.x. to is its own new name, without the path.
func RenameColumn(from, to string) Change {
	return func(a *alteration) error {
		a.mapColumns()
		at, err := a.locateField(from)
		if err != nil {
			return err
		}
		for i, f := range *at.list {
			if i != at.at && strings.EqualFold(f.Name, to) {
				return refuse("there is a column %q", f.Name)
			}
		}
		if err := a.unused(at); err != nil {
			return err
		}
		if at.isColumn() {
			if p := slices.Index(a.metadata.PartitionColumns, at.path[0]); p >= 0 {
				a.metadata.PartitionColumns[p] = to
			}
		}
		old := at.name()
		at.field().Name, at.path[len(at.path)-1] = to, to
		a.step("RENAME COLUMN", map[string]string{"oldColumnPath": old, "newColumnPath": at.name()})
		return nil
	}
}

// MoveColumn puts a column to another place, or a field, see RenameColumn, to another one
// in its struct.
func MoveColumn(name string, at Place) Change {
	return func(a *alteration) error {
		from, err := a.locateField(name)
		if err != nil {
			return err
		}
		f := *from.field()
		if strings.EqualFold(at.after, f.Name) {
			return refuse("column %q can't be behind itself", from.name())
		}
		*from.list = slices.Delete(*from.list, from.at, from.at+1)
		to, err := at.index(*from.list)
		if err != nil {
			return err
		}
		*from.list = slices.Insert(*from.list, to, f)
		a.step("CHANGE COLUMN", at.parameters(map[string]string{"column": jsonText(fieldJSON(from.name(), &f))}))
		return nil
	}
}

// WidenColumn gives a column a wider type, such as long in place of integer, or what is
// inside of one, see RenameColumn, also the element of an array itself: list.element. It
// turns on type widening, which older engines can't read.
func WidenColumn(name string, to schema.Type) Change {
	return func(a *alteration) error {
		at, err := a.locate(name)
		if err != nil {
			return err
		}
		f, t := at.field(), at.typ()
		if !t.IsLeaf() || !delta.Widens(*t, to) {
			return refuse("column %q is %s, which does not widen to %s", at.name(), t, to)
		}
		type change struct {
			From string `json:"fromType"`
			To   string `json:"toType"`
			Path string `json:"fieldPath,omitempty"`
		}
		var changes []any
		if raw, ok := f.Metadata[delta.MetadataTypeChanges]; ok {
			var before []map[string]any
			if err := json.Unmarshal(raw, &before); err != nil {
				return refuse("column %q has %s that can't be read: %w", at.name(), delta.MetadataTypeChanges, err)
			}
			for _, c := range before {
				changes = append(changes, c)
			}
		}
		f.Metadata = withMetadata(f.Metadata, delta.MetadataTypeChanges, append(changes, change{t.String(), to.String(), strings.Join(at.below, ".")}))
		*t = to
		a.metadata.Configuration[delta.PropertyTypeWidening] = "true"
		a.step("CHANGE COLUMN", map[string]string{"column": jsonText(fieldJSON(at.name(), f))})
		return nil
	}
}

const metadataComment = "comment"

// CommentColumn describes a column, or a field inside of one, see RenameColumn; "" takes
// its description away.
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

// AllowNull lets a column be NULL, or what is inside of one, see RenameColumn, also the
// elements of an array and the values of a map.
func AllowNull(name string) Change {
	return func(a *alteration) error {
		at, err := a.locate(name)
		switch {
		case err != nil:
			return err
		case at.part == nil:
			at.field().Nullable = true
		case at.holder == nil:
			return refuse("%s: keys of a map are never NULL", at.name())
		default:
			at.holder.ContainsNull = true
		}
		a.step("CHANGE COLUMN", map[string]string{"column": jsonText(fieldJSON(at.name(), at.field()))})
		return nil
	}
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

// ofColumn is a change of what is said of one column, or field inside of one.
func ofColumn(name string, change func(*schema.Field)) Change {
	return func(a *alteration) error {
		at, err := a.locateField(name)
		if err != nil {
			return err
		}
		change(at.field())
		a.step("CHANGE COLUMN", map[string]string{"column": jsonText(fieldJSON(at.name(), at.field()))})
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
