package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/scd2"
	"github.com/gscd-io/gscd/slice"
	"github.com/gscd-io/gscd/slice/mysql"
	"github.com/gscd-io/gscd/verify"
)

type verifyFlags struct {
	asOf, against  string
	history        string
	key            []string
	columns, where string
	rangeRows      int
	limit          int
	ranges         bool
	memory, temp   string
}

func newVerifyCommand(a *app) *cobra.Command {
	var f verifyFlags
	c := &cobra.Command{
		Use:     "verify --as-of LABEL --against mysql://...|TABLE | --history TABLE",
		GroupID: groupChecking,
		Short:   "Compare a day with the source's table, or with another table, row by row",
		Long: `Reads a day and another side in full, sorts both by key, and compares row counts and hashes
of key ranges, then keys. Prints a record for each range that differs (--ranges: for each),
and behind it its differing keys: missing (only the other side has it), extra (only the
day), different (with the columns that differ), repeated (a side has it more than once).
Exits 3 where anything differs.

--against is mysql://USER@HOST/DATABASE/TABLE, read in one consistent read (the password
comes from GSCD_MYSQL_PASSWORD or the file that GSCD_MYSQL_PASSWORD_FILE names), or a Delta
table by address or configured name: one of gscd at the same label, another one as it is
now; TABLE@LABEL and TABLE@VERSION say otherwise.

A server moves on: it has the rows of a day only at that day's end. Compare with a replica
that was stopped there, or leave out with --where what has changed since.

Columns go by name, and one that a side lacks is NULL there. 7 and 7.00 are equal, NULL and
empty text, 0.0 and -0.0 are not. The order and the collation of the server do not matter.

--history looks at a history table of gscd scd2 alone: per key no interval is empty, none
overlaps another, at most one is open. Prints a record for each key that is not so. To
compare a history with the days themselves: gscd scd2 --check.`,
		Example: `  gscd verify --as-of 2022-07-16 --against mysql://reader@replica:3306/shop/user_dim
  gscd verify --as-of 2022-07-16 --against mysql://reader@db/shop/orders --where "updated_at < '2022-07-17'"
  gscd verify --as-of 2022-07-16 --against s3://other/user_dim@2022-07-16 --format jsonl
  gscd verify --history s3://lake/user_dim_history`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.history != "" {
				if f.asOf != "" || f.against != "" {
					return usagef("--history looks at one table alone: leave out --as-of and --against")
				}
				return a.verifyHistory(c.Context(), f)
			}
			if f.asOf == "" || f.against == "" {
				return usagef("give --as-of LABEL and --against mysql://USER@HOST/DATABASE/TABLE or a table")
			}
			if f.rangeRows < 1 || f.limit < 0 {
				return usagef("--key-range-rows is at least 1, and --limit at least 0")
			}
			return a.verify(c.Context(), f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.asOf, "as-of", "", "the `label` whose rows are compared")
	flags.StringVar(&f.against, "against", "", "the other side: mysql://USER@HOST/DATABASE/TABLE, or a `table`, also TABLE@LABEL")
	flags.StringVar(&f.history, "history", "", "a history `table` whose intervals are looked at, alone")
	flags.StringArrayVar(&f.key, "key", nil, "the `columns` of the key, A,B, of a table that has none")
	flags.StringVar(&f.columns, "columns", "", "compare these `columns` beside the key: A,B")
	flags.StringVar(&f.where, "where", "", "compare the rows of both sides for which an `expression` is true")
	flags.IntVar(&f.rangeRows, "key-range-rows", 10_000, "how many keys a range has (`n`)")
	flags.IntVar(&f.limit, "limit", 100, "print at most `n` differing keys; all are counted")
	flags.BoolVar(&f.ranges, "ranges", false, "print ranges that are equal too")
	flags.StringVar(&f.memory, "memory-limit", "256MiB", "`size` of what is sorted in memory; more goes to disk")
	flags.StringVar(&f.temp, "temp-dir", "", "`folder` for what goes to disk (default: that of the system)")
	a.addOutsideFlag(c)
	return c
}

// verifyHistory looks at the intervals of a history table.
func (a *app) verifyHistory(ctx context.Context, f verifyFlags) error {
	o := scd2.CheckOptions{Keys: f.limit, TempDir: f.temp}
	var memory config.Size
	if err := memory.UnmarshalText([]byte(f.memory)); err != nil {
		return usagef("--memory-limit: %w", err)
	}
	o.Memory = int64(memory)
	store, err := a.openStore(ctx, f.history)
	if err != nil {
		return err
	}
	r, err := scd2.CheckIntervals(ctx, delta.New(store), o)
	if err != nil {
		return err
	}
	w, err := a.printRecords("problem", "key")
	if err != nil {
		return err
	}
	for _, fault := range r.Faults {
		if err := w.Write(fault.Problem, fault.Key); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if n := len(r.Faults); n > 0 {
		return nof("%s at version %d: the intervals of %d keys or more are not sound", store, r.Version, n)
	}
	a.noticef("%s at version %d: the intervals of every key are sound", store, r.Version)
	return nil
}

func (a *app) verify(ctx context.Context, f verifyFlags) error {
	t, err := a.openDelta(ctx)
	if err != nil {
		return err
	}
	day, err := a.pointNamed(ctx, t, f.asOf)
	if err != nil {
		return err
	}
	o := verify.Options{RangeRows: f.rangeRows, Keep: f.limit, TempDir: f.temp}
	var memory config.Size
	if err := memory.UnmarshalText([]byte(f.memory)); err != nil {
		return usagef("--memory-limit: %w", err)
	}
	o.Memory = int64(memory) / 2 // each side sorts
	for _, list := range f.key {
		o.Key = append(o.Key, strings.Split(list, ",")...)
	}
	if settings, err := savepoint.SettingsOf(day.snapshot); err == nil && len(o.Key) == 0 {
		o.Key = settings.Key
	}
	if f.columns != "" {
		if o.Columns, err = expr.ParseColumns(f.columns, day.snapshot.Schema()); err != nil {
			return usagef("--columns: %w", err)
		}
	}
	against, err := a.otherSide(ctx, f)
	if err != nil {
		return err
	}
	var sides [2]verify.Side
	for i, source := range []slice.Source{slice.Table(t.store, day.snapshot), against} {
		if sides[i], err = sideOf(ctx, source, f.where); err != nil {
			return err
		}
	}
	sides[0].Name = t.Name + " as of " + f.asOf
	return a.printVerify(ctx, sides, o, f)
}

// otherSide opens what --against names.
func (a *app) otherSide(ctx context.Context, f verifyFlags) (slice.Source, error) {
	if strings.HasPrefix(f.against, mysql.Scheme) {
		return a.mysqlSource(f.against)
	}
	name, at := f.against, ""
	if i := strings.LastIndexByte(name, '@'); i > 0 && !strings.Contains(name[i:], "/") {
		name, at = name[:i], name[i+1:]
	}
	ref, err := a.resolveTable(name)
	if err != nil {
		return nil, usagef("--against: %w", err)
	}
	t, err := a.openRef(ctx, ref)
	if err != nil {
		return nil, err
	}
	if _, err := strconv.ParseUint(at, 10, 63); err == nil {
		at = "@" + at
	}
	if at == "" && t.labels != nil {
		at = f.asOf
	}
	if at == "" {
		return slice.Table(t.store, t.newest), nil
	}
	p, err := a.pointNamed(ctx, t, at)
	if err != nil {
		return nil, err
	}
	return slice.Table(t.store, p.snapshot), nil
}

// sideOf gives the rows of a source that a filter takes.
func sideOf(ctx context.Context, source slice.Source, where string) (verify.Side, error) {
	rows, err := source.Open(ctx, nil)
	if err != nil {
		return verify.Side{}, err
	}
	side := verify.Side{Name: source.Name(), Columns: rows.Columns, Rows: rows.Rows}
	if where == "" {
		return side, nil
	}
	columns, err := schema.New(rows.Columns...)
	if err != nil {
		return side, fmt.Errorf("%s: %w", side.Name, err)
	}
	filter, err := expr.Parse(where, columns)
	if err != nil {
		return side, usagef("--where, of the columns of %s: %w", side.Name, err)
	}
	side.Rows = filtered(rows.Rows, filter.NewEvaluator(), len(rows.Columns))
	return side, nil
}

func filtered(rows iter.Seq2[[]schema.Value, error], filter *expr.Evaluator, width int) iter.Seq2[[]schema.Value, error] {
	return func(yield func([]schema.Value, error) bool) {
		columns := make([][]schema.Value, width)
		for row, err := range rows {
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range columns {
				columns[i] = row[i : i+1]
			}
			if len(filter.Select(columns, []int32{0})) == 1 && !yield(row, nil) {
				return
			}
		}
	}
}

// printVerify prints ranges and keys that differ.
func (a *app) printVerify(ctx context.Context, sides [2]verify.Side, o verify.Options, f verifyFlags) error {
	w, err := a.printRecords("kind", "key", "to", "rows", "rows_against", "hash", "hash_against", "columns")
	if err != nil {
		return err
	}
	left := f.limit
	result, err := verify.Compare(ctx, sides[0], sides[1], o, func(r *verify.Range) error {
		if r.Equal() && !f.ranges {
			return nil
		}
		err := w.Write("range", keyRecord(o.Key, sides[0], r.From), keyRecord(o.Key, sides[0], r.To),
			r.Rows[0], r.Rows[1], hex.EncodeToString(r.Hash[0][:]), hex.EncodeToString(r.Hash[1][:]), nil)
		for _, d := range r.Differences[:min(left, len(r.Differences))] {
			left--
			var columns any
			if d.Columns != nil {
				columns = d.Columns
			}
			side := sides[0]
			if d.Kind == verify.Missing {
				side = sides[1]
			}
			err = errors.Join(err, w.Write(string(d.Kind), keyRecord(o.Key, side, d.Key), nil, nil, nil, nil, nil, columns))
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	for _, note := range result.Notes {
		a.noticef("%s", note)
	}
	a.noticef("%s", verifySummary(sides, result))
	if n := result.Differing(); n > 0 {
		return silently(exitNo, fmt.Errorf("%d keys differ", n))
	}
	return nil
}

// keyRecord is a key as an object, null without one.
func keyRecord(names []string, side verify.Side, key []schema.Value) any {
	if key == nil {
		return nil
	}
	var out output.Record
	for i, name := range names {
		at := slices.IndexFunc(side.Columns, func(f schema.Field) bool { return f.Name == name })
		out = append(out, output.Item{Name: name, Value: output.Cell{Type: side.Columns[at].Type, Value: key[i]}})
	}
	return out
}

func verifySummary(sides [2]verify.Side, r *verify.Result) string {
	text := fmt.Sprintf("%s has %d rows, %s has %d; %d ranges: ", sides[0].Name, r.Rows[0], sides[1].Name, r.Rows[1], r.Ranges)
	if r.Differing() == 0 {
		return text + "equal"
	}
	var kinds []string
	for _, k := range []verify.Kind{verify.Missing, verify.Extra, verify.Different, verify.Repeated} {
		if n := r.ByKind[k]; n > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", n, k))
		}
	}
	return text + strings.Join(kinds, ", ")
}
