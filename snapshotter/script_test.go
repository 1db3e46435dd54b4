package snapshotter

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/gscd-io/gscd/ingest/change"
)

// script drives a Judge by the commands of a file in testdata:
//
//	new [granularity=day] [zone=Asia/Shanghai] [cutover=00:00] first=LABEL [wait=10m] [partitions=1]
//	take           one event a line, judged: KIND [p1] KEY [OLD>NEW] 16T12:00:00 7:100[:ROW] [word...]
//	seal [idle=5m] clock=17T00:15:00 [p0=END]...   whether the open label may be sealed
//	sealed [wait=10m]                              closes the open label
//	restart                                        the state, written and read back
//	ends                                           loads whose end may act now
//	state                                          what is remembered
//
// The words: kinds change, read, lone, truncate; replaced (the time is not the
// event's own), nopos, first, last, s2 (server 2, else 1; s0: none), gtid=TEXT.
type script struct {
	t      *testing.T
	cal    *Calendar
	judge  *Judge
	next   map[int32]int64
	events []taken
}

// taken is an event that was held, to be told again at a restart.
type taken struct {
	partition int32
	keys      [2]string
	at        Label
}

func runScripts(t *testing.T, dir string) {
	datadriven.Walk(t, filepath.Join("testdata", dir), func(t *testing.T, path string) {
		s := &script{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			return s.command(d)
		})
	})
}

func (s *script) command(d *datadriven.TestData) string {
	switch d.Cmd {
	case "new":
		return s.new(d)
	case "take":
		var b strings.Builder
		for line := range strings.Lines(d.Input) {
			if line = strings.TrimSpace(line); line != "" {
				fmt.Fprintln(&b, s.take(d, line))
			}
		}
		return b.String()
	case "seal":
		return s.seal(d)
	case "sealed":
		s.judge.Seal(s.duration(d, "wait", "10m"))
		s.events = slices.DeleteFunc(s.events, func(e taken) bool { return e.at <= s.judge.State.Open })
		return fmt.Sprintf("%s is open, a partition pauses at %s\n", s.label(s.judge.State.Open), s.instant(s.judge.Pause()))
	case "restart":
		s.restart()
		return "ok\n"
	case "ends":
		var b strings.Builder
		for _, l := range s.judge.LoadsToEnd() {
			l.Ended = true
			fmt.Fprintf(&b, "load %s ends: what lies below %s goes\n", s.load(l), metaText(l.Floor()))
			s.judge.State.AddFloor(l.Floor())
		}
		return b.String()
	case "state":
		return s.state()
	}
	d.Fatalf(s.t, "no command %q", d.Cmd)
	return ""
}

func (s *script) new(d *datadriven.TestData) string {
	arg := func(name, otherwise string) string {
		value := otherwise
		d.MaybeScanArgs(s.t, name, &value)
		return value
	}
	s.cal = calendar(s.t, arg("granularity", "day"), arg("zone", "Asia/Shanghai"), arg("cutover", "00:00"))
	first := parse(s.t, s.cal, arg("first", ""))
	state := &State{First: first, Open: first, Wait: s.duration(d, "wait", "10m")}
	n, err := strconv.Atoi(arg("partitions", "1"))
	if err != nil {
		d.Fatalf(s.t, "partitions: %v", err)
	}
	for p := range n {
		state.AddPartition(change.PartitionID{Topic: "t", Partition: int32(p)}, 0)
	}
	s.judge, s.next, s.events = NewJudge(s.cal, state), map[int32]int64{}, nil
	return fmt.Sprintf("%s is open, a partition pauses at %s\n", s.label(first), s.instant(s.judge.Pause()))
}

func (s *script) duration(d *datadriven.TestData, name, otherwise string) int64 {
	text := otherwise
	d.MaybeScanArgs(s.t, name, &text)
	v, err := time.ParseDuration(text)
	if err != nil {
		d.Fatalf(s.t, "%s: %v", name, err)
	}
	return v.Microseconds()
}

// time reads DDTHH:MM:SS[.ffffff] of July 2022, as the zone's clock shows it.
func (s *script) time(d *datadriven.TestData, text string) int64 {
	at, err := time.ParseInLocation("2006-01-02T15:04:05", "2022-07-"+text, s.cal.Location())
	if err != nil {
		d.Fatalf(s.t, "time %q: %v", text, err)
	}
	return at.UnixMicro()
}

func (s *script) instant(t int64) string {
	if t == NoTime {
		return "none"
	}
	return strings.TrimPrefix(time.UnixMicro(t).In(s.cal.Location()).Format("2006-01-02T15:04:05.999999"), "2022-07-")
}

func (s *script) label(l Label) string { return s.cal.Name(l) }

// take judges the event of one line and says what became of it.
func (s *script) take(d *datadriven.TestData, line string) string {
	kinds := map[string]Kind{"change": RowChange, "read": FullRead, "lone": IncrementalRead, "truncate": TableTruncate}
	words := strings.Fields(line)
	e := Event{Kind: kinds[words[0]], OwnTime: true, HasPosition: true, Server: change.Server{Name: "shop", ID: 1}}
	if e.Kind == 0 {
		d.Fatalf(s.t, "%q: no such kind", line)
	}
	partition := int32(0)
	for _, w := range words[1:] {
		value, isGTID := strings.CutPrefix(w, "gtid=")
		switch {
		case isGTID:
			e.GTID = value
		case w == "replaced":
			e.OwnTime = false
		case w == "nopos":
			e.HasPosition = false
		case w == "first":
			e.FirstRead = true
		case w == "last":
			e.LastRead = true
		case strings.Contains(w, "T"):
			e.Time = s.time(d, w)
		case strings.Contains(w, ":"):
			e.Position = position(d, s.t, w)
		case strings.Contains(w, ">"):
			e.Keys[0], e.Keys[1], _ = strings.Cut(w, ">")
		case w[0] == 'p' && len(w) == 2:
			partition = int32(w[1] - '0')
		case w[0] == 's' && len(w) == 2:
			e.Server.ID = int64(w[1] - '0')
		default:
			e.Keys[1] = w
		}
	}
	for _, k := range e.Keys {
		for _, c := range []byte(k) {
			e.Identity = e.Identity*131 + uint64(c)
		}
		e.Identity = e.Identity*131 + 7
	}
	p := s.judge.State.Partition(partition)
	if s.judge.Paused(p) {
		return fmt.Sprintf("%s: not taken, the partition is paused", line)
	}
	e.Offset = s.next[partition]
	s.next[partition]++
	p.Next = s.next[partition]
	v := s.judge.Take(p, &e)
	if v.Fate == Hold && e.Kind == RowChange {
		s.events = append(s.events, taken{partition, e.Keys, v.At})
	}
	return fmt.Sprintf("%s: %s", line, s.verdict(v))
}

func position(d *datadriven.TestData, t *testing.T, text string) (p change.Position) {
	parts := strings.Split(text, ":")
	var n [3]int64
	for i, part := range parts {
		v, err := strconv.ParseInt(part, 10, 64)
		if err != nil || i > 2 {
			d.Fatalf(t, "position %q", text)
		}
		n[i] = v
	}
	return change.Position{File: n[0], Pos: n[1], Row: int32(n[2])}
}

func (s *script) verdict(v Verdict) string {
	var b strings.Builder
	switch v.Fate {
	case Duplicate:
		return "duplicate"
	case Apply:
		fmt.Fprintf(&b, "apply in %s", s.label(v.At))
	case Hold:
		fmt.Fprintf(&b, "hold for %s", s.label(v.At))
	}
	if v.Label != v.At {
		fmt.Fprintf(&b, ", its own label is %s", s.label(v.Label))
	}
	for _, word := range []struct {
		set  bool
		text string
	}{{v.Late, "late"}, {v.NewLine, "a new line"}, {v.LoadLabelFell, "its load has come to this label"}} {
		if word.set {
			b.WriteString(", " + word.text)
		}
	}
	return b.String()
}

func (s *script) seal(d *datadriven.TestData) string {
	var clock string
	d.ScanArgs(s.t, "clock", &clock)
	var ends []End
	for _, p := range s.judge.State.Partitions {
		end := p.Next
		d.MaybeScanArgs(s.t, fmt.Sprintf("p%d", p.Kafka), &end)
		ends = append(ends, End{p, end})
	}
	dec := s.judge.MaySeal(ends, s.time(d, clock), s.duration(d, "idle", "5m"))
	if !dec.Seal {
		return fmt.Sprintf("no: %s %v\n", dec.Reason, dec.Waiting)
	}
	var b strings.Builder
	for _, p := range s.judge.State.Partitions {
		fmt.Fprintf(&b, "p%d agrees by %s\n", p.Kafka, dec.Rules[p.Number])
	}
	return b.String()
}

// restart writes the state, reads it back, and tells what is held, as a new process does.
func (s *script) restart() {
	raw, err := json.Marshal(s.judge.State)
	if err != nil {
		s.t.Fatal(err)
	}
	state := &State{}
	if err := json.Unmarshal(raw, state); err != nil {
		s.t.Fatal(err)
	}
	if err := state.Validate(); err != nil {
		s.t.Fatal(err)
	}
	s.judge = NewJudge(s.cal, state)
	for _, e := range s.events {
		s.judge.Held(e.partition, e.keys, e.at)
	}
}

func (s *script) state() string {
	var b strings.Builder
	st := s.judge.State
	fmt.Fprintf(&b, "open %s, lines", s.label(st.Open))
	for i, l := range st.Lines {
		fmt.Fprintf(&b, " %d=%s/%d#%d", i, l.Server.Name, l.Server.ID, l.Generation)
	}
	b.WriteString("\n")
	for _, p := range st.Partitions {
		fmt.Fprintf(&b, "p%d next %d watermark %s", p.Kafka, p.Next, s.instant(p.Watermark))
		if p.HasLastLabel {
			fmt.Fprintf(&b, " last label %s", s.label(p.LastLabel))
		}
		for _, l := range p.Lines {
			fmt.Fprintf(&b, " | line %d file %d", l.Number, l.File)
			if l.HasHigh {
				fmt.Fprintf(&b, " high %s of %d", positionText(l.High), len(l.AtHigh))
			}
		}
		if p.LastGTID != "" {
			fmt.Fprintf(&b, " | gtid %s", p.LastGTID)
		}
		b.WriteString("\n")
	}
	for _, l := range st.Loads {
		fmt.Fprintf(&b, "load %s of %s on %v", s.load(l), s.label(l.Label), l.On)
		for _, word := range []struct {
			set  bool
			text string
		}{{l.Written, "written"}, {l.Replaces(), "replaces"}, {l.Ended, "ended"}} {
			if word.set {
				b.WriteString(" " + word.text)
			}
		}
		b.WriteString("\n")
	}
	for _, f := range st.Floors {
		fmt.Fprintf(&b, "floor %s\n", metaText(f))
	}
	return b.String()
}

func (s *script) load(l *Load) string {
	return fmt.Sprintf("%s/%d@%s", l.Server.Name, l.Server.ID, positionText(l.Position))
}

func positionText(p change.Position) string {
	text := fmt.Sprintf("%d:%d", p.File, p.Pos)
	if p.Row != 0 {
		text += fmt.Sprintf(":%d", p.Row)
	}
	return text
}

func metaText(m Meta) string {
	rank := [...]string{"floor", "read", "change"}[m.Rank]
	if !m.HasPosition {
		return fmt.Sprintf("%s p%d@%d without position", rank, m.Partition, m.Offset)
	}
	return fmt.Sprintf("%s p%d@%d line %d %s", rank, m.Partition, m.Offset, m.Line, positionText(m.Position))
}
