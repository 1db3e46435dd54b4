package snapshotter

import "github.com/gscd-io/gscd/ingest/change"

// Rank orders what stands at one position of a line: a change is newer than a
// read made there, and a read newer than the floor of its own load.
type Rank uint8

// The ranks, oldest first.
const (
	RankFloor Rank = iota
	RankRead
	RankChange
)

// Meta is where a change, read or floor stands in the source's order.
type Meta struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
	// Line indexes State.Lines.
	Line int32 `json:"line"`
	// Position, where HasPosition is set; Row alone of a record of several rows
	// without one: they have the same Offset.
	Position    change.Position `json:"position"`
	HasPosition bool            `json:"has_position,omitempty"`
	Rank        Rank            `json:"rank"`
	// Time in microseconds since 1970 UTC, after replacement.
	Time int64 `json:"time"`
}

// Newer reports whether a stands behind b in the source's order (rule 7):
// on one partition by offset, on one line by position, between two lines on
// two partitions by event time. Without positions the order is arrival, and
// Newer takes a as the one that has just arrived.
func Newer(a, b Meta) bool {
	if !a.HasPosition || !b.HasPosition {
		return a.Partition != b.Partition || a.Offset > b.Offset || a.Offset == b.Offset && a.Position.Row > b.Position.Row
	}
	if a.Partition == b.Partition {
		if a.Line != b.Line || a.Rank == RankChange && b.Rank == RankChange {
			return a.Offset > b.Offset || a.Offset == b.Offset && a.Position.Compare(b.Position) > 0 // rows of one record
		}
	} else if a.Line != b.Line {
		switch {
		case a.Time != b.Time:
			return a.Time > b.Time
		case a.Rank != b.Rank:
			return a.Rank > b.Rank
		case a.Partition != b.Partition:
			return a.Partition > b.Partition
		}
		return a.Offset > b.Offset
	}
	if c := a.Position.Compare(b.Position); c != 0 {
		return c > 0
	}
	return a.Rank > b.Rank
}

// NewerReplayed is Newer for a change a that was set aside when it was taken, and
// has not just arrived. Without positions the event time decides between two
// partitions. On one partition a stands in front of a position that is behind
// its own: then it was delivered again, or the source's later change would have
// come first.
func NewerReplayed(a, b Meta) bool {
	switch same := a.Partition == b.Partition; {
	case !a.HasPosition || !b.HasPosition:
		if !same {
			return a.Time > b.Time
		}
	case same && a.Line == b.Line && a.Position.Compare(b.Position) < 0:
		return false
	}
	return Newer(a, b)
}
