package server

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/snapshotter"
)

// Rule names what is missing for a seal. Scripts may rely on the names.
type Rule string

// The rules. They stand in the order in which an engineer should look at them.
const (
	RuleError       Rule = "error"            // the table has stopped with an error
	RuleNoProcess   Rule = "no_process"       // nobody takes records
	RuleSilent      Rule = "silent"           // the process does not go on
	RuleNotLoaded   Rule = "loading"          // it loads its state
	RuleWaits       Rule = "waits"            // it waits for what does not answer
	RuleQueued      Rule = "queued"           // other tables seal first
	RuleGone        Rule = "partition_gone"   // a partition has left the topics
	RuleTransaction Rule = "open_transaction" // a producer has left one open
	RuleBehind      Rule = "behind"           // records wait in the topic
	RuleHeld        Rule = "held"             // held changes are applied first
	RuleLoad        Rule = "load"             // a load is under way
	RuleClock       Rule = "label_not_over"   // the clock is before the label's end
	RuleIdle        Rule = "idle"             // read to the end, and the clock is before drift.idle
	RuleWatermark   Rule = "watermark"        // below end + drift.wait, and the end is not known
	RuleProof       Rule = "proof"            // seal.proof
)

// Cause is one thing that keeps the open label from being sealed.
type Cause struct {
	Rule Rule
	// Partition is nil for what concerns no single one.
	Partition *change.PartitionID
	// Since is when it began to, zero where that is not known; Earliest when it
	// can end by itself, zero where nothing tells.
	Since, Earliest time.Time
	// Text is one sentence, Do what to do about it.
	Text, Do string
}

// Process is what is known of the process that runs a table.
type Process struct {
	State State
	Since time.Time
	Err   error
	Waits []ingest.Wait
	// Silent is for how long nothing was heard of the table, 0 where that is no fault.
	Silent time.Duration
	// Queued tells that it waits for its turn to do heavy work.
	Queued bool
}

// Why says what holds the seal of the open label back.
type Why struct {
	Causes []Cause
	// Earliest is the first moment at which the label can be sealed, if every
	// partition shows by its changes that the label is over; ByClock when it is
	// sealed where every partition is read to its end. Zero where that is not known.
	Earliest, ByClock time.Time
	// Unknown is what could not be known, a sentence each.
	Unknown []string
}

// Answer is one sentence: the first cause, or that there is none.
func (w *Why) Answer() string {
	if len(w.Causes) == 0 {
		return "Nothing holds it: it is sealed with the next round of the process."
	}
	return w.Causes[0].Text
}

// noCommitFor is for how long records may wait without a commit: half as long
// again as batch.max_interval is by default.
const noCommitFor = 15 * time.Minute

// dueFor is for how long a seal may be due until somebody must have stopped.
const dueFor = 5 * time.Minute

// mostPartitions bounds the partitions that are named one by one.
const mostPartitions = 10

// Why judges what holds the seal back. process is nil where none was asked:
// then only what the table and its source say is known.
func (s *Standing) Why(process *Process) *Why {
	w := &Why{ByClock: s.Due()}
	if s.Idle < 0 {
		w.ByClock = time.Time{}
		w.Unknown = append(w.Unknown, "drift.idle is not known without the table's configuration (-c FILE): from when on a quiet partition counts as idle is not either.")
	}
	if !s.Asked {
		w.Unknown = append(w.Unknown, "How many records wait in the topic is not known: no broker was asked, or none answered.")
	}
	if process != nil {
		w.Causes = append(w.Causes, processCauses(process, s.Name)...)
	} else {
		w.Unknown = append(w.Unknown, "No process was asked: whether one runs, has stopped with an error, or waits for something is not in the table (--from http://HOST:PORT asks it).")
	}
	data := s.dataCauses()
	w.Causes = append(w.Causes, data...)
	if stopped := s.noCommit(data); stopped != nil && process == nil {
		w.Causes = append([]Cause{*stopped}, w.Causes...)
	}
	w.Earliest = s.earliest(w.Causes)
	return w
}

// dataCauses are those that offsets, watermarks and the clock tell.
func (s *Standing) dataCauses() (causes []Cause) {
	causes = append(causes, s.goneCauses()...)
	causes = append(causes, s.lagCauses()...)
	state := &s.Progress.State
	if n := s.heldForOpen(); n > 0 {
		causes = append(causes, Cause{Rule: RuleHeld,
			Text: fmt.Sprintf("%d changes that were held for this label are still to be applied, before any further record is taken.", n),
			Do:   "Nothing while a process runs: it applies them with its next commits."})
	}
	for _, l := range state.Loads {
		if l.Label == state.Open && !l.Written {
			causes = append(causes, Cause{Rule: RuleLoad,
				Text: fmt.Sprintf("A load of the source's rows is under way (reads of %s on %d partitions), and its last row has not come.", connector(l), len(l.On)),
				Do:   "See that the connector goes on with its snapshot. Where the format marks no last row, the load ends when all is read and drift.idle has passed."})
		}
	}
	end := time.UnixMicro(s.Calendar.End(state.Open))
	if s.Clock.Before(end) {
		return append(causes, Cause{Rule: RuleClock, Earliest: end,
			Text: fmt.Sprintf("The label is not over: it ends at %s, in %s.", rfc3339(end), ago(end.Sub(s.Clock))),
			Do: fmt.Sprintf("Nothing. After its end it is sealed when every partition has brought a change at or after %s, or is read to its end%s.",
				rfc3339(time.UnixMicro(s.judge.Pause())), s.atDue())})
	}
	causes = append(causes, s.quietCauses()...)
	if len(causes) == 0 && s.missingProof() != "" {
		causes = append(causes, Cause{Rule: RuleProof, Since: s.Due(),
			Text: fmt.Sprintf("seal.proof is %s, and no partition has brought anything at or after %s: nothing shows that the source lived past the label.", s.Proof, rfc3339(end)),
			Do:   "See that the connector lives, and that its heartbeats arrive (heartbeat.interval.ms). Where the source is known to be complete, `gscd seal LABEL --force` closes the label by hand."})
	}
	return causes
}

func connector(l *snapshotter.Load) string {
	if l.Server.Name == "" {
		return "the source"
	}
	return l.Server.Name
}

// atDue is when idle partitions agree, where it is known.
func (s *Standing) atDue() string {
	if s.Idle < 0 {
		return " at a clock drift.idle past that"
	}
	return " at a clock of " + rfc3339(s.Due())
}

// goneCauses name the partitions that the source does not know any more.
func (s *Standing) goneCauses() (causes []Cause) {
	if !s.Asked || len(s.Ends) == 0 {
		return nil
	}
	for _, p := range s.Partitions {
		if p.End < 0 {
			id := p.ID()
			causes = append(causes, Cause{Rule: RuleGone, Partition: &id,
				Text: fmt.Sprintf("Partition %s of the table is not in its topic any more.", id),
				Do:   "Was the topic created again, or has it fewer partitions? `gscd seal LABEL --force` closes the label without it, and marks it and all later ones incomplete."})
		}
	}
	return causes
}

// lagCauses name the partitions with records to read, the furthest behind first.
func (s *Standing) lagCauses() (causes []Cause) {
	var behind []PartitionStanding
	for _, p := range s.Partitions {
		if p.Lag > 0 && !p.Paused {
			behind = append(behind, p)
		}
	}
	slices.SortStableFunc(behind, func(a, b PartitionStanding) int { return int(min(1, max(-1, b.Lag-a.Lag))) })
	for i, p := range behind {
		if i == mostPartitions {
			var rest int64
			for _, p := range behind[i:] {
				rest += p.Lag
			}
			return append(causes, Cause{Rule: RuleBehind, Text: fmt.Sprintf("%d more partitions are behind, by %d records together.", len(behind)-i, rest), Do: "The same as for the others."})
		}
		id := p.ID()
		c := Cause{Rule: RuleBehind, Partition: &id, Since: p.HoldsSince,
			Text: fmt.Sprintf("Partition %s is behind: %s to be read, from offset %d to %d", id, recordsLeft(p.Lag), p.Next, p.End),
			Do:   "Ask again, and see whether the lag falls. Where it stands, the process's log says why; where it grows, see GscdLagGrows in docs/runbooks.md. A partition that can never be read again: `gscd seal LABEL --force --accept-behind " + id.String() + "`."}
		if s.inTransaction(p.Partition) {
			c.Rule = RuleTransaction
			c.Text = fmt.Sprintf("Partition %s has an open transaction at offset %d: nothing behind it is read, %s", id, p.Next, recordsLeft(p.Lag))
			c.Do = "Its producer has to end it, or the broker does at transaction.timeout.ms; `kafka-transactions.sh find-hanging` finds one that nobody ends."
		}
		if !c.Since.IsZero() {
			c.Text += fmt.Sprintf("; it has held the seal back since %s (%s)", rfc3339(c.Since), ago(s.Clock.Sub(c.Since)))
		}
		c.Text += "."
		causes = append(causes, c)
	}
	return causes
}

// quietCauses are of partitions that are read to their end, as far as is known.
func (s *Standing) quietCauses() (causes []Cause) {
	var idle, unknown []PartitionStanding
	for _, p := range s.Partitions {
		switch {
		case p.Paused || p.Lag > 0 || s.Asked && p.End < 0:
		case p.Lag == 0 && s.Idle >= 0 && !s.Clock.Before(s.Due()): // it agrees by the clock
		case p.Lag == 0:
			idle = append(idle, p)
		default:
			unknown = append(unknown, p)
		}
	}
	pause := rfc3339(time.UnixMicro(s.judge.Pause()))
	if len(idle) > 0 {
		c := Cause{Rule: RuleIdle, Partition: only(idle),
			Text: fmt.Sprintf("%s read to the end, and %s brought no change at or after %s yet", named(idle, "is", "are"), one(idle, "has", "have"), pause),
			Do:   "Nothing: a later change seals the label at once, and without one the clock does."}
		if s.Idle < 0 {
			c.Text += fmt.Sprintf(": %s as idle at a clock drift.idle past that.", one(idle, "it counts", "they count"))
		} else {
			c.Earliest = s.Due()
			c.Text += fmt.Sprintf(": without one %s as idle from %s on, in %s.", one(idle, "it counts", "they count"), rfc3339(s.Due()), ago(s.Due().Sub(s.Clock)))
		}
		causes = append(causes, c)
	}
	if len(unknown) > 0 {
		causes = append(causes, Cause{Rule: RuleWatermark, Partition: only(unknown),
			Text: fmt.Sprintf("%s not past the label: the watermark (%s) is below %s, and whether records wait in the topic is not known.",
				named(unknown, "is", "are"), s.lowest(unknown), pause),
			Do: "Ask the brokers (kafka.brokers in the configuration, -c FILE) or the process (--from http://HOST:PORT): they tell whether it is behind or quiet."})
	}
	return causes
}

// noCommit tells, from the table and its source alone, that nobody takes records.
func (s *Standing) noCommit(data []Cause) *Cause {
	if s.Committed.IsZero() {
		return nil
	}
	silent := s.Clock.Sub(s.Committed)
	behind := slices.ContainsFunc(data, func(c Cause) bool { return c.Rule == RuleBehind })
	due := s.Asked && len(data) == 0 && s.Overdue() > dueFor
	if silent < noCommitFor || !behind && !due {
		return nil
	}
	text := "Records wait"
	if due {
		text = fmt.Sprintf("By the table and its topic the label could have been sealed at %s", rfc3339(s.Due()))
	}
	return &Cause{Rule: RuleNoProcess, Since: s.Committed,
		Text: fmt.Sprintf("%s, and the last commit was made at %s (%s ago): the process does not run, or stands still.", text, rfc3339(s.Committed), ago(silent)),
		Do:   "Is `gscd ingest` running? " + s.lastOwner() + " Ask it with --from http://HOST:PORT."}
}

// lastOwner names who had the table last.
func (s *Standing) lastOwner() string {
	if s.Progress.Owner == "" {
		return ""
	}
	return fmt.Sprintf("The last one to have the table was %s.", s.Progress.Owner)
}

// processCauses are those that only the process knows.
func processCauses(p *Process, table string) (causes []Cause) {
	switch {
	case p.State == Failed:
		causes = append(causes, Cause{Rule: RuleError, Since: p.Since,
			Text: fmt.Sprintf("The table has stopped with an error at %s: %s", rfc3339(p.Since), sentence(errorText(p.Err))), Do: advice[FaultOf(p.Err)]})
	case p.State == Ended:
		causes = append(causes, Cause{Rule: RuleNoProcess, Since: p.Since,
			Text: fmt.Sprintf("The process has ended its work on table %s at %s.", table, rfc3339(p.Since)), Do: "Start `gscd ingest` again."})
	case p.State == Waiting && p.Err != nil:
		causes = append(causes, Cause{Rule: RuleError, Since: p.Since,
			Text: fmt.Sprintf("The table meets an error again and again, and is started again each time: %s", sentence(errorText(p.Err))), Do: advice[PassingFault]})
	case p.State == Waiting:
		causes = append(causes, Cause{Rule: RuleNotLoaded, Since: p.Since,
			Text: fmt.Sprintf("The process loads the table's state, since %s.", rfc3339(p.Since)), Do: "Nothing: a large index takes minutes. `gscd_heavy_tasks_waiting` tells whether other tables come first."})
	}
	if p.Silent > 0 {
		causes = append(causes, Cause{Rule: RuleSilent,
			Text: fmt.Sprintf("Nothing was heard of the table for %s: its work stands still.", ago(p.Silent)),
			Do:   "Keep the log, and start the process again; a liveness probe on /healthz does that by itself."})
	}
	for _, w := range p.Waits {
		text := fmt.Sprintf("The process waits for %s, since %s", w.For, rfc3339(w.Since))
		if w.Err != nil {
			text += ": " + w.Err.Error()
		}
		causes = append(causes, Cause{Rule: RuleWaits, Since: w.Since, Text: sentence(text), Do: waitAdvice(w.For)})
	}
	if p.Queued {
		causes = append(causes, Cause{Rule: RuleQueued,
			Text: "The table waits for its turn: other tables of the process seal, or build an index, first.",
			Do:   "Nothing. Where it is so each night, raise process.heavy_tasks together with the CPUs."})
	}
	return causes
}

func errorText(err error) string {
	if err == nil {
		return "unknown"
	}
	return err.Error()
}

func waitAdvice(what string) string {
	if what == ingest.ForTurn {
		return "Processes take the table from each other: see that only one of them has it in its configuration."
	}
	return "Look after " + what + ": the table goes on by itself when it answers. If it answers others, look at this process's network, DNS and credentials."
}

// heldForOpen counts the held changes that belong to the open label.
func (s *Standing) heldForOpen() (n int64) {
	state := &s.Progress.State
	for _, f := range s.Progress.Held {
		label := f.Label
		if f.Load != nil {
			label = state.Open // its load is long over
			for _, l := range state.Loads {
				if l.Line == f.Load.Line && l.Position == f.Load.Position {
					label = l.Label
				}
			}
		}
		if label <= state.Open {
			n += f.Count - f.Applied
		}
	}
	return n
}

// earliest is the first moment at which the label can be sealed; zero where a
// cause ends only when somebody, or the source, does something.
func (s *Standing) earliest(causes []Cause) time.Time {
	at := time.UnixMicro(s.Calendar.End(s.Progress.State.Open))
	for _, p := range s.Partitions {
		if pause := time.UnixMicro(s.judge.Pause()); !p.Paused && pause.After(at) {
			at = pause // no change of that time is there before
		}
	}
	for _, c := range causes {
		switch c.Rule {
		case RuleError, RuleNoProcess, RuleSilent, RuleGone, RuleTransaction, RuleProof, RuleWaits:
			return time.Time{}
		}
	}
	if s.Clock.After(at) {
		return s.Clock
	}
	return at
}

// lowest is the lowest watermark of some partitions, for people.
func (s *Standing) lowest(list []PartitionStanding) string {
	low := slices.MinFunc(list, func(a, b PartitionStanding) int { return int(min(1, max(-1, a.Watermark-b.Watermark))) })
	if low.Watermark == snapshotter.NoTime {
		return "none: it has brought no change yet"
	}
	return rfc3339(time.UnixMicro(low.Watermark))
}

// only is the partition of a list of one.
func only(list []PartitionStanding) *change.PartitionID {
	if len(list) != 1 {
		return nil
	}
	id := list[0].ID()
	return &id
}

// named begins a sentence with partitions.
func named(list []PartitionStanding, singular, plural string) string {
	var ids []string
	for _, p := range list[:min(len(list), mostPartitions)] {
		ids = append(ids, p.ID().String())
	}
	if len(list) == 1 {
		return "Partition " + ids[0] + " " + singular
	}
	text := "Partitions " + strings.Join(ids, ", ")
	if more := len(list) - len(ids); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + " " + plural
}

func one(list []PartitionStanding, singular, plural string) string {
	if len(list) == 1 {
		return singular
	}
	return plural
}

func recordsLeft(n int64) string {
	if n == 1 {
		return "1 record is still"
	}
	return fmt.Sprintf("%d records are still", n)
}

// ago is a duration for people: the two largest units.
func ago(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d >= 24*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return d.String()
}

// sentence ends a text with a full stop.
func sentence(text string) string {
	if strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}
