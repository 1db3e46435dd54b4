package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The command lines that the demo prints work, in the order in which it prints
// them, and the days are there afterwards as they were before.
func TestDemoGoesOn(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "demo")
	gscd := func(args ...string) string {
		t.Helper()
		a, stdout, stderr := newTestApp()
		if code := run(args, a, commands); code != exitOK {
			t.Fatalf("gscd %s: exit %d: %s", strings.Join(args, " "), code, stderr)
		}
		return stdout.String()
	}
	page := gscd("demo", "--dir", dir)
	if !strings.Contains(page, dir) || !strings.Contains(page, "user_dim.jsonl") {
		t.Errorf("the page does not say where the table is:\n%s", page)
	}
	table := filepath.Join(dir, "user_dim")
	days := func(table string) string {
		var all string
		for _, label := range []string{"2022-07-14", "2022-07-15", "2022-07-16", "2022-07-17", "2022-07-18"} {
			all += label + "\n" + gscd("query", "--table", table, "--as-of", label, "--order-by", "id", "--format", "csv")
		}
		return all
	}
	before := days(table)
	for _, want := range []string{
		"2022-07-16\nid,name,city\n1,Chen Jie,Beijing\n2,Li Na,Hangzhou\n3,Wang Fang,Wuhan\n4,Zhao Lei,Beijing\n5,Liu Yang,Beijing\n6,Sun Li,Hangzhou\n7,Zhou Min,Hangzhou\n8,Wu Tao,Beijing\n10,Xu Bo,Hangzhou\n",
		"11,Guo Jun,Beijing\n12,Ma Lin,Hangzhou\n2022-07-18\n",
	} {
		if !strings.Contains(before, want) {
			t.Errorf("the days are\n%s, without\n%s", before, want)
		}
	}

	var known, later []string
	for line := range strings.Lines(page) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "gscd" || !strings.HasPrefix(line, "gscd ") || words[1] == "demo:" {
			continue
		}
		root := newRootCommand(&app{}, commands)
		if c, _, err := root.Find(words[1:]); err != nil || c == root {
			later = append(later, words[1])
			continue
		}
		known = append(known, words[1])
		gscd(words[1:]...)
	}
	for _, want := range []string{"query", "snapshots", "rollback", "ingest"} {
		if !slices.Contains(known, want) {
			t.Errorf("no line with gscd %s is printed; there are %v", want, known)
		}
	}
	if len(later) > 0 {
		t.Logf("printed, and not there yet: %v", later)
	}
	if after := days(table); after != before {
		t.Errorf("after a rollback and the recorded topic the days are\n%s, were\n%s", after, before)
	}
	if again := days(filepath.Join(dir, "again")); again != before {
		t.Errorf("ingested from the recorded topic alone the days are\n%s, want\n%s", again, before)
	}
}
