package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
)

// given is one case of shared/cases/GIVEN.md, which is read in place. Every
// line of its expectation, and every Must and Choice line, has to be asserted
// or left out by name: what nobody looked at fails the test.
type given struct {
	*testing.T
	number   int
	inputs   []input
	expected []*expectation
	must     []*point
	choice   []*point
}

// input is one block of steps under its heading.
type input struct {
	heading string
	steps   []step
}

// step is one line of an input: a record, or an act of the harness.
type step struct {
	record *change.Record
	kind   string
	fields map[string]json.RawMessage
}

func (s step) text(name string) string {
	var text string
	if json.Unmarshal(s.fields[name], &text) != nil {
		return string(s.fields[name])
	}
	return text
}

func (s step) int(name string) int64 {
	n, _ := strconv.ParseInt(string(s.fields[name]), 10, 64)
	return n
}

// object gives a field that is an object of fields itself.
func (s step) object(name string) map[string]json.RawMessage {
	var out map[string]json.RawMessage
	json.Unmarshal(s.fields[name], &out) // nothing in it: nothing is found
	return out
}

// expectation is one line of the expected outcome.
type expectation struct {
	line   string
	fields map[string]json.RawMessage
	seen   bool
}

func (e *expectation) text(name string) string { return step{fields: e.fields}.text(name) }

// has reports whether the expectation's keys are exactly these.
func (e *expectation) has(names ...string) bool {
	for _, n := range names {
		if _, ok := e.fields[n]; !ok {
			return false
		}
	}
	return len(names) == len(e.fields)
}

func (e *expectation) into(t testing.TB, name string, out any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(e.fields[name]))
	d.UseNumber()
	if err := d.Decode(out); err != nil {
		t.Fatalf("%s of %s: %v", name, e.line, err)
	}
}

func (e *expectation) rows(t testing.TB, name string) (out []row) {
	t.Helper()
	e.into(t, name, &out)
	return out
}

func (e *expectation) strings(t testing.TB, name string) []string {
	t.Helper()
	var one string
	if json.Unmarshal(e.fields[name], &one) == nil {
		return []string{one}
	}
	var many []string
	e.into(t, name, &many)
	return many
}

func (e *expectation) ids(t testing.TB, name string) []string {
	t.Helper()
	var list []json.Number
	e.into(t, name, &list)
	out := []string{}
	for _, n := range list {
		out = append(out, n.String())
	}
	slices.Sort(out)
	return out
}

// point is one Must or Choice line.
type point struct {
	text string
	seen bool
}

// theCase reads a case.
func theCase(t *testing.T, number int) *given {
	t.Helper()
	raw := string(readFile(t, sharedFile(t, "cases/GIVEN.md")))
	_, rest, ok := strings.Cut(raw, fmt.Sprintf("\n## %d. ", number))
	if !ok {
		t.Fatalf("GIVEN.md has no case %d", number)
	}
	body, _, _ := strings.Cut(rest, "\n## ")
	c := &given{T: t, number: number}
	heading := regexp.MustCompile(`(?m)^\*\*(.+)\*\*$`)
	at := heading.FindAllStringSubmatchIndex(body, -1)
	for i, m := range at {
		end := len(body)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		name, text := body[m[2]:m[3]], body[m[1]:end]
		_, block, fenced := strings.Cut(text, "```jsonl\n")
		block, _, _ = strings.Cut(block, "\n```")
		switch {
		case name == "Must", name == "Choice":
			for _, l := range strings.Split(text, "\n") {
				if p, ok := strings.CutPrefix(l, "- "); ok && name == "Must" {
					c.must = append(c.must, &point{text: p})
				} else if ok {
					c.choice = append(c.choice, &point{text: p})
				}
			}
		case !fenced:
			t.Fatalf("case %d: %s has no block", number, name)
		case strings.HasPrefix(name, "Expected"):
			for _, l := range strings.Split(block, "\n") {
				e := &expectation{line: l}
				if err := json.Unmarshal([]byte(l), &e.fields); err != nil {
					t.Fatalf("case %d: %s: %v", number, l, err)
				}
				c.expected = append(c.expected, e)
			}
		default:
			in := input{heading: name}
			for _, l := range strings.Split(block, "\n") {
				in.steps = append(in.steps, parseStep(t, l))
			}
			c.inputs = append(c.inputs, in)
		}
	}
	if len(c.inputs) == 0 || len(c.expected) == 0 || len(c.must) == 0 {
		t.Fatalf("case %d: %d inputs, %d expected lines, %d Must lines", number, len(c.inputs), len(c.expected), len(c.must))
	}
	t.Cleanup(c.account)
	return c
}

// parseStep reads a line of an input. A record keeps the bytes of key and value
// as they stand; where it has no ts, its broker timestamp is the envelope's ts_ms.
func parseStep(t testing.TB, line string) step {
	t.Helper()
	s := step{}
	if err := json.Unmarshal([]byte(line), &s.fields); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if _, ok := s.fields["step"]; ok {
		s.kind = s.text("step")
		return s
	}
	var r struct {
		Partition int32
		Offset    int64
		TS        *int64
		Key       json.RawMessage
		Value     json.RawMessage
		RawValue  *string `json:"raw_value"`
	}
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	rec := &change.Record{Topic: topicName, Partition: r.Partition, Offset: r.Offset, Timestamp: -1}
	if string(r.Key) != "null" {
		rec.Key = r.Key
	}
	switch {
	case r.RawValue != nil:
		rec.Value = []byte(*r.RawValue)
	case string(r.Value) != "null":
		rec.Value = r.Value
		var envelope struct {
			TS int64 `json:"ts_ms"`
		}
		if err := json.Unmarshal(r.Value, &envelope); err != nil {
			t.Fatal(err)
		}
		rec.Timestamp = envelope.TS
	}
	if r.TS != nil {
		rec.Timestamp = *r.TS
	}
	s.record = rec
	return s
}

// account fails for what was not looked at.
func (c *given) account() {
	if c.Failed() || c.Skipped() {
		return
	}
	for _, e := range c.expected {
		if !e.seen {
			c.Errorf("case %d: nothing asserts the expected line %s", c.number, e.line)
		}
	}
	for kind, list := range map[string][]*point{"Must": c.must, "Choice": c.choice} {
		for i, p := range list {
			if !p.seen {
				c.Errorf("case %d: nothing asserts %s %d: %s", c.number, kind, i+1, p.text)
			}
		}
	}
}

// ignore takes the case for its input alone.
func (c *given) ignore() *given {
	c.expected, c.must, c.choice = nil, nil, nil
	return c
}

// steps gives the steps of the inputs whose heading begins so, joined.
func (c *given) steps(heading string) []step {
	c.Helper()
	var out []step
	for _, in := range c.inputs {
		if strings.HasPrefix(in.heading, heading) {
			out = append(out, in.steps...)
		}
	}
	if len(out) == 0 {
		c.Fatalf("case %d has no input %q", c.number, heading)
	}
	return out
}

// expect gives the expected lines that have exactly these keys and take pass.
func (c *given) expect(take func(*expectation) bool, keys ...string) []*expectation {
	c.Helper()
	var out []*expectation
	for _, e := range c.expected {
		if e.has(keys...) && (take == nil || take(e)) {
			e.seen = true
			out = append(out, e)
		}
	}
	if len(out) == 0 {
		c.Fatalf("case %d expects nothing of %q", c.number, keys)
	}
	return out
}

// point runs the assertion of the i-th line of a list as a subtest.
func (c *given) point(kind string, list []*point, i int, fn func(t *testing.T)) {
	c.Helper()
	if i < 1 || i > len(list) {
		c.Fatalf("case %d has no %s %d", c.number, kind, i)
	}
	p := list[i-1]
	p.seen = true
	c.Run(fmt.Sprintf("%s %d %.60s", kind, i, p.text), fn)
}

func (c *given) theMust(i int, fn func(t *testing.T)) { c.Helper(); c.point("Must", c.must, i, fn) }
func (c *given) theChoice(i int, fn func(t *testing.T)) {
	c.Helper()
	c.point("Choice", c.choice, i, fn)
}

// leaveMust leaves a Must line out, and says why.
func (c *given) leaveMust(i int, why string) {
	c.Helper()
	c.must[i-1].seen = true
	c.Logf("left out, Must %d (%s): %s", i, c.must[i-1].text, why)
}

// leave leaves out the expected lines with this key.
func (c *given) leave(key, why string) {
	c.Helper()
	for _, e := range c.expected {
		if _, ok := e.fields[key]; ok {
			e.seen = true
			c.Logf("left out, %s: %s", e.line, why)
		}
	}
}

// variants are the ways in which a table may be written: what it answers must
// not depend on them (P1).
var variants = []struct {
	name   string
	fresh  bool
	change func(*ingest.Options)
}{
	{"by default", false, func(*ingest.Options) {}},
	{"record by record, each piece of work a new process", true, func(o *ingest.Options) { o.BatchRows, o.PollRecords = 1, 1 }},
	{"copy on write, two by two", false, func(o *ingest.Options) { o.BatchRows, o.PollRecords, o.CopyOnWrite = 2, 3, true }},
}

// everyWay runs the case on a fresh table for each of the variants.
func (c *given) everyWay(run func(t *testing.T, r *rig), change ...func(*ingest.Options)) {
	c.Helper()
	for _, v := range variants {
		c.Run(v.name, func(t *testing.T) {
			r := newRig(t, newTopic(partitionsOf(c.inputs)...), append(change, v.change)...)
			r.freshLanes = v.fresh
			run(t, r)
		})
	}
}

func partitionsOf(inputs []input) []int32 {
	var out []int32
	for _, in := range inputs {
		for _, s := range in.steps {
			if s.record != nil && !slices.Contains(out, s.record.Partition) {
				out = append(out, s.record.Partition)
			}
		}
	}
	return out
}

// play does the steps: records go to the topic, clock works. at is called for
// every other step; before a cli step the ingester has taken what was sent,
// unless it was stopped.
func (r *rig) play(steps []step, at func(s step)) {
	r.t.Helper()
	stopped := false
	for _, s := range steps {
		switch s.kind {
		case "":
			r.send(s.record)
		case "clock":
			r.clock = instant(r.t, s.text("now"))
			r.mustWork()
			if at != nil {
				at(s)
			}
		case "restart", "stop":
			r.restart()
			stopped = s.kind == "stop"
			if at != nil {
				at(s)
			}
		case "cli":
			if !stopped {
				r.mustWork()
			}
			if at != nil {
				at(s)
			}
		default:
			if at == nil {
				r.t.Fatalf("nobody does the step %s", s.kind)
			}
			at(s)
		}
	}
}

// send appends a record to the topic; time passes to its broker timestamp.
func (r *rig) send(records ...*change.Record) {
	for _, rec := range records {
		r.topic.send(rec)
		if at := time.UnixMilli(rec.Timestamp); rec.Timestamp > 0 && at.After(r.clock) {
			r.clock = at
		}
	}
}

// checkAsOf asserts the expected lines that say the rows or ids of a day.
func (c *given) checkAsOf(t testing.TB, r *rig) {
	t.Helper()
	checked := 0
	for _, e := range c.expected {
		switch {
		case e.has("as_of", "rows"):
			sameRows(t, "as of "+e.text("as_of"), r.mustAsOf(e.text("as_of")), e.rows(t, "rows"))
		case e.has("as_of", "ids"):
			sameList(t, "as of "+e.text("as_of"), ids(r.mustAsOf(e.text("as_of"))), e.ids(t, "ids"))
		default:
			continue
		}
		e.seen = true
		checked++
	}
	if checked == 0 {
		t.Fatalf("case %d expects no rows", c.number)
	}
}

// checkVersionsOf asserts "each holds this label only; the sealed one is in the map once".
func (c *given) checkVersionsOf(t testing.TB, r *rig) {
	t.Helper()
	for _, e := range c.expect(nil, "versions_of", "rule") {
		label, n, sealed := e.text("versions_of"), 0, 0
		for _, v := range r.log() {
			if v.changesData() && v.progress.Kind == progress.Batch && v.progress.Label == label {
				n++
			}
		}
		if n == 0 {
			t.Errorf("no version holds changes of %s", label)
		}
		for _, entry := range r.labels().Entries {
			if entry.Name == label && entry.State == savepoint.Sealed {
				sealed++
				at, err := r.table().Commit(ctx, entry.Version)
				if err != nil {
					t.Fatal(err)
				}
				if len(at.Adds)+len(at.Removes) > 0 {
					t.Errorf("the seal of %s moves data", label)
				}
			}
		}
		equal(t, "entries of "+label+" in the map", sealed, 1)
	}
	r.checkVersions(false)
}
