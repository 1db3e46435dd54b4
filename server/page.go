package server

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// The status page for browsers: HTML that the server has made, one style sheet,
// no script. What it shows is what /status tells, and the calendar of days.

//go:embed page.html
var pageText string

//go:embed style.css
var pageStyle []byte

//go:embed openapi.yaml
var openAPI []byte

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// pageView is what the template shows; texts are escaped by it.
type pageView struct {
	Title, Version, Started, Now string
	Memory, Tasks                string
	Detail                       bool
	Tables                       []tableView
	Members                      []memberView
	CoordinatorAway              string
}

// memberView is a process of the group that shares the tables.
type memberView struct {
	Name, Address, State, Tables string
	Self                         bool
}

type tableView struct {
	Name, Link, Address string
	State, Mark         string // Mark is a letter for those who don't see colours
	Since, Error        string
	Open, Ends          string
	LastSealed          string
	Answer              string
	Held                bool // something holds the seal that is no clock
	Rows, Lag           string
	Facts               []factView
	Causes              []causeView
	When                string
	Partitions          []partitionView
	Months              []monthView
	Days                []dayView
	DaysError           string
}

type factView struct{ Name, Value string }

type causeView struct{ Rule, Text, Do string }

type partitionView struct {
	Topic                    string
	Partition                int32
	Next, End, Lag           string
	Watermark, Paused, Waits string
}

// monthView is a month of days, in weeks that begin with Monday.
type monthView struct {
	Name  string
	Weeks [][7]dayView
}

// dayView is a label; one without a name is a day of another month.
type dayView struct {
	Name, Number, State, Mark, Version string
	SealedAt, Rows, Late, DeadLetters  string
	Note                               string
}

// overview answers /.
func (s *Server) overview(w http.ResponseWriter, r *http.Request) {
	v := s.pageView("Tables")
	for _, t := range s.all() {
		v.Tables = append(v.Tables, s.tableView(t))
	}
	s.page(w, v)
}

// tablePage answers /tables/NAME.
func (s *Server) tablePage(w http.ResponseWriter, r *http.Request) {
	all := s.all()
	i := slices.IndexFunc(all, func(t *table) bool { return t.Name == r.PathValue("name") })
	if i < 0 {
		http.NotFound(w, r)
		return
	}
	v := s.pageView("Table " + all[i].Name)
	v.Detail = true
	t := s.tableView(all[i])
	days, err := all[i].watch.days(r.Context())
	if err != nil {
		t.DaysError = err.Error()
	}
	t.calendar(days)
	v.Tables = []tableView{t}
	s.page(w, v)
}

// page writes a page when it is whole.
func (s *Server) page(w http.ResponseWriter, v *pageView) {
	var body bytes.Buffer
	if err := pageTemplate.Execute(&body, v); err != nil {
		s.o.Log.Error("the status page can't be made", zap.Error(err))
		http.Error(w, "the page can't be made; the log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(body.Bytes()) // whoever asked has gone
}

func (s *Server) pageView(title string) *pageView {
	used, limit, _ := s.memory.use()
	gate := s.gate.use()
	running := 0
	for _, n := range gate.inside {
		running += n
	}
	members, away := s.group()
	return &pageView{
		Title: title, Version: s.o.Build["version"], Started: rfc3339(s.started), Now: rfc3339(time.Now()), Members: members, CoordinatorAway: away,
		Memory: fmt.Sprintf("%s of %s", mebibytes(used), mebibytes(limit)),
		Tasks:  fmt.Sprintf("%d of %d run, %d wait", running, gate.limit, gate.waiting),
	}
}

// maxMemberTables bounds the names of tables that are shown of a process.
const maxMemberTables = 50

// group gives the processes that share the tables, none where this one is alone, and away as
// coordinatorAway says it.
func (s *Server) group() (out []memberView, away string) {
	if s.o.Group == nil {
		return nil, ""
	}
	v := s.o.Group.View()
	for _, m := range v.Members {
		state := "member"
		if m.Name == v.Leader {
			state = "leader"
		}
		var tables []string
		for i, t := range m.Tables {
			if i == maxMemberTables {
				tables = append(tables, fmt.Sprintf("and %d more", len(m.Tables)-i))
				break
			}
			name := t.Name
			if t.From != "" {
				name += " (waits for " + t.From + ")"
			}
			tables = append(tables, name)
		}
		out = append(out, memberView{Name: m.Name, Address: m.Address, State: state, Tables: strings.Join(tables, ", "), Self: m.Name == v.Member})
	}
	return out, coordinatorAway(v)
}

// marks are the letters of states.
var marks = map[string]string{
	string(Running): "✓", string(Waiting): "…", string(Failed): "✗", string(Ended): "■",
	string(savepoint.Sealed): "✓", string(savepoint.Open): "○", string(savepoint.RolledBack): "↶", string(savepoint.DeletedOne): "−",
}

// tableView is a table without its calendar.
func (s *Server) tableView(t *table) tableView {
	state, err, since := t.now()
	v := tableView{Name: t.Name, Link: "/tables/" + url.PathEscape(t.Name), Address: t.Address, State: string(state), Mark: marks[string(state)], Since: rfc3339(since)}
	if err != nil {
		v.Error = err.Error()
	}
	standing := t.standing()
	if w := s.why(t, standing); w != nil {
		v.Answer = w.Answer()
		v.Held = slices.ContainsFunc(w.Causes, func(c Cause) bool { return c.Rule != RuleClock && c.Rule != RuleIdle })
		for _, c := range w.Causes {
			v.Causes = append(v.Causes, causeView{string(c.Rule), c.Text, c.Do})
		}
		v.When = when(w)
	} else {
		v.Answer = "No record with a label was taken yet."
	}
	if standing == nil {
		return v
	}
	v.stand(standing)
	return v
}

// when says when a label can be sealed, "" where that is not known.
func when(w *Why) string {
	var parts []string
	if !w.Earliest.IsZero() {
		parts = append(parts, "It can be sealed from "+rfc3339(w.Earliest)+" on.")
	}
	if !w.ByClock.IsZero() {
		parts = append(parts, "Where every partition is read to its end, the clock seals it at "+rfc3339(w.ByClock)+".")
	}
	return strings.Join(parts, " ")
}

// stand fills in where the table stands.
func (v *tableView) stand(s *Standing) {
	p := s.Progress
	label := p.State.Open
	held := heldOf(p)
	v.Open, v.Ends = s.Calendar.Name(label), rfc3339(time.UnixMicro(s.Calendar.End(label)))
	v.LastSealed = s.LastSealed
	v.Rows = number(p.Rows)
	lag, known := int64(0), true
	for _, part := range s.Partitions {
		one := partitionView{Topic: part.Topic, Partition: part.Kafka, Next: number(part.Next), End: "not known", Lag: "not known", Watermark: "none yet", Paused: "no", Waits: part.WaitsFor}
		if part.End >= 0 {
			one.End, one.Lag = number(part.End), number(part.Lag)
			lag += part.Lag
		} else {
			known = false
		}
		if part.Watermark != snapshotter.NoTime {
			one.Watermark = rfc3339(time.UnixMicro(part.Watermark))
		}
		if part.Paused {
			one.Paused = "yes"
		}
		v.Partitions = append(v.Partitions, one)
	}
	v.Lag = number(lag)
	if !known {
		v.Lag = "not known"
	}
	fact := func(name, value string) {
		if value != "" {
			v.Facts = append(v.Facts, factView{name, value})
		}
	}
	fact("Address", v.Address)
	fact("Open label", fmt.Sprintf("%s, ends at %s", v.Open, v.Ends))
	fact("Last sealed", v.LastSealed)
	fact("Version", number(s.Version))
	if !s.Committed.IsZero() {
		fact("Last commit", fmt.Sprintf("version %d at %s, a %s of %s", s.LastCommit, rfc3339(s.Committed), p.Kind, p.Label))
	}
	fact("Rows", v.Rows)
	fact("Records behind", v.Lag)
	fact("Held changes", fmt.Sprintf("%s in %s files, %s", number(held.records), number(held.files), mebibytes(held.bytes)))
	fact("Dead letters", number(deadLetters(p)))
	if p.Owner != "" {
		fact("Owner", fmt.Sprintf("%s, epoch %d", p.Owner, p.OwnerEpoch))
	}
	if p.Incomplete != nil {
		fact("Incomplete", fmt.Sprintf("since %s: %s", s.Calendar.Name(p.Incomplete.Since), p.Incomplete.Reason))
	}
}

// mostMonths bounds the months that are drawn.
const mostMonths = 4

// calendar fills in the days, newest first in the list.
func (v *tableView) calendar(days []day) {
	for _, d := range days {
		one := dayOf(d)
		v.Days = append(v.Days, one)
		date, err := time.Parse(time.DateOnly, one.Name)
		if err != nil {
			continue // the labels are no days
		}
		name := date.Format("January 2006")
		if n := len(v.Months); n == 0 || v.Months[n-1].Name != name { // days come in order
			v.Months = append(v.Months, monthView{Name: name})
		}
		m := &v.Months[len(v.Months)-1]
		one.Number = strconv.Itoa(date.Day())
		weekday := (int(date.Weekday()) + 6) % 7
		first := (int(date.AddDate(0, 0, 1-date.Day()).Weekday()) + 6) % 7
		week := (date.Day() - 1 + first) / 7
		for len(m.Weeks) <= week {
			m.Weeks = append(m.Weeks, [7]dayView{})
		}
		m.Weeks[week][weekday] = one
	}
	for i := range v.Months {
		v.Months[i].Weeks = slices.DeleteFunc(v.Months[i].Weeks, func(w [7]dayView) bool { return w == [7]dayView{} })
	}
	v.Months = v.Months[max(0, len(v.Months)-mostMonths):]
	slices.Reverse(v.Months)
	slices.Reverse(v.Days)
}

// dayOf is a label for the page.
func dayOf(d day) dayView {
	v := dayView{Name: d.Name, State: string(d.State), Mark: marks[string(d.State)]}
	if d.Version >= 0 && d.State != savepoint.Open {
		v.Version = number(d.Version)
	}
	var notes []string
	if d.seal != nil {
		v.SealedAt, v.Rows, v.Late, v.DeadLetters = d.seal.sealedAt, number(d.seal.rows), number(d.seal.late), number(d.seal.deadLetters)
		notes = append(notes, d.seal.attributes...)
		if at, err := time.Parse(time.RFC3339Nano, d.seal.sealedAt); err == nil {
			v.SealedAt = rfc3339(at)
		}
	}
	if d.To != "" {
		notes = append(notes, fmt.Sprintf("rolled back to %s at %s", d.To, d.At))
	}
	if d.Policy != "" {
		notes = append(notes, "deleted by the policy "+d.Policy)
	}
	v.Note = strings.Join(notes, ", ")
	return v
}

// number groups digits by three.
func number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
