package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/gscd-io/gscd/delta/objstore/mem"
)

// goldenWrite writes the golden tables of a release. Those of a release that is out are never written again.
var goldenWrite = flag.String("golden.write", "", "TestGolden: write the tables of this `release`, such as v0.2.0, and what is read of them, instead of reading")

const goldenFolder = "testdata/golden"

// golden is what a release has left: objects of its tables, by key below "/w/", the records that they
// were made of and those that come next, and what it read of them, by command.
type golden struct {
	release string
	dir     string
	below   *mem.Store
	// read are answers as the tables lie there, went what they are behind further records.
	read, went map[string]string
}

// goldenTables are the tables of a release, one of each kind. Names are those below /w/.
var goldenTables = []struct{ name, more string }{
	{"plain", ""},
	{"cow", ", write: {mode: copy-on-write}, change_data: true, partition_by: [day]"},
	{"lock", ", protect: lock"},
	{"late", ", late: dead_letter"},
	{"rolled", ""},
}

// configOf is the configuration of a golden table.
func (g *golden) configOf(t *testing.T, name string) string {
	for _, table := range goldenTables {
		if table.name == name {
			return tableConfig(t, name, table.more)
		}
	}
	t.Fatalf("%s is no golden table", name)
	return ""
}

func (g *golden) file(name string) string { return filepath.Join(g.dir, name) }

func (g *golden) ingest(t *testing.T, w *world, table, recording string) {
	t.Helper()
	w.ok(t, "ingest", "-c", g.configOf(t, table), "--input", g.file(recording), "--until-end")
}

// write makes the tables.
func (g *golden) write(t *testing.T) *world {
	w := newWorld()
	for _, table := range goldenTables {
		g.ingest(t, w, table.name, "days-2.jsonl")
		g.ingest(t, w, table.name, "days-3.jsonl")
	}
	w.ok(t, "savepoint", "create", "quarter", "--table", "/w/plain", "--version", "2")
	w.ok(t, "check", "--table", "/w/plain", "--checksums")
	w.ok(t, "savepoint", "delete", "2022-07-16", "--table", "/w/lock", "--yes")
	w.ok(t, "optimize", "--table", "/w/cow", "--pinned")
	w.ok(t, "dead-letter", "dismiss", "-c", g.configOf(t, "late"), "--reason", "late")
	w.ok(t, "rollback", "--table", "/w/rolled", "--to", "2022-07-16", "--yes")
	g.ingest(t, w, "rolled", "days-2.jsonl")
	w.ok(t, "scd2", "--table", "/w/plain", "--out", "/w/history", "--row-hash", "hash", "--keep-steps", "/w/steps")
	for day, rows := range []string{"1,a,1\n2,b,2\n3,c,3\n", "1,a,1\n2,B,2\n4,d,4\n"} {
		slice := input(t, "slice.csv", "id,name,n\n"+rows)
		w.ok(t, "load", "--snapshot", fmt.Sprintf("2022-07-%d", 16+day), slice, "--table", "/w/slices", "--key", "id", "--timezone", "Asia/Shanghai", "--max-delete-fraction", "90%")
	}
	return w
}

// goOn is what a later release does with the tables.
func (g *golden) goOn(t *testing.T, w *world) {
	for _, table := range goldenTables {
		g.ingest(t, w, table.name, "days-4.jsonl")
	}
	w.ok(t, "dead-letter", "replay", "-c", g.configOf(t, "late"), "--reason", "late", "--late", "fold")
	w.ok(t, "scd2", "--table", "/w/plain", "--out", "/w/history", "--keep-steps", "/w/steps")
	w.ok(t, "load", "--snapshot", "2022-07-18", input(t, "slice.csv", "id,name,n\n1,a,1\n2,B,3\n5,e,5\n"), "--table", "/w/slices", "--key", "id", "--timezone", "Asia/Shanghai", "--max-delete-fraction", "90%")
	w.ok(t, "maintain", "-c", g.configOf(t, "cow"), "--once")
	w.ok(t, "vacuum", "--table", "/w/rolled", "--retain", "0s", "--grace", "0s")
}

// ask puts every reading command to every table, and gives the answers that stay what they are.
func (g *golden) ask(t *testing.T, w *world) map[string]string {
	answers := map[string]string{}
	keep := func(line string) {
		t.Helper()
		answers[line] = w.ok(t, strings.Fields(line)...)
	}
	for _, name := range []string{"plain", "cow", "lock", "late", "rolled", "slices"} {
		on := " --table /w/" + name
		keep("snapshots" + on)
		keep("savepoint list" + on)
		keep("dead-letter list" + on)
		var sealed []string
		newest := int64(0)
		for line := range strings.Lines(answers["snapshots"+on]) {
			var e struct {
				Label, State string
				Version      int64
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			newest = max(newest, e.Version)
			if e.State == "sealed" {
				sealed = append(sealed, e.Label)
				keep("query --order-by id --as-of " + e.Label + on)
				keep("snapshots " + e.Label + on)
				keep("blame --as-of " + e.Label + on)
				keep("views --dialect duckdb" + on)
			}
		}
		if len(sealed) == 0 {
			t.Fatalf("%s: the labels %q are sealed", name, sealed)
		}
		first, last := sealed[0], sealed[len(sealed)-1]
		keep("query --order-by id" + on)
		keep(fmt.Sprintf("query --order-by id --version %d", newest) + on)
		keep("diff " + first + " " + last + on)
		keep("changes --from " + last + " --to " + last + on + " --format jsonl")
		keep("history --key id=2" + on)
		keep("history --key id=3" + on)
		keep("describe --versions" + on)
		w.ok(t, strings.Fields("status"+on)...)
		w.ok(t, strings.Fields("describe"+on)...)
		w.ok(t, append(strings.Fields("report"+on), "--html", filepath.Join(t.TempDir(), "page.html"))...)
		w.ok(t, strings.Fields("check --deep"+on)...)
	}
	keep("query --order-by id,valid_from --table /w/history")
	keep("query --order-by id,label --table /w/steps/changed")
	w.ok(t, strings.Fields("scd2 --check --table /w/plain --out /w/history")...)
	return answers
}

// TestGolden reads what each release has left, and goes on with it. With -golden.write it writes that.
func TestGolden(t *testing.T) {
	if *goldenWrite != "" {
		g := &golden{release: *goldenWrite, dir: filepath.Join(goldenFolder, *goldenWrite)}
		g.save(t)
	}
	entries, err := os.ReadDir(goldenFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Run(e.Name(), func(t *testing.T) {
			t.Parallel()
			g := &golden{release: e.Name(), dir: filepath.Join(goldenFolder, e.Name())}
			g.load(t)
			w := worldOn(g.below)
			sameAnswers(t, g.read, g.ask(t, w))
			g.goOn(t, w)
			sameAnswers(t, g.went, g.ask(t, w))

			// A table that this program makes of all records has the same days.
			fresh := newWorld()
			for _, name := range []string{"plain", "cow", "lock"} {
				g.ingest(t, fresh, name, "days-4.jsonl")
				for _, label := range []string{"2022-07-17", "2022-07-18", "2022-07-19"} {
					line := strings.Fields("query --order-by id --as-of " + label + " --table /w/" + name)
					if got, want := w.ok(t, line...), fresh.ok(t, line...); got != want || got == "" {
						t.Errorf("%s as of %s:\n%s\nof a table made anew:\n%s", name, label, got, want)
					}
				}
			}
		})
	}
}

// sameAnswers compares what is read with what the release read: every member that it knew has the value it had.
func sameAnswers(t *testing.T, want, got map[string]string) {
	t.Helper()
	for _, line := range slices.Sorted(maps.Keys(want)) {
		a, there := got[line]
		if !there {
			t.Errorf("gscd %s was not asked", line)
			continue
		}
		was, is := answerLines(t, want[line]), answerLines(t, a)
		same := len(was) == len(is)
		for i := range min(len(was), len(is)) {
			same = same && holds(was[i], is[i])
		}
		if !same {
			t.Errorf("gscd %s:\n%s\nwant\n%s", line, a, want[line])
		}
	}
}

// answerLines are the lines of an answer, decoded where they are JSON.
func answerLines(t *testing.T, text string) (lines []any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var v any
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			v = line
		}
		lines = append(lines, v)
	}
	return lines
}

// holds reports that everything in was is in is.
func holds(was, is any) bool {
	object, ok := was.(map[string]any)
	if !ok {
		return reflect.DeepEqual(was, is)
	}
	now, ok := is.(map[string]any)
	for name, v := range object {
		if name == "_commit_timestamp" || name == "committed_at" {
			continue // the time of an object, which is laid down again here
		}
		ok = ok && holds(v, now[name])
	}
	return ok
}

// save writes the tables of this program as those of a release.
func (g *golden) save(t *testing.T) {
	if err := os.MkdirAll(g.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	put := func(name string, data []byte) {
		if err := os.WriteFile(g.file(name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for days := 2; days <= 4; days++ {
		put(fmt.Sprintf("days-%d.jsonl", days), []byte(storyOf(days)))
	}
	w := g.write(t)
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(8<<20), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	tw := tar.NewWriter(z)
	objects := w.objects(t)
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		if err := tw.WriteHeader(&tar.Header{Name: key, Mode: 0o644, Size: int64(len(objects[key])), ModTime: time.Unix(0, 0)}); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write([]byte(objects[key])); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	put("tables.tar.zst", out.Bytes())
	answers := func(all map[string]string) []byte {
		a := &txtar.Archive{Comment: []byte("What " + g.release + " answers, by command.\n")}
		for _, line := range slices.Sorted(maps.Keys(all)) {
			a.Files = append(a.Files, txtar.File{Name: line, Data: []byte(all[line])})
		}
		return txtar.Format(a)
	}
	put("read.txtar", answers(g.ask(t, w)))
	g.goOn(t, w)
	went := g.ask(t, w)
	maps.DeleteFunc(went, func(line, _ string) bool { return !lasting(line) })
	put("went-on.txtar", answers(went))
}

// lasting are answers that do not tell of the commits of the process that went on: rows, and what happened to them.
func lasting(line string) bool {
	return strings.HasPrefix(line, "query ") && !strings.Contains(line, "--version") || strings.HasPrefix(line, "diff ")
}

// load reads the tables of a release.
func (g *golden) load(t *testing.T) {
	f, err := os.Open(g.file("tables.tar.zst"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	g.below = mem.New()
	for tr := tar.NewReader(z); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.below.Put(t.Context(), h.Name, body); err != nil {
			t.Fatal(err)
		}
	}
	answers := func(name string) map[string]string {
		a, err := txtar.ParseFile(g.file(name))
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		for _, f := range a.Files {
			all[f.Name] = string(f.Data)
		}
		if len(all) == 0 {
			t.Fatalf("%s holds no answer", name)
		}
		return all
	}
	g.read, g.went = answers("read.txtar"), answers("went-on.txtar")
}
