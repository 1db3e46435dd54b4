package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/query/output"
)

func newOffsetsCommand(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:     "offsets",
		GroupID: groupChanging,
		Short:   "Set by hand where a table reads on",
		Example: `  gscd offsets set shop.user_dim/3=120 --yes`,
	}, newOffsetsSetCommand(a))
}

func newOffsetsSetCommand(a *app) *cobra.Command {
	var f sourceFlags
	var force, dryRun, yes bool
	c := &cobra.Command{
		Use:   "set TOPIC/PARTITION=OFFSET...",
		Short: "Let partitions go on at other offsets",
		Long: `Sets the next offset of partitions in one commit, which says so; "gscd status" shows the
present ones. Skipped records are lost to the table: the open label and all later ones are
incomplete until a complete load. Records that come again are duplicates by their position
in the source's log, or older than what their key has: they change nothing, also where
their rows are gone. To bring rows back use "gscd rollback". A running ingester goes on
from there by itself.

The topic must have the offset (its end counts); where it can't be asked, or does not have
it, --force sets it all the same.`,
		Example: `  gscd offsets set shop.user_dim/3=120 --dry-run
  gscd offsets set shop.user_dim/3=120 shop.user_dim/4=98 --yes`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var list []string
			for _, arg := range args {
				list = append(list, strings.Split(arg, ",")...)
			}
			offsets, err := parseOffsets(list)
			if err != nil {
				return err
			}
			return a.setOffsets(c.Context(), ingest.OffsetsByHand{Offsets: offsets, Force: force, DryRun: dryRun}, &f, yes)
		},
	}
	f.add(c.Flags())
	c.Flags().BoolVar(&force, "force", false, "set offsets that the topic does not have, or can't be asked about")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be done, and change nothing")
	c.Flags().BoolVar(&yes, "yes", false, "do it without asking")
	return c
}

func (a *app) setOffsets(ctx context.Context, h ingest.OffsetsByHand, f *sourceFlags, yes bool) error {
	t, err := a.openTable(ctx)
	if err != nil {
		return err
	}
	for id := range h.Offsets {
		if t.labels.Progress.State.Find(id) == nil {
			return usagef("%s: the table has no such partition; it has %s", id, partitionsOf(t))
		}
	}
	topic, err := a.askSource(ctx, t.tableRef, t.labels.Progress, f)
	if err != nil && !h.Force {
		return fmt.Errorf("ask what the topic has: %w; --force does without", err)
	}
	h.States = topic.partitions
	look := h
	look.DryRun = true
	plan, err := ingest.SetOffsets(ctx, t.store, look)
	if err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	if !h.DryRun && len(plan.Moves) > 0 {
		if !yes {
			if err := a.confirm(fmt.Sprintf("Let %s go on at %s?%s", t.Name, movesText(plan), warning(plan))); err != nil {
				return err
			}
		}
		if plan, err = ingest.SetOffsets(ctx, t.store, h); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	if len(plan.Moves) == 0 {
		a.noticef("nothing to do: %s goes on there already", t.Name)
	}
	return a.printObject(offsetsSetRecord(plan, h.DryRun))
}

func partitionsOf(t *openedTable) string {
	var names []string
	for _, p := range t.labels.Progress.State.Partitions {
		names = append(names, p.ID().String())
	}
	return strings.Join(names, ", ")
}

func movesText(p *ingest.OffsetsSet) string {
	var list []string
	for _, m := range p.Moves {
		list = append(list, fmt.Sprintf("%s=%d (now %d)", m.ID, m.To, m.From))
	}
	return strings.Join(list, ", ")
}

func warning(p *ingest.OffsetsSet) string {
	if p.Incomplete == "" {
		return ""
	}
	return fmt.Sprintf(" %s and all later labels will be incomplete.", p.Label)
}

func offsetsSetRecord(p *ingest.OffsetsSet, dryRun bool) output.Record {
	from, to := output.Record{}, output.Record{}
	for _, m := range p.Moves {
		from = append(from, output.Item{Name: m.ID.String(), Value: m.From})
		to = append(to, output.Item{Name: m.ID.String(), Value: m.To})
	}
	return output.Record{
		{Name: "label", Value: p.Label},
		{Name: "dry_run", Value: dryRun},
		{Name: "nothing_to_do", Value: len(p.Moves) == 0},
		{Name: "committed", Value: committedOrNull(p.Committed)},
		{Name: "from", Value: from},
		{Name: "to", Value: to},
		{Name: "incomplete", Value: orNull(p.Incomplete)},
	}
}
