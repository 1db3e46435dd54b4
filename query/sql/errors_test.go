package sql

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Whatever the statement and the place in it, the place can be shown.
func FuzzPlace(f *testing.F) {
	f.Add("SELECT foo FROM t", 7)
	f.Add("SELECT\n\t'張'\r\n, é FROM t", 12)
	f.Add("", 0)
	f.Add(strings.Repeat("x", 300), 150)
	f.Add("a\xffb", 2)
	f.Add("abc", -1)
	f.Fuzz(func(t *testing.T, statement string, at int) {
		e := rejectedf(statement, at, "refused")
		if at < 0 || at > len(statement) {
			if e.Line != 0 || e.Excerpt != "" {
				t.Fatalf("a place outside: %+v", e)
			}
			return
		}
		lines := strings.Split(e.Excerpt, "\n")
		if e.Line < 1 || e.Column < 1 || len(lines) != 2 || !strings.HasSuffix(lines[1], "^") || utf8.RuneCountInString(lines[0]) > 2*excerptRadius+4 {
			t.Fatalf("%+v", e)
		}
		if before := statement[:at]; e.Line != strings.Count(before, "\n")+1 {
			t.Fatalf("line %d", e.Line)
		}
	})
}
