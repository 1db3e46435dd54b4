package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/alloctest"
)

// FuzzArguments: any arguments, a line each, are used or refused. Nothing leaves the world of the
// tables and the folder of the test: what would reach for a broker, a server, a file elsewhere or
// never end is left out.
func FuzzArguments(f *testing.F) {
	dir, err := os.MkdirTemp("", "gscd-args")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { os.RemoveAll(dir) })
	here, err := os.Getwd()
	if err != nil {
		f.Fatal(err)
	}
	if err := os.Chdir(dir); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = os.Chdir(here) })
	if err := os.WriteFile("rec.jsonl", []byte(storyOf(2)), 0o600); err != nil {
		f.Fatal(err)
	}
	base := newWorld()
	var out bytes.Buffer
	if code, stderr := base.gscd(&out, "ingest", "--location", "/w/t", "--topic", "items", "--timezone", "UTC", "--key", "id", "--input", "rec.jsonl"); code != 0 {
		f.Fatal(stderr)
	}
	for _, line := range []string{
		"query --table /w/t --as-of 2022-07-16 --where id=1 --order-by id --limit 1 --columns id,name", "snapshots 2022-07-16 --table /w/t", "status --table /w/t --input rec.jsonl",
		"diff 2022-07-16 2022-07-17 --table /w/t", "history --key id=1 --table /w/t", "blame --table /w/t --as-of 2022-07-16", "changes --from 2022-07-16 --net --table /w/t",
		"rollback --to 2022-07-16 --table /w/t --yes", "savepoint create x --version 1 --table /w/t", "savepoint delete 2022-07-16 --table /w/t", "vacuum --retain 1d --grace 0s --table /w/t",
		"optimize --zorder id,name --pinned --target-size 1MiB --table /w/t", "optimize --where true --table /w/t", "export --as-of 2022-07-16 --to /w/out --as csv --file-size 1KiB --table /w/t",
		"load --snapshot 2022-07-19 rec.jsonl --table /w/s --key id --timezone UTC --columns id=long", "scd2 --table /w/t --out /w/h --open-end null", "check --deep --repair --table /w/t",
		"convert /w/out --partition day", "dead-letter replay --all --table /w/t", "seal 2022-07-17 --force --input rec.jsonl --now 2022-07-18T00:00:00Z --table /w/t",
		"offsets set items=1 --table /w/t", "views --dialect spark --table /w/t", "describe --versions --table /w/t", "completion bash", "config show", "version", "help", "",
		"adopt --label 2022-07-17 --location /w/a --key id --timezone UTC", "--log-level x --format y version", "__complete query --as-of ",
	} {
		f.Add(strings.ReplaceAll(line, " ", "\n"))
	}
	ours := []string{"/w/t", "/w/s", "/w/h", "/w/a", "/w/out"}
	leaves := []string{"broker", "follow", "topic", "http", "output", "html", "temp-dir", "keep-steps"}
	commands := []string{"demo", "capture", "record", "shell", "report", "ingest", "bench"}
	f.Fuzz(func(t *testing.T, text string) {
		args := strings.Split(text, "\n")
		for _, arg := range args {
			outside := strings.ContainsAny(arg, "/\\:~") && !slices.Contains(ours, arg) && !strings.HasPrefix(arg, "2022-")
			if outside || arg == ".." || slices.Contains(commands, arg) || slices.ContainsFunc(leaves, func(word string) bool { return strings.Contains(arg, word) }) {
				return
			}
		}
		alloctest.Within(t, len(text), 1<<12, 256<<20, func() {
			w := base.clone()
			var out bytes.Buffer
			if code, stderr := w.gscd(&out, args...); code < 0 || code > 3 || code != 0 && stderr == "" {
				t.Errorf("gscd %q: exit %d, %s", args, code, stderr)
			}
		})
	})
}
