//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/write"
)

// writtenTables makes the tables of writeFeatures: with columns id, name and n.
var writtenTables = map[string]func(t *testing.T) *book{
	"plain": func(t *testing.T) *book { return changed(t, nil) },
	"partitioned": func(t *testing.T) *book {
		b := newBook(t, "id long, name string, n integer, p string", []string{"p"}, nil)
		b.people(0, 60, func(id int) any { return []any{"a", "b/c ü", nil}[id%3] })
		b.did(write.Delete(ctx, b.table, "id = 7"))
		return b
	},
	"deletion vectors":          func(t *testing.T) *book { return growingVectors(t) },
	"column mapping by name":    mappedWithNames,
	"change data feed":          func(t *testing.T) *book { return changed(t, map[string]string{"delta.enableChangeDataFeed": "true"}) },
	"constraints, comments":     func(t *testing.T) *book { return ruled(t) },
	"classic checkpoints alone": func(t *testing.T) *book { return checkpointed(t) },
	"islands":                   islands,
	"tables of `gscd ingest`":   ingested,
}

func mappedWithNames(t *testing.T) *book {
	b := newBook(t, "id long, label string, n integer, gone string", nil, map[string]string{vectors: "true"})
	b.people(0, 30, func(int) any { return "old" })
	b.alter(write.RenameColumn("label", "name"))
	b.alter(write.DropColumn("gone"))
	b.append([]any{30, "name 30", 2})
	b.did(write.Delete(ctx, b.table, "id = 5"))
	return b
}

// islands has holes in its log.
func islands(t *testing.T) *book {
	b := changed(t, map[string]string{vectors: "true"})
	s, err := b.table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.table.Checkpoint(ctx, s, delta.CheckpointOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.table.CleanLog(ctx, delta.CleanOptions{Pinned: []int64{1, 3}, KeepSince: time.Now().Add(time.Hour), Now: time.Now().Add(2 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if versions := b.all().versions; len(versions) != 3 {
		t.Fatalf("versions %v, want islands", versions)
	}
	return b
}

// ingested is a table of the program's own making.
func ingested(t *testing.T) *book {
	path := filepath.Join(t.TempDir(), "it's a table")
	lines := filepath.Join(t.TempDir(), "people.jsonl")
	var text strings.Builder
	for id := 1; id <= 40; id++ {
		at := 1657929600000 + int64(id)*1000
		n := strconv.Itoa(id)
		row := `{"id":` + n + `,"name":"name ` + n + `","n":` + strconv.Itoa(id%7) + `}`
		ms := strconv.FormatInt(at, 10)
		text.WriteString(`{"topic":"s.shop.people","partition":0,"offset":` + strconv.Itoa(id-1) + `,"timestamp":` + ms + `,"key":{"id":` + n + `},"value":{"op":"c","before":null,"after":` + row +
			`,"source":{"name":"s","server_id":1,"file":"b.000001","pos":` + n + `,"row":0,"ts_ms":` + ms + `,"db":"shop","table":"people"},"ts_ms":` + ms + `}}` + "\n")
	}
	if err := os.WriteFile(lines, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	gscd(t, "ingest", "--input", lines, "--name", "people", "--location", path, "--topic", "s.shop.people", "--timezone", "Asia/Shanghai", "--until-end")
	table, err := delta.Open(ctx, localStore(t, path))
	if err != nil {
		t.Fatal(err)
	}
	return &book{t, table, path}
}

// write has every engine that writes go on with a table, each with one of its own: gscd
// and the engine itself must then read the rows that a model has, and gscd goes on too.
func (f *found) write(t *testing.T, feature string) {
	for _, e := range f.engines {
		if !slices.ContainsFunc(otherEngines, func(o struct {
			name, version string
			writes        bool
		}) bool {
			return o.name == e.name && o.writes
		}) {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			b := writtenTables[feature](t)
			path := b.path
			if e.gateway != nil { // the files of the gateway's objects
				name := strings.ReplaceAll(feature, " ", "-")
				b.path = filepath.Join(e.gateway.dir, gatewayBucket, name)
				if err := os.CopyFS(b.path, os.DirFS(path)); err != nil {
					t.Fatal(err)
				}
				b.table = delta.New(localStore(t, b.path))
				path = e.address(t, b.path)
			}
			var failed []string
			m := modelOf(t, b)
			for _, what := range operations {
				if what == "restore" && e.name == "Trino" {
					continue // it has none
				}
				q := m.apply(what)
				q["path"] = path
				if _, err := e.ask(t, q); err != nil {
					failed = append(failed, what+": "+err.Error())
					m.back()
					continue
				}
				if d := m.differs(t, b, e, path); d != "" {
					t.Fatalf("%s: %s", what, d)
				}
			}
			// And gscd on top of that.
			outcome := "no"
			if len(failed) < len(operations)-1 {
				outcome = "partly"
				b.did(write.Append(ctx, b.table, write.Values([][]any{{9000, "of gscd"}}, "id", "name")))
				b.did(write.Delete(ctx, b.table, "id = 9000 or id = 12"))
				m.rows = slices.DeleteFunc(m.rows, func(r []*string) bool { return *r[0] == "12" })
				if d := m.differs(t, b, e, path); d != "" {
					t.Fatalf("gscd on top: %s", d)
				}
			}
			f.judge(t, true, e.name, feature, outcome, strings.Join(failed, "\n"))
		})
	}
}

// model is what a table with columns id, name, n and others must hold.
type model struct {
	columns [][2]string
	rows    [][]*string
	before  *model // the last operation
	start   *model // what restore goes back to
	version int64
}

func modelOf(t testing.TB, b *book) *model {
	t.Helper()
	s, err := b.table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c := ownContent(t, b.table.Store(), s, nil)
	m := &model{columns: c.Columns, rows: c.Rows, version: s.Version()}
	m.start = m.clone()
	return m
}

func (m *model) clone() *model {
	c := &model{columns: slices.Clone(m.columns)}
	for _, r := range m.rows {
		c.rows = append(c.rows, slices.Clone(r))
	}
	return c
}

func (m *model) back() { m.columns, m.rows = m.before.columns, m.before.rows }

// column gives the place of a column.
func (m *model) column(name string) int {
	return slices.IndexFunc(m.columns, func(c [2]string) bool { return c[0] == name })
}

// put sets name and n of a row, which may be a new one.
func (m *model) put(id, name, n string) {
	for _, r := range m.rows {
		if *r[0] == id {
			r[m.column("name")], r[m.column("n")] = &name, &n
			return
		}
	}
	row := make([]*string, len(m.columns))
	row[0], row[m.column("name")], row[m.column("n")] = &id, &name, &n
	m.rows = append(m.rows, row)
}

// apply does an operation to the model, and gives the request that does it to the table.
func (m *model) apply(what string) request {
	m.before = m.clone()
	columns := []string{"id", "name", "n"}
	switch what {
	case "insert":
		m.put("7000", "ü inserted", "1")
		m.put("7001", "inserted", "3")
		return request{"do": "append", "columns": columns, "rows": [][]any{{7000, "ü inserted", 1}, {7001, "inserted", 3}}}
	case "delete":
		m.rows = slices.DeleteFunc(m.rows, func(r []*string) bool { return *r[0] == "8" || *r[0] == "9" || *r[0] == "7001" })
		return request{"do": "delete", "where": "id = 8 or id = 9 or id = 7001"}
	case "update":
		n := m.column("n")
		for _, r := range m.rows {
			if r[n] != nil && *r[n] == "1" {
				name := "updated"
				r[m.column("name")] = &name
			}
		}
		return request{"do": "update", "set": map[string]string{"name": "'updated'"}, "where": "n = 1"}
	case "merge":
		m.put("10", "merged", "5")
		m.put("7002", "merged", "6")
		return request{"do": "merge", "columns": columns, "rows": [][]any{{10, "merged", 5}, {7002, "merged", 6}}}
	case "optimize":
		return request{"do": "optimize"}
	case "add column":
		m.columns = append(m.columns, [2]string{"added", "string"})
		for i := range m.rows {
			m.rows[i] = append(m.rows[i], nil)
		}
		return request{"do": "add", "column": "added"}
	case "restore":
		start := m.start.clone()
		m.columns, m.rows = start.columns, start.rows
		return request{"do": "restore", "version": m.version}
	}
	panic(what)
}

// differs holds the newest version against the model, as gscd and as the engine reads it.
func (m *model) differs(t testing.TB, b *book, e *engine, path string) string {
	t.Helper()
	table, err := delta.Open(ctx, b.table.Store())
	if err != nil {
		return err.Error()
	}
	s, err := table.Snapshot(ctx)
	if err != nil {
		return "gscd reads: " + err.Error()
	}
	want := &content{Columns: m.columns, Rows: m.rows}
	own := ownContent(t, b.table.Store(), s, nil)
	if d := own.differs(want); d != "" {
		return "gscd reads other rows: " + d
	}
	want = e.sees("", want)
	got, err := e.read(t, path, s.Version(), "true", want)
	if err != nil {
		return "it reads: " + err.Error()
	}
	if d := got.differs(want); d != "" {
		return "it reads other rows: " + d
	}
	return ""
}
