package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
)

// screen is a terminal of a width that knows what steps writes: lines that wrap,
// "cursor up", "carriage return" and "clear to the end".
type screen struct {
	width int
	lines []string
	row   int
}

var up = regexp.MustCompile(`^\x1b\[(\d+)A`)

func (s *screen) Write(p []byte) (int, error) {
	text := string(p)
	line := func() *string {
		for len(s.lines) <= s.row {
			s.lines = append(s.lines, "")
		}
		return &s.lines[s.row]
	}
	for text != "" {
		switch m := up.FindStringSubmatch(text); {
		case m != nil:
			n, _ := strconv.Atoi(m[1])
			s.row -= n
			text = text[len(m[0]):]
		case strings.HasPrefix(text, "\x1b[J"):
			*line() = ""
			s.lines = s.lines[:s.row+1]
			text = text[3:]
		case text[0] == '\r':
			text = text[1:]
		case text[0] == '\n':
			line()
			s.row++
			text = text[1:]
		default:
			r := []rune(text)[0]
			if len([]rune(*line())) == s.width {
				s.row++
			}
			*line() += string(r)
			text = text[len(string(r)):]
		}
	}
	return len(p), nil
}

func (s *screen) shown() []string {
	return slices.DeleteFunc(slices.Clone(s.lines), func(l string) bool { return l == "" })
}

func TestBarsStandBelowTheLog(t *testing.T) {
	term := &screen{width: 70}
	now := time.Date(2022, 7, 16, 0, 0, 0, 0, time.UTC)
	s := newSteps(term, term.width, zap.NewNop())
	s.now = func() time.Time { return now }
	users, orders := s.begin("users", "offsets"), s.begin("a table with a name that is longer than any terminal should have to show", "offsets")
	users.set(25, 100)
	orders.set(7, 0)
	s.show()
	if got := term.shown(); len(got) != 0 {
		t.Fatalf("bars of work that has just begun: %q", got)
	}
	now = now.Add(5 * time.Second)
	for i := range 3 {
		fmt.Fprintf(s, "log line %d, which is so long that this terminal has to wrap it into two\n", i)
		users.set(int64(25*(i+2)), 100)
		s.show()
	}
	got := term.shown()
	if len(got) != 8 || !strings.HasPrefix(got[0], "log line 0") || !strings.HasPrefix(got[4], "log line 2") {
		t.Fatalf("the screen shows\n%s", strings.Join(got, "\n"))
	}
	if want := "users ████████████████████████ 100% 100/100 offsets 5s"; got[6] != want {
		t.Errorf("the bar is %q, want %q", got[6], want)
	}
	if !strings.HasSuffix(got[7], "…") || len([]rune(got[7])) != term.width-1 {
		t.Errorf("the long one is %q", got[7])
	}
	users.end()
	s.show()
	if got := term.shown(); len(got) != 7 {
		t.Errorf("what has ended is still there: %q", got)
	}
	s.close()
	fmt.Fprintln(s, "the end")
	if got := term.shown(); len(got) != 7 || got[6] != "the end" {
		t.Errorf("behind the end: %q", got)
	}
}

func TestFewBarsOfManyTables(t *testing.T) {
	term := &screen{width: 100}
	now := time.Now()
	s := newSteps(term, term.width, zap.NewNop())
	defer s.close()
	s.now = func() time.Time { return now }
	for i := range 50 {
		s.begin(fmt.Sprint("t", i), "offsets").set(1, 2)
	}
	now = now.Add(time.Minute)
	s.show()
	got := term.shown()
	if len(got) != maxBars+1 || got[maxBars] != "… and 42 more" {
		t.Errorf("%d lines, the last %q", len(got), got[len(got)-1])
	}
	if half := "t0 ████████████░░░░░░░░░░░░  50% 1/2 offsets 1m0s"; got[0] != half {
		t.Errorf("%q, want %q", got[0], half)
	}
}

// Without a terminal nothing is written but a log line once in a while.
func TestStepsAreLoggedWithoutATerminal(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	var out bytes.Buffer
	now := time.Now()
	s := newSteps(&out, 0, zap.New(core))
	defer s.close()
	s.now = func() time.Time { return now }
	st := s.begin("users key index", "files")
	st.set(3, 9)
	fmt.Fprintln(s, "a notice")
	s.show()
	now = now.Add(logEvery)
	s.show()
	s.show()
	if out.String() != "a notice\n" {
		t.Errorf("written: %q", out.String())
	}
	got := logs.All()
	if len(got) != 1 || got[0].ContextMap()["what"] != "users key index" || got[0].ContextMap()["done"] != int64(3) || got[0].ContextMap()["of"] != int64(9) {
		t.Errorf("logged: %v", got)
	}
	st.end()
	now = now.Add(logEvery)
	if s.show(); logs.Len() != 1 {
		t.Error("what has ended is logged")
	}
}

type silent struct{ ingest.Observer }

func (silent) Loaded(ingest.View)                   {}
func (silent) Took(ingest.View)                     {}
func (silent) Committed(ingest.Commit, ingest.View) {}

func TestALaneShowsTheOffsetsThatItTakes(t *testing.T) {
	s := newSteps(&bytes.Buffer{}, 80, zap.NewNop())
	defer s.close()
	o := s.observe("users")
	o.Observer = silent{}
	p := &progress.Progress{}
	id := change.PartitionID{Topic: "t", Partition: 0}
	part := p.State.AddPartition(id, 100)
	v := ingest.View{Progress: p, Ends: map[change.PartitionID]int64{id: 300}}
	o.Loaded(ingest.View{}) // no table yet
	o.Loaded(v)
	part.Next = 150
	o.Took(v)
	if o.step.done != 50 || o.step.total != 200 {
		t.Errorf("%d of %d, want 50 of 200", o.step.done, o.step.total)
	}
	part.Next = 300
	o.Committed(ingest.Commit{}, v)
	if o.step.done != 200 || o.step.total != 200 {
		t.Errorf("%d of %d, want 200 of 200", o.step.done, o.step.total)
	}
}
