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
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
)

// engine is another engine at work; engines/rows.py and writes.py say how to talk to it.
type engine struct {
	name    string
	process *process
	answers *bufio.Reader
	gateway *gateway // Trino's alone: what it writes on lies there
}

// startEngine starts an engine by its name in the list of engines, once for many
// requests: most of their time goes into starting. Engines that write take all requests
// of writes.py, others only read.
func startEngine(t testing.TB, name string) *engine {
	t.Helper()
	e := &engine{name: name}
	python := func(of string, args ...string) *process {
		python := filepath.Join(component(t, of), "bin", "python")
		return startProcess(t, python, append([]string{engineFile(t, args[0])}, args[1:]...)...)
	}
	switch name {
	case "delta-rs":
		e.process = python("python", "writes.py", "delta-rs")
	case "Spark":
		e.process = python("spark", "writes.py", "spark", component(t, "spark-jars"))
	case "Trino":
		return trinoOn(t, startGateway(t))
	case "Delta Kernel":
		e.process = startProcess(t, "java", "-Xmx512m", "-XX:+UseSerialGC", "-Xlog:disable", "-Xlog:all=warning:stderr", "-cp", filepath.Join(component(t, "kernel"), "*"), engineFile(t, "KRead.java"))
	default:
		e.process = python("python", "rows.py", strings.ToLower(name))
	}
	e.answers = bufio.NewReader(e.process.stdout)
	return e
}

// trinoOn starts Trino, which writes where a gateway is reached.
func trinoOn(t testing.TB, g *gateway) *engine {
	t.Helper()
	e := &engine{name: "Trino", gateway: g}
	e.process = startProcess(t, filepath.Join(component(t, "python"), "bin", "python"), engineFile(t, "writes.py"), "trino", startTrino(t, g))
	e.answers = bufio.NewReader(e.process.stdout)
	return e
}

type request map[string]any

// ask sends a request and gives the answer; the error is the engine's own.
func (e *engine) ask(t testing.TB, q request) (*content, error) {
	t.Helper()
	line, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.process.stdin.Write(append(line, '\n')); err != nil {
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
		first, rest, _ := strings.Cut(c.Error, "\n")   // a stack may follow
		if strings.HasPrefix(first, "Py4JJavaError") { // which says no more than where
			first, _, _ = strings.Cut(rest, "\n")
		}
		return nil, fmt.Errorf("%s: %s", e.name, first)
	}
	return &c, nil
}

// read asks for the rows of a version for which a condition in the engine's SQL is
// true, "true" for all. like tells the types to an engine that does not know them all.
func (e *engine) read(t testing.TB, path string, version int64, where string, like *content) (*content, error) {
	t.Helper()
	types := map[string]string{}
	for _, c := range like.Columns {
		types[c[0]] = c[1]
	}
	return e.ask(t, request{"do": "read", "path": path, "version": version, "where": where, "types": types})
}

// address is where the engine finds what lies at a path of this machine.
func (e *engine) address(t testing.TB, path string) string {
	t.Helper()
	if e.gateway == nil || strings.HasPrefix(path, "s3://") {
		return path
	}
	key, err := filepath.Rel(e.gateway.dir, path)
	if err != nil || strings.HasPrefix(key, "..") {
		t.Fatalf("%s is not an object of the gateway in %s", path, e.gateway.dir)
	}
	return "s3://" + filepath.ToSlash(key)
}

// do changes a table, which must succeed.
func (e *engine) do(t testing.TB, r *rig, q request) {
	t.Helper()
	q["path"] = e.address(t, r.store.Store.String())
	if _, err := e.ask(t, q); err != nil {
		t.Fatalf("%v: %v", q, err)
	}
}

// content is a version of a table in a form that engines can be compared by: a
// cell is nil or a text that holds the value exactly.
type content struct {
	Columns [][2]string `json:"columns"` // name and Delta type
	Rows    [][]*string `json:"rows"`
	Error   string      `json:"error"`
}

// ownContent is what gscd itself reads of a version: the rows that take wants,
// nil for all.
func ownContent(t testing.TB, store objstore.Store, s *delta.Snapshot, take func(row []schema.Value) bool) *content {
	t.Helper()
	scan, err := scan.New(store, s, scan.Options{})
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
	case schema.Float: // one NaN is like another
		if f := v.Float32(); f != f {
			return "7fc00000"
		}
		return fmt.Sprintf("%08x", uint32(v.I))
	case schema.Double:
		if f := v.Float64(); f != f {
			return "7ff8000000000000"
		}
		return fmt.Sprintf("%016x", uint64(v.I))
	case schema.Dec:
		return v.DecimalText(t.Scale)
	case schema.Binary:
		return hex.EncodeToString([]byte(v.S))
	case schema.Compound:
		return partsText(t, v)
	}
	return v.S
}

// partsText gives the cells of a struct, an array or a map as a list in JSON.
func partsText(t schema.Type, v schema.Value) string {
	cells := []*string{}
	i := 0
	for part := range v.Parts() {
		of := t.Nested.Element
		switch {
		case t.Primitive == schema.Struct:
			of = t.Nested.Fields[i].Type
		case t.Primitive == schema.Map && i%2 == 0:
			of = t.Nested.Key
		}
		var cell *string
		if !part.IsNull() {
			text := cellText(of, part)
			cell = &text
		}
		cells = append(cells, cell)
		i++
	}
	if t.Primitive == schema.Map {
		pairs := slices.Collect(slices.Chunk(cells, 2))
		slices.SortFunc(pairs, func(a, b []*string) int { return strings.Compare(*a[0], *b[0]) })
		cells = append([]*string{}, slices.Concat(pairs...)...)
	}
	raw, err := json.Marshal(cells)
	if err != nil {
		return err.Error()
	}
	return string(raw)
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
	show := func(rows []string) string {
		var b strings.Builder
		for _, r := range rows[:min(3, len(rows))] {
			fmt.Fprintf(&b, "\n    %.400s", r)
		}
		return b.String()
	}
	return fmt.Sprintf("%d rows, want %d; %d of them wrong:%s\n  %d missing:%s",
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
