package ingest

import (
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/ddl"
	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/snapshotter"
)

// What becomes of statements that rename or drop columns of the source.
const (
	Follow   = "follow"
	KeepBoth = "keep_both"
)

// applySchema makes the table follow a statement. Each partition brings it: the first
// one that does acts, and rows that another one has in front of it are taken with their
// columns' new names (see before).
func (l *Lane) applySchema(c *change.Change, m snapshotter.Meta) (fate, *rejection, error) {
	s := c.Schema
	why := ""
	switch {
	case l.manySources():
		why = "the table is fed by several of the source, which are not altered at once"
	case !m.HasPosition && l.dataPartitions() > 1:
		why = "without log positions it has no place among the rows of several partitions"
	}
	follow := l.o.DDL != KeepBoth && why == ""
	if follow && l.sawDDL(m) {
		return filtered, nil, nil
	}
	if l.o.DDL == Fail {
		return 0, nil, fmt.Errorf("%w: the source ran %s (ddl: fail); to go on set ddl: follow, by which the table's columns follow, or ddl: keep_both, by which a new name is a new column", ErrRefused, quote(s.Statement))
	}
	if s.RowsRemoved != "" {
		l.markIncomplete(fmt.Sprintf("the source ran %s, which changes rows without change events for them", quote(s.RowsRemoved)))
		if m.HasPosition {
			l.p.Incomplete.At, l.p.Incomplete.Line = &m.Position, m.Line
		}
	}
	if why != "" && l.o.DDL != KeepBoth {
		l.o.Log.Warn("a statement at the source is not followed: "+why+", so that a new name is a new column", l.fields("statement", s.Statement)...)
	}
	if !follow {
		l.p.Counts.SchemaKept++
		return filtered, nil, nil
	}
	plan, err := l.planColumns(s)
	if err != nil {
		return 0, nil, err
	}
	l.reshape(plan)
	l.noteDDL(c, m, plan)
	l.p.Counts.SchemaChanges++
	l.batch.dirty = true
	l.o.Log.Info("columns follow a statement at the source", zap.String("table", l.o.Name), zap.String("statement", s.Statement),
		zap.Int("columns", len(s.Columns)))
	return filtered, nil, nil
}

func quote(statement string) string {
	const most = 300
	if len(statement) > most {
		statement = strings.ToValidUTF8(statement[:most], "") + "..."
	}
	return "`" + statement + "`"
}

// manySources tells that more than one table of the source may feed this one.
func (l *Lane) manySources() bool {
	if pattern, _ := decode.CheckSource(l.o.Decode.Source); pattern || l.o.Transform.Sharded() != "" {
		return true
	}
	topic := ""
	for _, p := range l.state().Partitions {
		switch {
		case p.Heartbeat:
		case topic != "" && topic != p.Topic:
			return true
		default:
			topic = p.Topic
		}
	}
	return false
}

// dataPartitions are those that bring the table's records.
func (l *Lane) dataPartitions() (n int) {
	for _, p := range l.state().Partitions {
		if !p.Heartbeat {
			n++
		}
	}
	return n
}

// columnPlan is what a statement does to the table's columns.
type columnPlan struct {
	renamed []progress.Renamed // also of columns that the table does not have
	dropped []string
	// to gives each of the table's columns its new name, "" to one that goes.
	to []string
}

// planColumns says what becomes of the table's columns. The error wraps ErrRefused
// where the table can't follow.
func (l *Lane) planColumns(s *change.SchemaChange) (*columnPlan, error) {
	p := &columnPlan{to: l.columns.names()}
	stop := func(format string, args ...any) error {
		return fmt.Errorf("%w: the source ran %s: "+format, append([]any{ErrRefused, quote(s.Statement)}, args...)...)
	}
	var outgrown []schema.Field
	for _, c := range s.Columns {
		if c.Old == "" {
			continue // it is added by the first row that needs it
		}
		own, has := l.columns.fold[strings.ToLower(c.Old)]
		if c.New != c.Old && has && (slices.Contains(l.key, own) || slices.Contains(l.o.PartitionBy, own)) {
			return nil, stop("the column %s belongs to the table's key or partition_by, which stay as they are; load the source into a new table", own)
		}
		switch {
		case c.New == "":
			p.dropped = append(p.dropped, c.Old)
			if has {
				p.to[l.columns.index[own]] = ""
			}
			continue
		case c.New != c.Old:
			p.renamed = append(p.renamed, progress.Renamed{Old: c.Old, New: c.New})
			if has {
				p.to[l.columns.index[own]] = c.New
			}
		}
		if has {
			if wide, ok := l.outgrows(own, c); ok {
				outgrown = append(outgrown, schema.Field{Name: own, Type: wide})
			}
		}
	}
	if len(outgrown) > 0 {
		return nil, stop("%s; or set ddl: keep_both, by which columns stay as they are and values that do not fit are dead letters", l.wayToWiden(outgrown))
	}
	seen := map[string]string{}
	for i, n := range p.to {
		if n == "" {
			continue
		}
		if _, twice := seen[strings.ToLower(n)]; twice {
			return nil, stop("the table has a column %s already, from before; load the source into a new table, or set ddl: keep_both", n)
		}
		seen[strings.ToLower(n)] = l.columns.list[i].Name
	}
	return p, nil
}

// wayToWiden says which columns do not hold the types that the source's have now, and
// what brings them there.
func (l *Lane) wayToWiden(outgrown []schema.Field) string {
	var what, arguments []string
	can := true
	for _, f := range outgrown {
		now := l.columns.list[l.columns.index[f.Name]].Type
		what = append(what, fmt.Sprintf("the column %s becomes %s, and the table's %s does not hold that", f.Name, f.Type, now))
		arguments = append(arguments, "'"+strings.ReplaceAll(f.Name+"="+f.Type.String(), "'", `'\''`)+"'")
		can = can && delta.Widens(now, f.Type) && CheckWidening(l.key, f.Name, now, f.Type) == nil && !slices.Contains(l.o.PartitionBy, f.Name)
	}
	if can {
		what = append(what, fmt.Sprintf("run gscd widen --table %s %s, which writes the rows anew, and start again", l.o.Name, strings.Join(arguments, " ")))
	} else {
		what = append(what, "load the source into a new table")
	}
	return strings.Join(what, "; ")
}

// outgrows reports whether a column's new type has values that the table's does not
// hold, and which type that is. Types that the configuration gives stay.
func (l *Lane) outgrows(own string, c ddl.ColumnChange) (wide schema.Type, _ bool) {
	if _, declared := l.o.Columns[own]; declared || c.OldType == c.NewType {
		return wide, false
	}
	old, err1 := decode.ParseColumnType(c.OldType)
	wider, err2 := decode.ParseColumnType(c.NewType)
	now := l.columns.list[l.columns.index[own]].Type
	if err1 != nil || err2 != nil || old.Type != now {
		return wide, false // a type by the settings or by other records: values tell
	}
	return wider.Type, !holds(now, wider.Type)
}

// holds reports whether a column of a type takes every value of another one.
func holds(column, value schema.Type) bool {
	whole := func(p schema.Primitive) int {
		return slices.Index([]schema.Primitive{schema.Byte, schema.Short, schema.Integer, schema.Long}, p)
	}
	switch {
	case column == value, column.Primitive == schema.StringType && value.Primitive != schema.BinaryType:
		return true
	case whole(column.Primitive) >= 0 && whole(value.Primitive) >= 0:
		return whole(column.Primitive) >= whole(value.Primitive)
	case column.Primitive == schema.DecimalType && value.Primitive == schema.DecimalType:
		return column.Scale >= value.Scale && column.Precision-column.Scale >= value.Precision-value.Scale
	case column.Primitive == schema.DoubleType && value.Primitive == schema.FloatType:
		return true
	}
	return false
}

// reshape gives the table's columns their new names and takes away those that go, in
// what the next commit says and in the rows that the batch has.
func (l *Lane) reshape(p *columnPlan) {
	old := l.columns
	var from []int
	kept := 0 // columns that a commit has made
	list := make([]change.Column, 0, len(old.list))
	atOpen := []string{}
	var renames [][2]string
	for i, col := range old.list {
		to := p.to[i]
		made := i < l.committedColumns && l.base != nil
		if to == "" {
			if made {
				l.altered = append(l.altered, write.DropColumn(col.Name))
			}
			continue
		}
		if to != col.Name && made {
			renames = append(renames, [2]string{col.Name, to})
		}
		if made {
			kept++
		}
		if old.atOpen[col.Name] {
			atOpen = append(atOpen, to)
		}
		from = append(from, i)
		list = append(list, change.Column{Name: to, Type: col.Type})
	}
	// Names may change places: those that another column still has come by a name of no one.
	for i, r := range renames {
		if slices.ContainsFunc(renames[i+1:], func(o [2]string) bool { return strings.EqualFold(o[0], r[1]) }) {
			between := fmt.Sprintf("%srenamed_%d", HiddenPrefix, i)
			l.altered = append(l.altered, write.RenameColumn(r[0], between))
			renames[i][0] = between
			renames = append(renames, renames[i])
			renames[i] = [2]string{}
		}
	}
	for _, r := range renames {
		if r[0] != "" {
			l.altered = append(l.altered, write.RenameColumn(r[0], r[1]))
		}
	}
	if l.base != nil {
		l.committedColumns = kept
	}
	l.columns = newColumns(list, atOpen)
	l.p.ColumnsAtOpen = atOpen
	for i := range l.batch.entries {
		e := &l.batch.entries[i]
		if e.row == nil {
			continue
		}
		row := l.arena.Values(len(list))
		for to, was := range from {
			if was < len(e.row) {
				row[to] = e.row[was]
			}
		}
		e.row = row
	}
	clear(l.keyPlaces)
}

// sawDDL reports whether the table follows a statement already, and notes that its
// partition has passed it.
func (l *Lane) sawDDL(m snapshotter.Meta) bool {
	behind := false
	for i := range l.p.DDL {
		d := &l.p.DDL[i]
		switch {
		case !m.HasPosition || !d.HasPosition || d.Line != m.Line:
		case d.Position == m.Position:
			d.See(m.Partition, m.Offset)
			l.pruneDDL()
			l.batch.dirty = true
			return true
		default:
			// Every partition brings all statements in order: one before another that is
			// followed was followed before it, and is no longer in the list.
			behind = behind || m.Position.Compare(d.Position) < 0
		}
	}
	return behind
}

// noteDDL remembers a statement for the rows that other partitions have in front of it.
func (l *Lane) noteDDL(c *change.Change, m snapshotter.Meta, p *columnPlan) {
	d := progress.AppliedDDL{
		Line: m.Line, Position: m.Position, HasPosition: m.HasPosition, Label: l.state().Open,
		Statement: quote(c.Schema.Statement), Renamed: p.renamed, Dropped: p.dropped,
	}
	d.See(m.Partition, m.Offset)
	l.p.DDL = append(l.p.DDL, d)
	l.translations = nil
	l.pruneDDL()
}

// keptDDL is how many statements are remembered that all partitions have passed, for dead
// letters that are replayed; maxDDL bounds them all.
const keptDDL, maxDDL = 32, 256

func (l *Lane) pruneDDL() {
	passed := func(d *progress.AppliedDDL) bool {
		for _, p := range l.state().Partitions {
			if _, ok := d.SeenAt(p.Number); !ok && !p.Heartbeat {
				return false
			}
		}
		return true
	}
	for len(l.p.DDL) > keptDDL && (passed(&l.p.DDL[0]) || len(l.p.DDL) > maxDDL) {
		l.p.DDL = slices.Delete(l.p.DDL, 0, 1)
		l.translations = nil
	}
}

// translation is the shape of rows from before some statements, in the names from after them.
type translation struct {
	columns *change.Columns
	kept    []int // the cells that are left; nil: all
}

type translationKey struct {
	columns *change.Columns
	behind  string // which statements, one character each
}

// before puts a change that the source made before statements that the table
// follows already into the columns from after them.
func (l *Lane) before(c *change.Change, m snapshotter.Meta) {
	if len(l.p.DDL) == 0 || c.Columns == nil || c.After == nil {
		return
	}
	any := false
	unseen := make([]byte, len(l.p.DDL))
	for i := range l.p.DDL {
		if d := &l.p.DDL[i]; isBefore(d, m) {
			unseen[i], any = 1, true
		}
	}
	if !any {
		return
	}
	key := translationKey{c.Columns, string(unseen)}
	t, ok := l.translations[key]
	if !ok {
		t = l.translate(c.Columns, unseen)
		if l.translations == nil || len(l.translations) >= maxShapes {
			l.translations = map[translationKey]translation{}
		}
		l.translations[key] = t
	}
	c.Columns = t.columns
	if t.kept != nil {
		cells := l.arena.Values(len(t.kept))
		for i, from := range t.kept {
			cells[i] = c.After[from]
		}
		c.After = cells
	}
}

// isBefore reports whether a change comes before a statement in the source's order.
func isBefore(d *progress.AppliedDDL, m snapshotter.Meta) bool {
	if d.HasPosition && m.HasPosition && d.Line == m.Line {
		return m.Position.Compare(d.Position) < 0
	}
	at, seen := d.SeenAt(m.Partition)
	return seen && m.Offset < at
}

func (l *Lane) translate(w *change.Columns, unseen []byte) translation {
	names := make([]string, len(w.List))
	for i, c := range w.List {
		names[i] = c.Name
	}
	for i := range l.p.DDL {
		if unseen[i] == 0 {
			continue
		}
		d := &l.p.DDL[i]
		then := slices.Clone(names)
		for at, n := range then {
			if n == "" {
				continue
			}
			if slices.ContainsFunc(d.Dropped, func(o string) bool { return strings.EqualFold(o, n) }) {
				names[at] = ""
			}
			for _, r := range d.Renamed {
				if strings.EqualFold(r.Old, n) {
					names[at] = r.New
				}
			}
		}
	}
	t := translation{columns: &change.Columns{FromSchema: w.FromSchema}}
	for i, n := range names {
		if n != "" {
			t.columns.List = append(t.columns.List, change.Column{Name: n, Type: w.List[i].Type})
			t.kept = append(t.kept, i)
		}
	}
	if len(t.kept) == len(names) {
		t.kept = nil
	}
	return t
}
