package format

import (
	"errors"
	"testing"
)

func TestCheckHead(t *testing.T) {
	for _, c := range []struct {
		in, rest string
		ok       bool
		err      string
	}{
		{"gscd held 1\nabc", "abc", true, ""},
		{"gscd held 1\n", "", true, ""},
		{"gscd held 3\nabc", "", true, "f.zst has version 3, this program knows 1: it was written by a newer gscd; use the release that wrote it or newer"},
		{"gscd held 12345678901\n", "", false, ""},
		{"gscd held 1", "", false, ""},
		{"gscd held 0\n", "", false, ""},
		{"gscd held -1\n", "", false, ""},
		{"gscd held x\n", "", false, ""},
		{"gscd held", "", false, ""},
		{"gscd markers 1\n", "", false, ""},
		{"", "", false, ""},
	} {
		rest, ok, err := CheckHead("f.zst", []byte(c.in), "gscd held", 1)
		if string(rest) != c.rest || ok != c.ok || (err == nil) != (c.err == "") || err != nil && (err.Error() != c.err || !errors.Is(err, ErrNewer)) {
			t.Errorf("%q: %q, %t, %v", c.in, rest, ok, err)
		}
	}
	e := &Newer{What: "property p", Found: "2", Known: "1", Release: "gscd/v0.3.0"}
	if got, want := e.Error(), "property p has version 2, this program knows 1: it was written by a newer gscd; use gscd v0.3.0 or newer"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
