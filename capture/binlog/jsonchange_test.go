package binlog

import (
	"testing"

	"github.com/gscd-io/gscd/capture/event"
)

// diff writes a change as the server does: operation, path and value behind their lengths.
func diff(op byte, path string, value []byte) []byte {
	out := append([]byte{op, byte(len(path))}, path...)
	if value != nil {
		out = append(append(out, byte(len(value))), value...)
	}
	return out
}

func TestJSONChange(t *testing.T) {
	const before = `{"a": 1, "b": [1, "x, ]}", {"c d": null}], "k\"q": 2.50}`
	five, text := []byte{jsonInt16, 5, 0}, append([]byte{jsonString, 2}, "ü"...)
	empty := []byte{jsonSmallObject, 0, 0, 4, 0}
	for _, c := range []struct {
		diffs [][]byte
		want  string
	}{
		{[][]byte{diff(0, "$.a", five)}, `{"a": 5, "b": [1, "x, ]}", {"c d": null}], "k\"q": 2.50}`},
		{[][]byte{diff(0, `$.b[2]."c d"`, text)}, `{"a": 1, "b": [1, "x, ]}", {"c d": "ü"}], "k\"q": 2.50}`},
		{[][]byte{diff(1, "$.b[1]", five)}, `{"a": 1, "b": [1, 5, "x, ]}", {"c d": null}], "k\"q": 2.50}`},
		{[][]byte{diff(1, "$.b[9]", five)}, `{"a": 1, "b": [1, "x, ]}", {"c d": null}, 5], "k\"q": 2.50}`},
		{[][]byte{diff(1, "$.c", empty)}, `{"a": 1, "b": [1, "x, ]}", {"c d": null}], "c": {}, "k\"q": 2.50}`},
		{[][]byte{diff(1, "$.aa", five)}, `{"a": 1, "b": [1, "x, ]}", {"c d": null}], "aa": 5, "k\"q": 2.50}`},
		{[][]byte{diff(2, `$."k\"q"`, nil), diff(2, "$.b[0]", nil)}, `{"a": 1, "b": ["x, ]}", {"c d": null}]}`},
		{[][]byte{diff(2, "$.a", nil), diff(2, "$.b", nil), diff(2, `$."k\"q"`, nil)}, `{}`},
		{[][]byte{diff(0, "$.none", five)}, ""}, {[][]byte{diff(2, "$.b[7]", nil)}, ""}, {[][]byte{diff(1, "$.a", five)}, ""},
		{[][]byte{diff(0, "$", five)}, ""}, {[][]byte{diff(3, "$.a", five)}, ""}, {[][]byte{{0, 200, '$'}}, ""}, {[][]byte{diff(0, "$.b.c", five)}, ""},
		{[][]byte{diff(0, "$.b[x]", five)}, ""}, {[][]byte{diff(0, `$."a`, five)}, ""}, {[][]byte{diff(0, "a", five)}, ""},
	} {
		var all []byte
		for _, d := range c.diffs {
			all = append(all, d...)
		}
		var s slot
		out := event.Cell{}
		err := s.jsonChange(all, &event.Cell{Kind: event.Text, Bytes: []byte(before)}, &out)
		if got := string(out.Bytes); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q: %s, %v, want %s", all, got, err, c.want)
		}
	}
	var s slot
	if err := s.jsonChange(diff(0, "$.a", five), &event.Cell{}, &event.Cell{}); err == nil {
		t.Error("a change of nothing")
	}
}
