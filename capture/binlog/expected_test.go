package binlog_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/capture/binlog"
	"github.com/gscd-io/gscd/capture/event"
	"github.com/gscd-io/gscd/ddl"
)

// cdcFile gives the path of a file of the shared test data, or skips the test.
func cdcFile(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("GSCD_TESTDATA")
	if dir == "" {
		here, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for ; here != "/"; here = filepath.Dir(here) {
			if _, err := os.Stat(filepath.Join(here, "go.mod")); err == nil {
				dir = filepath.Join(here, "..", "shared")
				break
			}
		}
	}
	path := filepath.Join(dir, "cdc", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no shared test data (%v): set GSCD_TESTDATA", err)
	}
	return path
}

// expectation is an entry of expected.jsonl.
type expectation struct {
	File       any              `json:"file"`
	Format     string           `json:"format"`
	Table      string           `json:"table"`
	Keys       []string         `json:"keys"`
	FinalRows  json.RawMessage  `json:"final_rows"`
	RowsFile   string           `json:"final_rows_file"`
	RowCount   *int             `json:"row_count"`
	RowChanges map[string]int   `json:"row_changes"`
	Error      bool             `json:"error"`
	rows       []map[string]any // of FinalRows or RowsFile
}

func (e *expectation) files(t testing.TB) (out []string) {
	if name, ok := e.File.(string); ok {
		return []string{cdcFile(t, name)}
	}
	for _, name := range e.File.([]any) {
		out = append(out, cdcFile(t, name.(string)))
	}
	return out
}

// expectations are the entries of binlogs.
func expectations(t testing.TB) (out []*expectation) {
	t.Helper()
	raw, err := os.ReadFile(cdcFile(t, "expected.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		e := &expectation{}
		if err := json.Unmarshal(line, e); err != nil {
			t.Fatal(err)
		}
		if e.Format != "binlog" {
			continue
		}
		text := []byte(e.FinalRows)
		if e.RowsFile != "" {
			f, err := os.Open(cdcFile(t, e.RowsFile))
			if err != nil {
				t.Fatal(err)
			}
			z, err := gzip.NewReader(f)
			if err != nil {
				t.Fatal(err)
			}
			s := bufio.NewScanner(z)
			s.Buffer(nil, 16<<20)
			for s.Scan() {
				e.addRow(t, s.Bytes())
			}
			f.Close()
		} else if text != nil {
			var rows []json.RawMessage
			if err := json.Unmarshal(text, &rows); err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				e.addRow(t, row)
			}
		}
		out = append(out, e)
	}
	return out
}

// addRow reads a row; an array has its cells in the table's order.
func (e *expectation) addRow(t testing.TB, raw []byte) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	row := map[string]any{}
	var err error
	if raw[0] == '[' {
		var cells []any
		err = d.Decode(&cells)
		for i, c := range cells {
			row["@"+strconv.Itoa(i+1)] = c
		}
	} else {
		err = d.Decode(&row)
	}
	if err != nil {
		t.Fatal(err)
	}
	e.rows = append(e.rows, row)
}

// schemas are the definitions of logs that have none.
var schemas = map[string]string{
	"binlog/zalora/mysql-bin.01": "binlog/zalora/test_db.sql",
	"binlog/zalora/mysql-bin.06": "binlog/zalora/test_db.sql",
	"binlog/zalora/mysql-bin.07": "binlog/zalora/test_db.sql",
}

// positional are logs whose columns nobody names.
var positional = map[string]bool{
	"binlog/osheroff/mysql-bin.checksum-crc32": true, "binlog/osheroff/mysql-bin.compressed": true,
	"binlog/myflash/haha.000041": true, "binlog/blackbeam/binlog_transaction_with_GTID_TAG.000001": true,
	"binlog/blackbeam/update-full-row.binlog": true, "binlog/blackbeam/write-full-row.binlog": true,
}

// exceptions are entries that the log itself does not bear out, with the rows that it
// gives besides theirs.
var exceptions = map[string]struct {
	rows int
	why  string
}{
	"test_db.rooms":           {3, "the server that the log was replayed in deleted them by a foreign key (ON DELETE CASCADE), and no log says that"},
	"strategy_test.dbz5743中文": {1, "the log has the INSERT; whoever asked the server for the table's rows did not find it by its name"},
}

func (e *expectation) reader(t testing.TB) (*binlog.Reader, *binlog.Files) {
	t.Helper()
	catalog := ddl.NewCatalog()
	first, _ := e.File.(string)
	if name := schemas[first]; name != "" {
		f, err := os.Open(cdcFile(t, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := binlog.ReadSchema(catalog, f, ddl.Session{}); err != nil {
			t.Fatal(err)
		}
	}
	files := binlog.OpenFiles(e.files(t)...)
	o := binlog.Options{Name: "app", Positional: positional[first]}
	if e.Table != "" {
		o.Wanted = func(database, table string) bool { return strings.EqualFold(database+"."+table, e.Table) }
	}
	return binlog.NewReader(files, catalog, o), files
}

// mirror is the naive table: rows by key, or a bag of rows where there is none.
type mirror struct {
	keys []string
	rows map[string]map[string]any
	bag  []map[string]any
}

func (m *mirror) key(row map[string]any) string {
	var out strings.Builder
	for _, k := range m.keys {
		fmt.Fprintf(&out, "%v\x00", row[k])
	}
	return out.String()
}

func (m *mirror) remove(row map[string]any) error {
	if len(m.keys) > 0 {
		delete(m.rows, m.key(row))
		return nil
	}
	for i := range m.bag {
		if reflect.DeepEqual(m.bag[i], row) {
			m.bag = append(m.bag[:i], m.bag[i+1:]...)
			return nil
		}
	}
	return fmt.Errorf("no row %v to delete", row)
}

func (m *mirror) put(row map[string]any) {
	if len(m.keys) > 0 {
		m.rows[m.key(row)] = row
	} else {
		m.bag = append(m.bag, row)
	}
}

// value is a cell in a form that compares.
func value(c event.Cell) any {
	switch c.Kind {
	case event.Null:
		return nil
	case event.Int:
		return strconv.FormatInt(int64(c.Number), 10)
	case event.Uint:
		return strconv.FormatUint(c.Number, 10)
	case event.Float:
		return float32(c.Float)
	case event.Double:
		return c.Float
	case event.Text:
		return string(c.Bytes)
	case event.Bytes:
		return "b64:" + base64.StdEncoding.EncodeToString(c.Bytes)
	}
	return "(absent)"
}

func rowOf(t *ddl.Table, cells []event.Cell) map[string]any {
	row := map[string]any{}
	for i := range t.Columns {
		row[t.Columns[i].Name] = value(cells[i])
	}
	return row
}

// TestExpected reads every sample with a known outcome and applies its events.
func TestExpected(t *testing.T) {
	all := expectations(t)
	if len(all) != 110 {
		t.Errorf("%d entries, 110 were there", len(all))
	}
	for _, e := range all {
		t.Run(fmt.Sprint(e.File)+"/"+e.Table, e.check)
	}
}

func (e *expectation) check(t *testing.T) {
	r, files := e.reader(t)
	defer files.Close()
	m := &mirror{keys: e.Keys, rows: map[string]map[string]any{}}
	if len(e.rows) > 0 && e.rows[0]["@1"] != nil {
		m.keys = []string{"@1"}
	}
	changes := map[string]int{}
	count := 0
	for {
		ev, err := r.Next(context.Background())
		if err == io.EOF {
			break
		}
		if err != nil {
			if !e.Error {
				t.Fatal(err)
			}
			var at *binlog.Error
			if !errors.As(err, &at) || at.File == "" || at.Pos == 0 {
				t.Errorf("the error does not say where: %v", err)
			}
			t.Log(err)
			return
		}
		name := ""
		if ev.Table != nil {
			name = ev.Table.Database + "." + ev.Table.Name
		}
		switch ev.Op {
		case event.Insert:
			changes[name+" I"]++
			count++
			m.put(rowOf(ev.Table, ev.After))
		case event.Update:
			changes[name+" U"]++
			if e.Table != "" {
				if err := m.remove(rowOf(ev.Table, ev.Before)); err != nil && e.RowChanges == nil {
					t.Error(err)
				}
			}
			m.put(rowOf(ev.Table, ev.After))
		case event.Delete:
			changes[name+" D"]++
			if e.Table != "" {
				if err := m.remove(rowOf(ev.Table, ev.Before)); err != nil {
					t.Error(err)
				}
			}
		case event.Truncate:
			clear(m.rows)
			m.bag = nil
		case event.Schema:
			m.shape(ev)
		}
	}
	e.judge(t, m, changes, count)
}

// judge compares what came out with the entry.
func (e *expectation) judge(t *testing.T, m *mirror, changes map[string]int, count int) {
	t.Helper()
	switch {
	case e.Error:
		t.Fatal("no error")
	case e.RowChanges != nil:
		if !reflect.DeepEqual(changes, e.RowChanges) {
			t.Errorf("changes %v, want %v", changes, e.RowChanges)
		}
		return
	case e.FinalRows == nil && e.RowsFile == "":
		if count != *e.RowCount {
			t.Errorf("%d rows, want %d", count, *e.RowCount)
		}
		return
	}
	if e.RowCount != nil && *e.RowCount != len(e.rows) {
		t.Fatalf("the entry has %d rows and says %d", len(e.rows), *e.RowCount)
	}
	got := m.bag
	for _, row := range m.rows {
		got = append(got, row)
	}
	if x, ok := exceptions[e.Table]; ok {
		t.Logf("%d more: %s", x.rows, x.why)
		if len(got) != len(e.rows)+x.rows {
			t.Errorf("%d rows, want %d and %d more", len(got), len(e.rows), x.rows)
		}
		got = wanted(got, e.rows, m.keys)
	}
	match(t, got, e.rows, m.keys)
}

// wanted leaves out the rows whose keys are not expected.
func wanted(got, want []map[string]any, keys []string) (out []map[string]any) {
	for _, row := range got {
		for _, w := range want {
			if len(keys) > 0 && sameValue(row[keys[0]], w[keys[0]]) {
				out = append(out, row)
			}
		}
	}
	return out
}

// shape makes the rows follow a statement, as the server does.
func (m *mirror) shape(ev *event.Event) {
	if ev.Table == nil {
		clear(m.rows)
		m.bag = nil
		return
	}
	if ev.Old == nil {
		return
	}
	rename := func(row map[string]any) map[string]any {
		out := map[string]any{}
		for _, c := range ev.Table.Columns {
			out[c.Name] = nil
			for _, was := range ev.Old.Columns {
				if was.ID == c.ID {
					out[c.Name] = row[was.Name]
				}
			}
		}
		return out
	}
	for k, row := range m.rows {
		m.rows[k] = rename(row)
	}
	for i, row := range m.bag {
		m.bag[i] = rename(row)
	}
}

// match compares rows, in any order.
func match(t *testing.T, got, want []map[string]any, keys []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
	used := make([]bool, len(got))
	index := map[string][]int{}
	text := func(row map[string]any) string {
		var out strings.Builder
		for _, k := range keys {
			switch v := row[k].(type) {
			case json.Number:
				fmt.Fprintf(&out, "%s\x00", string(v))
			default:
				fmt.Fprintf(&out, "%v\x00", v)
			}
		}
		return out.String()
	}
	for i, row := range got {
		index[text(row)] = append(index[text(row)], i)
	}
	faults := 0
	for _, w := range want {
		why := "no row"
		found := false
		for _, i := range index[text(w)] {
			if used[i] {
				continue
			}
			if why = differs(got[i], w); why == "" {
				used[i], found = true, true
				break
			}
		}
		if !found {
			if faults++; faults < 5 {
				t.Errorf("%s: %.300v", why, w)
			}
		}
	}
}

func differs(got, want map[string]any) string {
	for name, w := range want {
		g, there := got[name]
		if !there {
			return "no column " + name
		}
		if !sameValue(g, w) {
			return fmt.Sprintf("column %s is %.200v, want %.200v", name, g, w)
		}
	}
	for name, g := range got {
		if _, there := want[name]; !there && g != nil {
			return fmt.Sprintf("column %s was not expected", name)
		}
	}
	return ""
}

// sameValue compares a cell with an expected one, by the form that the cell has.
func sameValue(got, want any) bool {
	if text, ok := want.(string); ok && sameTime(got, text) {
		return true
	}
	if got == nil || want == nil {
		return got == nil && want == nil
	}
	number := func(s string) bool {
		switch g := got.(type) {
		case float32:
			w, err := strconv.ParseFloat(s, 32)
			return err == nil && (g == float32(w) || math.Abs(float64(g)-w) < 1e-6*math.Abs(w))
		case float64:
			w, err := strconv.ParseFloat(s, 64)
			return err == nil && g == w
		case string:
			a, ok1 := new(big.Rat).SetString(g)
			b, ok2 := new(big.Rat).SetString(s)
			return ok1 && ok2 && a.Cmp(b) == 0
		}
		return false
	}
	switch w := want.(type) {
	case json.Number:
		return number(string(w))
	case string:
		return got == w || sameJSON(got, w)
	case map[string]any:
		if b, ok := w["b64"].(string); ok {
			return got == "b64:"+b
		}
		if n, ok := w["bits"].(json.Number); ok {
			return number(string(n))
		}
		if wkb, ok := w["wkb_b64"].(string); ok {
			srid, _ := w["srid"].(json.Number).Int64()
			raw, _ := base64.StdEncoding.DecodeString(wkb)
			all := append([]byte{byte(srid), byte(srid >> 8), byte(srid >> 16), byte(srid >> 24)}, raw...)
			return got == "b64:"+base64.StdEncoding.EncodeToString(all) || got == "b64:"+wkb && srid == 0
		}
	}
	return false
}

// sameJSON compares JSON texts by value.
func sameJSON(got any, want string) bool {
	g, ok := got.(string)
	if !ok || len(want) == 0 || want[0] != '{' && want[0] != '[' {
		return false
	}
	var a, b any
	return json.Unmarshal([]byte(g), &a) == nil && json.Unmarshal([]byte(want), &b) == nil && reflect.DeepEqual(a, b)
}
