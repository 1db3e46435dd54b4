package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/diff"
	"github.com/gscd-io/gscd/query/lineage"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/query/rowkey"
	"github.com/gscd-io/gscd/savepoint"
)

type historyFlags struct {
	key, from, to string
	rolledBack    bool
	output        string
}

func newHistoryCommand(a *app) *cobra.Command {
	var f historyFlags
	c := &cobra.Command{
		Use:     "history",
		GroupID: groupReading,
		Short:   "Print what one key was through the days, and which change made each state",
		Long: `Prints a line for each state of a key, the oldest first: from when to when it was so
(valid_from, valid_to; null: still), in which label and version it came and went, the
values, the event of the source that made it (topic, partition, offset, event time, binlog
file and position) and the one that ended it: an update, a delete or a rollback.

Times are those of the events; of what another engine wrote, that of the commit. Where
commits are kept, each is looked at: what a key was between two changes of one batch is in
no version. Where only savepoints are kept, states between two of them are missing. "step"
says which it was. A change that left all values as they were is no state.`,
		Example: `  gscd history --key id=7
  gscd history --key shop=1,user='a,b' --from 2022-07-01 --to 2022-07-16
  gscd history --key id=7 --rolled-back --format jsonl`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.key == "" {
				return usagef("--key says which row: --key id=7")
			}
			if f.output != "" {
				if _, err := a.rowFormat(f.output); err != nil {
					return err
				}
			}
			return a.history(c.Context(), f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.key, "key", "", "the `key`: K=V[,K=V], a value with a comma in quotes, NULL without")
	flags.StringVar(&f.from, "from", "", "only what it was from this `label` on")
	flags.StringVar(&f.to, "to", "", "only up to the end of this `label`")
	flags.BoolVar(&f.rolledBack, "rolled-back", false, "the states too that a rollback took back")
	flags.StringVar(&f.output, "output", "", "write to a `file`, which appears when it is whole: .parquet, .arrow, .csv, .json, .jsonl")
	a.addOutsideFlag(c)
	return c
}

func (a *app) history(ctx context.Context, f historyFlags) error {
	cells, err := rowkey.Parse(f.key)
	if err != nil {
		return usagef("--key: %w", err)
	}
	t, err := a.openDelta(ctx)
	if err != nil {
		return err
	}
	at := point{snapshot: t.newest}
	if f.to != "" {
		if at, err = a.pointNamed(ctx, t, f.to); err != nil {
			return err
		}
	}
	o := lineage.HistoryOptions{After: -1, RolledBack: f.rolledBack, Key: cells}
	if key := diff.KeyOf(at.snapshot); key != nil {
		if o.Key, err = rowkey.Whole(cells, key); err != nil {
			return usagef("--key: %w", err)
		}
	} else if t.labels != nil {
		return fmt.Errorf("table %s has no key (mode: append): its rows don't change; find one with gscd blame --where", t.Name)
	}
	if f.from != "" {
		if o.After, err = a.versionBefore(ctx, t, f.from); err != nil {
			return err
		}
		if o.After > at.snapshot.Version() {
			return usagef("--from %s is behind --to %s", f.from, f.to)
		}
	}
	h, err := lineage.History(ctx, t.table, at.snapshot, t.labels, o)
	switch {
	case errors.Is(err, rowkey.ErrKey):
		return usagef("--key: %w", err)
	case errors.Is(err, scan.ErrFileMissing), errors.Is(err, scan.ErrFileMismatch):
		return t.goneFiles(ctx, f.key, err)
	case err != nil:
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	if len(h.States) == 0 {
		a.noticef("no version from %d to %d has a row with %s", h.First, h.Last, f.key)
	}
	if h.Savepoints > 0 {
		a.noticef("of %d steps only savepoints are kept: states between two of them are not seen", h.Savepoints)
	}
	format, err := output.Resolve(a.flags.format, a.stdout)
	if f.output != "" {
		format, err = a.rowFormat(f.output)
	}
	if err != nil {
		return err
	}
	columns := historyColumns(h, format)
	if !f.rolledBack && format == output.Table {
		columns = columns[:len(columns)-1]
	}
	return a.printRows(f.output, columns.fields(), func(yield func([]schema.Value, error) bool) {
		for i := range h.States {
			if !yield(columns.row(&h.States[i]), nil) {
				return
			}
		}
	})
}

// versionBefore gives the version of the label before one: what is as it was then has
// begun before. Before the first label it is -1.
func (a *app) versionBefore(ctx context.Context, t *openedTable, name string) (int64, error) {
	if strings.HasPrefix(name, "@") || t.labels == nil {
		p, err := a.pointNamed(ctx, t, name)
		if err != nil {
			return 0, err
		}
		return p.snapshot.Version(), nil
	}
	r, err := t.labels.Resolve(name, false)
	if err != nil {
		return 0, fmt.Errorf("table %s: %w", t.Name, err)
	}
	version := int64(-1)
	for _, e := range t.labels.Entries {
		if e.State == savepoint.Sealed && !e.Kept && e.Label < r.Entry.Label {
			version = max(version, e.Version)
		}
	}
	return version, nil
}

// shownColumn is a column of what is printed, and its cell of an item.
type shownColumn[T any] struct {
	name string
	kind schema.Type
	cell func(T) schema.Value
}

type shownColumns[T any] []shownColumn[T]

func (s shownColumns[T]) fields() []schema.Field {
	fields := make([]schema.Field, len(s))
	for i, c := range s {
		fields[i] = schema.Field{Name: c.name, Type: c.kind, Nullable: true}
	}
	return fields
}

func (s shownColumns[T]) row(item T) []schema.Value {
	row := make([]schema.Value, len(s))
	for i, c := range s {
		row[i] = c.cell(item)
	}
	return row
}

// nested makes one column of an object of several.
func (s shownColumns[T]) nested(name string, missing func(T) bool) shownColumn[T] {
	return shownColumn[T]{name, schema.Type{Primitive: schema.Struct, Nested: &schema.Nested{Fields: s.fields()}}, func(item T) schema.Value {
		if missing(item) {
			return schema.Value{}
		}
		return schema.CompoundValue(s.row(item)...)
	}}
}

// historyColumns are the columns of a history: for people and CSV flat, else the values and
// the events as objects. The last one says what was rolled back.
func historyColumns(h *lineage.KeyHistory, format string) shownColumns[*lineage.State] {
	type state = *lineage.State
	text, long := schema.Of(schema.StringType), schema.Of(schema.Long)
	moment := func(m *lineage.Moment, of func(*lineage.Moment) schema.Value) schema.Value {
		if m == nil {
			return schema.Value{}
		}
		return of(m)
	}
	label := func(m *lineage.Moment) schema.Value { return textOrNull(m.Label) }
	version := func(m *lineage.Moment) schema.Value { return schema.IntValue(m.Version) }
	columns := shownColumns[state]{
		{"valid_from", schema.Of(schema.Timestamp), func(s state) schema.Value { return timeOrNull(s.From) }},
		{"valid_to", schema.Of(schema.Timestamp), func(s state) schema.Value { return timeOrNull(s.To) }},
		{"label", text, func(s state) schema.Value { return moment(s.Came, label) }},
		{"version", long, func(s state) schema.Value { return moment(s.Came, version) }},
		{"end", text, func(s state) schema.Value { return textOrNull(string(s.End)) }},
		{"end_label", text, func(s state) schema.Value { return moment(s.Went, label) }},
		{"end_version", long, func(s state) schema.Value { return moment(s.Went, version) }},
	}
	var values shownColumns[state]
	for i, f := range h.Columns {
		values = append(values, shownColumn[state]{f.Name, f.Type, func(s state) schema.Value { return s.Row[i] }})
	}
	source := eventColumns(func(s state) *lineage.Event { return s.Source })
	ended := eventColumns(func(s state) *lineage.Event { return s.Ended })
	step := shownColumn[state]{"step", text, func(s state) schema.Value {
		return moment(s.Came, func(m *lineage.Moment) schema.Value { return schema.StringValue(string(m.Step)) })
	}}
	rolledBack := shownColumn[state]{"rolled_back", schema.Of(schema.Boolean), func(s state) schema.Value {
		return schema.BoolValue(s.Came != nil && s.Came.RolledBack)
	}}
	switch format {
	case output.Table: // the narrow ones
		columns = append(columns[:5:5], values...)
		return append(append(columns, eventTexts(func(s state) *lineage.Event { return s.Source })...), rolledBack)
	case output.CSV:
		columns = append(append(columns, values...), source...)
	default:
		columns = append(columns,
			values.nested("values", func(state) bool { return false }),
			shownColumn[state]{"changed", schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: text}}, func(s state) schema.Value {
				if s.Changed == nil {
					return schema.Value{}
				}
				var names []schema.Value
				for _, i := range s.Changed {
					names = append(names, schema.StringValue(h.Columns[i].Name))
				}
				return schema.CompoundValue(names...)
			}},
			source.nested("source", func(s state) bool { return s.Source == nil }),
			ended.nested("ended_by", func(s state) bool { return s.Ended == nil }))
	}
	return append(columns, step, rolledBack)
}

// eventTexts are the columns of a change of the source for people.
func eventTexts[T any](of func(T) *lineage.Event) shownColumns[T] {
	text := schema.Of(schema.StringType)
	return shownColumns[T]{
		{"source", text, func(item T) schema.Value {
			e := of(item)
			if e == nil {
				return schema.Value{}
			}
			return schema.StringValue(fmt.Sprintf("%s/%d:%d", e.Topic, e.Partition, e.Offset))
		}},
		{"binlog", text, func(item T) schema.Value {
			e := of(item)
			if e == nil || !e.HasPosition {
				return schema.Value{}
			}
			return schema.StringValue(fmt.Sprintf("%d:%d", e.File, e.Pos))
		}},
	}
}

// eventColumns are the columns of a change of the source.
func eventColumns[T any](of func(T) *lineage.Event) shownColumns[T] {
	text, long, integer := schema.Of(schema.StringType), schema.Of(schema.Long), schema.Of(schema.Integer)
	column := func(name string, kind schema.Type, cell func(*lineage.Event) schema.Value) shownColumn[T] {
		return shownColumn[T]{name, kind, func(item T) schema.Value {
			e := of(item)
			if e == nil {
				return schema.Value{}
			}
			return cell(e)
		}}
	}
	position := func(cell func(*lineage.Event) int64) func(*lineage.Event) schema.Value {
		return func(e *lineage.Event) schema.Value {
			if !e.HasPosition {
				return schema.Value{}
			}
			return schema.IntValue(cell(e))
		}
	}
	return shownColumns[T]{
		column("topic", text, func(e *lineage.Event) schema.Value { return textOrNull(e.Topic) }),
		column("partition", integer, func(e *lineage.Event) schema.Value { return schema.IntValue(int64(e.Partition)) }),
		column("offset", long, func(e *lineage.Event) schema.Value { return schema.IntValue(e.Offset) }),
		column("event_time", schema.Of(schema.Timestamp), func(e *lineage.Event) schema.Value { return timeOrNull(e.Time) }),
		column("read", schema.Of(schema.Boolean), func(e *lineage.Event) schema.Value { return schema.BoolValue(e.Read) }),
		column("server", text, func(e *lineage.Event) schema.Value { return textOrNull(e.Server) }),
		column("server_id", long, position(func(e *lineage.Event) int64 { return e.ServerID })),
		column("binlog_file", long, position(func(e *lineage.Event) int64 { return e.File })),
		column("binlog_position", long, position(func(e *lineage.Event) int64 { return e.Pos })),
		column("binlog_row", integer, position(func(e *lineage.Event) int64 { return int64(e.Row) })),
	}
}

func textOrNull(s string) schema.Value {
	if s == "" {
		return schema.Value{}
	}
	return schema.StringValue(s)
}

func timeOrNull(t time.Time) schema.Value {
	if t.IsZero() {
		return schema.Value{}
	}
	return schema.IntValue(t.UnixMicro())
}
