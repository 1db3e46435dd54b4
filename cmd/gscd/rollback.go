package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/query/diff"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/savepoint"
)

func newRollbackCommand(a *app) *cobra.Command {
	var to string
	var noReplay, dryRun, yes bool
	c := &cobra.Command{
		Use:     "rollback --to LABEL",
		GroupID: groupChanging,
		Short:   "Bring the table back to a day, and read the topic again from there",
		Long: `Brings rows, schema and offsets back to the seal of LABEL in one commit. The labels
behind it answer "rolled back" until a commit names them again; their savepoints stay
pinned as LABEL@VERSION for retention.rolled_back, and can be rolled back to. A running
ingester goes on from the restored offsets by itself.

Where the topic no longer has these offsets the rollback is refused. --no-replay keeps the
present offsets instead: the labels behind LABEL are then gone for good, and the open one
goes on, incomplete.`,
		Example: `  gscd rollback --to 2022-07-15 --dry-run
  gscd rollback --to 2022-07-15 --yes
  gscd rollback --to 2022-07-16@42 --yes`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if to == "" {
				return usagef("give the label to go back to: --to LABEL")
			}
			o := savepoint.RollbackOptions{NoReplay: noReplay, DryRun: dryRun, Now: time.Now(), Differ: diff.Differ}
			return a.rollback(c.Context(), to, o, yes)
		},
	}
	c.Flags().StringVar(&to, "to", "", "the sealed `label` to go back to, or LABEL@VERSION")
	c.Flags().BoolVar(&noReplay, "no-replay", false, "keep the present offsets: what came after the label is not read again")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be done, and change nothing")
	c.Flags().BoolVar(&yes, "yes", false, "do it without asking")
	return c
}

func (a *app) rollback(ctx context.Context, to string, o savepoint.RollbackOptions, yes bool) error {
	t, err := a.openTable(ctx)
	if err != nil {
		return err
	}
	if !o.NoReplay {
		if o.Earliest, err = a.earliestOffsets(ctx, t); err != nil {
			return fmt.Errorf("ask whether the topic still has what would be read again: %w; roll back with --no-replay to do without", err)
		}
	}
	if !yes && !o.DryRun {
		look := o
		look.DryRun = true
		plan, err := savepoint.Rollback(ctx, t.table, to, look)
		if err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
		if !plan.Nothing {
			question := fmt.Sprintf("Roll %s back to %s (%d rows now, %d then)%s?", t.Name, plan.To, plan.RowsNow, plan.RowsThen, labelsOf(plan))
			if err := a.confirm(question); err != nil {
				return err
			}
		}
	}
	plan, err := savepoint.Rollback(ctx, t.table, to, o)
	if err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	switch {
	case plan.Nothing:
		a.noticef("nothing to do: %s stands at %s already", t.Name, plan.To)
	case o.Earliest == nil && !o.NoReplay:
		a.noticef("replay was not checked: no brokers are configured for %s", t.Name)
	}
	if plan.NoChangeData != "" {
		a.noticef("the rollback has no change data, since rows that go can't be read: %s", plan.NoChangeData)
	}
	if err := a.printObject(planRecord(plan, o.DryRun)); err != nil || o.DryRun {
		return err
	}
	return a.syncDeadLetters(ctx, t)
}

func labelsOf(p *savepoint.Plan) string {
	switch len(p.Labels) {
	case 0:
		return ""
	case 1:
		return ", undoing " + p.Labels[0]
	}
	return fmt.Sprintf(", undoing %d labels, %s to %s", len(p.Labels), p.Labels[0], p.Labels[len(p.Labels)-1])
}

func planRecord(p *savepoint.Plan, dryRun bool) output.Record {
	offsets := output.Record{}
	for _, partition := range slices.Sorted(maps.Keys(p.Offsets)) {
		offsets = append(offsets, output.Item{Name: partition, Value: p.Offsets[partition]})
	}
	var committed any
	if p.Committed >= 0 {
		committed = p.Committed
	}
	return output.Record{
		{Name: "to", Value: p.To},
		{Name: "version", Value: p.Version},
		{Name: "dry_run", Value: dryRun},
		{Name: "nothing_to_do", Value: p.Nothing},
		{Name: "committed", Value: committed},
		{Name: "labels", Value: append([]string{}, p.Labels...)},
		{Name: "rows_now", Value: p.RowsNow},
		{Name: "rows_then", Value: p.RowsThen},
		{Name: "files_added", Value: p.FilesAdded},
		{Name: "files_removed", Value: p.FilesRemoved},
		{Name: "offsets", Value: offsets},
	}
}

// earliestOffsets asks the brokers for the oldest offsets that the table's topics
// still have; nil where no brokers are configured.
func (a *app) earliestOffsets(ctx context.Context, t *openedTable) (map[change.PartitionID]int64, error) {
	cfg, err := a.config()
	if err != nil || len(cfg.Kafka.Brokers) == 0 {
		return nil, err
	}
	var topics []string
	for _, p := range t.labels.Progress.State.Partitions {
		if !slices.Contains(topics, p.Topic) {
			topics = append(topics, p.Topic)
		}
	}
	o, err := a.kafkaOptions(cfg, topics)
	if err != nil {
		return nil, err
	}
	consumer, err := kafka.New(o)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	consumer.ExpectTopicIDs(t.labels.Progress.TopicIDs)
	states, _, err := consumer.Partitions(ctx)
	if err != nil {
		return nil, brokerFault(ctx, cfg, err)
	}
	earliest := map[change.PartitionID]int64{}
	for _, s := range states {
		earliest[s.ID] = s.Earliest
	}
	return earliest, nil
}

// isTerminal reports whether there is somebody to ask.
func (a *app) isTerminal() bool {
	in, ok := a.stdin.(io.Writer)
	return ok && output.TerminalOf(in).Width > 0
}

// confirm asks at the terminal. Without one it is wrong usage: a script says --yes.
func (a *app) confirm(question string) error {
	if !a.isTerminal() {
		return usagef("this changes the table and there is no terminal to ask at: give --yes, or --dry-run to see what it would do")
	}
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	line, _ := bufio.NewReader(a.stdin).ReadString('\n') // an end without an answer is no
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return errors.New("not confirmed: nothing was changed")
}
