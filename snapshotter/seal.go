package snapshotter

import "slices"

// End is what the broker said of one partition: at a clock reading At
// (microseconds, taken before it was asked) its high watermark was Offset.
type End struct {
	Partition *Partition
	Offset    int64
}

// Rule is why a partition agrees to a seal.
type Rule string

// The two rules: its watermark is past the label and the wait, or it was read
// to the end at a late enough clock reading. ByHand is neither: a person said so.
const (
	ByWatermark Rule = "watermark"
	ByClock     Rule = "clock"
	ByHand      Rule = "hand"
)

// Decision is the answer to "may the open label be sealed?".
type Decision struct {
	Seal bool
	// Rules gives each partition's rule where Seal is true.
	Rules map[int32]Rule
	// Reason says what holds the seal back, where Seal is false; Waiting
	// numbers the partitions that do.
	Reason  string
	Waiting []int32
}

// MaySeal applies the rule of section 4 to the open label. ends holds every
// partition that fresh metadata knows, all read at one moment; at is the
// reader's clock before the broker was asked, idle is drift.idle; both in
// microseconds. Nothing may be due for release when it is asked.
func (j *Judge) MaySeal(ends []End, at, idle int64) Decision {
	s := j.State
	end := j.cal.End(s.Open)
	if at < end {
		return Decision{Reason: "the clock has not reached the end of the label"}
	}
	if slices.ContainsFunc(s.Loads, func(l *Load) bool { return l.Label == s.Open && !l.Written }) {
		return Decision{Reason: "a load is under way"}
	}
	d := Decision{Seal: true, Rules: make(map[int32]Rule, len(ends))}
	byClock := at >= end+s.Wait+idle
	for _, e := range ends {
		switch {
		case j.Paused(e.Partition):
			d.Rules[e.Partition.Number] = ByWatermark
		case byClock && e.Partition.Next >= e.Offset:
			d.Rules[e.Partition.Number] = ByClock
		default:
			d.Seal = false
			d.Waiting = append(d.Waiting, e.Partition.Number)
		}
	}
	if !d.Seal {
		d.Rules = nil
		d.Reason = "a partition is neither past the label and drift.wait nor read to its end at a late enough clock reading"
	}
	return d
}

// Seal closes the open label and opens the next, whose drift.wait is wait (microseconds).
func (j *Judge) Seal(wait int64) {
	j.State.Open++
	j.State.Wait = wait
	j.Opened()
}

// LoadsToEnd gives the loads of the open label whose end may act now: flagged
// first and last, written in full, not ended, while every partition is paused or
// read to a high watermark that was reported after they were written. A load
// whose other flag is still on its way ends when that has come: so it does not
// matter which partition was read first.
func (j *Judge) LoadsToEnd() []*Load {
	var out []*Load
	for _, l := range j.State.Loads {
		if l.Label == j.State.Open && l.Written && l.Replaces() && !l.Ended {
			out = append(out, l)
		}
	}
	return out
}
