package decode

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestGapsAreDocumented: the two tables of docs/formats.md say what the code says.
func TestGapsAreDocumented(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "formats.md"))
	if err != nil {
		t.Fatal(err)
	}
	var rows, lacks []string
	for _, format := range Formats()[1:] {
		has, ok := gaps[format]
		if !ok {
			t.Errorf("nothing says what records of %s lack: add them to gaps, and to docs/formats.md", format)
			continue
		}
		row := "| `" + format + "` |"
		for _, word := range has {
			if word != always && word != never {
				word = "`" + word + "`"
			}
			row += " " + word + " |"
		}
		rows = append(rows, row)
	}
	for w, means := range lackings {
		lacks = append(lacks, fmt.Sprintf("| %s | %s |", Want(w), means))
	}
	for _, want := range slices.Concat(rows, lacks) {
		if !strings.Contains(string(raw), want+"\n") {
			t.Errorf("docs/formats.md lacks\n%s", want)
		}
	}
	for format, has := range gaps {
		if !slices.Contains(Formats(), format) || slices.Contains(has[:], "") {
			t.Errorf("%s: %q", format, has)
		}
	}
}

func TestGaps(t *testing.T) {
	wanted := func(format string, o Options) (out []string) {
		for _, g := range Gaps(format, &o) {
			out = append(out, g.Want.String())
			if g.Means == "" || !strings.Contains(g.String(), g.Unless) {
				t.Errorf("%+v", g)
			}
		}
		return out
	}
	for _, c := range []struct {
		format string
		opts   Options
		want   []string
	}{
		{Auto, Options{}, nil},
		{"debezium-json", Options{}, []string{"commit time", "truncate"}},
		{"debezium-json", Options{EventTime: "column:at"}, []string{"truncate"}},
		{DebeziumFlat, Options{Tombstones: "delete", EventTime: "kafka"}, []string{"position", "reads", "truncate"}},
		{DebeziumFlat, Options{Tombstones: "ignore", EventTime: "kafka"}, []string{"position", "reads", "truncate", "old key"}},
		{AWSDMS, Options{}, []string{"position", "event time", "commit time", "key", "old key", "truncate"}},
		{AWSDMS, Options{KeyColumns: []string{"id"}, DMS: DMS{KeyChanges: "none"}}, []string{"position", "event time", "commit time", "truncate"}},
	} {
		if got := wanted(c.format, c.opts); !slices.Equal(got, c.want) {
			t.Errorf("%s %+v: %q, want %q", c.format, c.opts, got, c.want)
		}
	}
}
