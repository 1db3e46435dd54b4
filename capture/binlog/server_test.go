package binlog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strconv"
	"testing"

	"github.com/gscd-io/gscd/capture/binlog"
	"github.com/gscd-io/gscd/capture/event"
	"github.com/gscd-io/gscd/ddl"
)

// The logs of testdata are those that MariaDB 10.11 wrote for the .sql files beside
// them (a line with use begins another connection); the .json files have what it then
// printed of each table.
func TestServer(t *testing.T) {
	for _, name := range []string{"edge.000002", "flow.000005"} {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile("testdata/" + name[:4] + ".json")
			if err != nil {
				t.Fatal(err)
			}
			d := json.NewDecoder(bytes.NewReader(raw))
			d.UseNumber()
			var want map[string][]map[string]any
			if err := d.Decode(&want); err != nil {
				t.Fatal(err)
			}
			for _, rows := range want { // all cells are text: what is a number may be compared as one
				for _, row := range rows {
					for column, v := range row {
						if text, ok := v.(string); ok {
							if _, err := strconv.ParseFloat(text, 64); err == nil {
								row[column] = json.Number(text)
							}
						}
					}
				}
			}
			tables := readTables(t, "testdata/"+name)
			for name, rows := range want {
				m := tables[name]
				if m == nil {
					m = &mirror{}
				}
				got := m.bag
				for _, row := range m.rows {
					got = append(got, row)
				}
				t.Run(name, func(t *testing.T) { match(t, got, rows, nil) })
			}
			for name, m := range tables {
				if want[name] == nil && len(m.rows)+len(m.bag) > 0 {
					t.Errorf("%s should be gone: %v %v", name, m.rows, m.bag)
				}
			}
		})
	}
}

// readTables applies a file's events.
func readTables(t *testing.T, path string) map[string]*mirror {
	t.Helper()
	tables := map[string]*mirror{}
	of := func(def *ddl.Table) *mirror {
		name := def.Database + "." + def.Name
		if tables[name] == nil {
			tables[name] = &mirror{rows: map[string]map[string]any{}}
			for _, at := range def.Key {
				tables[name].keys = append(tables[name].keys, def.Columns[at].Name)
			}
		}
		return tables[name]
	}
	files := binlog.OpenFiles(path)
	defer files.Close()
	r := binlog.NewReader(files, ddl.NewCatalog(), binlog.Options{Name: "app"})
	var last event.Source
	renamed := map[string]*mirror{}
	for {
		ev, err := r.Next(context.Background())
		if err == io.EOF {
			return tables
		}
		if err != nil {
			t.Fatal(err)
		}
		s := ev.Source
		if s.Pos < last.Pos || s.Pos == last.Pos && s.Row <= last.Row {
			t.Errorf("position %d/%d behind %d/%d", s.Pos, s.Row, last.Pos, last.Row)
		}
		last = s
		if s.Last && ev.Op != event.Schema {
			// While an XA transaction is prepared the position stays before it.
			waits := len(ev.After) > 1 && string(ev.After[1].Bytes) == "between"
			if p := r.Position(); p.Pos > s.Pos == waits || p.GTIDs == "" {
				t.Errorf("position behind %+v is %+v", s, p)
			}
		}
		switch ev.Op {
		case event.Schema:
			switch {
			case ev.Table == nil:
				name := ev.Old.Database + "." + ev.Old.Name
				renamed[ev.Statement] = tables[name]
				delete(tables, name)
			case ev.Old == nil:
				if m := renamed[ev.Statement]; m != nil { // the other half of a RENAME
					tables[ev.Table.Database+"."+ev.Table.Name] = m
				}
				of(ev.Table)
			default:
				of(ev.Table).shape(ev)
			}
		case event.Truncate:
			m := of(ev.Table)
			clear(m.rows)
			m.bag = nil
		default:
			m := of(ev.Table)
			if ev.Before != nil {
				row := rowOf(ev.Table, ev.Before)
				if len(m.keys) > 0 && m.rows[m.key(row)] == nil {
					t.Errorf("no row %v to change", row)
				}
				old := m.rows[m.key(row)]
				if err := m.remove(row); err != nil {
					t.Error(err)
				}
				if ev.After != nil {
					after := rowOf(ev.Table, ev.After)
					for name, v := range after { // what the log does not say stays
						if v == "(absent)" {
							after[name] = old[name]
						}
					}
					m.put(after)
				}
				continue
			}
			after := rowOf(ev.Table, ev.After)
			for name, v := range after {
				if v == "(absent)" {
					after[name] = nil // the column's default
				}
			}
			m.put(after)
		}
	}
}
