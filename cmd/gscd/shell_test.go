package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStatementEnd(t *testing.T) {
	for text, want := range map[string]int{
		"SELECT 1; SELECT 2": 8, "SELECT 1": -1, "": -1, ";": 0,
		"SELECT ';', \";\" -- ;\n, 2;": 24, "SELECT /* ; */ 1;": 16, "SELECT 'it''s;';": 15, "SELECT $$;$$;": 12,
		"SELECT 'open;": -1, "-- open ;": -1, "/* open ;": -1,
	} {
		if got := statementEnd(text); got != want {
			t.Errorf("%q: %d, not %d", text, got, want)
		}
	}
}

func FuzzStatementEnd(f *testing.F) {
	f.Add("SELECT ';' /* ; */ -- ;\n; $$;$$")
	f.Fuzz(func(t *testing.T, text string) {
		if n := statementEnd(text); n >= 0 && text[n] != ';' {
			t.Errorf("%q: %d", text, n)
		}
	})
}

func TestComplete(t *testing.T) {
	words := append([]string{"user_dim", "user_city", "orders", "'2022-07-16'", "'2022-07-17'", "dt"}, sqlKeywords...)
	for text, want := range map[string]string{
		"SELECT * FROM use":     "SELECT * FROM user_",
		"SELECT * FROM user_d":  "SELECT * FROM user_dim",
		"sel":                   "select",
		"SEL":                   "SELECT",
		"SELECT x WHERE dt='20": "SELECT x WHERE dt='2022-07-1",
		`\sn`:                   `\snapshots`,
		"SELECT nothing":        "",
		"SELECT ":               "",
	} {
		got, at, ok := complete(text, len(text), words)
		if got != want || ok != (want != "") || ok && at != len(want) {
			t.Errorf("%q: %q at %d, %v", text, got, at, ok)
		}
	}
	if got, at, _ := complete("SELECT  FROM user_dim", 7, words); got != "" || at != 0 {
		t.Errorf("nothing begun: %q", got)
	}
}

func TestHistory(t *testing.T) {
	dir := t.TempDir()
	getenv := func(name string) string { return map[string]string{"XDG_STATE_HOME": dir}[name] }
	h := openHistory(getenv)
	for _, line := range []string{"SELECT 1;", "SELECT 1;", "  ", "SELECT 2;"} {
		h.Add(line)
	}
	h = openHistory(getenv)
	if h.Len() != 2 || h.At(0) != "SELECT 2;" || h.At(1) != "SELECT 1;" {
		t.Errorf("%q", h.lines)
	}
	info, err := os.Stat(filepath.Join(dir, "gscd", "history"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// A page is printed as it is; what is longer goes to a pager.
func TestPageWriter(t *testing.T) {
	var out strings.Builder
	p := &pageWriter{to: &out, lines: 3}
	if _, err := p.Write([]byte("a\nb\n")); err != nil || p.close() != nil || out.String() != "a\nb\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
