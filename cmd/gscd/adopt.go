package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/query/output"
)

// adoptFlags are those of the adoption itself.
type adoptFlags struct {
	input       []string
	label       string
	offsets     []string
	atEnd       bool
	dryRun, yes bool
}

func newAdoptCommand(a *app) *cobra.Command {
	var f adoptFlags
	c := &cobra.Command{
		Use:     "adopt --label LABEL",
		GroupID: groupChanging,
		Short:   "Take over a table that another engine wrote, as it stands",
		Long: `Makes a Delta table of another engine one of gscd's, or one that another engine has parted
from gscd's offsets (RESTORE, an overwrite) one again. The rows stay as they are: they are
those of LABEL, the open label, which is incomplete until a complete load. First it checks
that no key is there twice, that gscd can write what the protocol asks for, and that no
column has a name of gscd's. Then one commit sets the properties (calendar, key, protection,
deletion vectors unless write.mode is copy-on-write), lets every column take NULL, and names
the offsets.

The offsets must be where the rows are: --offsets names them, --at-end takes the ends that
the topics have now, --start the earliest ones or those of a time. What is read though the
rows have it does no harm: the newest change of a key wins. Without any of them the offsets
that gscd knows stay, where it knows any.`,
		Example: `  gscd adopt --label 2022-07-16 --dry-run -c gscd.yaml --table user_dim --at-end
  gscd adopt --label 2022-07-16 --location ./user_dim --key id --timezone UTC --offsets shop.user_dim/0=120,shop.user_dim/1=98 --yes
  gscd adopt --label 2022-07-16 --table user_dim --yes`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.label == "" {
				return usagef("give the label that the rows are of, and that stays open: --label LABEL")
			}
			cfg, err := a.config(settings(c.Flags(), tableFlags)...)
			if err != nil {
				return err
			}
			return a.adopt(c.Context(), cfg, &f, c.Flags().Changed("start"))
		},
	}
	flags := c.Flags()
	addSettingFlags(flags, tableFlags)
	flags.StringVar(&f.label, "label", "", "the `label` that the rows are of; it is open from then on")
	flags.StringSliceVar(&f.offsets, "offsets", nil, "`TOPIC/PARTITION=OFFSET` to go on at, comma between; every partition")
	flags.BoolVar(&f.atEnd, "at-end", false, "go on at the ends that the topics have now")
	flags.StringArrayVar(&f.input, "input", nil, "ask this recorded `file` instead of a broker; repeat it, the files are one recording")
	flags.BoolVar(&f.dryRun, "dry-run", false, "check everything, print what would be done, and change nothing")
	flags.BoolVar(&f.yes, "yes", false, "do it without asking")
	return c
}

// parseOffsets reads TOPIC/PARTITION=OFFSET, each once.
func parseOffsets(list []string) (map[change.PartitionID]int64, error) {
	offsets := map[change.PartitionID]int64{}
	for _, text := range list {
		partition, number, ok := strings.Cut(text, "=")
		if !ok {
			return nil, usagef("%q is no offset: write TOPIC/PARTITION=OFFSET, e.g. shop.user_dim/3=120", text)
		}
		id, err := parsePartition(partition)
		if err != nil {
			return nil, err
		}
		offset, err := strconv.ParseInt(number, 10, 64)
		if err != nil || offset < 0 {
			return nil, usagef("%q is no offset of %s: write a number, 0 or more", number, partition)
		}
		if _, twice := offsets[id]; twice {
			return nil, usagef("%s is named twice", partition)
		}
		offsets[id] = offset
	}
	return offsets, nil
}

// start is where the flags say that the topics are read from, nil where they don't.
func (f *adoptFlags) start(t *config.Table, given bool) (*ingest.Start, error) {
	ways := 0
	for _, used := range []bool{len(f.offsets) > 0, f.atEnd, given} {
		if used {
			ways++
		}
	}
	switch {
	case ways > 1:
		return nil, usagef("--offsets, --at-end and --start exclude each other")
	case len(f.offsets) > 0:
		offsets, err := parseOffsets(f.offsets)
		return &ingest.Start{At: ingest.AtOffsets, Offsets: offsets}, err
	case f.atEnd:
		return &ingest.Start{At: ingest.Latest}, nil
	case given:
		s := startOf(t)
		return &s, nil
	}
	return nil, nil
}

func (a *app) adopt(ctx context.Context, cfg *config.Config, f *adoptFlags, startGiven bool) error {
	ref, err := a.resolveTable(a.flags.table)
	if err != nil {
		return err
	}
	if ref.Config == nil {
		return usagef("table %s is not configured: give --location, --key and --timezone, or a configuration with -c FILE", ref.Name)
	}
	adoption := ingest.Adoption{Label: f.label, DryRun: f.dryRun}
	if adoption.Start, err = f.start(ref.Config, startGiven); err != nil {
		return err
	}
	o, err := a.ingestOptions(ctx, cfg, ref.Config)
	if err != nil {
		return err
	}
	var source ingest.Source
	switch {
	case adoption.Start == nil:
	case len(f.input) > 0:
		r, err := openRecording(ref.Config, tableTopics(ref.Config), f.input, len(cfg.Tables) == 1)
		if err != nil {
			return err
		}
		defer r.Close()
		source = r
	case len(cfg.Kafka.Brokers) > 0 && len(ref.Config.Topics) > 0:
		consumer, err := a.openConsumer(cfg, ref.Config, &o)
		if err != nil {
			return err
		}
		defer consumer.Close()
		if err := askBrokers(ctx, cfg, consumer); err != nil {
			return err
		}
		source = consumer
	}
	if !f.yes && !f.dryRun {
		look := adoption
		look.DryRun = true
		plan, err := ingest.Adopt(ctx, o, source, look)
		if err != nil {
			return err
		}
		if err := a.confirm(fmt.Sprintf("Adopt the %d rows of %s as %s, which stays open?", plan.Rows, ref.Name, plan.Label)); err != nil {
			return err
		}
	}
	plan, err := ingest.Adopt(ctx, o, source, adoption)
	if err != nil {
		return err
	}
	if source == nil && adoption.Start != nil {
		a.noticef("the offsets were not checked: there are no brokers and no --input to ask")
	}
	return a.printObject(adoptedRecord(plan, f.dryRun))
}

func adoptedRecord(p *ingest.Adopted, dryRun bool) output.Record {
	properties := output.Record{}
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		properties = append(properties, output.Item{Name: name, Value: p.Properties[name]})
	}
	return output.Record{
		{Name: "label", Value: p.Label},
		{Name: "first", Value: p.First},
		{Name: "version", Value: p.Version},
		{Name: "dry_run", Value: dryRun},
		{Name: "committed", Value: committedOrNull(p.Committed)},
		{Name: "rows", Value: p.Rows},
		{Name: "files", Value: p.Files},
		{Name: "key", Value: p.Key},
		{Name: "offsets_kept", Value: p.Kept},
		{Name: "offsets", Value: offsetsRecord(p.Offsets)},
		{Name: "made_nullable", Value: append([]string{}, p.Nullable...)},
		{Name: "features", Value: append([]string{}, p.Features...)},
		{Name: "properties", Value: properties},
		{Name: "foreign", Value: foreignRecords(p.Foreign)},
	}
}

func committedOrNull(version int64) any {
	if version < 0 {
		return nil
	}
	return version
}

func offsetsRecord(offsets map[change.PartitionID]int64) output.Record {
	out := output.Record{}
	for _, id := range slices.SortedFunc(maps.Keys(offsets), change.PartitionID.Compare) {
		out = append(out, output.Item{Name: id.String(), Value: offsets[id]})
	}
	return out
}
