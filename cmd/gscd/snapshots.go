package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

func newSnapshotsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "snapshots [LABEL]",
		GroupID: groupReading,
		Short:   "List the days of the table, or show why one was sealed",
		Long: `Without LABEL prints the map: every label from the first to the open one with its
version, its state and what happened in it. own_bytes is the size of the files that only
this snapshot holds, and that a vacuum would free after "gscd savepoint delete".

With LABEL prints the evidence of its seal: the offset and watermark of every partition,
the rule by which each agreed, the counts, the digest of its files, the checksum of its
rows where one was recorded (gscd maintain, gscd check --checksums), and the late changes
that came while it was open.`,
		Example: `  gscd snapshots
  gscd snapshots 2022-07-16
  gscd snapshots --table /data/user_dim --format jsonl`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			t, err := a.openTable(c.Context())
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return a.printEvidence(c.Context(), t, args[0])
			}
			return a.printMap(c.Context(), t)
		},
	}
}

// A terminal narrower than wideEnough gets the narrow columns alone: cut labels
// help nobody. The other formats and wider terminals have them all.
const wideEnough = 160

var narrow = []string{"label", "version", "state", "rows", "attributes", "drift", "late", "dead_letter"}

// printMap prints a record for each label. Names and meaning are fixed.
func (a *app) printMap(ctx context.Context, t *openedTable) error {
	list, err := t.labels.Summaries(ctx, t.table, t.newest)
	if err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	names := []string{"label", "version", "state", "sealed_at", "rows", "attributes",
		"inserts", "updates", "deletes", "drift", "late", "duplicates", "dead_letter", "own_bytes"}
	keep := func(string) bool { return true }
	if format, err := output.Resolve(a.flags.format, a.stdout); err == nil && format == output.Table {
		if width := output.TerminalOf(a.stdout).Width; width > 0 && width < wideEnough {
			keep = func(name string) bool { return slices.Contains(narrow, name) }
		}
	}
	w, err := a.printRecords(slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !keep(n) })...)
	if err != nil {
		return err
	}
	for _, s := range list {
		known := func(n int64) any {
			if !s.Known {
				return nil
			}
			return n
		}
		var version any
		if s.Version >= 0 {
			version = s.Version
		}
		c := s.Counts
		values := []any{s.Name, version, string(s.State), instant(s.SealedAt), known(s.Rows), append([]string{}, s.Attributes...),
			known(c.Inserts), known(c.Updates), known(c.Deletes), known(c.Drift), known(c.Late), known(c.Duplicates),
			known(s.DeadLetters), known(s.OwnBytes)}
		var kept []any
		for i, name := range names {
			if keep(name) {
				kept = append(kept, values[i])
			}
		}
		if err := w.Write(kept...); err != nil {
			return err
		}
	}
	return w.Close()
}

// instant gives a time that is kept as text for printing; text that is none prints as null.
func instant(text string) any {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return nil
	}
	return t
}

// printEvidence prints what the seal of a label recorded.
func (a *app) printEvidence(ctx context.Context, t *openedTable, label string) error {
	r, err := t.labels.Resolve(label, true)
	if err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	seal, err := t.labels.Seal(ctx, t.table, r.Entry)
	if err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	sum, ok, err := savepoint.ReadChecksum(ctx, t.table.Store(), t.newest, r.Entry.Version)
	if err != nil {
		a.noticef("table %s: %v", t.Name, err)
	}
	var checksum any
	if ok && err == nil {
		checksum = sum.Text()
	}
	return a.printObject(evidenceRecord(t.labels, r.Entry, seal, checksum))
}

func evidenceRecord(m *savepoint.Map, e savepoint.Entry, seal *savepoint.Seal, checksum any) output.Record {
	ev := seal.Evidence
	partitions := make([]output.Record, len(ev.Partitions))
	for i, p := range ev.Partitions {
		partitions[i] = partitionRecord(p)
	}
	lines := make([]output.Record, len(ev.Lines))
	for i, l := range ev.Lines {
		lines[i] = output.Record{
			{Name: "name", Value: l.Server.Name}, {Name: "server_id", Value: l.Server.ID}, {Name: "resets", Value: l.Generation},
		}
	}
	late := make([]output.Record, len(ev.Late))
	for i, c := range ev.Late {
		late[i] = output.Record{
			{Name: "topic", Value: c.Topic}, {Name: "partition", Value: c.Partition}, {Name: "offset", Value: c.Offset},
			{Name: "key", Value: c.Key}, {Name: "label", Value: m.Calendar.Name(c.Label)}, {Name: "fate", Value: c.Fate},
		}
	}
	in := m.Progress
	if e.Kept {
		in = seal.Progress
	}
	return output.Record{
		{Name: "label", Value: e.Name},
		{Name: "version", Value: e.Version},
		{Name: "state", Value: string(e.State)},
		{Name: "from", Value: time.UnixMicro(m.Calendar.Start(e.Label))},
		{Name: "to", Value: time.UnixMicro(m.Calendar.End(e.Label))},
		{Name: "sealed_at", Value: instant(ev.SealedAt)},
		{Name: "clock", Value: instant(ev.Clock)},
		{Name: "forced", Value: ev.Forced},
		{Name: "attributes", Value: append([]string{}, ev.Attributes...)},
		{Name: "reason", Value: orNull(ev.Reason)},
		{Name: "rows", Value: ev.Rows},
		{Name: "counts", Value: countsRecord(ev.Counts, m.DeadLettersUpTo(in, e.Label))},
		{Name: "split_pairs", Value: ev.Counts.SplitPairs},
		{Name: "foreign", Value: foreignRecords(ev.Foreign)},
		{Name: "digest", Value: ev.Digest},
		{Name: "checksum", Value: checksum},
		{Name: "format", Value: orNull(ev.Format)},
		{Name: "partitions", Value: partitions},
		{Name: "lines", Value: lines},
		{Name: "late_changes", Value: late},
		{Name: "slice", Value: sliceRecord(ev.Slice)},
	}
}

// sliceRecord says what a label was loaded from; null where topics brought it.
func sliceRecord(s *progress.Slice) any {
	if s == nil {
		return nil
	}
	return output.Record{
		{Name: "source", Value: s.Source}, {Name: "mode", Value: s.Mode}, {Name: "rows", Value: s.Rows},
		{Name: "new", Value: s.New}, {Name: "changed", Value: s.Changed}, {Name: "deleted", Value: s.Deleted}, {Name: "unchanged", Value: s.Unchanged},
		{Name: "replaced", Value: zeroAsNull(s.Replaced)}, {Name: "digest", Value: s.Digest},
		{Name: "log_position", Value: logPositionRecord(s.At)},
	}
}

// foreignRecords lists the commits of other engines that changed rows. Rows that
// the statistics don't count are null.
func foreignRecords(list []progress.ForeignCommit) []output.Record {
	out := make([]output.Record, len(list))
	count := func(n int64) any {
		if n < 0 {
			return nil
		}
		return n
	}
	for i, f := range list {
		out[i] = output.Record{
			{Name: "version", Value: f.Version}, {Name: "operation", Value: f.Operation}, {Name: "engine", Value: f.Engine},
			{Name: "rows_added", Value: count(f.RowsAdded)}, {Name: "rows_removed", Value: count(f.RowsRemoved)},
		}
	}
	return out
}

func partitionRecord(p progress.PartitionEvidence) output.Record {
	// The order of changes and what their times mean are part of the proof.
	order, positions := "position", any(nil)
	switch {
	case p.NoPositions && p.Positions:
		order, positions = "arrival", "some"
	case p.NoPositions:
		order, positions = "arrival", "none"
	case p.Positions:
		positions = "all"
	}
	var watermark any
	if p.Watermark != snapshotter.NoTime {
		watermark = time.UnixMicro(p.Watermark)
	}
	return output.Record{
		{Name: "topic", Value: p.Topic}, {Name: "partition", Value: p.Partition}, {Name: "offset", Value: p.Offset},
		{Name: "watermark", Value: watermark}, {Name: "rule", Value: string(p.Rule)},
		{Name: "event_time", Value: eventTimes(p.Origins)}, {Name: "order", Value: order}, {Name: "positions", Value: positions},
	}
}

// eventTimes names what event times were, the most exact first: commit+broker.
// Nil: nothing was taken.
func eventTimes(o snapshotter.Origins) any {
	var kinds []string
	for _, k := range []struct {
		name string
		seen bool
	}{{"commit", o.CommitTimes}, {"statement", o.StatementTimes}, {"column", o.ColumnTimes}, {"broker", o.BrokerTimes}} {
		if k.seen {
			kinds = append(kinds, k.name)
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	return strings.Join(kinds, "+")
}

func countsRecord(c progress.Counts, deadLetters int64) output.Record {
	return output.Record{
		{Name: "inserts", Value: c.Inserts}, {Name: "updates", Value: c.Updates}, {Name: "deletes", Value: c.Deletes},
		{Name: "truncates", Value: c.Truncates}, {Name: "superseded", Value: c.Superseded}, {Name: "duplicates", Value: c.Duplicates},
		{Name: "late", Value: c.Late}, {Name: "drift", Value: c.Drift}, {Name: "tombstones", Value: c.Tombstones},
		{Name: "filtered", Value: c.Filtered}, {Name: "replaced_times", Value: c.Replaced}, {Name: "new_lines", Value: c.NewLines},
		{Name: "unsure_keys", Value: c.UnsureKeys},
		{Name: "dead_letter", Value: deadLetters}, {Name: "foreign", Value: c.Foreign},
	}
}
