package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/savepoint"
)

func newSealCommand(a *app) *cobra.Command {
	var f sourceFlags
	var force bool
	var accept []string
	c := &cobra.Command{
		Use:     "seal LABEL --force",
		GroupID: groupChanging,
		Short:   "Close the open label by hand",
		Long: `Seals the open label where the rule would not: a partition that can't be read, a load that
never ends, a proof that does not come. "gscd status" says what holds the seal back. The
evidence names the seal as one by hand, and the label and all later ones are incomplete
until a complete load. A running ingester goes on from the new version by itself.

A partition that is behind must be accepted by name: what it still brings of the label will
be late. Without brokers or --input every partition that is not past the label counts so.`,
		Example: `  gscd seal 2022-07-16 --force
  gscd seal 2022-07-16 --force --accept-behind shop.user_dim/3`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if !force {
				return usagef("the rule seals labels by itself: say --force to close %s by hand", args[0])
			}
			h := ingest.ByHand{Label: args[0]}
			for _, text := range accept {
				id, err := parsePartition(text)
				if err != nil {
					return err
				}
				h.AcceptBehind = append(h.AcceptBehind, id)
			}
			return a.sealByHand(c.Context(), h, &f)
		},
	}
	f.add(c.Flags())
	c.Flags().BoolVar(&force, "force", false, "close the label by hand, and mark it and all later ones incomplete")
	c.Flags().StringArrayVar(&accept, "accept-behind", nil, "`TOPIC/PARTITION` that may be behind: its changes of the label will be late; repeat it")
	return c
}

// parsePartition reads TOPIC/PARTITION.
func parsePartition(text string) (change.PartitionID, error) {
	i := strings.LastIndex(text, "/")
	n, err := strconv.ParseUint(text[i+1:], 10, 31)
	if i < 1 || err != nil {
		return change.PartitionID{}, usagef("%q is no partition: write TOPIC/PARTITION, e.g. shop.user_dim/3", text)
	}
	return change.PartitionID{Topic: text[:i], Partition: int32(n)}, nil
}

func (a *app) sealByHand(ctx context.Context, h ingest.ByHand, f *sourceFlags) error {
	t, err := a.openTable(ctx)
	if err != nil {
		return err
	}
	for _, id := range h.AcceptBehind {
		if t.labels.Progress.State.Find(id) == nil {
			return usagef("--accept-behind %s: the table has no such partition", id)
		}
	}
	topic, err := a.askSource(ctx, t.tableRef, t.labels.Progress, f)
	if err != nil {
		return fmt.Errorf("ask how far the partitions are: %w", err)
	}
	h.Known, h.States = topic.known, topic.partitions
	o, err := a.optionsByHand(ctx, t)
	if err != nil {
		return err
	}
	h.Decodes = t.Config != nil
	o.Now = func() time.Time { return topic.at }
	version, e, err := ingest.SealByHand(ctx, o, h)
	if err != nil {
		return err
	}
	return a.printObject(output.Record{
		{Name: "label", Value: e.Name},
		{Name: "version", Value: version},
		{Name: "forced", Value: e.Forced},
		{Name: "reason", Value: e.Reason},
		{Name: "rows", Value: e.Rows},
		{Name: "attributes", Value: append([]string{}, e.Attributes...)},
	})
}

// optionsByHand are the options of a configured table, or what another table
// says of itself.
func (a *app) optionsByHand(ctx context.Context, t *openedTable) (ingest.Options, error) {
	if t.Config != nil {
		cfg, err := a.config()
		if err != nil {
			return ingest.Options{}, err
		}
		return a.ingestOptions(ctx, cfg, t.Config)
	}
	s, err := savepoint.SettingsOf(t.newest)
	if err != nil {
		return ingest.Options{}, err
	}
	wait := time.Duration(t.labels.Progress.State.Wait) * time.Microsecond
	o := ingest.Options{
		Name: t.Name, Store: t.store, Calendar: s.Calendar, Key: s.Key, Format: s.SourceFormat,
		DriftWait: literal(wait), MaxClockSkew: literal(time.Duration(0)), Log: a.log,
		PartitionBy: t.newest.Metadata().PartitionColumns,
		CopyOnWrite: !slices.Contains(delta.FeaturesOf(t.newest.Protocol()), delta.FeatureDeletionVectors),
	}
	latest, ok, err := savepoint.ReadLatestList(ctx, t.store)
	if err != nil {
		return ingest.Options{}, err
	}
	if ok && latest.Version >= 0 {
		o.Lists = latest.Kind
	}
	if o.Append = slices.Equal(s.Key, ingest.AppendKey); o.Append {
		o.Key = nil
	} else {
		o.Decode.KeyColumns = s.Key
	}
	return o, nil
}
