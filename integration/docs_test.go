//go:build linux

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gscd-io/gscd/demo"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/ingest/recording"
	"github.com/gscd-io/gscd/progress"
)

// What the documentation shows is what the program does. A fenced block with
// the info string "console" is a session at a terminal of 100 columns:
//
//	$ gscd query --as-of 2022-07-16 --limit 1
//	what it prints, standard output and error as they come
//
// A line that is "..." stands for any lines, "..." inside a line for any text. A
// command ends with 0, or the block shows its code (`; echo $?`). A line "> …"
// goes on with the command above. The blocks of a page run one behind the other
// in one empty folder. Three comments, on the line before a block, say more:
//
//	<!-- not run: REASON -->   a console block that is left out, and why
//	<!-- file: NAME -->        any block: it is written to that file
//	<!-- in: DIR -->           this block and those behind it run in that folder
//
// "go run ./cmd/gscd" stands for the binary, and localhost:9092 for an embedded
// broker that has the demo's topic.

// pages are the pages with sessions, relative to the repository.
func pages(t *testing.T) []string {
	t.Helper()
	list := []string{"../README.md"}
	err := filepath.WalkDir("../docs", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestDocs(t *testing.T) {
	if testing.Short() {
		t.Skip("the commands of the documentation take half a minute")
	}
	bin := buildGSCD(t)
	broker := sync.OnceValues(func() (string, error) { return demoBroker(t) })
	for _, page := range pages(t) {
		blocks, err := blocksOf(page)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimPrefix(page, "../"), func(t *testing.T) {
			t.Parallel()
			s := &session{bin: bin, root: t.TempDir(), broker: broker}
			s.dir = s.root
			for _, b := range blocks {
				s.run(t, b)
			}
		})
	}
}

// buildGSCD builds the program once.
func buildGSCD(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "gscd"), "../cmd/gscd")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return dir
}

// demoBroker starts a broker that has the topic of the demo.
func demoBroker(t *testing.T) (string, error) {
	dir := t.TempDir()
	if err := demo.Run(t.Context(), demo.Options{Dir: dir, Out: io.Discard}); err != nil {
		return "", err
	}
	r, err := recording.Open([]string{filepath.Join(dir, demo.RecordingName)}, recording.Options{})
	if err != nil {
		return "", err
	}
	defer r.Close()
	states, _, err := r.Partitions(t.Context())
	if err != nil || len(states) == 0 {
		return "", fmt.Errorf("partitions of the demo: %d, %w", len(states), err)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(int32(len(states)), states[0].ID.Topic))
	if err != nil {
		return "", err
	}
	t.Cleanup(cluster.Close)
	from := map[change.PartitionID]int64{}
	left := int64(0)
	for _, s := range states {
		from[s.ID] = s.Earliest
		left += s.End - s.Earliest
	}
	if err := r.Assign(t.Context(), from); err != nil {
		return "", err
	}
	var records []*change.Record
	for int64(len(records)) < left {
		blocks, err := r.Poll(t.Context(), 1000)
		if err != nil {
			return "", err
		}
		for _, b := range blocks {
			records = append(records, b.Records...)
		}
	}
	options := kafka.Options{Brokers: cluster.ListenAddrs(), Topics: []string{states[0].ID.Topic}}
	return cluster.ListenAddrs()[0], kafka.Produce(t.Context(), options, records)
}

// block is a fenced block of a page.
type block struct {
	page   string
	line   int // of its first line
	lang   string
	lines  []string
	remark string // what a comment before it says
}

var remarkForm = regexp.MustCompile(`^<!-- (.*) -->$`)

// blocksOf gives the fenced blocks of a page.
func blocksOf(page string) ([]block, error) {
	raw, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	var blocks []block
	var open *block
	remark := ""
	for i, line := range strings.Split(string(raw), "\n") {
		lang, fence := strings.CutPrefix(line, "```")
		switch {
		case open == nil && fence:
			open = &block{page: page, line: i + 2, lang: lang, remark: remark}
		case open != nil && fence:
			blocks = append(blocks, *open)
			open, remark = nil, ""
		case open != nil:
			open.lines = append(open.lines, line)
		default:
			remark = ""
			if m := remarkForm.FindStringSubmatch(line); m != nil {
				remark = m[1]
			}
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s:%d: the block has no end", page, open.line)
	}
	return blocks, nil
}

// session runs the blocks of one page.
type session struct {
	bin, root, dir string
	broker         func() (string, error)
	failed         bool
}

func (s *session) run(t *testing.T, b block) {
	what, value, _ := strings.Cut(b.remark, ": ")
	switch what {
	case "not run":
		if len(value) < 10 {
			t.Errorf("%s:%d: a block that is not run says why", b.page, b.line)
		}
		return
	case "file":
		path := filepath.Join(s.root, value)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		text := s.withBroker(t, strings.Join(b.lines, "\n")+"\n")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	case "in":
		s.dir = filepath.Join(s.root, value)
	}
	if slices.Contains([]string{"sh", "bash", "shell", "zsh"}, b.lang) {
		t.Errorf("%s:%d: commands stand in a console block, where they are run, or it says why not", b.page, b.line)
	}
	if b.lang != "console" || s.failed {
		return
	}
	for _, c := range commandsOf(t, b) {
		out, err := s.command(t, c.text)
		far, ok := matches(c.want, out)
		if err == nil && ok {
			continue
		}
		s.failed = true // what follows builds on it
		message := fmt.Sprintf("%s:%d: $ %s", b.page, c.line, c.text)
		if err != nil {
			message += fmt.Sprintf("\n%v", err)
		}
		if !ok && far < len(c.want) {
			message += fmt.Sprintf("\nthe page goes on with: %s", c.want[far])
		}
		t.Errorf("%s\nprinted:\n%s", message, strings.Join(out, "\n"))
		return
	}
}

// shown is a command of a block and what the page says that it prints.
type shown struct {
	line int
	text string
	want []string
}

func commandsOf(t *testing.T, b block) []shown {
	var list []shown
	for i, line := range b.lines {
		if text, ok := strings.CutPrefix(line, "$ "); ok {
			list = append(list, shown{line: b.line + i, text: text})
			continue
		}
		if len(list) == 0 {
			t.Fatalf("%s:%d: a console block begins with a command", b.page, b.line+i)
		}
		last := &list[len(list)-1]
		if text, ok := strings.CutPrefix(line, "> "); ok && len(last.want) == 0 {
			last.text += "\n" + text
			continue
		}
		last.want = append(last.want, line)
	}
	return list
}

// command runs a command at a terminal and gives the lines it prints.
func (s *session) command(t *testing.T, text string) ([]string, error) {
	text = s.withBroker(t, strings.ReplaceAll(text, "go run ./cmd/gscd", "gscd"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", text)
	c.Dir = s.dir
	c.Env = []string{"PATH=" + s.bin + ":" + os.Getenv("PATH"), "HOME=" + s.root, "TERM=dumb", "NO_COLOR=1", "LC_ALL=C.UTF-8"}
	raw, err := atTerminal(t, c)
	out := strings.Split(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\n")
	for i := range out {
		out[i] = strings.TrimRight(out[i], " ")
	}
	return slices.Delete(out, len(out)-1, len(out)), err
}

// withBroker puts the address of the embedded broker in place of localhost:9092.
func (s *session) withBroker(t *testing.T, text string) string {
	if !strings.Contains(text, "localhost:9092") {
		return text
	}
	address, err := s.broker()
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(text, "localhost:9092", address)
}

// matches holds lines against a pattern of lines. far is how many lines of the
// pattern can be found in order at most.
func matches(want, got []string) (far int, ok bool) {
	ok = matchLines(trimEnd(want), trimEnd(got), 0, &far)
	return far, ok
}

// trimEnd leaves out the empty lines at the end.
func trimEnd(lines []string) []string {
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

func matchLines(want, got []string, at int, far *int) bool {
	for i, w := range want {
		*far = max(*far, at+i)
		if w == "..." {
			for n := range len(got) - i + 1 {
				if matchLines(want[i+1:], got[i+n:], at+i+1, far) {
					return true
				}
			}
			return false
		}
		if i >= len(got) || !matchLine(w, got[i]) {
			return false
		}
	}
	*far = max(*far, at+len(want))
	return len(got) == len(want)
}

func matchLine(want, got string) bool {
	parts := strings.Split(want, "...")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(got)
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		want, got string
		ok        bool
	}{
		{"a\nb", "a\nb", true},
		{"a\nb", "a\nb\nc", false},
		{"a\nb\nc", "a\nb", false},
		{"a\n...", "a", true},
		{"a\n...", "a\nb\nc", true},
		{"...\nc", "a\nb\nc", true},
		{"a\n...\nc\n...\ne", "a\nc\nd\nc\ne", true},
		{"a\n...\nc", "a\nb", false},
		{"version ..., 3 rows", "version 12, 3 rows", true},
		{"version ..., 3 rows", "version 12, 4 rows", false},
		{"a.c", "abc", false},
	} {
		if _, got := matches(strings.Split(c.want, "\n"), strings.Split(c.got, "\n")); got != c.ok {
			t.Errorf("%q against %q: %v", c.got, c.want, got)
		}
	}
}

// atTerminal runs a command whose input and outputs are a terminal.
func atTerminal(t *testing.T, c *exec.Cmd) ([]byte, error) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	defer master.Close()
	var number int32
	unlock := int32(0)
	size := [4]uint16{50, 100} // rows, columns, and two that mean nothing here
	for _, call := range []struct {
		request uintptr
		arg     unsafe.Pointer
	}{
		{syscall.TIOCSPTLCK, unsafe.Pointer(&unlock)},
		{syscall.TIOCGPTN, unsafe.Pointer(&number)},
		{syscall.TIOCSWINSZ, unsafe.Pointer(&size)},
	} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), call.request, uintptr(call.arg)); errno != 0 {
			t.Skipf("no pseudo-terminals here: %v", errno)
		}
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	c.Stdin, c.Stdout, c.Stderr = slave, slave, slave
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	c.WaitDelay = 5 * time.Second
	if err := errors.Join(c.Start(), slave.Close()); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	_, _ = io.Copy(&out, master) // ends with EIO when the last process lets go of the terminal
	return out.Bytes(), c.Wait()
}

var (
	commandLine = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) +\S`)
	flagName    = regexp.MustCompile(`(?m)^ +(?:-\w, |    )(--[a-z-]+)`)
)

// Every command has a section in docs/commands.md, and every flag is in it.
func TestCommandsPage(t *testing.T) {
	gscd := filepath.Join(buildGSCD(t), "gscd")
	help := func(args ...string) string {
		out, err := exec.Command(gscd, append(args, "--help")...).Output()
		if err != nil {
			t.Fatalf("gscd %s --help: %v", strings.Join(args, " "), err)
		}
		return string(out)
	}
	raw, err := os.ReadFile("../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(raw), "\n## ")[1:] {
		title, body, _ := strings.Cut(s, "\n")
		sections[strings.TrimPrefix(strings.Trim(title, "`"), "gscd ")] = body
	}
	global := map[string]bool{"--help": true}
	_, flags, _ := strings.Cut(help(), "\nFlags:\n")
	for _, m := range flagName.FindAllStringSubmatch(flags, -1) {
		global[m[1]] = true
		if !strings.Contains(string(raw), "`"+m[1]) {
			t.Errorf("docs/commands.md: the global flag %s is missing", m[1])
		}
	}
	var walk func(args []string)
	walk = func(args []string) {
		text := help(args...)
		name := strings.Join(args, " ")
		if len(args) > 0 {
			section, ok := sections[args[0]]
			if !ok || len(args) > 1 && !strings.Contains(section, "gscd "+name) {
				t.Errorf("docs/commands.md: no section about gscd %s", name)
			}
			if strings.Contains(strings.ReplaceAll(section, "\n", " "), "the flags of `gscd ingest`") {
				section += sections["ingest"]
			}
			_, flags, _ := strings.Cut(text, "\nFlags:\n")
			for _, m := range flagName.FindAllStringSubmatch(flags, -1) {
				if !global[m[1]] && !strings.Contains(section, m[1]) {
					t.Errorf("docs/commands.md: gscd %s: the flag %s is missing", name, m[1])
				}
			}
		}
		list, _, _ := strings.Cut(text, "\nFlags:\n")
		if _, below, ok := strings.Cut(list, "ommands:\n"); ok && len(args) > 0 {
			list = below
		} else if len(args) > 0 {
			return
		} else if _, list, ok = strings.Cut(list, "\n\nMain job:\n"); !ok {
			t.Fatalf("the help page has another form:\n%s", text)
		}
		for _, m := range commandLine.FindAllStringSubmatch(list, -1) {
			if m[1] != "help" {
				walk(append(slices.Clone(args), m[1]))
			}
		}
	}
	walk(nil)
}

// Every member of the progress is in docs/on-disk.md.
func TestOnDiskPage(t *testing.T) {
	raw, err := os.ReadFile("../docs/on-disk.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[reflect.Type]bool{}
	var walk func(of reflect.Type)
	walk = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || seen[of] {
			return
		}
		seen[of] = true
		for i := range of.NumField() {
			f := of.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.IsExported() || name == "" {
				continue
			}
			if text := string(raw); !strings.Contains(text, "`"+name+"`") && !strings.Contains(text, "`state."+name) &&
				!strings.Contains(text, "`"+name+"[") && !strings.Contains(text, "."+name+"`") && !strings.Contains(text, `"`+name+`":`) {
				t.Errorf("docs/on-disk.md: %s.%s: %q is missing", of, f.Name, name)
			}
			walk(f.Type)
		}
	}
	walk(reflect.TypeFor[progress.Progress]())
}

var (
	linkForm    = regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)`)
	headingForm = regexp.MustCompile(`^#+ (.*)$`)
	linkText    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the places of a page that links may name, as GitHub makes them of headings.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	places, fence := map[string]bool{}, false
	for _, line := range strings.Split(string(raw), "\n") {
		if strings.HasPrefix(line, "```") {
			fence = !fence
		}
		m := headingForm.FindStringSubmatch(line)
		if fence || m == nil {
			continue
		}
		text := strings.ToLower(linkText.ReplaceAllString(m[1], "$1"))
		anchor := strings.ReplaceAll(notInAnchor.ReplaceAllString(text, ""), " ", "-")
		name := anchor
		for n := 1; places[name]; n++ {
			name = fmt.Sprintf("%s-%d", anchor, n)
		}
		places[name] = true
	}
	return places
}

// Every link to a file of the repository leads to one, and to a heading of it where it names one.
func TestDocLinks(t *testing.T) {
	others := []string{"../CHANGELOG.md", "../CONTRIBUTING.md", "../SECURITY.md", "../deploy/compose/README.md", "../deploy/image/README.md"}
	for _, page := range append(pages(t), others...) {
		raw, err := os.ReadFile(page)
		if errors.Is(err, fs.ErrNotExist) && page == "../SECURITY.md" {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range linkForm.FindAllStringSubmatch(string(raw), -1) {
			if strings.Contains(m[1], "://") || m[1] == "" && m[2] == "" {
				continue
			}
			to := page
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(page), m[1])
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			} else if anchor := strings.TrimPrefix(m[2], "#"); anchor != "" && filepath.Ext(to) == ".md" && !anchors(t, to)[anchor] {
				t.Errorf("%s links to %s%s: there is no such heading", page, m[1], m[2])
			}
		}
	}
}
