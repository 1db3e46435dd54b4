package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/gscd-io/gscd/bench"
	"github.com/gscd-io/gscd/delta/objstore"
)

// Spec is one scenario with its sizes. It is plain data: it goes to other processes.
type Spec struct {
	// Name is the scenario's.
	Name   string       `json:"name"`
	Params bench.Params `json:"params"`
	// Table is the address of the scenario's own table, Scratch a local folder.
	Table   string `json:"table"`
	Scratch string `json:"scratch"`
	// Batch is the records of a batch, Batches how many there are.
	Batch   int `json:"batch"`
	Batches int `json:"batches"`
	// Decoders is how many goroutines decode.
	Decoders int `json:"decoders"`
	// Brokers and Topic are where events come from; without brokers they are made in the
	// process itself. Partitions is how many the topic has.
	Brokers    []string `json:"brokers,omitempty"`
	Topic      string   `json:"topic,omitempty"`
	Partitions int      `json:"partitions"`
	// Cutover is when days begin, HH:MM; "" for midnight.
	Cutover string `json:"cutover,omitempty"`
	// Duration and Interval are how long a steady state lasts, and its batches.
	Duration time.Duration `json:"duration"`
	Interval time.Duration `json:"interval"`
	// Phase is one of Prepare, Run and Verify.
	Phase string `json:"phase"`
	// CPUProfile and MemProfile are files to write profiles of Run to; "" for none.
	CPUProfile string `json:"cpu_profile,omitempty"`
	MemProfile string `json:"mem_profile,omitempty"`
	// Result is what Run has measured, for Verify.
	Result *Result `json:"result,omitempty"`
}

// The phases.
const (
	Prepare = "prepare"
	Run     = "run"
	Verify  = "verify"
)

// events is how many there are.
func (s *Spec) events() int64 { return s.Params.Events }

// Env is what a process lends to a phase.
type Env struct {
	// Open opens the store of an address.
	Open func(ctx context.Context, address string) (objstore.Store, error)
}

// Scenario is one thing that can be measured.
type Scenario struct {
	Name string
	// Measures says what, in a line.
	Measures string
	// Unit is what is counted as done: events, rows, keys, files, queries.
	Unit string
	// Ceiling is the scenario that does a part of this one's work and nothing else, with
	// events made in the process, and BrokerCeiling the same through a broker; "" for none.
	Ceiling, BrokerCeiling string
	// Rows is how many rows the table has where that is not up to the caller, else -1.
	Rows int64
	// Needs says what it can't do without.
	Needs Needs

	prepare func(ctx context.Context, s *Spec, env Env) error
	run     func(ctx context.Context, s *Spec, env Env, r *Result) error
	verify  func(ctx context.Context, s *Spec, env Env, r *Result) error
}

// Needs are what a scenario can't do without.
type Needs struct {
	// Events from the workload; Broker that brings them; Table to write to or read from;
	// Rows: a table of a size; Paced: events at a rate;
	// Prepared: events that were ingested before.
	Events, Broker, Table, Rows, Paced, Prepared bool
	// Days is over how many days events are spread at least.
	Days int
}

// Find gives the scenario of a name.
func Find(name string) (*Scenario, bool) {
	for i := range all {
		if all[i].Name == name {
			return &all[i], true
		}
	}
	return nil, false
}

// All are the scenarios in the order in which they are run.
func All() []Scenario { return all }

// Do runs one phase of a Spec. Run and Verify give a Result.
func Do(ctx context.Context, s *Spec, env Env) (*Result, error) {
	sc, ok := Find(s.Name)
	if !ok {
		return nil, fmt.Errorf("there is no scenario %q", s.Name)
	}
	switch s.Phase {
	case Prepare:
		if sc.prepare == nil {
			return nil, nil
		}
		return nil, sc.prepare(ctx, s, env)
	case Verify:
		if sc.verify == nil || s.Result == nil {
			return s.Result, nil
		}
		if err := sc.verify(ctx, s, env, s.Result); err != nil {
			return nil, err
		}
		return s.Result, nil
	}
	r := &Result{Unit: sc.Unit}
	stop, err := startProfiles(s)
	if err != nil {
		return nil, err
	}
	err = sc.run(ctx, s, env, r)
	if stopped := stop(); err == nil {
		err = stopped
	}
	return r, err
}
