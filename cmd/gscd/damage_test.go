package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// damagedCopy copies a table folder.
func damagedCopy(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "t")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// files gives the paths below a folder, sorted.
func files(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

// gscdOn runs a command on a table.
func gscdOn(table string, args ...string) (code int, stdout, stderr string) {
	a, out, errs := newTestApp()
	code = run(append(args, "--table", table, "--format", "jsonl"), a, commands)
	return code, out.String(), errs.String()
}

// Any file of a table may be missing, empty, cut or garbled: a command that needs
// it fails and names it, a command that does not gives all its rows. Never fewer
// rows, never a crash.
func TestDamagedTable(t *testing.T) {
	dir := t.TempDir()
	script, err := txtar.ParseFile("testdata/script/days.txt")
	if err != nil {
		t.Fatal(err)
	}
	recording := filepath.Join(dir, "rec.jsonl")
	for _, f := range script.Files {
		if f.Name == "rec.jsonl" {
			if err := os.WriteFile(recording, f.Data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	sound := filepath.Join(dir, "t")
	a, _, errs := newTestApp()
	if code := run([]string{"ingest", "--location", sound, "--topic", "items", "--timezone", "UTC", "--input", recording, "--log-level", "error"}, a, commands); code != 0 {
		t.Fatal(errs)
	}
	if code, _, errs := gscdOn(sound, "vacuum", "--retain", "0s", "--grace", "0s"); code != 0 {
		t.Fatal(errs)
	}
	asked := [][]string{
		{"query", "--as-of", "2022-07-16", "--order-by", "id"},
		{"query", "--as-of", "2022-07-17", "--order-by", "id"},
		{"query", "--as-of", "2022-07-18", "--order-by", "id"},
		{"query", "--order-by", "id"},
		{"query", "--version", "3", "--order-by", "id"},
		{"snapshots"},
		{"snapshots", "2022-07-17"},
		{"savepoint", "list"},
		{"describe"},
		{"describe", "--versions"},
		{"rollback", "--to", "2022-07-16", "--dry-run"},
		{"vacuum", "--dry-run", "--retain", "0s", "--grace", "0s"},
	}
	want := map[string]string{}
	for _, args := range asked {
		code, out, errs := gscdOn(sound, args...)
		if code != 0 {
			t.Fatalf("%v: %s", args, errs)
		}
		want[strings.Join(args, " ")] = strings.ReplaceAll(out, sound, "TABLE")
	}
	damages := map[string]func(path string) error{
		"missing": os.Remove,
		"cut": func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Truncate(path, info.Size()/2)
		},
		"without its last line": func(path string) error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, data[:bytes.LastIndexByte(data[:len(data)-1], '\n')+1], 0o644)
		},
		"garbled": func(path string) error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, bytes.Repeat([]byte{0xff}, len(data)), 0o644)
		},
	}
	for _, path := range files(t, sound) {
		rel, err := filepath.Rel(sound, path)
		if err != nil {
			t.Fatal(err)
		}
		for name, damage := range damages {
			if name == "without its last line" && !strings.HasSuffix(rel, ".json") {
				continue
			}
			failed := false
			table := damagedCopy(t, sound)
			if err := damage(filepath.Join(table, rel)); err != nil {
				t.Fatal(err)
			}
			lost := name == "missing" && strings.HasSuffix(rel, "6.json")
			for _, args := range asked {
				code, out, errs := gscdOn(table, args...)
				what := strings.Join(args, " ")
				switch {
				case code == 0 && args[0] == "query":
					// That the last commit of all is gone nothing can tell: the table is as before it.
					if out != want[what] && !(lost && !slices.Contains(args, "--as-of")) {
						t.Errorf("%s %s: %s gives %s\nwant %s", rel, name, what, out, want[what])
					}
				case code == 0:
				case code != 1 || !strings.Contains(errs, "gscd: "):
					t.Errorf("%s %s: %s: exit %d: %s", rel, name, what, code, errs)
				case !namesFile(errs, rel):
					t.Errorf("%s %s: %s does not name it: %s", rel, name, what, errs)
				default:
					failed = true
				}
			}
			code, out, errs := gscdOn(table, "check", "--deep")
			if code != exitOK && code != exitNo || code == exitNo && out == "" || code == exitOK && failed && !lost {
				t.Errorf("%s %s: check: exit %d: %s%s", rel, name, code, out, errs)
			}
		}
	}
}

// namesFile tells whether a message says which file is at fault: by its name, or
// for a file of the log by its version.
func namesFile(message, file string) bool {
	name := filepath.Base(file)
	if strings.Contains(message, name) {
		return true
	}
	digits, _, _ := strings.Cut(name, ".")
	version := strings.TrimLeft(digits, "0")
	// Where a checkpoint is gone, the first commit is named that would have to do for it.
	return len(digits) == 20 && (strings.Contains(message, "version "+version) || strings.Contains(message, ".json, which is missing"))
}
