package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

var (
	rewrite = flag.Bool("rewrite", false, "write docs/reference/cli")
	manDir  = flag.String("man", "", "folder to write the man pages to")
)

const cliReference = "../../docs/reference/cli"

// commandTree is what the program's commands are made of, as pages show it.
func commandTree(t *testing.T) *cobra.Command {
	t.Helper()
	a := newApp()
	a.stdout, a.stderr = io.Discard, io.Discard
	root := newRootCommand(a, commands)
	root.DisableAutoGenTag = true
	return root
}

func eachCommand(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			eachCommand(sub, visit)
		}
	}
}

// The pages of docs/reference/cli are what the commands say of themselves.
func TestReferencePages(t *testing.T) {
	want := map[string]string{}
	eachCommand(commandTree(t), func(c *cobra.Command) {
		var page bytes.Buffer
		if err := doc.GenMarkdownCustom(c, &page, func(name string) string { return name }); err != nil {
			t.Fatal(err)
		}
		// A page of its own, not a part of one.
		text := strings.ReplaceAll(page.String(), "\n### ", "\n## ")
		text = "#" + strings.TrimPrefix(text, "##")
		if c.HasParent() {
			text = strings.Replace(text, "\n## SEE ALSO", "\nWhat it prints, and more: [commands](../../commands.md).\n\n## SEE ALSO", 1)
		}
		want[strings.ReplaceAll(c.CommandPath(), " ", "_")+".md"] = strings.TrimRight(text, "\n") + "\n"
	})
	if *rewrite {
		if err := os.RemoveAll(cliReference); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(cliReference, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range want {
			if err := os.WriteFile(filepath.Join(cliReference, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	there, err := filepath.Glob(filepath.Join(cliReference, "*"))
	if err != nil {
		t.Fatal(err)
	}
	const hint = "run go test ./cmd/gscd -run TestReferencePages -rewrite"
	for _, path := range there {
		if _, ok := want[filepath.Base(path)]; !ok {
			t.Errorf("%s is of no command: %s", path, hint)
		}
	}
	for name, text := range want {
		if is, err := os.ReadFile(filepath.Join(cliReference, name)); err != nil || string(is) != text {
			t.Errorf("docs/reference/cli/%s is not what the command says (%v): %s", name, err, hint)
		}
	}
}

// Each command has a man page with its name, its use and its flags; -man DIR keeps them.
func TestManPages(t *testing.T) {
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root := commandTree(t)
	head := &doc.GenManHeader{Section: "1", Source: "gscd", Manual: "gscd"}
	// No date of today: the same commands give the same pages.
	if os.Getenv("SOURCE_DATE_EPOCH") == "" {
		date := time.Unix(0, 0)
		head.Date = &date
	}
	if err := doc.GenManTree(root, head, dir); err != nil {
		t.Fatal(err)
	}
	eachCommand(root, func(c *cobra.Command) {
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Error(err)
			return
		}
		plain := strings.ReplaceAll(string(page), `\-`, "-")
		c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(plain, "--"+f.Name) {
				t.Errorf("the man page of %s lacks --%s", c.CommandPath(), f.Name)
			}
		})
		for _, part := range []string{".TH", ".SH NAME", ".SH SYNOPSIS"} {
			if !strings.Contains(plain, part) {
				t.Errorf("the man page of %s lacks %s", c.CommandPath(), part)
			}
		}
	})
}

var (
	exampleCall = regexp.MustCompile(`(?:^|[|(;&] ?|&& )gscd( [^|<>;&)#]*)?`)
	quoted      = regexp.MustCompile(`"[^"]*"|'[^']*'`)
)

// callsOf gives the arguments of each call of gscd in a line of a shell.
func callsOf(line string) (calls [][]string) {
	line = strings.TrimSpace(line)
	var texts []string
	bare := quoted.ReplaceAllStringFunc(line, func(q string) string {
		texts = append(texts, q[1:len(q)-1])
		return "\x00"
	})
	if i := strings.Index(bare, "  "); i > 0 { // what stands behind is its explanation
		bare = bare[:i]
	}
	for strings.Contains(bare, "=") && !strings.HasPrefix(bare, "gscd") { // variables before it
		_, after, ok := strings.Cut(bare, " ")
		if !ok {
			break
		}
		bare = after
	}
	for _, m := range exampleCall.FindAllStringSubmatch(bare, -1) {
		args := strings.Fields(m[1])
		for i := range args {
			for strings.Contains(args[i], "\x00") && len(texts) > 0 {
				args[i] = strings.Replace(args[i], "\x00", texts[0], 1)
				texts = texts[1:]
			}
		}
		calls = append(calls, args)
	}
	return calls
}

// parse says why a call is none of the program's: a command, a flag or an argument that it does not take.
func parse(t *testing.T, args []string) error {
	t.Helper()
	found, left, err := commandTree(t).Find(args) // a new tree: flags remember what they were given
	if err == nil {
		err = found.ParseFlags(left)
	}
	if err == nil && !slices.Contains(args, "--help") {
		err = found.ValidateArgs(found.Flags().Args())
	}
	return err
}

// The examples of the help pages are calls of commands that are there, with flags and
// arguments that they take.
func TestExamples(t *testing.T) {
	calls := 0
	eachCommand(commandTree(t), func(c *cobra.Command) {
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for _, line := range strings.Split(strings.ReplaceAll(c.Example, "\\\n", " "), "\n") {
			for _, args := range callsOf(line) {
				if err := parse(t, args); err != nil {
					t.Errorf("example of %s: %s: %v", c.CommandPath(), line, err)
				}
				calls++
			}
		}
	})
	if calls < 60 {
		t.Errorf("%d calls found in the examples", calls)
	}
}

var (
	notRun     = regexp.MustCompile("(?s)<!-- not run: [^\n]* -->\n```console\n(.*?)```")
	inlineCall = regexp.MustCompile("`gscd ((?:[a-z][a-z0-9-]*)(?: [^`\n]*)?)`")
)

// Commands that no test runs, in sessions that say so and in lines of text, are at least ones that the
// program takes. (TestDocs of integration/ runs the others.)
func TestDocCalls(t *testing.T) {
	pages := []string{"../../README.md", "../../CONTRIBUTING.md", "../../deploy/compose/README.md", "../../deploy/image/README.md"}
	more, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	sessions, inline := 0, 0
	for _, page := range append(pages, more...) {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range notRun.FindAllStringSubmatch(string(raw), -1) {
			for _, line := range strings.Split(strings.ReplaceAll(strings.ReplaceAll(block[1], "\\\n", " "), "\n> ", " "), "\n") {
				command, ok := strings.CutPrefix(line, "$ ")
				if !ok {
					continue
				}
				for _, args := range callsOf(command) {
					sessions++
					if err := parse(t, args); err != nil {
						t.Errorf("%s: %s: %v", page, command, err)
					}
				}
			}
		}
		for _, m := range inlineCall.FindAllStringSubmatch(string(raw), -1) {
			for _, args := range callsOf("gscd " + m[1]) {
				inline++
				if page == "../../docs/on-disk.md" && len(args) > 0 && slices.Contains([]string{"held", "markers", "sealed", "stored"}, args[0]) {
					continue // first lines of files, no calls
				}
				// It may be the beginning of a call: what follows is not said.
				if err := parse(t, append(args, "--help")); err != nil && !strings.Contains(err.Error(), "help requested") && !strings.Contains(err.Error(), "flag needs an argument") {
					t.Errorf("%s: `gscd %s`: %v", page, m[1], err)
				}
			}
		}
	}
	if sessions < 15 || inline < 200 {
		t.Errorf("%d calls in sessions, %d in lines of text", sessions, inline)
	}
}
