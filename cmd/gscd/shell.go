package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/query/sql"
)

func newShellCommand(a *app) *cobra.Command {
	f := queryFlags{version: -1}
	c := &cobra.Command{
		Use:     "shell",
		GroupID: groupReading,
		Short:   "Ask SQL at a prompt, with history and completion",
		Long: `Reads statements of SQL, each ended by ";" and over any number of lines, and prints their
answers as "gscd query" does. Tab completes tables, columns, keywords and, in quotes, labels. Ctrl-C
drops the line, or stops the statement that runs; Ctrl-D ends. Where standard input is no
terminal it is a filter: statements in, answers out, and the first failure ends it. CREATE VIEW
name AS SELECT … gives a query a name until the end; DROP VIEW takes it away.

` + shellHelp,
		Example: `  gscd shell
  gscd shell --table s3://lake/dim/user_dim --as-of 2022-07-16
  gscd shell --format csv < report.sql`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{stopsCleanly: "true"},
		RunE: func(c *cobra.Command, _ []string) error {
			if !sql.Built {
				return sql.ErrNotBuilt
			}
			return a.shell(c.Context(), f)
		},
	}
	c.Flags().StringVar(&f.asOf, "as-of", "", "begin with every table as of a `label`")
	c.Flags().BoolVar(&f.sealed, "sealed", false, "refuse what is not a sealed day")
	f.sql.add(c.Flags())
	f.sql.addViews(c.Flags())
	return c
}

const shellHelp = `  \d [TABLE]     the tables and views, or the columns of one
  \snapshots [T] the labels of a table
  \as-of [LABEL] every table as of a label; without one, as they are
  \timing        tell how long statements take, or no more
  \format [F]    table, json, jsonl or csv
  \?  \q         this; the end`

// shell is what statements of a session share.
type shell struct {
	a      *app
	flags  queryFlags
	timing bool
	words  []string // for completion
	pages  bool     // answers go through a pager
}

func (a *app) shell(ctx context.Context, f queryFlags) error {
	s := &shell{a: a, flags: f}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // Ctrl-C is of a statement
	defer cancel()
	in, isFile := a.stdin.(*os.File)
	if !isFile || !term.IsTerminal(int(in.Fd())) {
		return s.filter(ctx)
	}
	if a.flags.format == "" {
		a.flags.format = output.Table
	}
	s.pages = output.TerminalOf(a.stdout).Width > 0
	return s.prompt(ctx, in)
}

// filter runs the statements of standard input.
func (s *shell) filter(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	raw, err := io.ReadAll(s.a.stdin)
	if err != nil {
		return fmt.Errorf("read the statements: %w", err)
	}
	rest := string(raw)
	for strings.TrimSpace(rest) != "" {
		var statement string
		if strings.HasPrefix(strings.TrimSpace(rest), `\`) {
			statement, rest, _ = strings.Cut(strings.TrimSpace(rest), "\n")
		} else if n := statementEnd(rest); n >= 0 {
			statement, rest = rest[:n], rest[n+1:]
		} else {
			statement, rest = rest, ""
		}
		if done, err := s.run(ctx, statement); done || err != nil {
			return err
		}
	}
	return nil
}

// prompt talks to a terminal.
func (s *shell) prompt(ctx context.Context, in *os.File) error {
	history := openHistory(s.a.getenv)
	s.words = s.completions(ctx)
	keys := &keyReader{Reader: in}
	line := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys, s.a.stdout}, "gscd> ")
	line.History = history
	line.AutoCompleteCallback = func(text string, at int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		return complete(text, at, s.words)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var reading atomic.Pointer[term.State]
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(ended)
	go func() {
		<-ended
		cancel() // a statement that runs ends by itself, and removes its files
		if before := reading.Load(); before != nil {
			_ = term.Restore(int(in.Fd()), before)
			os.Exit(exitOK) // nothing wakes who reads a terminal
		}
	}()
	fmt.Fprintln(s.a.stdout, `Statements end with ";". \? for help, \q or Ctrl-D for the end.`)
	var pending strings.Builder
	for ctx.Err() == nil {
		if width, height, err := term.GetSize(int(in.Fd())); err == nil {
			_ = line.SetSize(width, height)
		}
		line.SetPrompt("gscd> ")
		if pending.Len() > 0 {
			line.SetPrompt("  ..> ")
		}
		before, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return fmt.Errorf("set up the terminal: %w", err)
		}
		keys.interrupted = false
		reading.Store(before)
		text, err := line.ReadLine()
		reading.Store(nil)
		if back := term.Restore(int(in.Fd()), before); back != nil {
			return fmt.Errorf("set the terminal back: %w", back)
		}
		switch {
		case keys.interrupted:
			pending.Reset()
			fmt.Fprintln(s.a.stdout, "^C")
			continue
		case errors.Is(err, io.EOF):
			fmt.Fprintln(s.a.stdout)
			return nil
		case err != nil && !errors.Is(err, term.ErrPasteIndicator):
			return fmt.Errorf("read the terminal: %w", err)
		}
		if pending.Len() == 0 && (strings.TrimSpace(text) == "" || strings.HasPrefix(strings.TrimSpace(text), `\`)) {
			if s.attend(ctx, text) {
				return nil
			}
			continue
		}
		pending.WriteString(text + "\n")
		for {
			all := pending.String()
			n := statementEnd(all)
			if n < 0 {
				if strings.TrimSpace(all) == "" {
					pending.Reset()
				}
				break
			}
			pending.Reset()
			pending.WriteString(all[n+1:])
			if s.attend(ctx, all[:n]) {
				return nil
			}
		}
	}
	return nil
}

// attend runs one statement, which Ctrl-C ends, and prints what is wrong with it.
func (s *shell) attend(ctx context.Context, statement string) (done bool) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT)
	defer stop()
	began := time.Now()
	done, err := s.run(ctx, statement)
	switch {
	case ctx.Err() != nil:
		s.a.noticef("stopped")
	case err != nil:
		s.a.noticef("%v", err)
	}
	if s.timing && !done {
		s.a.noticef("%s", time.Since(began).Round(time.Millisecond))
	}
	return done
}

// run runs a statement or a command of the shell.
func (s *shell) run(ctx context.Context, statement string) (done bool, err error) {
	statement = strings.TrimSpace(statement)
	if statement == "" {
		return false, nil
	}
	if isView, err := s.make(ctx, statement); isView {
		return false, err
	}
	if isDrop, err := s.drop(statement); isDrop {
		return false, err
	}
	if !strings.HasPrefix(statement, `\`) {
		return false, s.paged(func() error { return s.a.answer(ctx, statement, s.flags) })
	}
	words := strings.Fields(strings.TrimSuffix(statement, ";"))
	argument := ""
	if len(words) > 1 {
		argument = words[1]
	}
	switch words[0] {
	case `\q`:
		return true, nil
	case `\?`:
		fmt.Fprintln(s.a.stdout, shellHelp)
	case `\timing`:
		s.timing = !s.timing
		s.a.noticef("timing is %s", map[bool]string{true: "on", false: "off"}[s.timing])
	case `\format`:
		if _, err := output.Resolve(argument, s.a.stdout); err != nil {
			return false, err
		}
		s.a.flags.format = argument
	case `\as-of`:
		s.flags.asOf = argument
	case `\snapshots`:
		before := s.a.flags.table
		defer func() { s.a.flags.table = before }()
		if argument != "" {
			s.a.flags.table = argument
		}
		t, err := s.a.openTable(ctx)
		if err != nil {
			return false, err
		}
		return false, s.paged(func() error { return s.a.printMap(ctx, t) })
	case `\d`:
		if argument != "" {
			return false, s.paged(func() error { return s.a.answer(ctx, "DESCRIBE "+argument, s.flags) })
		}
		tables, err := s.a.sqlTables(s.flags)
		if err != nil {
			return false, err
		}
		w, err := s.a.printRecords("table", "names")
		if err != nil {
			return false, err
		}
		for _, t := range tables {
			if err := w.Write(t.Names[0], t.Names); err != nil {
				return false, err
			}
		}
		views, err := s.flags.sql.allViews()
		if err != nil {
			return false, err
		}
		for _, v := range views {
			if err := w.Write(v.Name, []string{v.Name}); err != nil {
				return false, err
			}
		}
		return false, w.Close()
	default:
		return false, usagef(`%s is no command: \? lists them`, words[0])
	}
	return false, nil
}

// paged prints through $PAGER (else less) where there is a terminal to page for.
func (s *shell) paged(print func() error) error {
	pager := s.a.getenv("PAGER")
	if pager == "" {
		pager = "less"
	}
	words := strings.Fields(pager)
	path, err := exec.LookPath(words[0])
	if !s.pages || err != nil {
		return print()
	}
	// Short answers are not worth a pager: the first screen is held back until there is more.
	terminal := s.a.stdout
	held := &pageWriter{to: terminal, start: func() (io.WriteCloser, func() error, error) {
		c := exec.Command(path, words[1:]...)
		c.Stdout, c.Stderr = terminal, s.a.stderr
		c.Env = s.a.environ
		if s.a.getenv("LESS") == "" {
			c.Env = append(slices.Clone(c.Env), "LESS=RSX") // wide tables are not folded
		}
		in, err := c.StdinPipe()
		if err == nil {
			err = c.Start()
		}
		return in, c.Wait, err
	}}
	if file, ok := terminal.(*os.File); ok {
		if _, height, err := term.GetSize(int(file.Fd())); err == nil {
			held.lines = height - 2
		}
	}
	s.a.stdout = held
	defer func() { s.a.stdout = terminal }()
	err = print()
	if end := held.close(); err == nil {
		err = end
	}
	if errors.Is(err, syscall.EPIPE) { // the pager was left
		return nil
	}
	return err
}

// pageWriter holds the lines of a screen, and starts a pager for more.
type pageWriter struct {
	to    io.Writer
	lines int
	held  bytes.Buffer
	pager io.WriteCloser
	wait  func() error
	start func() (io.WriteCloser, func() error, error)
}

func (p *pageWriter) Write(data []byte) (int, error) {
	if p.pager != nil {
		return p.pager.Write(data)
	}
	p.held.Write(data)
	if bytes.Count(p.held.Bytes(), []byte("\n")) <= p.lines {
		return len(data), nil
	}
	var err error
	if p.pager, p.wait, err = p.start(); err != nil {
		return 0, fmt.Errorf("start the pager: %w", err)
	}
	if _, err := p.pager.Write(p.held.Bytes()); err != nil {
		return 0, err
	}
	return len(data), nil
}

func (p *pageWriter) close() error {
	if p.pager == nil {
		_, err := p.to.Write(p.held.Bytes())
		return err
	}
	_ = p.pager.Close()
	_ = p.wait() // how it ended is its reader's affair
	return nil
}

// keyReader makes Ctrl-C the keys that empty the line and end it: the editor would take
// it for the end of its input.
type keyReader struct {
	io.Reader
	interrupted bool
}

func (k *keyReader) Read(p []byte) (int, error) {
	n, err := k.Reader.Read(p)
	if bytes.IndexByte(p[:n], 3) >= 0 {
		k.interrupted = true
		n = copy(p, "\x05\x15\r") // to its end, all before it, Enter
	}
	return n, err
}

// historyFile is where the lines of sessions are kept: $XDG_STATE_HOME/gscd/history.
func historyFile(getenv func(string) string) string {
	if dir := getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "gscd", "history")
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".local", "state", "gscd", "history")
	}
	return ""
}
