//go:build integration

package integration

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query"
)

// engine is a foreign reader at work; engines/rows.py describes how to talk to it.
type engine struct {
	name    string
	process *process
	answers *bufio.Reader
}

// startEngines starts every foreign reader, once for many requests: most of
// their time goes into starting.
func startEngines(t testing.TB) []*engine {
	t.Helper()
	python := filepath.Join(component(t, "python"), "bin", "python")
	kernel := filepath.Join(component(t, "kernel"), "*")
	list := []*engine{
		{name: "delta-rs", process: startProcess(t, python, engineFile(t, "rows.py"), "delta-rs")},
		{name: "DuckDB", process: startProcess(t, python, engineFile(t, "rows.py"), "duckdb")},
		{name: "Delta Kernel", process: startProcess(t, "java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", kernel, engineFile(t, "KRead.java"))},
	}
	for _, e := range list {
		e.answers = bufio.NewReader(e.process.stdout)
	}
	return list
}

// content is a version of a table in a form that engines can be compared by: a
// cell is nil or a text that holds the value exactly.
type content struct {
	Columns [][2]string `json:"columns"` // name and Delta type
	Rows    [][]*string `json:"rows"`
	Error   string      `json:"error"`
}

// read asks the engine for the rows of a version for which a condition in its SQL
// is true, "true" for all.
func (e *engine) read(t testing.TB, path string, version int64, where string) (*content, error) {
	t.Helper()
	request, err := json.Marshal(map[string]any{"path": path, "version": version, "where": where})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.process.stdin.Write(append(request, '\n')); err != nil {
		t.Fatalf("%s has ended: %v\n%s", e.name, err, e.process.errors)
	}
	answer, err := e.answers.ReadBytes('\n')
	if err != nil {
		t.Fatalf("%s has ended: %v\n%s", e.name, err, e.process.errors)
	}
	var c content
	if err := json.Unmarshal(answer, &c); err != nil {
		t.Fatalf("%s: %v in %.200s", e.name, err, answer)
	}
	if c.Error != "" {
		first, _, _ := strings.Cut(c.Error, "\n") // a stack may follow
		return nil, fmt.Errorf("%s: %s", e.name, first)
	}
	return &c, nil
}

// ownContent is what gscd itself reads of a version: the rows that take wants,
// nil for all.
func ownContent(t testing.TB, store objstore.Store, s *delta.Snapshot, take func(row []schema.Value) bool) *content {
	t.Helper()
	scan, err := query.NewScan(store, s, query.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &content{}
	columns := scan.Columns()
	for _, f := range columns {
		c.Columns = append(c.Columns, [2]string{f.Name, f.Type.String()})
	}
	for cells, err := range scan.Rows(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if take != nil && !take(cells) {
			continue
		}
		row := make([]*string, len(cells))
		for i, v := range cells {
			if !v.IsNull() {
				text := cellText(columns[i].Type, v)
				row[i] = &text
			}
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

func cellText(t schema.Type, v schema.Value) string {
	switch v.Kind {
	case schema.Bool:
		return strconv.FormatBool(v.I == 1)
	case schema.Int:
		return strconv.FormatInt(v.I, 10)
	case schema.Float:
		return fmt.Sprintf("%08x", uint32(v.I))
	case schema.Double:
		return fmt.Sprintf("%016x", uint64(v.I))
	case schema.Dec:
		return v.DecimalText(t.Scale)
	case schema.Binary:
		return hex.EncodeToString([]byte(v.S))
	}
	return v.S
}

// differs says how what an engine read differs from what it should be, "" where
// it doesn't. The order of rows is nobody's promise.
func (c *content) differs(want *content) string {
	if !slices.Equal(c.Columns, want.Columns) {
		return fmt.Sprintf("columns %v, want %v", c.Columns, want.Columns)
	}
	got, wanted := c.texts(), want.texts()
	more, fewer := without(got, wanted), without(wanted, got)
	if len(more)+len(fewer) == 0 {
		return ""
	}
	show := func(rows []string) string { return strings.Join(rows[:min(3, len(rows))], "\n    ") }
	return fmt.Sprintf("%d rows, want %d; %d of them wrong:\n    %s\n  %d missing:\n    %s",
		len(got), len(wanted), len(more), show(more), len(fewer), show(fewer))
}

// texts gives each row as one text, sorted.
func (c *content) texts() []string {
	out := make([]string, len(c.Rows))
	for i, row := range c.Rows {
		var b strings.Builder
		for j, cell := range row {
			if j > 0 {
				b.WriteByte(' ')
			}
			if cell == nil {
				b.WriteString("NULL")
			} else {
				b.WriteString(strconv.Quote(*cell))
			}
		}
		out[i] = b.String()
	}
	slices.Sort(out)
	return out
}

// without gives what a has more often than b; both are sorted.
func without(a, b []string) []string {
	var out []string
	for _, s := range a {
		for len(b) > 0 && b[0] < s {
			b = b[1:]
		}
		if len(b) > 0 && b[0] == s {
			b = b[1:]
			continue
		}
		out = append(out, s)
	}
	return out
}
