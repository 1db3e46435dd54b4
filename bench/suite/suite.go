package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gscd-io/gscd/bench"
	"github.com/gscd-io/gscd/bench/broker"
	"github.com/gscd-io/gscd/bench/scenario"
	"github.com/gscd-io/gscd/delta/objstore"
)

// Options say what to run.
type Options struct {
	// Scenarios are their names, in any order.
	Scenarios []string
	// Params are those of all scenarios, but for Rows and Events.
	Params bench.Params
	// Rows and Batch are the sizes: each scenario is run with each. Rows are those of
	// scenarios whose tables have no fixed size.
	Rows    []int64
	Batch   []int
	Batches int
	// Repeat is how often each line is measured.
	Repeat   int
	Decoders int
	// Broker reads events from an embedded broker in a process of its own, Brokers from a
	// real cluster. Scenarios that are about a broker have one anyway.
	Broker     bool
	Brokers    []string
	Partitions int
	// Rate, Duration and Interval are those of a steady state.
	Rate               int
	Duration, Interval time.Duration
	// Table is where tables are made, an address; "" for a temporary folder. Keep leaves them.
	Table string
	Keep  bool
	// CPUProfiles and MemProfiles are folders for profiles, "" for none; ProfileText puts
	// them into words too.
	CPUProfiles, MemProfiles string
	ProfileText              bool
	// Version is gscd's.
	Version string

	// Command makes a child: this program with what leads to ServeScenario or ServeBroker.
	Command func(ctx context.Context, kind string) *exec.Cmd
	// Open opens the store of an address, to remove what was made there.
	Open func(ctx context.Context, address string) (objstore.Store, error)
	// Notice is told what is begun, and where tables stay.
	Notice func(format string, args ...any)
}

// Line is one scenario with one size, and what was measured.
type Line struct {
	Scenario *scenario.Scenario
	Spec     scenario.Spec
	// Results has one for each repeat.
	Results []*scenario.Result
	// Ceiling is the line that this one is held against, nil for none.
	Ceiling *Line
	// FeedBytes are those that the broker was filled with.
	FeedBytes int64
}

// Source says where the events are from.
func (l *Line) Source() string {
	switch {
	case !l.Scenario.Needs.Events:
		return "none"
	case l.Spec.Topic != "":
		return "broker"
	}
	return "process"
}

// Check gives every fault of the Options.
func (o *Options) Check() error {
	var faults []error
	for _, name := range o.Scenarios {
		if _, ok := scenario.Find(name); !ok {
			faults = append(faults, fmt.Errorf("scenario %q is unknown: --list names all", name))
		}
	}
	for _, limit := range []struct {
		what string
		n    int
	}{{"batches", o.Batches}, {"repeat", o.Repeat}, {"decoders", o.Decoders}, {"partitions", o.Partitions}, {"rate", o.Rate}} {
		if limit.n < 1 {
			faults = append(faults, fmt.Errorf("%s %d: give 1 or more", limit.what, limit.n))
		}
	}
	for _, batch := range o.Batch {
		if batch < 1 {
			faults = append(faults, fmt.Errorf("batch %d: give 1 or more", batch))
		}
		for _, rows := range o.Rows {
			p := o.Params
			p.Rows, p.Events = rows, int64(batch)*int64(o.Batches)
			faults = append(faults, p.Check())
			if (o.Broker || len(o.Brokers) > 0) && p.Events > broker.MaxEvents {
				faults = append(faults, fmt.Errorf("%d batches of %d are %d events: a broker is filled with at most %d", o.Batches, batch, p.Events, broker.MaxEvents))
			}
		}
	}
	if len(o.Batch) == 0 || len(o.Rows) == 0 {
		faults = append(faults, errors.New("give at least one number of rows and one size of a batch"))
	}
	if o.Partitions > 1 && !o.Broker && len(o.Brokers) == 0 {
		faults = append(faults, errors.New("several partitions need a broker"))
	}
	if o.ProfileText && o.CPUProfiles == "" && o.MemProfiles == "" {
		faults = append(faults, errors.New("a profile in words needs a folder for profiles"))
	}
	if o.Duration <= 0 || o.Interval <= 0 {
		faults = append(faults, fmt.Errorf("a steady state of %s with batches of %s: give more than 0", o.Duration, o.Interval))
	}
	return errors.Join(faults...)
}

// lines are what is to be run: the scenarios in their own order, with the ceilings that
// they are held against.
func (o *Options) lines() (out []*Line) {
	wanted := map[string]bool{}
	for _, name := range o.Scenarios {
		wanted[name] = true
		sc, _ := scenario.Find(name)
		wanted[o.ceilingOf(sc)] = true
	}
	for _, sc := range scenario.All() {
		if !wanted[sc.Name] {
			continue
		}
		rows := o.Rows
		if sc.Rows >= 0 {
			rows = []int64{sc.Rows}
		}
		if !sc.Needs.Rows { // one is as good as the other
			rows = rows[len(rows)-1:]
		}
		batches := o.Batch
		if !sc.Needs.Table && sc.Needs.Events {
			batches = batches[len(batches)-1:]
		}
		for _, n := range rows {
			for _, batch := range batches {
				out = append(out, &Line{Scenario: &sc, Spec: o.spec(&sc, n, batch)})
			}
		}
	}
	for _, l := range out {
		name := o.ceilingOf(l.Scenario)
		if i := slices.IndexFunc(out, func(c *Line) bool { return c.Scenario.Name == name }); i >= 0 {
			l.Ceiling = out[i]
		}
	}
	return out
}

func (o *Options) ceilingOf(sc *scenario.Scenario) string {
	if o.Broker || len(o.Brokers) > 0 || sc.Needs.Broker {
		return sc.BrokerCeiling
	}
	return sc.Ceiling
}

func (o *Options) spec(sc *scenario.Scenario, rows int64, batch int) scenario.Spec {
	s := scenario.Spec{
		Name: sc.Name, Params: o.Params, Batch: batch, Batches: o.Batches, Decoders: o.Decoders, Partitions: 1,
		Duration: o.Duration, Interval: o.Interval,
	}
	s.Params.Rows = rows
	if sc.Needs.Events || sc.Needs.Prepared {
		s.Params.Events = int64(batch) * int64(o.Batches)
	}
	s.Params.Days = max(s.Params.Days, sc.Needs.Days)
	if sc.Needs.Paced {
		s.Params.Rate, s.Params.Days = o.Rate, 1
		s.Params.Events = int64(o.Duration.Seconds() * float64(o.Rate))
	}
	if o.usesBroker(sc) {
		s.Partitions = o.Partitions
	}
	return s
}

func (o *Options) usesBroker(sc *scenario.Scenario) bool {
	return sc.Needs.Events && (sc.Needs.Broker || o.Broker || len(o.Brokers) > 0)
}

// Run runs all lines, one behind the other. What was measured before an error is given too.
func Run(ctx context.Context, o Options) (lines []*Line, m Machine, err error) {
	if err := o.Check(); err != nil {
		return nil, m, err
	}
	scratch, err := os.MkdirTemp("", "gscd-bench-")
	if err != nil {
		return nil, m, err
	}
	w := &workshop{o: &o, scratch: scratch, root: filepath.Join(scratch, "tables")}
	if o.Table != "" {
		w.root = strings.TrimRight(o.Table, "/") + "/gscd-bench-" + uuid.NewString()[:8]
	}
	defer func() { err = errors.Join(err, w.clear()) }()
	folder := scratch
	if !strings.Contains(o.Table, "://") && o.Table != "" {
		if err := os.MkdirAll(o.Table, 0o755); err != nil {
			return nil, m, err
		}
		folder = o.Table
	}
	m = ThisMachine(folder, o.Version)
	for _, dir := range []string{o.CPUProfiles, o.MemProfiles} {
		if dir != "" {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return nil, m, err
			}
		}
	}
	for _, l := range o.lines() {
		for n := range o.Repeat {
			if err := w.measure(ctx, l, n); err != nil {
				return lines, m, err
			}
		}
		lines = append(lines, l)
	}
	m.LoadEnd = Load()
	return lines, m, nil
}

// workshop is where a run makes its tables.
type workshop struct {
	o             *Options
	scratch, root string
	tables        []string
}

// title names a line in messages and files.
func (l *Line) title() string {
	name := l.Scenario.Name
	if l.Scenario.Needs.Rows && l.Scenario.Rows < 0 {
		name += fmt.Sprintf("-rows-%d", l.Spec.Params.Rows)
	}
	if l.Scenario.Needs.Table || !l.Scenario.Needs.Events {
		name += fmt.Sprintf("-batch-%d", l.Spec.Batch)
	}
	return name
}

// measure runs the phases of a line once.
func (w *workshop) measure(ctx context.Context, l *Line, n int) (err error) {
	s := l.Spec
	s.Scratch = w.scratch
	s.Table = w.root + "/" + l.title() + fmt.Sprintf("-%d", n+1)
	if s.Params.Rate > 0 { // days begin an hour before it, so that no midnight comes in between
		s.Params.Begin = time.Now().UnixMilli()
		s.Cutover = time.Now().UTC().Add(-time.Hour).Format("15:04")
	}
	w.o.Notice("%s%s", l.title(), again(n, w.o.Repeat))
	if l.Scenario.Needs.Table {
		w.tables = append(w.tables, s.Table)
	}
	if w.o.usesBroker(l.Scenario) {
		s.Topic = bench.Topic
		if len(w.o.Brokers) > 0 {
			s.Topic = "gscd-bench-" + uuid.NewString()
		}
	}
	s.Phase = scenario.Prepare
	if _, err := w.o.perform(ctx, s); err != nil {
		return err
	}
	if s.Params.Rate > 0 {
		s.Params.Begin = time.Now().Add(settle).UnixMilli()
	}
	topic, closeTopic, err := w.feed(ctx, l, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeTopic()) }()
	s.Brokers, l.FeedBytes = topic.Brokers, topic.Bytes
	s.Phase = scenario.Run
	if w.o.CPUProfiles != "" {
		s.CPUProfile = filepath.Join(w.o.CPUProfiles, l.title()+".cpu.pprof")
	}
	if w.o.MemProfiles != "" {
		s.MemProfile = filepath.Join(w.o.MemProfiles, l.title()+".mem.pprof")
	}
	r, err := w.o.perform(ctx, s)
	if err != nil {
		return err
	}
	if w.o.ProfileText {
		for _, name := range []string{s.CPUProfile, s.MemProfile} {
			if name == "" {
				continue
			}
			if _, err := profileText(name); err != nil {
				return err
			}
		}
	}
	s.CPUProfile, s.MemProfile = "", ""
	s.Phase, s.Result = scenario.Verify, r
	if r, err = w.o.perform(ctx, s); err != nil {
		return err
	}
	l.Spec.Topic = s.Topic
	l.Results = append(l.Results, r)
	if !w.o.Keep {
		return w.remove(s.Table)
	}
	return nil
}

// settle is how long it takes at most until what is measured waits for the first event of a
// paced workload.
const settle = 2 * time.Second

func again(n, of int) string {
	if of == 1 {
		return ""
	}
	return fmt.Sprintf(", %d of %d", n+1, of)
}

// feed starts the process that brings a line's events, where it has one.
func (w *workshop) feed(ctx context.Context, l *Line, s scenario.Spec) (f feed, end func() error, err error) {
	if s.Topic == "" {
		return f, func() error { return nil }, nil
	}
	c, err := start(ctx, w.o.Command, BrokerChild, broker.Options{Params: s.Params, Topic: s.Topic, Partitions: s.Partitions, Brokers: w.o.Brokers})
	if err != nil {
		return f, nil, err
	}
	if err := c.hear(&f); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return f, nil, fmt.Errorf("%s: %w", l.title(), err)
	}
	return f, func() error {
		if err := c.end(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("the broker's process: %w", err)
		}
		return nil
	}, nil
}

// clear removes what was made.
func (w *workshop) clear() error {
	var faults []error
	if w.o.Keep {
		for _, table := range w.tables {
			w.o.Notice("kept: %s", table)
		}
		if w.o.Table == "" {
			return nil
		}
	} else {
		for _, table := range slices.Clone(w.tables) {
			faults = append(faults, w.remove(table))
		}
		if w.o.Table != "" && !strings.Contains(w.root, "://") {
			faults = append(faults, os.RemoveAll(w.root))
		}
	}
	return errors.Join(append(faults, os.RemoveAll(w.scratch))...)
}

// remove deletes a table that was made here, also after an interrupt.
func (w *workshop) remove(table string) error {
	i := slices.Index(w.tables, table)
	if i < 0 {
		return nil
	}
	if !strings.Contains(table, "://") {
		if err := os.RemoveAll(table); err != nil {
			return err
		}
		w.tables = slices.Delete(w.tables, i, i+1)
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	// From above: of the store of a table lists leave out what a look at the storage wrote.
	store, err := w.o.Open(ctx, w.root)
	if err != nil {
		return err
	}
	if err := scenario.RemoveBelow(ctx, store, strings.TrimPrefix(table, w.root+"/")); err != nil {
		return fmt.Errorf("remove %s: %w", table, err)
	}
	w.tables = slices.Delete(w.tables, i, i+1)
	return nil
}
