package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/gscd-io/gscd/query/output"
)

// stopsCleanly marks, as an annotation, the commands that run until they are
// stopped: an interrupt is their normal end.
const stopsCleanly = "stops-cleanly"

// run is the program: it parses the arguments, runs one command and gives the
// exit code.
func run(args []string, a *app, commands []newCommand) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// From the first signal on the default is back: a second Ctrl-C ends at once.
	context.AfterFunc(ctx, stop)

	root := newRootCommand(a, commands)
	root.SetArgs(args)
	started := false
	onRun(root, func() { started = true })
	ran, err := root.ExecuteContextC(ctx)
	_ = a.log.Sync() // standard error can't always be synced, and nothing is lost then
	interrupted := ctx.Err() != nil
	if interrupted && (err == nil || errors.Is(err, context.Canceled)) {
		if ran.Annotations[stopsCleanly] != "" {
			return exitOK
		}
		err = context.Canceled
	}
	code := exitCode(err, started, interrupted)
	a.report(ran, err, code)
	return code
}

// report prints what went wrong.
func (a *app) report(ran *cobra.Command, err error, code int) {
	var exit *exitError
	if err == nil || errors.As(err, &exit) && exit.quiet {
		return
	}
	if code == exitInterrupted {
		a.noticef("gscd: interrupted")
		return
	}
	a.noticef("gscd: %v", err)
	if hint := outsideHint(ran, err); hint != "" {
		a.noticef("%s", hint)
	}
	if code == exitUsage && ran != nil && !isConfigFault(err) {
		a.noticef("Run '%s --help' for its use.", ran.CommandPath())
	}
}

// newRootCommand puts the commands under their name and the global flags.
func newRootCommand(a *app, commands []newCommand) *cobra.Command {
	root := &cobra.Command{
		Use:   "gscd",
		Short: "Business snapshots of a change stream in a Delta table",
		Long: `gscd consumes the changes of a database table from Kafka and keeps a Delta table in
step with them. Every version holds changes of one business day only, and the last
version of each day stays readable: "gscd query --as-of 2022-07-16".`,
		Example: `  gscd demo                                  the whole story, on an embedded broker
  gscd ingest -c gscd.yaml                   the streaming sink
  gscd query --as-of 2022-07-16 --limit 10   the rows of a day`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return a.setUp(c) },
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	f := root.PersistentFlags()
	f.StringVarP(&a.flags.config, "config", "c", "", "configuration `file` (default: GSCD_CONFIG, else "+defaultConfigFile+")")
	f.StringVar(&a.flags.table, "table", "", "the table: an `address` (path, file://, s3://, gs://, az://) or a configured name")
	f.StringVar(&a.flags.format, "format", "", "`format` of what is printed: table, json, jsonl or csv (default: table on a terminal, else jsonl)")
	f.StringVar(&a.flags.logLevel, "log-level", "info", "least `level` to log: debug, info, warn or error")
	f.StringVar(&a.flags.logFormat, "log-format", "auto", "`format` of logs: json, console or auto (console on a terminal)")
	for _, newCommand := range commands {
		c := newCommand(a)
		root.AddCommand(c)
		// A title without commands below it would stand empty on the help page.
		for _, g := range groups {
			if g.ID == c.GroupID && !root.ContainsGroup(g.ID) {
				root.AddGroup(g)
			}
		}
	}
	if root.ContainsGroup(groupChecking) {
		root.SetHelpCommandGroupID(groupChecking)
	}
	a.completeFlags(root)
	slices.SortFunc(root.Groups(), func(x, y *cobra.Group) int { return slices.Index(groups, x) - slices.Index(groups, y) })
	return root
}

// completeFlags tells shells what the global flags take.
func (a *app) completeFlags(root *cobra.Command) {
	words := func(words ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
	}
	for flag, complete := range map[string]cobra.CompletionFunc{
		"format":     words(output.Formats()...),
		"log-level":  words("debug", "info", "warn", "error"),
		"log-format": words("json", "console", "auto"),
		"table":      a.completeTables,
	} {
		if err := root.RegisterFlagCompletionFunc(flag, complete); err != nil {
			a.log.Debug("no completion of a flag", zap.String("flag", flag), zap.Error(err))
		}
	}
}

// completeTables gives the configured names; the shell adds folders.
func (a *app) completeTables(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if cfg, err := a.config(); err == nil {
		for i := range cfg.Tables {
			names = append(names, cfg.Tables[i].Name)
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}

// setUp does what every command needs before it runs.
func (a *app) setUp(c *cobra.Command) error {
	toFile := c.Flags().Lookup("output")
	ofFile := toFile != nil && toFile.Changed && (a.flags.format == output.Parquet || a.flags.format == output.Arrow)
	if _, err := output.Resolve(a.flags.format, a.stdout); err != nil && !ofFile {
		return err
	}
	terminal := output.TerminalOf(a.stderr)
	bars := terminal.Width
	if a.flags.logFormat == "json" || a.getenv("TERM") == "dumb" {
		bars = 0
	}
	a.steps = newSteps(a.stderr, bars, nil)
	log, level, err := newLogger(a.steps, terminal, a.flags.logLevel, a.flags.logFormat)
	if err != nil {
		return err
	}
	a.log, a.steps.log, a.level = log, log, level
	return nil
}

// onRun calls started when a command below begins to run.
func onRun(c *cobra.Command, started func()) {
	if inner := c.RunE; inner != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			started()
			return inner(c, args)
		}
	}
	for _, sub := range c.Commands() {
		onRun(sub, started)
	}
}

// group makes a command that only holds others: alone, or with an unknown one
// below it, it is wrong usage.
func group(c *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	c.AddCommand(commands...)
	c.SuggestionsMinimumDistance = 2
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		message := fmt.Sprintf("unknown command %q for %q", args[0], c.CommandPath())
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			message += ": did you mean " + near[0] + "?"
		}
		return errors.New(message)
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		return usagef("%s needs a command below it", c.CommandPath())
	}
	return c
}
