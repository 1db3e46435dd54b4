package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/scd2"
	"github.com/gscd-io/gscd/slice"
	"github.com/gscd-io/gscd/snapshotter"
)

// loadHistoryFlags say which history table days are made of.
type loadHistoryFlags struct {
	from    string
	options scd2.HistoryOptions
}

func (f *loadHistoryFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.from, "from-scd2", "", "load a day for each date on which a row of a history table (valid_from, valid_to) begins or ends: its `address`")
	flags.StringVar(&f.options.Columns.ValidFrom, "valid-from-column", "", "with --from-scd2: `name` of the column (default valid_from)")
	flags.StringVar(&f.options.Columns.ValidTo, "valid-to-column", "", "with --from-scd2: `name` of the column (default valid_to), the end that is no longer part")
	flags.StringSliceVar(&f.options.Without, "without-columns", nil, "with --from-scd2: further `columns` that are no part of the rows, such as a hash or a load time")
}

// loadHistory loads the days of a history table.
func (a *app) loadHistory(ctx context.Context, f *loadFlags, o ingest.Options, s ingest.Slice) error {
	t, err := a.openRef(ctx, tableRef{Name: f.history.from, Address: f.history.from})
	if err != nil {
		return err
	}
	if o.Calendar == nil {
		return usagef("--timezone says which calendar the days are of")
	}
	h, err := scd2.OpenHistory(ctx, t.store, t.newest, o.Calendar, f.history.options)
	if errors.Is(err, scd2.ErrSettings) {
		return usagef("%s: %w (--valid-from-column, --valid-to-column, --without-columns)", f.history.from, err)
	}
	if err != nil {
		return err
	}
	var list []slice.Labelled
	for _, l := range h.Labels() {
		list = append(list, slice.Labelled{Label: o.Calendar.Name(l), Source: &historyDay{name: t.store.String(), history: h, label: l, cal: o.Calendar}})
	}
	if len(list) == 0 {
		return fmt.Errorf("%w: %s has 0 rows", ingest.ErrIncompleteSlice, t.store)
	}
	return a.loadAll(ctx, f, o, s, list)
}

// historyDay is the rows of a history table on one day. It implements slice.Source.
type historyDay struct {
	name    string
	history *scd2.History
	label   snapshotter.Label
	cal     *snapshotter.Calendar
}

func (d *historyDay) Name() string { return d.name + " as of " + d.cal.Name(d.label) }

func (d *historyDay) Open(ctx context.Context, _ *schema.Schema) (ingest.SliceRows, error) {
	fields, rows, err := d.history.Rows(ctx, d.label)
	return ingest.SliceRows{Columns: fields, Rows: rows}, err
}
