package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/deadletter"
	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/ingest/recording"
	"github.com/gscd-io/gscd/ingest/settled"
)

// deadLetterSelection says which active dead letters a command is about.
type deadLetterSelection struct {
	places        []settled.Place
	label, reason string
	all           bool
	dryRun        bool
}

func (s *deadLetterSelection) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.label, "label", "", "those that count in this `label`")
	f.StringVar(&s.reason, "reason", "", "those with this `reason`: decode, schema, key, future, late, partial, ...")
	f.BoolVar(&s.all, "all", false, "all of them")
	f.BoolVar(&s.dryRun, "dry-run", false, "print what would become of them, and change nothing")
}

// parse reads the places. Nothing selected is wrong usage: not all by accident.
func (s *deadLetterSelection) parse(args []string) error {
	for _, arg := range args {
		place, err := parsePlace(arg)
		if err != nil {
			return usagef("%w", err)
		}
		s.places = append(s.places, place)
	}
	switch {
	case len(s.places) == 0 && s.label == "" && s.reason == "" && !s.all:
		return usagef("which ones? give their places (TOPIC/PARTITION/OFFSET), --label, --reason or --all")
	case s.all && (len(s.places) > 0 || s.label != "" || s.reason != ""):
		return usagef("--all is all of them: leave out places, --label and --reason")
	}
	return nil
}

func (s *deadLetterSelection) picks(e *deadletter.Entry) bool {
	return (s.label == "" || e.Label == s.label) && (s.reason == "" || e.Reason == s.reason) &&
		(len(s.places) == 0 || slices.Contains(s.places, e.Place()))
}

func newDeadLetterReplayCommand(a *app) *cobra.Command {
	var s deadLetterSelection
	var f replayFlags
	c := &cobra.Command{
		Use:   "replay [TOPIC/PARTITION/OFFSET...]",
		Short: "Apply dead letters in the open label, as the configuration says now",
		Long: `Decodes the records anew with the configuration as it is now: a column's type, the key, the
source or a policy may have been mended. Each is applied in the open label where nothing
newer for its key was applied, like a late change; else it is superseded. Sealed days are
not altered. Rows and what became of the records are in one commit of the table, so a second
replay does nothing. A running ingester goes on from the new version by itself.

What still cannot be applied stays as it is, with the reason that holds now, and the command
exits 1. A record of which only the first MiB is kept is read again from the brokers of the
configuration, or from --input.`,
		Example: `  gscd dead-letter replay --reason value --dry-run
  gscd dead-letter replay shop.user_dim/0/42 shop.user_dim/3/7
  gscd dead-letter replay --reason late --late fold
  gscd dead-letter replay --all`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := s.parse(args); err != nil {
				return err
			}
			return a.replayDeadLetters(c.Context(), &s, &f)
		},
	}
	s.add(c)
	c.Flags().StringVar(&f.late, "late", "", "`policy` for those that came late, for this run: fold (default: that of the configuration)")
	c.Flags().StringVar(&f.future, "future", "", "`policy` for event times in the future, for this run: clamp (default: that of the configuration)")
	c.Flags().StringArrayVar(&f.input, "input", nil, "read records that are not kept whole from this recorded `file`; repeat it")
	return c
}

// replayFlags are what a replay may do otherwise than the configuration says.
type replayFlags struct {
	late, future string
	input        []string
}

func newDeadLetterDismissCommand(a *app) *cobra.Command {
	var s deadLetterSelection
	var note string
	c := &cobra.Command{
		Use:   "dismiss [TOPIC/PARTITION/OFFSET...]",
		Short: "Give dead letters up: they count no more from the open label on",
		Long: `Says in a commit of the table that the records are not missed. No row changes, sealed days
keep their count, and the records stay in the dead-letter table with their bytes. A rollback
to a label before takes that back.`,
		Example: `  gscd dead-letter dismiss shop.user_dim/0/42 --note "a test of the producer"
  gscd dead-letter dismiss --reason decode --label 2022-07-16 --dry-run`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := s.parse(args); err != nil {
				return err
			}
			return a.dismissDeadLetters(c.Context(), &s, note)
		},
	}
	s.add(c)
	c.Flags().StringVar(&note, "note", "", "`text` that says why")
	return c
}

// namedOnes opens the dead letters, and looks at those that were named: one that
// is not there is an error, one that is settled is told of.
func (a *app) namedOnes(ctx context.Context, s *deadLetterSelection) (*openedTable, error) {
	t, dead, err := a.deadLetters(ctx)
	if err != nil {
		return nil, err
	}
	if s.label != "" {
		if _, err := t.labels.Calendar.Parse(s.label); err != nil {
			return nil, fmt.Errorf("--label: %w", err)
		}
	}
	if len(s.places) == 0 {
		return t, nil
	}
	states, err := t.deadLetterStates(ctx)
	if err != nil {
		return nil, err
	}
	missing := slices.Clone(s.places)
	err = dead.Each(ctx, func(e deadletter.Entry) error {
		at := slices.Index(missing, e.Place())
		if at < 0 {
			return nil
		}
		missing = slices.Delete(missing, at, at+1)
		switch r := states.Of(&e); {
		case r.State == settled.Undone:
			a.noticef("%s is undone: the table was rolled back behind it, or has applied the record since", e.Place())
		case r.State != settled.Active:
			a.noticef("%s is %s already, by version %d", e.Place(), r.State, r.Version)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("table %s: dead letters: %w", t.Name, err)
	case len(missing) > 0:
		return nil, fmt.Errorf("table %s has no dead letter at %s: `gscd dead-letter list` shows them", t.Name, missing[0])
	}
	return t, nil
}

func (a *app) replayDeadLetters(ctx context.Context, s *deadLetterSelection, f *replayFlags) error {
	t, err := a.namedOnes(ctx, s)
	if err != nil {
		return err
	}
	o, err := a.optionsByHand(ctx, t)
	if err != nil {
		return err
	}
	if o.DeadLetterStore == nil {
		if o.DeadLetterStore, err = a.openStore(ctx, deadLetterAddress(t.Address)); err != nil {
			return err
		}
	}
	for _, policy := range []struct {
		name, value, may string
		set              *string
	}{{"late", f.late, ingest.Fold, &o.Late}, {"future", f.future, ingest.Clamp, &o.Future}} {
		switch policy.value {
		case "":
		case policy.may:
			*policy.set = policy.value
		default:
			return usagef("--%s %s: a replay can be told %s; leave it out for what the configuration says", policy.name, policy.value, policy.may)
		}
	}
	fetch, done := a.recordFetcher(t, &o, f.input)
	defer done()
	list, err := ingest.ReplayDeadLetters(ctx, o, ingest.Replay{Pick: s.picks, Fetch: fetch, DryRun: s.dryRun})
	if err := a.printResolved(ctx, t, s, list, err); err != nil {
		return err
	}
	left := 0
	first := ""
	for _, r := range list {
		if r.State == settled.Active {
			if left++; left == 1 {
				first = fmt.Sprintf("%s: %s: %s", r.Entry.Place(), r.Reason, r.Detail)
			}
		}
	}
	if left > 0 {
		verb := "could not be replayed and stay"
		if s.dryRun {
			verb = "could not be replayed and would stay"
		}
		return fmt.Errorf("table %s: %d of %d dead letters %s; the first: %s", t.Name, left, len(list), verb, first)
	}
	return nil
}

func (a *app) dismissDeadLetters(ctx context.Context, s *deadLetterSelection, note string) error {
	t, err := a.namedOnes(ctx, s)
	if err != nil {
		return err
	}
	dead, err := a.openStore(ctx, deadLetterAddress(t.Address))
	if err != nil {
		return err
	}
	list, err := ingest.Dismiss(ctx, t.store, dead, s.picks, note, s.dryRun)
	return a.printResolved(ctx, t, s, list, err)
}

// printResolved prints what became of dead letters, and brings the dead-letter
// table up to date, also where a command before was stopped before it did.
func (a *app) printResolved(ctx context.Context, t *openedTable, s *deadLetterSelection, list []ingest.Replayed, fault error) error {
	if fault != nil {
		fault = fmt.Errorf("table %s: %w", t.Name, fault)
	}
	w, err := a.printRecords("topic", "partition", "offset", "label", "state", "version", "reason", "column", "detail")
	if err != nil {
		return errors.Join(fault, err)
	}
	for i := range list {
		r := &list[i]
		var version any
		if r.Version >= 0 {
			version = r.Version
		}
		reason, column := r.Reason, r.Column
		if r.State != settled.Active {
			reason, column = r.Entry.Reason, r.Entry.Column
		}
		if err := w.Write(r.Entry.Topic, r.Entry.Partition, r.Entry.Offset, r.Entry.Label, string(r.State), version, reason, orNull(column), orNull(r.Detail)); err != nil {
			return errors.Join(fault, err)
		}
	}
	if err := errors.Join(fault, w.Close()); err != nil {
		return err
	}
	if len(list) == 0 {
		a.noticef("nothing to do: no active dead letter of %s is meant", t.Name)
	}
	if !s.dryRun {
		return a.syncDeadLetters(ctx, t)
	}
	return nil
}

// syncDeadLetters makes the columns of the dead-letter table say what is so.
func (a *app) syncDeadLetters(ctx context.Context, t *openedTable) error {
	dead, err := a.openStore(ctx, deadLetterAddress(t.Address))
	if err != nil {
		return err
	}
	if _, err := ingest.SyncDeadLetters(ctx, t.store, dead); err != nil {
		return fmt.Errorf("table %s: what became of dead letters is decided, but not yet in the dead-letter table's columns; the next replay, dismiss or rollback writes it: %w", t.Name, err)
	}
	return nil
}

// recordFetcher gives what reads one record again, nil where there is nothing to
// read from. done ends it.
func (a *app) recordFetcher(t *openedTable, o *ingest.Options, input []string) (fetch func(context.Context, settled.Place) (*change.Record, error), done func()) {
	cfg, err := a.config()
	brokers := err == nil && t.Config != nil && len(cfg.Kafka.Brokers) > 0
	if len(input) == 0 && !brokers {
		return nil, func() {}
	}
	var open func(topic string) (ingest.Source, func() error, error)
	if len(input) > 0 {
		open = func(topic string) (ingest.Source, func() error, error) {
			r, err := recording.Open(input, recording.Options{Topics: []string{topic}, Topic: topic, MaxRecord: o.MaxRecord})
			if err != nil {
				return nil, nil, err
			}
			return r, r.Close, nil
		}
	} else {
		open = func(topic string) (ingest.Source, func() error, error) {
			k, err := a.kafkaOptions(cfg, []string{topic})
			if err != nil {
				return nil, nil, err
			}
			k.MaxRecord = o.MaxRecord
			c, err := kafka.New(k)
			if err != nil {
				return nil, nil, err
			}
			c.ExpectTopicIDs(t.labels.Progress.TopicIDs)
			return c, func() error { c.Close(); return nil }, nil
		}
	}
	sources := map[string]ingest.Source{}
	var ends []func() error
	fetch = func(ctx context.Context, at settled.Place) (*change.Record, error) {
		src := sources[at.Topic]
		if src == nil {
			var end func() error
			var err error
			if src, end, err = open(at.Topic); err != nil {
				return nil, err
			}
			sources[at.Topic] = src
			ends = append(ends, end)
		}
		return fetchRecord(ctx, src, at)
	}
	return fetch, func() {
		for _, end := range ends {
			if err := end(); err != nil {
				a.log.Debug("a source was not closed", zap.Error(err))
			}
		}
	}
}

// fetchPatience is how long the record of one place is waited for.
const fetchPatience = 30 * time.Second

// fetchRecord reads the record of a place.
func fetchRecord(ctx context.Context, src ingest.Source, at settled.Place) (*change.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchPatience)
	defer cancel()
	states, _, err := src.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	id := change.PartitionID{Topic: at.Topic, Partition: at.Partition}
	i := slices.IndexFunc(states, func(s change.PartitionState) bool { return s.ID == id })
	if i < 0 || at.Offset >= states[i].End {
		return nil, errors.New("there is no such record in the topic")
	}
	if at.Offset < states[i].Earliest {
		return nil, fmt.Errorf("the topic has deleted it: its oldest offset is %d", states[i].Earliest)
	}
	if err := src.Assign(ctx, map[change.PartitionID]int64{id: at.Offset}); err != nil {
		return nil, err
	}
	for {
		blocks, err := src.Poll(ctx, 1)
		if err != nil {
			return nil, err
		}
		for _, b := range blocks {
			for _, r := range b.Records {
				if r.Offset == at.Offset {
					return r, nil
				}
			}
			if b.ID == id && b.Next > at.Offset {
				return nil, errors.New("the topic has no record at this offset any more")
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("it did not come within %s: %w", fetchPatience, err)
		}
	}
}
