package ingest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

var plantedFaults = flag.Int("model.planted", 0, "how many planted faults TestPlantedFaults tries (3; -1 for all, which takes half an hour)")

// planted is a fault that is put into the source: the one place of a file where old
// stands is made new. The simulator must find it within so many runs, from seed 1 on.
type planted struct {
	rule     string
	file     string // below the module
	old, new string
	runs     int
}

// The first three are tried at every change: they are found soon, and only this package
// is compiled anew for them.
var plantedList = []planted{
	{"the pause is exact: records behind the one that ends it wait", "ingest/lane.go",
		"if r.Row == 0 && l.judge.Paused(p) {", "if r.Row < 0 && l.judge.Paused(p) {", 50},
	{"what is held is applied in the label that it waits for", "ingest/release.go",
		"		return f.Label <= l.state().Open\n", "		return f.Label <= l.state().Open+1\n", 50},
	{"the counts of a label begin with it", "ingest/seal.go",
		"l.p.Counts, l.late, l.p.Foreign, l.p.Slice = progress.Counts{}, nil, nil, nil", "l.late, l.p.Foreign, l.p.Slice = nil, nil, nil", 50},

	{"who has lost the table adds nothing", "ingest/owner.go",
		"if l.owns && (l.p.OwnerEpoch > l.epoch", "if l.owns && l.epoch < 0 && (l.p.OwnerEpoch > l.epoch", 3000},
	{"a label is sealed drift.wait after its end, not before", "snapshotter/judge.go",
		"return j.cal.End(j.State.Open) + j.State.Wait }", "return j.cal.End(j.State.Open) + j.State.Wait - 1e6 }", 200},
	{"by the clock alone a label is sealed drift.idle later", "snapshotter/seal.go",
		"byClock := at >= end+s.Wait+idle", "byClock := at >= end+s.Wait", 100},
	{"a commit whose answer was lost is looked up", "delta/commit.go",
		"		if err == nil {\n			return nil, nil\n		}\n		unknown :=", "		if err == nil || errors.Is(err, objstore.ErrUnknownOutcome) {\n			return nil, nil\n		}\n		unknown :=", 400},
	{"a deletion vector is found at its offset", "delta/upsert/writer.go",
		"pack.Append(dead)\n", "pack.Append(dead)\n		offset++\n", 50},
	{"rows that were deleted before stay deleted", "delta/upsert/writer.go",
		"		if s.dead != nil {\n			dead.Or(s.dead)\n		}\n		tx.Remove(", "		tx.Remove(", 50},
	{"a row that dies while its file is written anew is deleted in the new one too", "delta/upsert/move.go",
		"in.carryDead(seg.dead, dead)", "in.carryDead(in.dead, dead)", 100},
	{"the deletion vectors of joined files are shifted", "delta/upsert/move.go",
		"out.OrShifted(now, int64(in.first))", "out.OrShifted(now, 0)", 100},
	{"of changes at one position only a like one is a duplicate", "snapshotter/judge.go",
		"return slices.Contains(line.AtHigh, e.Identity)\n", "return true\n", 100},
	{"a change below the highest position is a duplicate", "snapshotter/judge.go",
		"	case -1:\n		return true\n", "	case -1:\n		return false\n", 50},
	{"log files are compared as numbers", "ingest/change/change.go",
		"return sign(p.File < q.File)", "return sign(\"\"+string(rune('0'+p.File%10)) < string(rune('0'+q.File%10)))", 200},
	{"a change of a key waits with what is held of it", "snapshotter/judge.go",
		"				v.Label = max(v.Label, l)\n", "				v.Label = max(v.Label, min(l, v.Label))\n", 200},
	{"only a change of a sealed label is late", "snapshotter/judge.go",
		"v.Late = v.Label < s.Open\n", "v.Late = v.Label < s.Open-1\n", 100},
	{"a load has the smallest label of its first reads", "snapshotter/judge.go",
		"label := max(own, s.Open); label < l.Label {", "label := max(own, s.Open); label > l.Label {", 400},
	{"reads never override a change that is newer by position", "snapshotter/order.go",
		"	if c := a.Position.Compare(b.Position); c != 0 {\n		return c > 0\n	}\n	return a.Rank > b.Rank\n", "	return a.Offset > b.Offset\n", 200},
	{"a batch in the making sees the one in flight", "ingest/overlap.go",
		"	i, ok := f.batch.index.look(key, f.batch.entries)\n	if !ok {\n", "	i, ok := f.batch.index.look(key, f.batch.entries)\n	if !ok || true {\n", 200},
	{"a batch in the making learns where the rows of the one before lie", "ingest/overlap.go",
		"			if n, ok := ref.Pending(); ok {\n				if *ref = index", "			if n, ok := ref.Pending(); ok && f.made.Version() < 0 {\n				if *ref = index", 200},
	{"a commit says what was taken when its batch was cut", "ingest/overlap.go",
		"	f.p = l.p.Clone()\n", "	f.p = l.p\n", 200},
	{"a truncate leaves a floor", "ingest/apply.go",
		"	l.state().AddFloor(m)\n", "", 1000},
	{"a delete is known for two sealed labels more", "ingest/marker/marker.go",
		"const KeptLabels = 2", "const KeptLabels = 0", 1000},
	{"a rollback brings back what was held", "savepoint/rollback.go",
		"	next.RolledBack = rolled\n", "	next.RolledBack, next.Held = rolled, nil\n", 400},
	{"a vacuum keeps the deletion vectors of savepoints", "savepoint/summary.go",
		"		if stored {\n			note(key, ", "		if !stored {\n			note(key, ", 1000},
	{"a vacuum keeps the files of savepoints", "savepoint/vacuum.go",
		"versions, opened := versionsOf(v.pins), 0", "versions, opened := versionsOf(v.pins[:0]), 0", 400},
}

// TestPlantedFaults proves that the simulator finds faults: each is compiled into a test
// binary of its own, and must make TestModel fail.
func TestPlantedFaults(t *testing.T) {
	if testing.Short() || underRace {
		t.Skip("each planted fault is a build of its own")
	}
	list := plantedList
	switch n := *plantedFaults; {
	case n == 0:
		list = list[:3]
	case n > 0:
		list = list[:min(n, len(list))]
	}
	for _, p := range list {
		t.Run(p.rule, func(t *testing.T) { p.find(t) })
	}
}

var foundSeed = regexp.MustCompile(`seed (\d+): `)

func (p *planted) find(t *testing.T) {
	dir := t.TempDir()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, filepath.FromSlash(p.file))
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(source, []byte(p.old)); n != 1 {
		t.Fatalf("%s has this %d times, and must have it once; write the fault anew where the rule is kept now:\n%s", p.file, n, p.old)
	}
	changed, overlay, binary := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "model.test")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(changed, bytes.Replace(source, []byte(p.old), []byte(p.new), 1), 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the fault does not compile: %v\n%s", err, out)
	}
	begin := time.Now()
	run := exec.CommandContext(ctx, binary, "-test.run", "TestModel$", "-test.timeout", "8m", "-model.seed", "1", "-model.runs", strconv.Itoa(p.runs), "-model.whole")
	out, err := run.CombinedOutput()
	seed := foundSeed.FindSubmatch(out)
	var failed *exec.ExitError
	if !errors.As(err, &failed) || seed == nil {
		t.Fatalf("%d runs did not find it: %v\n%.2000s", p.runs, err, out)
	}
	line, _, _ := bytes.Cut(out[bytes.Index(out, seed[0]):], []byte("\n"))
	t.Log(fmt.Sprintf("found in run %s of %d, %.1f s: %.200s", seed[1], p.runs, time.Since(begin).Seconds(), line))
}
