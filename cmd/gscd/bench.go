package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/bench"
	"github.com/gscd-io/gscd/bench/scenario"
	"github.com/gscd-io/gscd/bench/suite"
	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/query/output"
)

// benchFlags are those of gscd bench, with texts that are read later.
type benchFlags struct {
	suite.Options
	scenarios, rows, batch []string
	duration, interval     string
	list, compare          bool
}

// quickScenarios are those that run where none is named: about a minute in all.
func quickScenarios() (names []string) {
	for _, sc := range scenario.All() {
		if sc.Rows <= 0 && sc.Name != "disk" { // write says the same where tables lie on the disk
			names = append(names, sc.Name)
		}
	}
	return names
}

func newBenchCommand(a *app) *cobra.Command {
	f := benchFlags{Options: suite.Options{Params: bench.Params{Seed: 1, Columns: 10, Mix: "standard", Keys: "uniform", Days: 1}}}
	c := &cobra.Command{
		Use:     "bench",
		GroupID: groupChecking,
		Short:   "Measure gscd on this machine, on a workload that it makes itself",
		Long: `Runs named scenarios, each in a process of its own, and prints for each how much was done a
second and a second of processor time, the memory at its peak, allocations, requests to the
storage by kind, bytes written and stored, and the latency. Scenarios that do one part of the
work and nothing else (decode, consume, encode, write) are the ceilings of the others. Every
row that was ingested is compared with a model of the workload at the end: wrong rows are an
error, not a figure.

The workload is Debezium JSON that follows from --seed and the sizes alone. Without --broker
the events are made in the process that is measured, and the processor time of that is told
apart; --broker reads them from an embedded broker in another process, --brokers from a
Kafka, where a topic is made and deleted again.

Tables are made in a temporary folder, or below --table in a new folder, and removed at the
end. Without flags it takes about a minute on two cores, with sizes that are small. Larger
ones: --scenario ingest-1m,ingest-10m --batch 10000,100000 --batches 200 --broker.`,
		Example: `  gscd bench
  gscd bench --list
  gscd bench --scenario ingest-10m --batch 100000 --batches 200 --broker --repeat 3
  gscd bench --scenario ingest,write --table s3://lake/tmp -c gscd.yaml --format json > new.json
  gscd bench --compare old.json new.json`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case f.compare && len(args) != 2:
				return errors.New("name two files: gscd bench --compare old.json new.json")
			case !f.compare && len(args) > 0:
				return fmt.Errorf("%s: scenarios are named by --scenario, and files compared by --compare", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case f.list:
				return a.listScenarios()
			case f.compare:
				return a.compareBench(args[0], args[1])
			}
			if err := f.read(); err != nil {
				return err
			}
			return a.bench(c.Context(), &f)
		},
	}
	flags := c.Flags()
	flags.StringSliceVar(&f.scenarios, "scenario", nil, "`names` of what to run, comma between, or all (default: those that are quick)")
	flags.BoolVar(&f.list, "list", false, "print the scenarios, and what each measures")
	flags.StringSliceVar(&f.rows, "rows", []string{"100000"}, "`numbers` of rows that a table has at first, comma between, at most 50M")
	flags.StringSliceVar(&f.batch, "batch", []string{"10000"}, "`numbers` of records in a batch, comma between")
	flags.IntVar(&f.Batches, "batches", 20, "`number` of batches")
	flags.IntVar(&f.Params.Columns, "columns", f.Params.Columns, "`number` of columns of a row, 10 or more")
	flags.StringVar(&f.Params.Mix, "mix", f.Params.Mix, "`mix` of operations: "+strings.Join(bench.Mixes(), ", "))
	flags.StringVar(&f.Params.Keys, "keys", f.Params.Keys, "`pattern` of the keys that are updated: "+strings.Join(bench.KeyPatterns(), ", "))
	flags.IntVar(&f.Params.Days, "days", f.Params.Days, "`number` of days over which the events are spread, 1 to 365")
	flags.Uint64Var(&f.Params.Seed, "seed", f.Params.Seed, "`number` that the workload follows from")
	flags.IntVar(&f.Repeat, "repeat", 1, "measure each `number` of times, and print the median, the lowest and the highest")
	flags.IntVar(&f.Decoders, "decoders", 2, "`number` of goroutines that decode")
	flags.BoolVar(&f.Broker, "broker", false, "read the events from an embedded broker, in a process of its own")
	flags.StringSliceVar(&f.Brokers, "brokers", nil, "read the events from a new topic of the Kafka at `host:port`")
	flags.IntVar(&f.Partitions, "partitions", 1, "`number` of partitions of a topic")
	flags.IntVar(&f.Rate, "rate", 5000, "events a second of the steady state: a `number`")
	flags.StringVar(&f.duration, "duration", "10s", "`duration` of the steady state")
	flags.StringVar(&f.interval, "batch-interval", "2s", "`duration` of a batch of the steady state")
	flags.BoolVar(&f.Keep, "keep", false, "leave the tables")
	flags.StringVar(&f.CPUProfiles, "cpuprofile", "", "`folder` for a CPU profile of each scenario")
	flags.StringVar(&f.MemProfiles, "memprofile", "", "`folder` for a profile of the allocations of each scenario")
	flags.BoolVar(&f.ProfileText, "profile-text", false, "put profiles into words too, beside them")
	flags.BoolVar(&f.compare, "compare", false, "run nothing, and compare two files that --format json has printed")
	for flag, words := range map[string][]string{"mix": bench.Mixes(), "keys": bench.KeyPatterns()} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	}
	_ = c.RegisterFlagCompletionFunc("scenario", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return append(scenarioNames(), "all"), cobra.ShellCompDirectiveNoFileComp
	})
	c.AddCommand(newBenchScenarioCommand(a), newBenchBrokerCommand(a))
	return c
}

func scenarioNames() (names []string) {
	for _, sc := range scenario.All() {
		names = append(names, sc.Name)
	}
	return names
}

func (a *app) listScenarios() error {
	w, err := a.printRecords("scenario", "measures", "counts", "ceiling", "default")
	if err != nil {
		return err
	}
	quick := quickScenarios()
	for _, sc := range scenario.All() {
		var ceiling any
		if sc.Ceiling != "" {
			ceiling = sc.Ceiling
		}
		if err := w.Write(sc.Name, sc.Measures, sc.Unit, ceiling, slices.Contains(quick, sc.Name)); err != nil {
			return err
		}
	}
	return w.Close()
}

// compareBench prints the ratios of two outputs, counted and timed figures apart.
func (a *app) compareBench(old, new string) error {
	var data [2][]byte
	for i, name := range []string{old, new} {
		var err error
		if data[i], err = os.ReadFile(name); err != nil {
			return usagef("%w", err)
		}
	}
	records, notices, err := suite.Compare(data[0], data[1])
	for _, notice := range notices {
		a.noticef("%s", notice)
	}
	if err != nil {
		return usagef("compare %s and %s: %w", old, new, err)
	}
	w, err := a.printRecords(suite.ComparedNames()...)
	if err != nil {
		return err
	}
	for _, r := range records {
		if err := w.WriteRecord(r); err != nil {
			return err
		}
	}
	return w.Close()
}

// read turns the texts of the flags into options.
func (f *benchFlags) read() (err error) {
	f.Scenarios = f.scenarios
	switch {
	case len(f.scenarios) == 0:
		f.Scenarios = quickScenarios()
	case slices.Contains(f.scenarios, "all"):
		f.Scenarios = scenarioNames()
	}
	f.Rows, f.Batch = nil, nil
	for _, text := range f.rows {
		n, err := parseCount(text)
		if err != nil {
			return usagef("--rows: %w", err)
		}
		f.Rows = append(f.Rows, n)
	}
	for _, text := range f.batch {
		n, err := parseCount(text)
		if err != nil {
			return usagef("--batch: %w", err)
		}
		f.Batch = append(f.Batch, int(n))
	}
	if f.Duration, err = config.ParseDuration(f.duration); err != nil {
		return usagef("--duration: %w", err)
	}
	if f.Interval, err = config.ParseDuration(f.interval); err != nil {
		return usagef("--batch-interval: %w", err)
	}
	return nil
}

// parseCount reads a whole number; k and M stand for thousands and millions.
func parseCount(text string) (int64, error) {
	digits, factor := strings.TrimSpace(text), int64(1)
	if head, ok := strings.CutSuffix(digits, "k"); ok {
		digits, factor = head, 1000
	} else if head, ok := strings.CutSuffix(digits, "M"); ok {
		digits, factor = head, 1_000_000
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > 1<<40 {
		return 0, fmt.Errorf("%q is no number: write 100000, 100k or 10M", text)
	}
	return n * factor, nil
}

func (a *app) bench(ctx context.Context, f *benchFlags) error {
	o := f.Options
	o.Table, o.Open, o.Notice, o.Version = a.flags.table, a.openToRead, a.noticef, fmt.Sprint(buildVersion()[0].Value)
	o.Command = a.benchChild
	if err := o.Check(); err != nil {
		return usagef("%w", err)
	}
	format, err := output.Resolve(a.flags.format, a.stdout)
	if err != nil {
		return err
	}
	lines, machine, err := suite.Run(ctx, o)
	if err != nil {
		return err
	}
	if format == output.Table {
		if err := a.printShort(lines, machine); err != nil {
			return err
		}
		a.noticef("Sizes are small unless they were given: see gscd bench --help for larger ones.")
		return nil
	}
	w, err := a.printRecords(suite.Names()...)
	if err != nil {
		return err
	}
	for _, l := range lines {
		if err := w.WriteRecord(l.Record(machine)); err != nil {
			return err
		}
	}
	return w.Close()
}

// printShort prints some figures of each line, and of the machine.
func (a *app) printShort(lines []*suite.Line, m suite.Machine) error {
	var records []output.Record
	const latency = "p50/p99 ms" // the last column, left out where no line has it: terminals are narrow
	timed := slices.ContainsFunc(lines, (*suite.Line).HasLatency)
	for _, l := range lines {
		short := l.Short()
		if !timed {
			short = slices.DeleteFunc(short, func(i output.Item) bool { return i.Name == latency })
		}
		records = append(records, short)
	}
	if err := output.WriteRecords(output.Table, a.stdout, records); err != nil {
		return err
	}
	a.noticef("%d cores of %s, %d GiB, %s on %s; load %.1f to %.1f; %s, gscd %s",
		m.Cores, m.CPU, m.MemoryBytes>>30, m.FileSystem, m.OS, m.LoadStart, m.LoadEnd, m.Go, m.GSCD)
	return nil
}

// benchChild is this program again, with the same configuration.
func (a *app) benchChild(ctx context.Context, kind string) *exec.Cmd {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	args := []string{"bench", kind, "--log-level", "error", "--log-format", "json"}
	if a.flags.config != "" {
		args = append(args, "--config", a.flags.config)
	}
	c := exec.CommandContext(ctx, program, args...)
	c.Env = a.environ
	return c
}

// What follows is called by bench alone.

func newBenchScenarioCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: suite.ScenarioChild, Hidden: true, Args: cobra.NoArgs, Annotations: map[string]string{stopsCleanly: "yes"},
		Short: "Do one phase of a scenario, which standard input tells", Example: "  gscd bench",
		RunE: func(c *cobra.Command, _ []string) error {
			return suite.ServeScenario(c.Context(), a.stdin, a.stdout, scenario.Env{Open: a.openToRead})
		},
	}
}

func newBenchBrokerCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: suite.BrokerChild, Hidden: true, Args: cobra.NoArgs, Annotations: map[string]string{stopsCleanly: "yes"},
		Short: "Bring a workload into a topic, which standard input tells", Example: "  gscd bench",
		RunE: func(c *cobra.Command, _ []string) error {
			return suite.ServeBroker(c.Context(), a.stdin, a.stdout)
		},
	}
}
