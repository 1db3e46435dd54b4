package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/ingest"
)

// steps shows how far long work is. On a terminal with logs in console form that
// is a bar for each step below the log lines, which do not tear it; else a log
// line every ten seconds for what takes longer than that. It is an io.Writer:
// what is written to standard error while it runs goes through it.
type steps struct {
	log *zap.Logger
	// width is that of the terminal, 0 for none.
	width int
	now   func() time.Time

	mu    sync.Mutex
	w     io.Writer
	list  []*step
	drawn int // lines below the log
	stop  chan struct{}
	ended sync.WaitGroup
}

// step is one piece of work.
type step struct {
	of          *steps
	what, units string
	began       time.Time
	logged      time.Time
	done, total int64
	over        bool
}

const (
	drawEvery = 100 * time.Millisecond
	logEvery  = 10 * time.Second
	// What is done sooner than that needs no bar.
	drawAfter = time.Second
	// Bars past maxBars are counted only: fifty tables would push the log away.
	maxBars  = 8
	barCells = 24
)

// newSteps shows steps at w; width is 0 where bars have no place.
func newSteps(w io.Writer, width int, log *zap.Logger) *steps {
	return &steps{w: w, width: width, log: log, now: time.Now}
}

// Write puts a text above the bars.
func (s *steps) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	n, err := s.w.Write(p)
	if len(p) > 0 && p[len(p)-1] == '\n' { // behind half a line there is no place for a bar
		s.draw()
	}
	return n, err
}

// begin adds a step. done and total of it count units; a total of 0 is not known yet.
func (s *steps) begin(what, units string) *step {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	st := &step{of: s, what: what, units: units, began: now, logged: now}
	s.list = append(s.list, st)
	if s.stop == nil {
		s.stop = make(chan struct{})
		every := logEvery
		if s.width > 0 {
			every = drawEvery
		}
		stop := s.stop
		s.ended.Go(func() { s.run(every, stop) })
	}
	return st
}

func (s *steps) run(every time.Duration, stop chan struct{}) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			s.show()
		}
	}
}

// show brings what is seen up to date.
func (s *steps) show() {
	s.mu.Lock()
	if s.width > 0 {
		s.erase()
		s.draw()
		s.mu.Unlock()
		return
	}
	type line struct {
		what        string
		done, total int64
	}
	var lines []line
	for _, st := range s.list {
		if now := s.now(); !st.over && now.Sub(st.logged) >= logEvery*9/10 {
			st.logged = now
			lines = append(lines, line{st.what, st.done, st.total})
		}
	}
	s.mu.Unlock()
	for _, l := range lines { // the log may write through s
		s.log.Info("at work", zap.String("what", l.what), zap.Int64("done", l.done), zap.Int64("of", l.total))
	}
}

// set tells how far a step is. It may be called from any goroutine; nil does nothing.
func (st *step) set(done, total int64) {
	if st == nil {
		return
	}
	st.of.mu.Lock()
	defer st.of.mu.Unlock()
	st.done, st.total, st.over = done, total, false
}

// end takes the step away.
func (st *step) end() {
	if st == nil {
		return
	}
	st.of.mu.Lock()
	defer st.of.mu.Unlock()
	st.over = true
}

// close takes all bars away. What is written afterwards goes on as it is.
func (s *steps) close() {
	s.mu.Lock()
	stop := s.stop
	s.stop = nil
	s.erase()
	s.list = nil
	s.mu.Unlock()
	if stop != nil {
		close(stop)
		s.ended.Wait()
	}
}

// erase removes the bars; the cursor is then where the log goes on.
func (s *steps) erase() {
	if s.drawn > 0 {
		fmt.Fprintf(s.w, "\x1b[%dA\r\x1b[J", s.drawn)
		s.drawn = 0
	}
}

func (s *steps) draw() {
	if s.width == 0 {
		return
	}
	var b strings.Builder
	more, now := 0, s.now()
	for _, st := range s.list {
		switch {
		case st.over || now.Sub(st.began) < drawAfter:
		case s.drawn == maxBars:
			more++
		default:
			b.WriteString(st.line(s.width, now))
			b.WriteByte('\n')
			s.drawn++
		}
	}
	if more > 0 {
		fmt.Fprintf(&b, "… and %d more\n", more)
		s.drawn++
	}
	io.WriteString(s.w, b.String())
}

// line is a bar: what ████░░░░ 42% 1234/2938 records 1m5s, cut to the width.
func (st *step) line(width int, now time.Time) string {
	bar := strings.Repeat("░", barCells)
	figures := fmt.Sprintf("%d %s", st.done, st.units)
	if st.total > 0 {
		part := min(max(float64(st.done)/float64(st.total), 0), 1)
		full := int(part * barCells)
		bar = strings.Repeat("█", full) + strings.Repeat("░", barCells-full)
		figures = fmt.Sprintf("%3d%% %d/%d %s", int(part*100), st.done, st.total, st.units)
	}
	text := []rune(fmt.Sprintf("%s %s %s %s", st.what, bar, figures, now.Sub(st.began).Round(time.Second)))
	if most := width - 1; len(text) > most { // a full line would wrap, and a wrapped one is two
		text = append(text[:max(most-1, 0)], '…')
	}
	return string(text)
}

// observe shows a lane that reads to an end. The observer that is told too is
// set before the lane runs.
func (s *steps) observe(table string) *laneStep { return &laneStep{steps: s, table: table} }

// laneStep shows how many of the offsets that there were are taken.
type laneStep struct {
	ingest.Observer
	steps *steps
	table string
	step  *step
	first int64
	begun bool
}

// Loaded is ingest.Observer's.
func (l *laneStep) Loaded(v ingest.View) {
	l.show(v)
	l.Observer.Loaded(v)
}

// Took is ingest.Observer's.
func (l *laneStep) Took(v ingest.View) {
	l.show(v)
	l.Observer.Took(v)
}

// Committed is ingest.Observer's.
func (l *laneStep) Committed(c ingest.Commit, v ingest.View) {
	l.show(v)
	l.Observer.Committed(c, v)
}

func (l *laneStep) show(v ingest.View) {
	if v.Progress == nil {
		return
	}
	var taken, end int64
	for _, p := range v.Progress.State.Partitions {
		if p.Heartbeat {
			continue
		}
		taken += p.Next
		end += max(v.Ends[p.ID()], p.Next)
	}
	if !l.begun {
		l.first, l.begun = taken, true
	}
	l.first = min(l.first, taken) // a rollback in between
	if l.step == nil {
		l.step = l.steps.begin(l.table, "offsets")
	}
	l.step.set(taken-l.first, end-l.first)
}

// index shows the building of a table's key index.
func (s *steps) index(table string) func(done, total int) {
	var st *step
	return func(done, total int) {
		if st == nil && done < total {
			st = s.begin(table+" key index", "files")
		}
		st.set(int64(done), int64(total))
		if done >= total {
			st.end()
		}
	}
}

// work shows steps that have names of their own.
func (s *steps) work() func(what string, done, total int) {
	var mu sync.Mutex
	list := map[string]*step{}
	return func(what string, done, total int) {
		mu.Lock()
		st := list[what]
		if st == nil {
			st = s.begin(what, "")
			list[what] = st
		}
		mu.Unlock()
		st.set(int64(done), int64(total))
		if done >= total {
			st.end()
		}
	}
}
