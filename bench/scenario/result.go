package scenario

import "encoding/json"

// Result is what was measured. What does not apply is 0.
type Result struct {
	// Unit is what Done counts.
	Unit string `json:"unit"`
	Done int64  `json:"done"`
	// Seconds on the clock, and of the processors in user and system mode. Source is that of
	// making events in the process, which is not in the other two.
	Seconds   float64 `json:"seconds"`
	CPUUser   float64 `json:"cpu_user_seconds"`
	CPUSystem float64 `json:"cpu_system_seconds"`
	CPUSource float64 `json:"source_cpu_seconds"`
	// PeakRSS is the most resident memory of the process, in bytes.
	PeakRSS int64 `json:"peak_rss_bytes"`
	// Allocations of the Go heap: objects and bytes.
	Allocations    int64 `json:"allocations"`
	AllocatedBytes int64 `json:"allocated_bytes"`
	// GCShare is the garbage collector's share of the process's processor time, 0 to 1.
	GCShare float64 `json:"gc_cpu_share"`

	Requests     Requests `json:"requests"`
	BytesRead    int64    `json:"bytes_read"`
	BytesWritten int64    `json:"bytes_written"`
	// BytesStored are all bytes at the end, Files the live data files.
	BytesStored int64 `json:"bytes_stored"`
	Files       int   `json:"files"`
	// Commits, of them Seals; OwnBytes are the data files that batches have added, for
	// which BytesWritten were written.
	Commits  int64 `json:"commits"`
	Seals    int64 `json:"seals"`
	OwnBytes int64 `json:"own_bytes"`

	// Latency in milliseconds, from an event's time stamp to the end of the commit that
	// brings it, or of one query.
	Latency *Latency `json:"latency_ms,omitempty"`

	// Rows that were compared with the model, and their sum, see bench.Checked.
	Rows     int64 `json:"rows"`
	Checksum int64 `json:"checksum"`
	Checked  bool  `json:"checked"`
	// Answers are what queries gave, until they are checked.
	Answers []Answer `json:"answers,omitempty"`
	// FirstVersion is the table's before the clock started, -1 for none.
	FirstVersion int64 `json:"first_version"`
}

// Requests are calls to the storage by kind. A ranged read is a get, a list is one call.
type Requests struct {
	Get         int `json:"get"`
	Head        int `json:"head"`
	Put         int `json:"put"`
	PutIfAbsent int `json:"put_if_absent"`
	Delete      int `json:"delete"`
	List        int `json:"list"`
}

// Total gives all of them.
func (r Requests) Total() int { return r.Get + r.Head + r.Put + r.PutIfAbsent + r.Delete + r.List }

// Answer is a key and a cell, or two counts.
type Answer [2]int64

// Latency is a distribution.
type Latency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// CPU is the processor time in seconds.
func (r *Result) CPU() float64 { return r.CPUUser + r.CPUSystem }

// Per gives how many were done in a unit of time, 0 where there is none.
func (r *Result) Per(seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(r.Done) / seconds
}

// Encode gives the result as JSON.
func (r *Result) Encode() ([]byte, error) { return json.Marshal(r) }
