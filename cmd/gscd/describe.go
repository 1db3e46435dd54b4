package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/query"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/savepoint"
)

func newDescribeCommand(a *app) *cobra.Command {
	var versions, history, detail bool
	c := &cobra.Command{
		Use:     "describe",
		GroupID: groupReading,
		Short:   "Print schema, protocol, properties, files and sizes of the table",
		Long: `Prints what the newest version is made of. With --versions prints a record for each
readable version instead: when and by what it was committed, of which label it is, and
which savepoints it is pinned for. --history prints the operation of each version with
its parameters and metrics, --detail what DESCRIBE DETAIL of Spark says. Both are for any
Delta table, whoever wrote it.`,
		Example: `  gscd describe
  gscd describe --versions --format csv
  gscd describe --history --table s3://lake/orders`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			t, err := a.openDelta(c.Context())
			if err != nil {
				return err
			}
			switch {
			case versions:
				return a.printVersions(c.Context(), t)
			case history:
				return a.printHistory(c.Context(), t)
			case detail:
				d, err := t.table.Detail(c.Context(), t.newest)
				if err != nil {
					return err
				}
				return a.printObject(query.DetailRecord(d))
			}
			return a.describe(t)
		},
	}
	c.Flags().BoolVar(&versions, "versions", false, "list the readable versions")
	c.Flags().BoolVar(&history, "history", false, "list the operations of the readable versions, with parameters and metrics")
	c.Flags().BoolVar(&detail, "detail", false, "print format, address, features and sizes, as DESCRIBE DETAIL does")
	c.MarkFlagsMutuallyExclusive("versions", "history", "detail")
	a.addOutsideFlag(c)
	return c
}

func (a *app) describe(t *openedTable) error {
	record := append(output.Record{{Name: "table", Value: t.store.String()}}, query.Describe(t.newest).Record()...)
	if t.labels != nil {
		p := t.labels.Progress
		record = append(record,
			output.Item{Name: "first_label", Value: t.labels.Calendar.Name(p.State.First)},
			output.Item{Name: "open_label", Value: t.labels.Calendar.Name(p.State.Open)},
			output.Item{Name: "savepoints", Value: len(savepoint.PinsOf(t.newest))},
			output.Item{Name: "records", Value: totalsRecord(p.Totals)})
	}
	return a.printObject(record)
}

// totalsRecord says what became of every record: the fates add up to taken, and
// with the holes to the offsets.
func totalsRecord(t progress.Totals) output.Record {
	return output.Record{
		{Name: "taken", Value: t.Taken}, {Name: "applied", Value: t.Applied}, {Name: "superseded", Value: t.Superseded},
		{Name: "duplicates", Value: t.Duplicates}, {Name: "tombstones", Value: t.Tombstones}, {Name: "filtered", Value: t.Filtered},
		{Name: "dead_letters", Value: t.DeadLetters}, {Name: "held", Value: t.Held}, {Name: "holes", Value: t.Holes},
	}
}

// printVersions prints a record for each readable version, the oldest first.
func (a *app) printVersions(ctx context.Context, t *openedTable) error {
	pinned := map[int64][]string{}
	for _, p := range savepoint.PinsOf(t.newest) {
		pinned[p.Version] = p.Names
	}
	w, err := a.printRecords("version", "committed_at", "operation", "kind", "label", "rows", "savepoints")
	if err != nil {
		return err
	}
	for v, err := range t.table.History(ctx) {
		if err != nil {
			return err
		}
		var operation, kind, label, rows any
		if name := action.ParseInfo(v.Info).Operation; name != "" {
			operation = name
		}
		if p, err := progress.Decode(orObject(v.Info)); err == nil && p != nil {
			kind, label, rows = string(p.Kind), p.Label, p.Rows
		}
		if err := w.Write(v.Version, v.Committed, operation, kind, label, rows, append([]string{}, pinned[v.Version]...)); err != nil {
			return err
		}
	}
	return w.Close()
}

// printHistory prints the operation of each readable version, the oldest first.
func (a *app) printHistory(ctx context.Context, t *openedTable) error {
	w, err := a.printRecords(append(query.HistoryColumns(), "label")...)
	if err != nil {
		return err
	}
	for v, err := range t.table.History(ctx) {
		if err != nil {
			return err
		}
		var label any
		if p, err := progress.Decode(orObject(v.Info)); err == nil && p != nil {
			label = p.Label
		}
		if err := w.Write(append(query.HistoryCells(v), label)...); err != nil {
			return err
		}
	}
	return w.Close()
}

// orObject is an empty object for a commit without commitInfo.
func orObject(info []byte) []byte {
	if len(info) == 0 {
		return []byte("{}")
	}
	return info
}
