package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/server"
)

func newStatusCommand(a *app) *cobra.Command {
	var f whyFlags
	var why, ofGroup bool
	c := &cobra.Command{
		Use:     "status [--why [LABEL]]",
		GroupID: groupReading,
		Short:   "Show how far the table is, and what holds the next seal back",
		Long: `Reads the table's own state: the open label, the offset and watermark of every partition,
what is held for later labels, and the fate of every record taken. Where brokers are
configured it asks them for the end of every partition, and tells the lag.

A label is sealed when every partition has a watermark past its end and drift.wait, or was
read to its end at a clock drift.idle after that.

With --why it answers why a label is not sealed, by default the oldest one that is not: each
cause in a sentence, since when, what to do, and when the label can be sealed. The table alone
is enough for that; the process at --from, else at http.address, is asked too, for it knows
its errors and what it waits for. With --sealed it exits with 3 where the label is not sealed.

With --group it asks the coordinator of scale_out.group who is in the group and who has
which table, and those processes how their tables stand; one that does not answer is named.`,
		Example: `  gscd status
  gscd status --table user_dim -c gscd.yaml --format json
  gscd status --why
  gscd status --why 2022-07-16 --table user_dim --sealed
  gscd status --why --from http://gscd-0:9090
  gscd status --group -c gscd.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if !why && (len(args) > 0 || f.sealed || f.from != "") {
				return usagef("LABEL, --sealed and --from belong to --why")
			}
			if ofGroup && why {
				return usagef("--group and --why are two questions: ask one at a time")
			}
			if ofGroup {
				return a.printGroup(c.Context())
			}
			tables, err := a.tablesToShow()
			if err != nil {
				return err
			}
			if why {
				return a.why(c.Context(), tables, strings.Join(args, ""), &f)
			}
			var list []*server.Standing
			for _, a.flags.table = range tables {
				t, err := a.openTable(c.Context())
				if errors.Is(err, delta.ErrNotATable) && len(tables) > 1 {
					a.noticef("table %s does not exist yet: no record with a label was taken", a.flags.table)
					continue
				}
				if err != nil {
					return err
				}
				s, err := a.statusOf(c.Context(), t, &f.sourceFlags)
				if err != nil {
					return err
				}
				list = append(list, s)
			}
			return a.printStatus(list, len(tables) > 1)
		},
	}
	f.add(c.Flags())
	c.Flags().BoolVar(&why, "why", false, "say why a label is not sealed: the oldest one that is not, or LABEL")
	c.Flags().BoolVar(&f.sealed, "sealed", false, "with --why: exit with 3 where the label is not sealed")
	c.Flags().StringVar(&f.from, "from", "", "with --why: `URL` of the running process to ask (default: http.address of the configuration)")
	c.Flags().BoolVar(&ofGroup, "group", false, "show the group of scale_out: its processes, and the tables of each")
	return c
}

// tablesToShow are the table that --table names, or all that are configured.
func (a *app) tablesToShow() ([]string, error) {
	cfg, err := a.config()
	if err != nil {
		return nil, err
	}
	if a.flags.table != "" || len(cfg.Tables) < 2 {
		return []string{a.flags.table}, nil
	}
	var names []string
	for i := range cfg.Tables {
		names = append(names, cfg.Tables[i].Name)
	}
	return names, nil
}

// statusOf puts together what the table and its source say.
func (a *app) statusOf(ctx context.Context, t *openedTable, f *sourceFlags) (*server.Standing, error) {
	m := t.labels
	facts := server.Facts{
		Name: t.Name, Address: t.store.String(), Progress: m.Progress, Calendar: m.Calendar, Version: t.newest.Version(),
		Ends: map[change.PartitionID]int64{}, Idle: -1,
	}
	if t.Config != nil {
		facts.Idle, facts.Proof = t.Config.Drift.Idle, t.Config.Seal.Proof
	}
	topic, err := a.askSource(ctx, t.tableRef, m.Progress, f)
	if err != nil {
		var usage *exitError
		if errors.As(err, &usage) || ctx.Err() != nil {
			return nil, err
		}
		a.noticef("gscd: %v", err)
	}
	facts.Asked, facts.Settled, facts.Clock = topic.known, topic.settled, topic.at
	for _, st := range topic.partitions {
		facts.Ends[st.ID] = st.End
	}
	for i := range m.Entries {
		if e := &m.Entries[i]; e.State == savepoint.Sealed {
			facts.LastSealed = e.Name
		}
	}
	if txn, ok := t.newest.Txn(progress.AppID); ok {
		facts.LastCommit = txn.Version
		if facts.Committed, err = t.table.CommitTime(ctx, txn.Version); err != nil {
			return nil, fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	facts.OpenSince = opened(ctx, t)
	return server.Stand(facts), nil
}

// opened is when the open label opened: when the one before was sealed, else
// when the table was made. Zero where the log no longer tells.
func opened(ctx context.Context, t *openedTable) time.Time {
	if seal := t.labels.Progress.LastSeal; seal >= 0 {
		at, _ := t.table.CommitTime(ctx, seal)
		return at
	}
	if created := t.newest.Metadata().CreatedTime; created != nil {
		return time.UnixMilli(*created)
	}
	return time.Time{}
}

// printStatus prints an object for each table; for a person, and as csv, the
// partitions are rows.
func (a *app) printStatus(list []*server.Standing, several bool) error {
	format, err := output.Resolve(a.flags.format, a.stdout)
	if err != nil {
		return err
	}
	var records, partitions []output.Record
	for _, s := range list {
		records = append(records, s.Record())
		partitions = append(partitions, s.PartitionRecords()...)
	}
	switch {
	case format == output.CSV:
		return output.WriteRecords(format, a.stdout, partitions)
	case format == output.Table:
		for _, s := range list {
			if err := a.printStatusTable(s); err != nil {
				return err
			}
		}
		return nil
	case several:
		return output.WriteRecords(format, a.stdout, records)
	}
	return a.printObject(records[0])
}

// printStatusTable prints a table's status for a person.
func (a *app) printStatusTable(s *server.Standing) error {
	var lines output.Record
	for _, item := range s.Record() {
		if item.Name != "partitions" && item.Name != "totals" {
			lines = append(lines, item)
		}
	}
	if err := a.printObject(lines); err != nil {
		return err
	}
	if err := output.WriteRecords(output.Table, a.stdout, s.PartitionRecords()); err != nil {
		return err
	}
	return output.WriteRecords(output.Table, a.stdout, []output.Record{server.FatesRecord(s.Progress)})
}
