package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

// wicked are names that would reach another file, or a shell, wherever they are taken for a
// piece of a path or of a command.
var wicked = []string{
	"../outside", "..", ".", "../../outside/canary", "a/../../outside/x", "/outside", "..\\outside", "%2e%2e%2foutside", "..%2foutside/x",
	"x/../../outside", "_delta_log", "_delta_log/00000000000000000000.json", "x\x00y", "x\ny", "-rf", "--repair", "~root", "$(touch outside/x)",
	"`touch outside/x`", "; touch outside/x", "' OR ''='", `"; DROP TABLE t; --`, "\u202egnp.exe", strings.Repeat("n", 5000), "CON", "con.txt", "file:///outside/x", "a\tb", "",
}

// filesOf tells name, size, mode and content of all files below a folder but one.
func filesOf(t *testing.T, dir, but string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == but {
			return filepath.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := fmt.Sprintf("%s %s", path, info.Mode())
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %x", data)
		}
		found = append(found, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestWickedNames: no name of a label, a savepoint, a table, a topic or a column, and no value
// of a partition column, makes a file outside of the table's folder or runs anything.
func TestWickedNames(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"outside", "lake"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, "outside", name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("canary", "untouched")
	write("x", "untouched")
	table := filepath.Join(dir, "lake", "t")
	t.Chdir(dir)
	gscd := func(args ...string) (int, string) {
		t.Helper()
		var out, errs bytes.Buffer
		a := &app{stdout: &out, stderr: &errs, stdin: strings.NewReader(""), log: zap.NewNop(), brokerPatience: time.Second}
		code := run(args, a, commands)
		return code, errs.String()
	}
	// Values of a partition column and names of a topic, of a server, a database are a record's.
	var story strings.Builder
	offset := 0
	for i, name := range wicked {
		if len(name) > 150 || strings.ContainsRune(name, 0) {
			continue
		}
		fmt.Fprintf(&story, `{"topic":"items","partition":9,"offset":%d,"ts":%d,"key":{"id":%d},"value":{"op":"c","before":null,"after":{"id":%d,"name":%q,"day":%q},"source":{"name":%q,"server_id":1,"db":%q,"table":%q,"file":%q,"pos":%d,"row":0,"ts_ms":%d},"ts_ms":%d}}`+"\n",
			offset, 1657958400000+i, i, i, name, name, name, name, name, name, 100+i, 1657958400000+i, 1657958400000+i)
		offset++
	}
	story.WriteString(strings.ReplaceAll(storyOf(2), "\n\n", "\n"))
	rec := write("rec.jsonl", strings.ReplaceAll(story.String(), "\\u202e", "\u202e"))
	plain := write("plain.jsonl", storyOf(2))
	if code, text := gscd("ingest", "--location", table, "--topic", "items", "--timezone", "UTC", "--key", "id", "--input", plain); code != 0 {
		t.Fatal(text)
	}
	before := filesOf(t, dir, filepath.Join(dir, "lake"))
	inside := func() []string {
		var names []string
		for _, line := range filesOf(t, filepath.Join(dir, "lake"), "") {
			name, _, _ := strings.Cut(strings.TrimPrefix(line, filepath.Join(dir, "lake")), " ")
			if top := strings.SplitN(name, "/", 3); len(top) > 1 {
				names = append(names, top[1])
			}
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	for _, name := range wicked {
		for _, args := range [][]string{
			{"savepoint", "create", name, "--version", "1"}, {"savepoint", "delete", name}, {"snapshots", name}, {"query", "--as-of", name},
			{"query", "--columns", name}, {"query", "--order-by", name}, {"query", "--where", name}, {"history", "--key", name}, {"history", "--key", "id=" + name},
			{"rollback", "--to", name, "--yes"}, {"diff", name, name}, {"changes", "--from", name}, {"seal", name, "--force", "--input", plain},
			{"load", "--snapshot", name, plain}, {"dead-letter", "show", name}, {"dead-letter", "show", name + "/0/1"}, {"dead-letter", "replay", name + "/0/1"},
			{"offsets", "set", name + "=1"}, {"optimize", "--zorder", name}, {"export", "--as-of", name, "--to", table + "_out"},
			{"scd2", "--from", name, "--out", table + "_h"}, {"views", "--dialect", name}, {"blame", "--as-of", name}, {"completion", name},
		} {
			// Behind -- a name is a name, not a flag.
			if code, text := gscd(append(args, "--table", table)...); code < 0 || code > 3 {
				t.Errorf("gscd %q: exit %d, %s", args, code, text)
			}
		}
	}
	for _, name := range wicked {
		if !strings.HasPrefix(name, "/outside") && !strings.Contains(name, "..") && !strings.HasPrefix(name, "_delta_log") { // these are folders to work in
			gscd("describe", "--table", name)
		}
		gscd("ingest", "--location", table, "--topic", name, "--timezone", "UTC", "--key", "id", "--input", plain)
		gscd("ingest", "--location", table, "--topic", "items", "--name", name, "--timezone", "UTC", "--key", "id", "--input", plain)
		gscd("ingest", "--location", table, "--topic", "items", "--timezone", "UTC", "--key", name, "--input", plain)
	}
	if after := filesOf(t, dir, filepath.Join(dir, "lake")); !slices.Equal(before, after) {
		t.Errorf("outside of the table:\n%s\nwas\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
	for _, name := range inside() {
		if !slices.Contains([]string{"t", "t__dead_letter", "t_out", "t_h", "t_out__dead_letter", "t_h__dead_letter"}, name) {
			t.Errorf("made beside the table: %q", name)
		}
	}

	// Partitions are folders, named by values of the records.
	parts := filepath.Join(dir, "lake", "parts")
	config := write("gscd.yaml", fmt.Sprintf("calendar: {timezone: UTC}\ntables:\n  - {location: %q, topics: [items], key: [id], format: debezium-json, partition_by: [day], columns: {day: string, id: long, name: string}}\n", parts))
	if code, text := gscd("ingest", "-c", config, "--input", rec); code != 0 {
		t.Fatalf("%d: %s", code, text)
	}
	os.Remove(config)
	if after := filesOf(t, dir, filepath.Join(dir, "lake")); !slices.Equal(before, after) {
		t.Errorf("outside of the table:\n%s\nwas\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
	folders, err := os.ReadDir(parts)
	if err != nil || len(folders) < 15 {
		t.Errorf("%d folders of partitions: %v", len(folders), err)
	}
	for _, f := range folders {
		if !strings.HasPrefix(f.Name(), "day=") && f.Name() != "_delta_log" {
			t.Errorf("a folder %q", f.Name())
		}
	}
}

// TestFileModes: what holds data beyond a table is for its owner alone; a table's files are as
// the umask says, and never anyone's to write.
func TestFileModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no modes")
	}
	dir := t.TempDir()
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs, stdin: strings.NewReader(""), log: zap.NewNop(), brokerPatience: time.Second}
	table := filepath.Join(dir, "t")
	if code := run([]string{"ingest", "--location", table, "--topic", "items", "--timezone", "UTC", "--key", "id", "--input", input(t, "rec.jsonl", storyOf(3))}, a, commands); code != 0 {
		t.Fatal(errs.String())
	}
	files := 0
	err := filepath.WalkDir(table, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		files++
		if mode := info.Mode().Perm(); mode&0o022 != 0 || info.Mode().IsRegular() && mode&0o111 != 0 {
			t.Errorf("%s has the mode %s", path, info.Mode())
		}
		return nil
	})
	if err != nil || files < 5 {
		t.Fatalf("%d files: %v", files, err)
	}
}
