package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

func newStatusCommand(a *app) *cobra.Command {
	var f sourceFlags
	c := &cobra.Command{
		Use:     "status",
		GroupID: groupReading,
		Short:   "Show how far the table is, and what holds the next seal back",
		Long: `Reads the table's own state: the open label, the offset and watermark of every partition,
what is held for later labels, and the fate of every record taken. Where brokers are
configured it asks them for the end of every partition, and tells the lag.

A label is sealed when every partition has a watermark past its end and drift.wait, or was
read to its end at a clock drift.idle after that.`,
		Example: `  gscd status
  gscd status --table user_dim -c gscd.yaml --format json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			tables, err := a.tablesToShow()
			if err != nil {
				return err
			}
			var list []*tableStatus
			for _, a.flags.table = range tables {
				t, err := a.openTable(c.Context())
				if errors.Is(err, delta.ErrNotATable) && len(tables) > 1 {
					a.noticef("table %s does not exist yet: no record with a label was taken", a.flags.table)
					continue
				}
				if err != nil {
					return err
				}
				s, err := a.statusOf(c.Context(), t, &f)
				if err != nil {
					return err
				}
				list = append(list, s)
			}
			return a.printStatus(list, len(tables) > 1)
		},
	}
	f.add(c.Flags())
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

// tableStatus is where a table stands.
type tableStatus struct {
	*openedTable
	p     *progress.Progress
	judge *snapshotter.Judge
	topic topicState
	// idle is drift.idle where the table is configured, else -1.
	idle       time.Duration
	openSince  time.Time
	lastSealed *savepoint.Entry
	lastCommit int64
	committed  time.Time
	partitions []partitionStatus
	// holds is what holds the seal of the open label back, "" where nothing does.
	holds string
}

// partitionStatus is where one partition stands. end and lag are -1 where they are not known.
type partitionStatus struct {
	*snapshotter.Partition
	end, lag int64
	waitsFor string
	// since is when its lag began to hold the seal back, zero where it does not.
	since time.Time
}

// statusOf puts together what the table and its source say.
func (a *app) statusOf(ctx context.Context, t *openedTable, f *sourceFlags) (*tableStatus, error) {
	m := t.labels
	s := &tableStatus{openedTable: t, p: m.Progress, judge: snapshotter.NewJudge(m.Calendar, &m.Progress.State), idle: -1}
	if t.Config != nil {
		s.idle = t.Config.Drift.Idle
	}
	var err error
	if s.topic, err = a.askSource(ctx, t.tableRef, s.p, f); err != nil {
		var usage *exitError
		if errors.As(err, &usage) || ctx.Err() != nil {
			return nil, err
		}
		a.noticef("gscd: %v", err)
	}
	for i := range m.Entries {
		if e := &m.Entries[i]; e.State == savepoint.Sealed {
			s.lastSealed = e
		}
	}
	if txn, ok := t.newest.Txn(progress.AppID); ok {
		s.lastCommit = txn.Version
		if s.committed, err = t.table.CommitTime(ctx, txn.Version); err != nil {
			return nil, fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	s.openSince = s.opened(ctx)
	s.judgePartitions()
	return s, nil
}

// opened is when the open label opened: when the one before was sealed, else
// when the table was made. Zero where the log no longer tells.
func (s *tableStatus) opened(ctx context.Context) time.Time {
	if s.p.LastSeal >= 0 {
		at, _ := s.table.CommitTime(ctx, s.p.LastSeal)
		return at
	}
	if created := s.newest.Metadata().CreatedTime; created != nil {
		return time.UnixMilli(*created)
	}
	return time.Time{}
}

// judgePartitions says of each partition what it waits for, and of the table
// what holds its seal back.
func (s *tableStatus) judgePartitions() {
	ends := map[change.PartitionID]int64{}
	for _, st := range s.topic.partitions {
		ends[st.ID] = st.End
	}
	pause := time.UnixMicro(s.judge.Pause())
	due := pause.Add(max(0, s.idle))
	var list []snapshotter.End
	for _, p := range s.p.State.Partitions {
		ps := partitionStatus{Partition: p, end: -1, lag: -1}
		if end, ok := ends[p.ID()]; ok {
			ps.end, ps.lag = end, max(0, end-p.Next)
			list = append(list, snapshotter.End{Partition: p, Offset: end})
		}
		switch {
		case s.judge.Paused(p):
			ps.waitsFor = "the other partitions: it is past the label and drift.wait"
		case ps.lag > 0:
			ps.waitsFor = fmt.Sprintf("%d records to be read", ps.lag)
			if s.topic.at.After(due) {
				ps.since = due
			}
		case s.idle < 0:
			ps.waitsFor = fmt.Sprintf("a change at or after %s, or its end and a clock drift.idle after that", rfc3339(pause))
		case ps.lag == 0 && !s.topic.at.Before(due):
			ps.waitsFor = "nothing: it is read to its end"
		default:
			ps.waitsFor = fmt.Sprintf("a change at or after %s, or its end and a clock of %s", rfc3339(pause), rfc3339(due))
		}
		s.partitions = append(s.partitions, ps)
	}
	s.holds = s.whatHolds(list, due)
}

// whatHolds names what keeps the open label from being sealed.
func (s *tableStatus) whatHolds(ends []snapshotter.End, due time.Time) string {
	end := time.UnixMicro(s.labels.Calendar.End(s.p.State.Open))
	if s.topic.at.Before(end) {
		return fmt.Sprintf("the clock: the label ends at %s", rfc3339(end))
	}
	for _, p := range s.partitions {
		if p.lag > 0 && !s.judge.Paused(p.Partition) {
			text := fmt.Sprintf("partition %s: %d records behind, next offset %d of %d", p.ID(), p.lag, p.Next, p.end)
			if !p.since.IsZero() {
				text += fmt.Sprintf(", since %s (%s)", rfc3339(p.since), s.topic.at.Sub(p.since).Round(time.Second))
			}
			return text
		}
	}
	if s.topic.known {
		if len(ends) < len(s.partitions) {
			return "a partition of the table is not in its topics any more"
		}
		if d := s.judge.MaySeal(ends, s.topic.at.UnixMicro(), max(0, s.idle).Microseconds()); d.Seal {
			return s.missingProof()
		} else if len(d.Waiting) == 0 {
			return d.Reason
		}
		for _, p := range s.partitions {
			if !s.judge.Paused(p.Partition) {
				return fmt.Sprintf("the clock: partition %s has no change past the label yet, and counts as idle from %s on", p.ID(), rfc3339(due))
			}
		}
	}
	for _, p := range s.partitions {
		if !s.judge.Paused(p.Partition) {
			return fmt.Sprintf("partition %s: its watermark is below %s; how far it is behind is not known without brokers", p.ID(), rfc3339(time.UnixMicro(s.judge.Pause())))
		}
	}
	return ""
}

// missingProof says that every partition agrees, and none proves that the
// source lived past the label, where that is wanted.
func (s *tableStatus) missingProof() string {
	if s.Config == nil || s.Config.Seal.Proof == "none" {
		return ""
	}
	end := s.labels.Calendar.End(s.p.State.Open)
	for _, p := range s.partitions {
		if p.Watermark >= end {
			return ""
		}
	}
	return "seal.proof: " + s.Config.Seal.Proof + ": no partition has shown that the source lived past the label"
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// printStatus prints an object for each table; for a person, and as csv, the
// partitions are rows.
func (a *app) printStatus(list []*tableStatus, several bool) error {
	format, err := output.Resolve(a.flags.format, a.stdout)
	if err != nil {
		return err
	}
	var records, partitions []output.Record
	for _, s := range list {
		records = append(records, s.record())
		partitions = append(partitions, s.partitionRecords()...)
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
func (a *app) printStatusTable(s *tableStatus) error {
	var lines output.Record
	for _, item := range s.record() {
		if item.Name != "partitions" && item.Name != "totals" {
			lines = append(lines, item)
		}
	}
	if err := a.printObject(lines); err != nil {
		return err
	}
	if err := output.WriteRecords(output.Table, a.stdout, s.partitionRecords()); err != nil {
		return err
	}
	return output.WriteRecords(output.Table, a.stdout, []output.Record{fatesRecord(s.p)})
}

func (s *tableStatus) record() output.Record {
	cal, open := s.labels.Calendar, s.p.State.Open
	var held, heldBytes int64
	for _, f := range s.p.Held {
		held += f.Count - f.Applied
		heldBytes += f.Bytes
	}
	var sealed, holds, incomplete any
	if s.lastSealed != nil {
		sealed = s.lastSealed.Name
	}
	if s.holds != "" {
		holds = s.holds
	}
	if i := s.p.Incomplete; i != nil {
		incomplete = output.Record{{Name: "since", Value: cal.Name(i.Since)}, {Name: "reason", Value: i.Reason}}
	}
	return output.Record{
		{Name: "table", Value: s.Name},
		{Name: "address", Value: s.store.String()},
		{Name: "version", Value: s.newest.Version()},
		{Name: "open", Value: cal.Name(open)},
		{Name: "open_since", Value: s.openSince},
		{Name: "starts", Value: time.UnixMicro(cal.Start(open))},
		{Name: "ends", Value: time.UnixMicro(cal.End(open))},
		{Name: "last_sealed", Value: sealed},
		{Name: "held_back_by", Value: holds},
		{Name: "incomplete", Value: incomplete},
		{Name: "rows", Value: s.p.Rows},
		{Name: "held_records", Value: held},
		{Name: "held_files", Value: len(s.p.Held)},
		{Name: "held_bytes", Value: heldBytes},
		{Name: "last_commit", Value: output.Record{
			{Name: "version", Value: s.lastCommit}, {Name: "at", Value: s.committed},
			{Name: "kind", Value: string(s.p.Kind)}, {Name: "label", Value: s.p.Label},
		}},
		{Name: "clock", Value: s.topic.at.Truncate(time.Second)},
		{Name: "partitions", Value: s.partitionRecords()},
		{Name: "totals", Value: fatesRecord(s.p)},
	}
}

func (s *tableStatus) partitionRecords() []output.Record {
	known := func(n int64) any {
		if n < 0 {
			return nil
		}
		return n
	}
	var out []output.Record
	for _, p := range s.partitions {
		var watermark any
		if p.Watermark != snapshotter.NoTime {
			watermark = time.UnixMicro(p.Watermark)
		}
		out = append(out, output.Record{
			{Name: "topic", Value: p.Topic},
			{Name: "partition", Value: p.Kafka},
			{Name: "next", Value: p.Next},
			{Name: "end", Value: known(p.end)},
			{Name: "lag", Value: known(p.lag)},
			{Name: "watermark", Value: watermark},
			{Name: "paused", Value: s.judge.Paused(p.Partition)},
			{Name: "waits_for", Value: p.waitsFor},
			{Name: "holds_since", Value: p.since},
		})
	}
	return out
}

// fatesRecord shows that nothing is lost: the fates add up to what was taken
// (missing is 0), and with the holes to the offsets that the partitions have passed.
func fatesRecord(p *progress.Progress) output.Record {
	t, offsets := &p.Totals, p.Totals.Rewound
	for _, part := range p.State.Partitions {
		if !part.Heartbeat {
			offsets += part.Next - part.Start
		}
	}
	return output.Record{
		{Name: "taken", Value: t.Taken},
		{Name: "applied", Value: t.Applied},
		{Name: "superseded", Value: t.Superseded},
		{Name: "duplicates", Value: t.Duplicates},
		{Name: "tombstones", Value: t.Tombstones},
		{Name: "filtered", Value: t.Filtered},
		{Name: "dead_letters", Value: t.DeadLetters},
		{Name: "held", Value: t.Held},
		{Name: "missing", Value: t.Missing()},
		{Name: "holes", Value: t.Holes},
		{Name: "offsets", Value: offsets},
	}
}
