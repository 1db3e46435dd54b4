package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/gscd-io/gscd/config"
)

// exitStatus is the exit code in an error of a finished process.
func exitStatus(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return strconv.Itoa(exit.ExitCode())
	}
	return err.Error()
}

// newTestApp is an app with buffers for its output.
func newTestApp(environ ...string) (a *app, stdout, stderr *bytes.Buffer) {
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	return &app{stdin: strings.NewReader(""), stdout: stdout, stderr: stderr, environ: environ, log: zap.NewNop()}, stdout, stderr
}

// Every command says what it is for, and shows how it is used.
func TestCommandsAreDocumented(t *testing.T) {
	a, _, _ := newTestApp()
	root := newRootCommand(a, commands)
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Short == "" || c.Example == "" {
			t.Errorf("%s has no short description or no example", c.CommandPath())
		}
		if strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: its short description ends with a full stop", c.CommandPath())
		}
		if c.HasParent() && !c.Parent().HasParent() && c.GroupID == "" {
			t.Errorf("%s is in no group of the help page", c.CommandPath())
		}
		if c.RunE == nil && c.HasParent() {
			t.Errorf("%s has no RunE", c.CommandPath())
		}
		for line := range strings.SplitSeq(c.Example, "\n") {
			if strings.HasPrefix(line, "\t") {
				t.Errorf("%s: an example begins with a tab", c.CommandPath())
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s --%s is not explained", c.CommandPath(), f.Name)
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
}

// probe makes a command that ends as given.
func probe(annotations map[string]string, end func(context.Context) error) []newCommand {
	return []newCommand{func(*app) *cobra.Command {
		return &cobra.Command{
			Use: "probe", Annotations: annotations, Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error { return end(c.Context()) },
		}
	}}
}

func TestExitCodes(t *testing.T) {
	interrupt := func(ctx context.Context) error {
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			return err
		}
		<-ctx.Done()
		return fmt.Errorf("poll: %w", ctx.Err())
	}
	clean := map[string]string{stopsCleanly: "yes"}
	for name, c := range map[string]struct {
		args        []string
		annotations map[string]string
		end         func(context.Context) error
		code        int
		says        string
	}{
		"success":       {end: func(context.Context) error { return nil }, code: 0},
		"failure":       {end: func(context.Context) error { return errors.New("open table: gone") }, code: 1, says: "gscd: open table: gone\n"},
		"usage":         {end: func(context.Context) error { return usagef("give --to") }, code: 2, says: "gscd: give --to\nRun 'gscd probe --help' for its use.\n"},
		"usage wrapped": {end: func(context.Context) error { return fmt.Errorf("rollback: %w", usagef("give --to")) }, code: 2, says: "gscd: rollback: give --to\nRun 'gscd probe --help' for its use.\n"},
		"no":            {end: func(context.Context) error { return nof("2022-07-17 is not sealed") }, code: 3, says: "gscd: 2022-07-17 is not sealed\n"},
		"silent no":     {end: func(context.Context) error { return silently(exitNo, errors.New("3 differences")) }, code: 3},
		"faults":        {end: func(context.Context) error { return &config.Faults{File: "x", List: []config.Fault{{Message: "bad"}}} }, code: 2, says: "gscd: x: bad\n"},
		"unknown flag":  {args: []string{"--nothing"}, code: 2, says: "gscd: unknown flag: --nothing\nRun 'gscd probe --help' for its use.\n"},
		"argument":      {args: []string{"more"}, code: 2, says: "gscd: unknown command \"more\" for \"gscd probe\"\nRun 'gscd probe --help' for its use.\n"},
		"interrupted":   {end: interrupt, code: 130, says: "gscd: interrupted\n"},
		"interrupted, no error": {end: func(ctx context.Context) error {
			_ = interrupt(ctx)
			return nil
		}, code: 130, says: "gscd: interrupted\n"},
		"stopped":           {annotations: clean, end: interrupt, code: 0},
		"stopped by a fail": {annotations: clean, end: func(ctx context.Context) error { _ = interrupt(ctx); return errors.New("disk full") }, code: 1, says: "gscd: disk full\n"},
	} {
		t.Run(name, func(t *testing.T) {
			a, stdout, stderr := newTestApp()
			code := run(append([]string{"probe"}, c.args...), a, probe(c.annotations, c.end))
			if code != c.code || stderr.String() != c.says || stdout.Len() > 0 {
				t.Errorf("exit %d, want %d; says %q, want %q; prints %q", code, c.code, stderr, c.says, stdout)
			}
		})
	}
}

func TestLogging(t *testing.T) {
	a, stdout, stderr := newTestApp()
	code := run([]string{"probe", "--log-level", "warn"}, a, probe(nil, func(context.Context) error {
		log := a.log.With(zap.String("table", "user_dim"), zap.Error(errors.New("first")))
		log.Info("not logged")
		log.Warn("held back", zap.Int32("partition", 2), zap.Int64("offset", 7), zap.String("label", "2022-07-16"), zap.Error(errors.New("second")))
		return nil
	}))
	if code != 0 || stdout.Len() > 0 {
		t.Fatalf("exit %d, prints %q", code, stdout)
	}
	got := regexp.MustCompile(`"ts":"20[0-9T:.-]*Z"`).ReplaceAllString(stderr.String(), `"ts":"…"`)
	const want = `{"level":"warn","ts":"…","msg":"held back","table":"user_dim","err":"first","partition":2,"offset":7,"label":"2022-07-16","err":"second"}` + "\n"
	if got != want {
		t.Errorf("logged %s", stderr)
	}

	a, _, stderr = newTestApp()
	run([]string{"probe", "--log-format", "console"}, a, probe(nil, func(context.Context) error {
		a.log.Info("open", zap.Int("tables", 1))
		return nil
	}))
	if got := stderr.String(); !strings.Contains(got, "\tINFO\topen\t{\"tables\": 1}\n") {
		t.Errorf("console: %q", got)
	}
}
