package ingest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var oracleRuns = flag.Int("model.oracle", 60, "recordings that the model and the oracle beside the repository both judge")

// judgeOf runs the oracle on recordings, one JSON object a line.
const judgeOf = `
import sys, json
sys.path.insert(0, sys.argv[1])
import oracle
for line in sys.stdin:
    c = json.loads(line)
    m = oracle.Model(oracle.Settings(**c["settings"]))
    for what, n, clock in c["steps"]:
        if what == "look": m.look(c["records"][:n], clock)
        elif m.seals: m.rollback(m.seals[n % len(m.seals)].label)
    print(json.dumps(m.answer()), flush=True)
`

// judged is what the oracle says of a label.
type judged struct {
	State      string
	Rows       []string
	Attributes []string
	Counts     struct{ Inserts, Updates, Deletes, Truncates, Superseded, Duplicates, Late, Dead int64 }
}

// TestModelAgainstOracle has the model of these tests and an independent one, by other
// people in another language, judge the recordings that the random runs play. Where they
// differ, one of the two is wrong.
func TestModelAgainstOracle(t *testing.T) {
	shared := os.Getenv("GSCD_TESTDATA")
	if shared == "" {
		shared = "../../shared"
	}
	dir, err := filepath.Abs(filepath.Join(shared, "oracle"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "oracle.py")); err != nil {
		t.Skipf("no oracle: %v", err)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skipf("no Python to run the oracle: %v", err)
	}
	var in bytes.Buffer
	var list []*scenario
	for seed := *modelSeed; len(list) < *oracleRuns; seed++ {
		if sc := newScenario(seed); sc.known() {
			line, err := json.Marshal(sc.recording())
			if err != nil {
				t.Fatal(err)
			}
			in.Write(append(line, '\n'))
			list = append(list, sc)
		}
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", judgeOf, dir)
	cmd.Stdin = &in
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 64<<20)
	for _, sc := range list {
		if !lines.Scan() {
			t.Fatalf("the oracle ended early: %v", lines.Err())
		}
		var answer struct {
			Open   *string
			Labels map[string]judged
		}
		if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		if err := sc.agrees(answer.Open, answer.Labels); err != nil {
			t.Errorf("seed %d: %v\n%s", sc.seed, err, sc.print())
			return
		}
	}
	t.Logf("%d recordings, judged alike", len(list))
}

// known tells that the oracle knows everything that is in the run.
func (sc *scenario) known() bool {
	f := sc.f
	// A read of a full load that opens a line, behind a binlog that was begun anew, is not known to it.
	if f.reset && slices.ContainsFunc(sc.events, func(e *event) bool { return e.kind == fullRead }) {
		return false
	}
	g := sc.rules.cal.Granularity()
	return (g == "day" || g == "hour") && len(sc.events) > 0 && !f.partial && !f.columns && !f.misfits && !f.tombstones && !f.noPositions &&
		!f.gtids && !f.fineTimes && !f.noServerID && !f.noBroker && !f.newWaits && !f.empty && sc.rules.nullKeys == "" && !sc.rules.merged
}

// recording is the run as the oracle reads it.
func (sc *scenario) recording() map[string]any {
	cutover := 0
	if c := sc.rules.cal.Cutover(); c != "" {
		at, err := time.Parse("15:04", c)
		if err != nil {
			panic(err)
		}
		cutover = at.Hour()*60 + at.Minute()
	}
	settings := map[string]any{
		"key": sc.key, "timezone": sc.rules.cal.Timezone(), "granularity": sc.rules.cal.Granularity(), "cutover": cutover, "wait": sc.steps[0].wait / 1000,
		"idle": sc.rules.idle / 1000, "skew": sc.rules.skew / 1000, "late": sc.rules.late, "future": sc.rules.future,
	}
	if sc.f.filtered {
		settings["source"] = "shop.t"
	}
	var records []map[string]any
	for _, e := range sc.events {
		r := map[string]any{"partition": e.record.Partition, "offset": e.record.Offset, "ts": e.broker / 1000, "key": json.RawMessage("null")}
		if e.record.Key != nil {
			r["key"] = json.RawMessage(e.record.Key)
		}
		switch {
		case e.record.Value == nil:
			r["value"] = nil
		case json.Valid(e.record.Value):
			r["value"] = json.RawMessage(e.record.Value)
		default:
			r["raw_value"] = string(e.record.Value)
		}
		records = append(records, r)
	}
	steps := [][]any{}
	for _, s := range sc.steps {
		switch s.what {
		case "look":
			steps = append(steps, []any{"look", s.n, s.clock / 1000})
		case "rollback":
			steps = append(steps, []any{"rollback", s.to, 0})
		}
	}
	return map[string]any{"settings": settings, "records": records, "steps": steps}
}

// agrees compares the model's answer with the oracle's.
func (sc *scenario) agrees(open *string, labels map[string]judged) error {
	m := &model{rules: sc.rules}
	for _, s := range sc.steps {
		switch {
		case s.what == "look":
			m.look(sc.topic(s.n), s.clock, s.wait, nil)
		case s.what == "rollback" && len(m.seals) > 0:
			m.rollback(m.seals[:s.to%len(m.seals)+1])
		}
	}
	if m.begun != (open != nil) {
		return fmt.Errorf("a table: %v, the oracle says %v", m.begun, open != nil)
	}
	if !m.begun {
		return nil
	}
	if name := sc.rules.cal.Name(m.open()); name != *open {
		return fmt.Errorf("%s is open, the oracle says %s", name, *open)
	}
	states, _ := m.states()
	loose := crosses(sc.events, false)
	for l, st := range states {
		name := sc.rules.cal.Name(l)
		want := labels[name]
		var rows, theirs []string
		for _, s := range st.rows {
			rows = append(rows, rowText(s.row))
		}
		for _, text := range want.Rows {
			var cells map[string]json.RawMessage
			if err := json.Unmarshal([]byte(text), &cells); err != nil {
				return err
			}
			row := map[string]string{}
			for c, cell := range cells {
				if string(cell) != "null" {
					row[c] = string(cell)
				}
			}
			theirs = append(theirs, rowText(row))
		}
		slices.Sort(rows)
		slices.Sort(theirs)
		if !slices.Equal(rows, theirs) {
			return fmt.Errorf("%s has the rows %q, the oracle says %q", name, rows, theirs)
		}
		c, w := st.counts, want.Counts
		mine := []int64{c.Duplicates, c.Late, st.dead, c.Superseded + c.Inserts + c.Updates + c.Deletes + c.Truncates}
		his := []int64{w.Duplicates, w.Late, w.Dead, w.Superseded + w.Inserts + w.Updates + w.Deletes + w.Truncates}
		if !loose {
			mine, his = append(mine, c.Inserts, c.Updates, c.Deletes, c.Truncates), append(his, w.Inserts, w.Updates, w.Deletes, w.Truncates)
		}
		if !slices.Equal(mine, his) {
			return fmt.Errorf("%s counts %v, the oracle says %v (%+v)", name, mine, his, want.Counts)
		}
		slices.Sort(st.attributes)
		if l < m.open() && !slices.Equal(st.attributes, want.Attributes) {
			return fmt.Errorf("%s is %q, the oracle says %q", name, st.attributes, want.Attributes)
		}
	}
	rolled := map[string]bool{}
	for l := range m.rolled {
		if l > m.open() {
			rolled[sc.rules.cal.Name(l)] = true
		}
	}
	for name, j := range labels {
		if j.State == "rolled-back" && !rolled[name] {
			return fmt.Errorf("the oracle says that %s is rolled back, the model knows of %v", name, slices.Sorted(maps.Keys(rolled)))
		}
	}
	return nil
}
