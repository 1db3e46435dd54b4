package server

import (
	"time"

	"github.com/gscd-io/gscd/query/output"
)

// Status is what /status answers, for those who ask: docs/openapi.yaml describes
// it. Times are UTC; what is not known is nil, zero for a time.
type Status struct {
	Version     string        `json:"version"`
	Started     time.Time     `json:"started"`
	BatchMemory MemoryStatus  `json:"batch_memory"`
	HeavyTasks  TasksStatus   `json:"heavy_tasks"`
	Tables      []TableStatus `json:"tables"`
	Group       *GroupStatus  `json:"group"`
}

// MemoryStatus is the budget of uncommitted batches.
type MemoryStatus struct {
	UsedBytes  int64 `json:"used_bytes"`
	LimitBytes int64 `json:"limit_bytes"`
}

// TasksStatus is how much heavy work goes on.
type TasksStatus struct {
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	Limit   int `json:"limit"`
}

// GroupStatus is the group of scale_out; only there is one in a Status.
type GroupStatus struct {
	Group      string              `json:"group"`
	Member     *string             `json:"member"`
	Leader     *string             `json:"leader"`
	Generation int32               `json:"generation"`
	Joined     bool                `json:"joined"`
	Error      *string             `json:"error"`
	Members    []GroupMemberStatus `json:"members"` // not with ?scope=pod
}

// GroupMemberStatus is a process of the group.
type GroupMemberStatus struct {
	Member  string             `json:"member"`
	Address *string            `json:"address"`
	Self    bool               `json:"self"`
	Error   *string            `json:"error"`
	Tables  []GroupTableStatus `json:"tables"`
}

// GroupTableStatus is a table where the plan has it; what its process has not told is nil.
type GroupTableStatus struct {
	Table          string    `json:"table"`
	Since          time.Time `json:"since"`
	WaitsForMember *string   `json:"waits_for_member"`
	State          *State    `json:"state"`
	Error          *string   `json:"error"`
	WaitsFor       *string   `json:"waits_for"`
	Version        *int64    `json:"version"`
	Open           *string   `json:"open"`
	LastSealed     *string   `json:"last_sealed"`
	HeldBackBy     *string   `json:"held_back_by"`
	Rows           *int64    `json:"rows"`
	Lag            *int64    `json:"lag"`
}

// TableStatus is one table. Of one that has not loaded its state, or does not
// exist yet, all from Version on but Address is nil or zero.
type TableStatus struct {
	Table     string     `json:"table"`
	State     State      `json:"state"`
	Since     time.Time  `json:"since"`
	Error     *string    `json:"error"`
	ErrorKind *Fault     `json:"error_kind"`
	WaitsFor  *string    `json:"waits_for"`
	Why       *WhyStatus `json:"why"`
	Address   string     `json:"address"`

	Version     *int64            `json:"version"`
	Open        *string           `json:"open"`
	OpenSince   *time.Time        `json:"open_since"`
	Starts      *time.Time        `json:"starts"`
	Ends        *time.Time        `json:"ends"`
	LastSealed  *string           `json:"last_sealed"`
	HeldBackBy  *string           `json:"held_back_by"`
	Incomplete  *IncompleteStatus `json:"incomplete"`
	Rows        *int64            `json:"rows"`
	HeldRecords *int64            `json:"held_records"`
	HeldFiles   *int64            `json:"held_files"`
	HeldBytes   *int64            `json:"held_bytes"`
	DeadLetters *int64            `json:"dead_letters"`
	Owner       *OwnerStatus      `json:"owner"`
	LastCommit  *CommitStatus     `json:"last_commit"`
	Clock       *time.Time        `json:"clock"`
	Partitions  []PartitionStatus `json:"partitions"`
	Totals      *TotalsStatus     `json:"totals"`
}

// WhyStatus is what holds the seal of the open label back.
type WhyStatus struct {
	Answer   string        `json:"answer"`
	Earliest *time.Time    `json:"earliest"`
	ByClock  *time.Time    `json:"by_clock"`
	Causes   []CauseStatus `json:"causes"`
}

// CauseStatus is one thing that holds it back.
type CauseStatus struct {
	Rule      Rule       `json:"rule"`
	Topic     *string    `json:"topic"`
	Partition *int32     `json:"partition"`
	Since     *time.Time `json:"since"`
	Earliest  *time.Time `json:"earliest"`
	Why       string     `json:"why"`
	Do        string     `json:"do"`
}

// IncompleteStatus says since which label days may lack rows, and why.
type IncompleteStatus struct {
	Since  string `json:"since"`
	Reason string `json:"reason"`
}

// OwnerStatus is who has the table.
type OwnerStatus struct {
	Name  string     `json:"name"`
	Epoch int64      `json:"epoch"`
	Since *time.Time `json:"since"`
}

// CommitStatus is the last commit of gscd.
type CommitStatus struct {
	Version int64      `json:"version"`
	At      *time.Time `json:"at"`
	Kind    string     `json:"kind"`
	Label   string     `json:"label"`
}

// PartitionStatus is one partition.
type PartitionStatus struct {
	Topic      string     `json:"topic"`
	Partition  int32      `json:"partition"`
	Next       int64      `json:"next"`
	End        *int64     `json:"end"`
	Lag        *int64     `json:"lag"`
	Watermark  *time.Time `json:"watermark"`
	Paused     bool       `json:"paused"`
	WaitsFor   string     `json:"waits_for"`
	HoldsSince *time.Time `json:"holds_since"`
}

// TotalsStatus counts the records of the table by their fate.
type TotalsStatus struct {
	Taken       int64 `json:"taken"`
	Applied     int64 `json:"applied"`
	Superseded  int64 `json:"superseded"`
	Duplicates  int64 `json:"duplicates"`
	Tombstones  int64 `json:"tombstones"`
	Filtered    int64 `json:"filtered"`
	DeadLetters int64 `json:"dead_letters"`
	Held        int64 `json:"held"`
	Missing     int64 `json:"missing"`
	Holes       int64 `json:"holes"`
	Offsets     int64 `json:"offsets"`
}

// Record is what /status prints of it, a WhyStatus.
func (w *Why) Record() output.Record {
	causes := []output.Record{}
	for i := range w.Causes {
		causes = append(causes, w.Causes[i].Record())
	}
	return output.Record{
		{Name: "answer", Value: w.Answer()},
		{Name: "earliest", Value: w.Earliest},
		{Name: "by_clock", Value: w.ByClock},
		{Name: "causes", Value: causes},
	}
}

// Record is a CauseStatus.
func (c *Cause) Record() output.Record {
	var topic, partition any
	if c.Partition != nil {
		topic, partition = c.Partition.Topic, c.Partition.Partition
	}
	return output.Record{
		{Name: "rule", Value: string(c.Rule)},
		{Name: "topic", Value: topic},
		{Name: "partition", Value: partition},
		{Name: "since", Value: c.Since},
		{Name: "earliest", Value: c.Earliest},
		{Name: "why", Value: c.Text},
		{Name: "do", Value: c.Do},
	}
}

// process is what the server knows of a table beside its standing.
func (t *table) process(now time.Time, limit time.Duration) *Process {
	state, err, since := t.now()
	p := &Process{State: state, Since: since, Err: err, Waits: t.waits(now), Queued: t.inQueue.Load()}
	if silent := t.stalled(now); silent > limit {
		p.Silent = silent
	}
	return p
}

// why judges a table of the server; nil where it runs and no record has come yet.
func (s *Server) why(t *table, standing *Standing) *Why {
	process := t.process(time.Now(), s.o.stalledAfter)
	if standing != nil {
		return standing.Why(process)
	}
	if causes := processCauses(process, t.Name); causes != nil {
		return &Why{Causes: causes}
	}
	return nil
}
