package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/savepoint"
)

func newWidenCommand(a *app) *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use:     "widen COLUMN=TYPE...",
		GroupID: groupChanging,
		Short:   "Give columns wider types, by writing all rows anew",
		Long: `Gives columns types that hold all that the old ones hold: INT to BIGINT, FLOAT to DOUBLE,
integers to decimals, decimals to longer ones, DATE to DATETIME. All rows of the newest
version are written into files with the new types, in one commit that changes no value, so
every engine that reads the table goes on reading it. Days before it keep the old type,
and their files: the table takes up to twice its size until their savepoints are deleted.

A column of the key can become a larger integer and nothing else. Types are written as
under "columns" in the configuration, or as Delta names them. It works beside a running
ingester, which follows; rows that are changed meanwhile are followed too.

Values that did not fit are dead letters: gscd dead-letter replay brings them in.`,
		Example: `  gscd widen level=bigint
  gscd widen 'amount=decimal(24,4)' clicks=bigint --dry-run`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.widen(c.Context(), args, dryRun) },
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "tell what would be replaced, and change nothing")
	return c
}

func (a *app) widen(ctx context.Context, args []string, dryRun bool) error {
	t, err := a.openDelta(ctx)
	if err != nil {
		return err
	}
	types, err := wideTypes(args, t.newest)
	if err != nil {
		return err
	}
	o := layout.Options{}
	if t.labels != nil {
		o = ingest.Layout(t.labels.Progress)
	}
	o.DryRun = dryRun
	bar := a.steps.begin(t.Name+" widen", "bytes")
	o.Progress = bar.set
	report, err := layout.Widen(ctx, t.table, types, o)
	a.steps.close()
	if err != nil {
		if errors.Is(err, layout.ErrColumn) {
			return usagef("%w", err)
		}
		return err
	}
	if err := a.printObject(optimizeRecord(report)); err != nil {
		return err
	}
	a.noticef("%s", optimizeSummary(t.Name, report, dryRun))
	return nil
}

// wideTypes reads the arguments COLUMN=TYPE for a table.
func wideTypes(args []string, s *delta.Snapshot) (map[string]schema.Type, error) {
	var key []string
	if settings, err := savepoint.SettingsOf(s); err == nil {
		key = settings.Key
	}
	types := map[string]schema.Type{}
	for _, arg := range args {
		name, text, ok := cutLast(arg, "=")
		if !ok || name == "" {
			return nil, usagef("%q: write COLUMN=TYPE, such as level=bigint", arg)
		}
		spec, err := decode.ParseColumnType(text)
		if err != nil {
			return nil, usagef("%s: %w", name, err)
		}
		if _, twice := types[name]; twice {
			return nil, usagef("the column %s is named twice", name)
		}
		types[name] = spec.Type
		if at := s.Schema().IndexFold(name); at >= 0 {
			f := &s.Schema().Fields[at]
			if f.Type != spec.Type {
				if err := ingest.CheckWidening(key, f.Name, f.Type, spec.Type); err != nil {
					return nil, err
				}
			}
		}
	}
	return types, nil
}

// cutLast cuts a text at the last place of a separator: names may have it too.
func cutLast(text, separator string) (before, after string, found bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(separator):], true
}
