package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/changes"
	"github.com/gscd-io/gscd/savepoint"
)

// changesFlags say which changes, and how.
type changesFlags struct {
	from, to                   string
	fromVersion, toVersion     int64
	fromTimestamp, toTimestamp string
	net                        bool
	key, columns, output       string
	// of --follow
	follow, sealed bool
	poll           time.Duration
	// of --to-topic
	sink sinkFlags
}

func newChangesCommand(a *app) *cobra.Command {
	var f changesFlags
	c := &cobra.Command{
		Use:     "changes",
		GroupID: groupReading,
		Short:   "Print what changed, row by row, between days, versions or times",
		Long: `Prints one entry a row change: the row, and behind it _change_type (insert, delete,
update_preimage, update_postimage), _commit_version, _commit_timestamp and, in a table with
labels, _commit_label.

Both bounds count, as in Delta Lake: --from D1 --to D2 gives the changes of the days D1 to
D2, which lead from the last version of the day before D1 to that of D2. Without --to they
go up to now. What a rollback took back is left out by label; by version it is there, and
so is the rollback.

Every change comes as it was committed; with --net each key has one change a label (by
version: one in all), the difference of its row before and after. Without change data (see
change_data) the changes of a label come so too, from the files that its savepoint and the
one before do not share.`,
		Example: `  gscd changes --from 2022-07-16 --to 2022-07-17
  gscd changes --from 2022-07-16 --to 2022-07-16 --net --format csv
  gscd changes --from-version 120 --to-version 130
  gscd changes --from-timestamp 2022-07-17T08:00 --output changes.parquet
  gscd changes --follow --from-version 131 --format jsonl
  gscd changes --follow --to-topic user_dim.changes --brokers kafka:9092 --shape debezium`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, name := range []string{"from-version", "to-version"} {
				if flag := c.Flags().Lookup(name); flag.Changed && strings.HasPrefix(flag.Value.String(), "-") {
					return usagef("--%s %s: versions begin at 0", name, flag.Value)
				}
			}
			if !c.Flags().Changed("from-version") {
				f.fromVersion = -1
			}
			if !c.Flags().Changed("to-version") {
				f.toVersion = -1
			}
			byLabel := f.to != "" && (f.fromVersion >= 0 || f.fromTimestamp != "")
			byOther := f.from != "" && (f.toVersion >= 0 || f.toTimestamp != "")
			bounded := f.to != "" || f.toVersion >= 0 || f.toTimestamp != ""
			switch {
			case byLabel, byOther:
				return usagef("bounds are two labels, or versions and times: --from goes with --to, --from-version and --from-timestamp with --to-version and --to-timestamp")
			case (f.follow || f.sink.topic != "") && (bounded || f.output != ""):
				return usagef("--follow and --to-topic have no end: leave --to, --to-version, --to-timestamp and --output out")
			case f.sealed && !f.follow && f.sink.topic == "":
				return usagef("--sealed goes with --follow or --to-topic")
			case f.poll <= 0:
				return usagef("--poll %s: give a time above 0", f.poll)
			case f.sink.topic != "":
				if err := f.sink.check(c); err != nil {
					return err
				}
				c.Annotations = map[string]string{stopsCleanly: "yes"}
				return a.publishChanges(c, f)
			case f.sink.used(c) != "":
				return usagef("--%s goes with --to-topic", f.sink.used(c))
			case f.follow:
				c.Annotations = map[string]string{stopsCleanly: "yes"}
				return a.followChanges(c.Context(), f)
			case f.from == "" && f.fromVersion < 0 && f.fromTimestamp == "":
				return usagef("give --from LABEL, --from-version N or --from-timestamp TIME")
			}
			if f.output != "" {
				if _, err := a.rowFormat(f.output); err != nil {
					return err
				}
			}
			return a.changes(c.Context(), f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.from, "from", "", "the first `label`, whose changes count")
	flags.StringVar(&f.to, "to", "", "the last `label`, whose changes count (default: the open one)")
	flags.Int64Var(&f.fromVersion, "from-version", 0, "the first `version`, whose changes count")
	flags.Int64Var(&f.toVersion, "to-version", 0, "the last `version`, whose changes count (default: the newest)")
	flags.StringVar(&f.fromTimestamp, "from-timestamp", "", "changes committed at or after a `time`: RFC 3339, without offset in the table's zone")
	flags.StringVar(&f.toTimestamp, "to-timestamp", "", "changes committed at or before a `time`")
	flags.BoolVar(&f.net, "net", false, "one change a key: of each label, or of all versions")
	flags.StringVar(&f.key, "key", "", "key `columns` for --net, A,B (default: the table's)")
	flags.StringVar(&f.columns, "columns", "", "print these `columns`: A,B")
	flags.StringVar(&f.output, "output", "", "write to a `file`, which appears when it is whole: .parquet, .arrow, .csv, .json, .jsonl, or as --format says")
	flags.BoolVar(&f.follow, "follow", false, "go on as versions are committed, until stopped; begins now without --from")
	flags.BoolVar(&f.sealed, "sealed", false, "of --follow and --to-topic: wait for the seal of each label")
	flags.DurationVar(&f.poll, "poll", time.Second, "of --follow: `time` between two looks at the log")
	f.sink.add(flags)
	c.MarkFlagsMutuallyExclusive("from", "from-version", "from-timestamp")
	c.MarkFlagsMutuallyExclusive("to", "to-version", "to-timestamp")
	return c
}

func (a *app) changes(ctx context.Context, f changesFlags) error {
	t, err := a.openDelta(ctx)
	if err != nil {
		return err
	}
	feed, err := a.feed(t, f.key)
	if err != nil {
		return err
	}
	table, err := newChangeTable(feed.Columns(), f.columns, t.labels != nil)
	if err != nil {
		return err
	}
	list, err := f.list(ctx, a, t, feed)
	if err != nil {
		return err
	}
	return a.printRows(f.output, table.columns, func(yield func([]schema.Value, error) bool) {
		for c, err := range list {
			if err != nil {
				yield(nil, changesFault(t, err))
				return
			}
			if !yield(table.row(c), nil) {
				return
			}
		}
	})
}

// changesFault says of which table an error is, and what may help.
func changesFault(t *openedTable, err error) error {
	switch {
	case errors.Is(err, changes.ErrNoKey):
		return usagef("table %s: %w with --key A,B", t.Name, err)
	case errors.Is(err, changes.ErrNoChanges) && t.labels != nil:
		return fmt.Errorf("table %s: %w; `change_data: true` in the configuration has it written from then on", t.Name, err)
	}
	return fmt.Errorf("table %s: %w", t.Name, err)
}

// changeOptions are those of reading changes, with the key columns of a flag.
func (a *app) changeOptions(key string) changes.Options {
	o := changes.Options{Notice: func(text string) { a.noticef("%s", text) }}
	if key != "" {
		o.Key = strings.Split(key, ",")
	}
	return o
}

// feed opens the change data of a table, with the key columns of a flag or its own.
func (a *app) feed(t *openedTable, key string) (*changes.Feed, error) {
	feed, err := changes.Open(t.table, t.newest, t.labels, a.changeOptions(key))
	switch {
	case errors.Is(err, scan.ErrColumn):
		return nil, usagef("--key: %w", err)
	case err != nil:
		return nil, fmt.Errorf("table %s: %w", t.Name, err)
	}
	return feed, nil
}

// list gives the changes that the flags ask for.
func (f changesFlags) list(ctx context.Context, a *app, t *openedTable, feed *changes.Feed) (iter.Seq2[*changes.Change, error], error) {
	if f.from != "" {
		if t.labels == nil {
			return nil, fmt.Errorf("table %s: %w: it has no labels, use --from-version or --from-timestamp", t.Name, savepoint.ErrForeign)
		}
		open := t.labels.Calendar.Name(t.labels.Progress.State.Open)
		to := cmp.Or(f.to, open)
		if to == open {
			a.noticef("%s is not sealed: it is the open label, and more may change", open)
		}
		if f.net {
			return entries(feed.NetLabels(ctx, f.from, to)), nil
		}
		return feed.Labels(ctx, f.from, to), nil
	}
	from, to, err := f.versions(ctx, a, t)
	switch {
	case err != nil:
		return nil, err
	case from > to:
		return func(func(*changes.Change, error) bool) {}, nil // a time after the last commit: none
	case f.net:
		return func(yield func(*changes.Change, error) bool) {
			u, end, err := feed.NetRange(ctx, from, to)
			if err != nil {
				yield(nil, err)
				return
			}
			defer end()
			u.Changes()(yield)
		}, nil
	}
	return feed.Versions(ctx, from, to), nil
}

// versions finds the bounds that are given as versions or times.
func (f changesFlags) versions(ctx context.Context, a *app, t *openedTable) (from, to int64, err error) {
	newest := t.newest.Version()
	from, to = f.fromVersion, f.toVersion
	if f.fromTimestamp != "" {
		if from, err = f.since(ctx, t); err != nil {
			return 0, 0, err
		}
	}
	if f.toTimestamp != "" {
		at, err := parseTime(f.toTimestamp, t.zone())
		if err != nil {
			return 0, 0, usagef("--to-timestamp: %w", err)
		}
		if to, _, err = t.table.VersionAt(ctx, at); err != nil {
			return 0, 0, fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	if to < 0 {
		to = newest
	}
	switch {
	case f.fromTimestamp == "" && from > newest:
		return 0, 0, fmt.Errorf("table %s: version %d is not there yet: the newest is %d", t.Name, from, newest)
	case to > newest:
		return 0, 0, fmt.Errorf("table %s: version %d is not there yet: the newest is %d", t.Name, to, newest)
	case from > to && f.fromTimestamp == "" && f.toTimestamp == "":
		return 0, 0, usagef("--from-version %d is above --to-version %d", from, to)
	}
	a.noticef("versions %d to %d", from, to)
	return from, to, nil
}

// since finds the first version of --from-timestamp.
func (f changesFlags) since(ctx context.Context, t *openedTable) (int64, error) {
	at, err := parseTime(f.fromTimestamp, t.zone())
	if err != nil {
		return 0, usagef("--from-timestamp: %w", err)
	}
	from, err := firstSince(ctx, t, at)
	if err != nil {
		return 0, fmt.Errorf("table %s: %w", t.Name, err)
	}
	return from, nil
}

// firstSince finds the first version that was committed at a time or after it; one above
// the newest where there is none.
func firstSince(ctx context.Context, t *openedTable, at time.Time) (int64, error) {
	before, _, err := t.table.VersionAt(ctx, at.Add(-time.Microsecond))
	if err == nil {
		return before + 1, nil
	}
	versions, listErr := t.table.Versions(ctx)
	if listErr != nil {
		return 0, listErr
	}
	first, timeErr := t.table.CommitTime(ctx, versions[0])
	if timeErr != nil || first.Before(at) {
		return 0, err
	}
	return versions[0], nil // the time lies before the oldest one
}

// entries gives net changes as entries of change data.
func entries(units iter.Seq2[*changes.Unit, error]) iter.Seq2[*changes.Change, error] {
	return func(yield func(*changes.Change, error) bool) {
		for u, err := range units {
			if err != nil {
				yield(nil, err)
				return
			}
			for c, err := range u.Changes() {
				if !yield(c, err) || err != nil {
					return
				}
			}
		}
	}
}

// changeTable is change data as rows: the table's columns, and those of the change.
type changeTable struct {
	columns []schema.Field
	source  []int // of the table's columns
	labels  bool
	cells   []schema.Value
}

func newChangeTable(columns []schema.Field, only string, labels bool) (*changeTable, error) {
	t := &changeTable{labels: labels}
	for i := range columns {
		t.source = append(t.source, i)
	}
	if only != "" {
		t.source = nil
		for name := range strings.SplitSeq(only, ",") {
			i := slices.IndexFunc(columns, func(c schema.Field) bool { return strings.EqualFold(c.Name, strings.TrimSpace(name)) })
			if i < 0 {
				return nil, usagef("--columns: the table has no column %q", name)
			}
			t.source = append(t.source, i)
		}
	}
	for _, i := range t.source {
		t.columns = append(t.columns, columns[i])
	}
	t.columns = append(t.columns,
		schema.Field{Name: "_change_type", Type: schema.Of(schema.StringType)},
		schema.Field{Name: "_commit_version", Type: schema.Of(schema.Long)},
		schema.Field{Name: "_commit_timestamp", Type: schema.Of(schema.Timestamp)})
	if labels {
		t.columns = append(t.columns, schema.Field{Name: "_commit_label", Type: schema.Of(schema.StringType), Nullable: true})
	}
	return t, nil
}

// row gives the cells of a change; they are valid until the next call.
func (t *changeTable) row(c *changes.Change) []schema.Value {
	t.cells = t.cells[:0]
	for _, i := range t.source {
		t.cells = append(t.cells, c.Row[i])
	}
	t.cells = append(t.cells, schema.StringValue(c.Kind), schema.IntValue(c.Version), schema.IntValue(c.Committed.UnixMicro()))
	if t.labels {
		label := schema.Value{}
		if c.Label != "" {
			label = schema.StringValue(c.Label)
		}
		t.cells = append(t.cells, label)
	}
	return t.cells
}
