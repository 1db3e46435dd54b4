package server

import (
	"fmt"
	"time"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/snapshotter"
)

// Facts are what is known of a table at one moment.
type Facts struct {
	Name, Address string
	Progress      *progress.Progress
	Calendar      *snapshotter.Calendar
	// Version is the table's newest, LastCommit the last one of gscd, made at
	// Committed (zero: not known).
	Version, LastCommit int64
	Committed           time.Time
	// OpenSince is when the open label opened, zero where that is not known.
	OpenSince time.Time
	// LastSealed is the newest label that is a savepoint, "" for none.
	LastSealed string
	// Ends are the high watermarks; Asked tells that the source was asked for
	// those of all its partitions.
	Ends  map[change.PartitionID]int64
	Asked bool
	// Settled are the ends of what can be read, below those of Ends where a
	// transaction is open; a partition of which it is not known is missing.
	Settled map[change.PartitionID]int64
	// Clock is that of the seal rule.
	Clock time.Time
	// Idle is drift.idle, below 0 where it is not known; Proof is seal.proof.
	Idle  time.Duration
	Proof string
}

// Standing is where a table stands, and what holds the seal of its open label back.
type Standing struct {
	Facts
	Partitions []PartitionStanding
	// Holds is what holds the seal back, "" where nothing does.
	Holds string

	judge *snapshotter.Judge
}

// PartitionStanding is where one partition stands.
type PartitionStanding struct {
	*snapshotter.Partition
	// End and Lag are -1 where they are not known.
	End, Lag int64
	// Paused tells that nothing more is taken of it before the seal.
	Paused   bool
	WaitsFor string
	// HoldsSince is when its lag began to hold the seal back, zero where it does not.
	HoldsSince time.Time
}

// Stand judges how a table stands. It keeps f.Progress.
func Stand(f Facts) *Standing {
	s := &Standing{Facts: f, judge: snapshotter.NewJudge(f.Calendar, &f.Progress.State)}
	pause := time.UnixMicro(s.judge.Pause())
	due := s.Due()
	var list []snapshotter.End
	for _, p := range f.Progress.State.Partitions {
		ps := PartitionStanding{Partition: p, End: -1, Lag: -1, Paused: s.judge.Paused(p)}
		if end, ok := f.Ends[p.ID()]; ok {
			ps.End, ps.Lag = end, max(0, end-p.Next)
			list = append(list, snapshotter.End{Partition: p, Offset: end})
		}
		switch {
		case ps.Paused:
			ps.WaitsFor = "the other partitions: it is past the label and drift.wait"
		case ps.Lag > 0:
			ps.WaitsFor = fmt.Sprintf("%d records to be read", ps.Lag)
			if f.inTransaction(p) {
				ps.WaitsFor = fmt.Sprintf("an open transaction: its producer has to end it, or the broker does at its timeout; %d records to be read behind that", ps.Lag)
			}
			if f.Clock.After(due) {
				ps.HoldsSince = due
			}
		case f.Idle < 0:
			ps.WaitsFor = fmt.Sprintf("a change at or after %s, or its end and a clock drift.idle after that", rfc3339(pause))
		case ps.Lag == 0 && !f.Clock.Before(due):
			ps.WaitsFor = "nothing: it is read to its end"
		default:
			ps.WaitsFor = fmt.Sprintf("a change at or after %s, or its end and a clock of %s", rfc3339(pause), rfc3339(due))
		}
		s.Partitions = append(s.Partitions, ps)
	}
	s.Holds = s.whatHolds(list)
	return s
}

// inTransaction tells that all that is left to read of a partition is in an open
// transaction or behind it.
func (f *Facts) inTransaction(p *snapshotter.Partition) bool {
	settled, ok := f.Settled[p.ID()]
	return ok && p.Next >= settled
}

// Due is the clock from which on the open label is sealed where every partition
// is read to its end.
func (s *Standing) Due() time.Time {
	return time.UnixMicro(s.judge.Pause()).Add(max(0, s.Idle))
}

// Overdue is how long the seal of the open label has been due by the clock.
func (s *Standing) Overdue() time.Duration { return max(0, s.Clock.Sub(s.Due())) }

// whatHolds names what keeps the open label from being sealed.
func (s *Standing) whatHolds(ends []snapshotter.End) string {
	end := time.UnixMicro(s.Calendar.End(s.Progress.State.Open))
	if s.Clock.Before(end) {
		return fmt.Sprintf("the clock: the label ends at %s", rfc3339(end))
	}
	for _, p := range s.Partitions {
		if p.Lag > 0 && !p.Paused {
			text := fmt.Sprintf("partition %s: %d records behind, next offset %d of %d", p.ID(), p.Lag, p.Next, p.End)
			if s.inTransaction(p.Partition) {
				text += ", in an open transaction"
			}
			if !p.HoldsSince.IsZero() {
				text += fmt.Sprintf(", since %s (%s)", rfc3339(p.HoldsSince), s.Clock.Sub(p.HoldsSince).Round(time.Second))
			}
			return text
		}
	}
	if s.Asked {
		if len(ends) < len(s.Partitions) {
			return "a partition of the table is not in its topics any more"
		}
		if d := s.judge.MaySeal(ends, s.Clock.UnixMicro(), max(0, s.Idle).Microseconds()); d.Seal {
			return s.missingProof()
		} else if len(d.Waiting) == 0 {
			return d.Reason
		}
		for _, p := range s.Partitions {
			if !p.Paused {
				return fmt.Sprintf("the clock: partition %s has no change past the label yet, and counts as idle from %s on", p.ID(), rfc3339(s.Due()))
			}
		}
	}
	for _, p := range s.Partitions {
		if !p.Paused {
			return fmt.Sprintf("partition %s: its watermark is below %s; how far it is behind is not known without brokers", p.ID(), rfc3339(time.UnixMicro(s.judge.Pause())))
		}
	}
	return ""
}

// missingProof says that every partition agrees, and none proves that the
// source lived past the label, where that is wanted.
func (s *Standing) missingProof() string {
	if s.Proof == "" || s.Proof == "none" {
		return ""
	}
	end := s.Calendar.End(s.Progress.State.Open)
	for _, p := range s.Partitions {
		if p.Watermark >= end {
			return ""
		}
	}
	return "seal.proof: " + s.Proof + ": no partition has shown that the source lived past the label"
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Record is what `gscd status` and /status print of a table.
func (s *Standing) Record() output.Record {
	p, cal, open := s.Progress, s.Calendar, s.Progress.State.Open
	held := heldOf(p)
	var sealed, holds, incomplete, owner any
	if s.LastSealed != "" {
		sealed = s.LastSealed
	}
	if s.Holds != "" {
		holds = s.Holds
	}
	if i := p.Incomplete; i != nil {
		incomplete = output.Record{{Name: "since", Value: cal.Name(i.Since)}, {Name: "reason", Value: i.Reason}}
	}
	if p.Owner != "" {
		owner = output.Record{{Name: "name", Value: p.Owner}, {Name: "epoch", Value: p.OwnerEpoch}, {Name: "since", Value: ownedSince(p)}}
	}
	return output.Record{
		{Name: "table", Value: s.Name},
		{Name: "address", Value: s.Address},
		{Name: "version", Value: s.Version},
		{Name: "open", Value: cal.Name(open)},
		{Name: "open_since", Value: s.OpenSince},
		{Name: "starts", Value: time.UnixMicro(cal.Start(open))},
		{Name: "ends", Value: time.UnixMicro(cal.End(open))},
		{Name: "last_sealed", Value: sealed},
		{Name: "held_back_by", Value: holds},
		{Name: "incomplete", Value: incomplete},
		{Name: "rows", Value: p.Rows},
		{Name: "held_records", Value: held.records},
		{Name: "held_files", Value: held.files},
		{Name: "held_bytes", Value: held.bytes},
		{Name: "dead_letters", Value: deadLetters(p)},
		{Name: "owner", Value: owner},
		{Name: "last_commit", Value: output.Record{
			{Name: "version", Value: s.LastCommit}, {Name: "at", Value: s.Committed},
			{Name: "kind", Value: string(p.Kind)}, {Name: "label", Value: p.Label},
		}},
		{Name: "clock", Value: s.Clock.Truncate(time.Second)},
		{Name: "partitions", Value: s.PartitionRecords()},
		{Name: "totals", Value: FatesRecord(p)},
	}
}

// PartitionRecords are the partitions of a table, all with the same names.
func (s *Standing) PartitionRecords() []output.Record {
	known := func(n int64) any {
		if n < 0 {
			return nil
		}
		return n
	}
	var out []output.Record
	for _, p := range s.Partitions {
		var watermark any
		if p.Watermark != snapshotter.NoTime {
			watermark = time.UnixMicro(p.Watermark)
		}
		out = append(out, output.Record{
			{Name: "topic", Value: p.Topic},
			{Name: "partition", Value: p.Kafka},
			{Name: "next", Value: p.Next},
			{Name: "end", Value: known(p.End)},
			{Name: "lag", Value: known(p.Lag)},
			{Name: "watermark", Value: watermark},
			{Name: "paused", Value: p.Paused},
			{Name: "waits_for", Value: p.WaitsFor},
			{Name: "holds_since", Value: p.HoldsSince},
		})
	}
	return out
}

// FatesRecord shows that nothing is lost: the fates add up to what was taken
// (missing is 0), and with the holes to the offsets that the partitions have passed.
func FatesRecord(p *progress.Progress) output.Record {
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

// held is what waits for later labels.
type held struct{ records, files, bytes int64 }

func heldOf(p *progress.Progress) (h held) {
	for _, f := range p.Held {
		h.records += f.Count - f.Applied
		h.bytes += f.Bytes
		h.files++
	}
	return h
}

// deadLetters are those that some label lacks: neither replayed, nor superseded, nor dismissed.
func deadLetters(p *progress.Progress) (n int64) {
	for _, of := range p.DeadLetters {
		n += of
	}
	return n
}

// ownedSince is when the owner epoch was raised last.
func ownedSince(p *progress.Progress) time.Time {
	if len(p.Raised) == 0 {
		return time.Time{}
	}
	return time.UnixMilli(p.Raised[len(p.Raised)-1])
}
