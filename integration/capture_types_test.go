//go:build integration

package integration

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/local"
)

// The edge values of every type go from a server by capture through Kafka into a table, some
// read by the load and some from the binlog: gscd prints what the server prints, and
// delta-rs, Spark and DuckDB read what gscd does.
func TestCaptureEveryType(t *testing.T) {
	t.Parallel()
	b, m := startBroker(t), startMaria(t)
	for _, form := range []string{"gscd", "debezium-schemas"} {
		t.Run(form, func(t *testing.T) { captureEveryType(t, b, m, form) })
	}
}

func captureEveryType(t *testing.T, b *broker, m *maria, form string) {
	columns, names, rows := []string{"id INT PRIMARY KEY"}, []string{"id"}, [3][]string{{"1"}, {"2"}, {"3"}}
	for i, c := range everyType {
		name := fmt.Sprintf("c%d", i)
		columns = append(columns, name+" "+c.column)
		if c.values == nil {
			continue
		}
		names = append(names, name)
		for j := range rows {
			rows[j] = append(rows[j], c.values[j])
		}
	}
	c := newCaptured(t, b, m, form, "transactions", "t")
	insert := func(row []string) {
		m.run("INSERT INTO t (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(row, ", ") + ")")
	}
	m.run("SET NAMES utf8mb4", "SET time_zone = '+08:00', sql_mode = ''", "CREATE TABLE t ("+strings.Join(columns, ", ")+")")
	insert(rows[0]) // the load brings it, the binlog the others
	c.until()
	insert(rows[1])
	insert(rows[2])
	c.until()
	gscd(t, "ingest", "-c", c.config, "--until-end", "--log-level", "error")

	m.run("SET time_zone = '+00:00'")
	lake := map[string]map[string]json.RawMessage{}
	for line := range strings.Lines(c.lakeJSON("t")) {
		var row map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		lake[string(row["id"])] = row
	}
	if len(lake) != len(rows) {
		t.Fatalf("%d rows, want %d", len(lake), len(rows))
	}
	compared := 0
	for i, column := range everyType {
		kind := strings.ToLower(strings.FieldsFunc(column.column, func(r rune) bool { return r == ' ' || r == '(' })[0])
		name := fmt.Sprintf("c%d", i)
		expression := "CAST(" + name + " AS CHAR)"
		switch {
		case kind == "bit":
			expression = "CAST(" + name + " AS UNSIGNED)"
		case kind == "float":
			expression = name + " + 0e0"
		case isBytes(kind):
			expression = "HEX(" + name + ")"
		case kind == "point" || kind == "geometry":
			expression = "HEX(ST_AsBinary(" + name + "))"
		}
		r, err := m.root.Execute("SELECT id, " + expression + " FROM " + c.db + ".t ORDER BY id")
		if err != nil {
			t.Fatal(err)
		}
		for j := range r.RowNumber() {
			id, _ := r.GetString(j, 0)
			text, err := r.GetString(j, 1)
			if err != nil {
				t.Fatal(err)
			}
			null, _ := r.IsNull(j, 1)
			want := "null"
			if !null {
				want = printed(t, column.column, kind, text)
			}
			if got := printedByUs(t, kind, lake[id][name]); got != want {
				t.Errorf("%s, row %s: %.100s, the server prints %.100s", column.column, id, got, want)
			}
			compared++
		}
	}
	if compared != 3*len(everyType) {
		t.Errorf("%d cells were compared, want %d", compared, 3*len(everyType))
	}

	address := filepath.Join(c.dir, "t")
	store, err := local.New(address, local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := delta.New(store).Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	own := ownContent(t, store, s, nil)
	for _, name := range []string{"delta-rs", "Spark", "DuckDB"} {
		e := startEngine(t, name)
		want := e.sees("types", own)
		got, err := e.read(t, address, s.Version(), "true", want)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if d := got.differs(want); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func isBytes(kind string) bool {
	return strings.HasSuffix(kind, "blob") || strings.HasSuffix(kind, "binary")
}

// printed makes of what the server prints what gscd is to print of it.
func printed(t *testing.T, column, kind, text string) string {
	t.Helper()
	switch {
	case column == "BIT(1)":
		return strconv.FormatBool(text == "1")
	case isBytes(kind), kind == "point", kind == "geometry":
		return strings.ToLower(text)
	case kind == "float":
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return strconv.FormatFloat(float64(float32(f)), 'g', -1, 32)
	case kind == "double":
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return strconv.FormatFloat(f, 'g', -1, 64)
	case kind == "date", kind == "datetime", kind == "timestamp":
		if strings.HasPrefix(text, "0000-00-00") || strings.Contains(text[:10], "-00") {
			return "null"
		}
		if kind == "date" {
			return text
		}
		at, err := time.Parse("2006-01-02 15:04:05", text)
		if err != nil {
			t.Fatal(err)
		}
		return at.Format("2006-01-02T15:04:05.000000") + map[bool]string{true: "Z"}[kind == "timestamp"]
	case kind == "time":
		rest, negative := strings.CutPrefix(text, "-")
		var h, min int64
		var sec float64
		if _, err := fmt.Sscanf(rest, "%d:%d:%f", &h, &min, &sec); err != nil {
			t.Fatal(err)
		}
		micros := (h*3600+min*60)*1_000_000 + int64(math.Round(sec*1e6))
		if negative {
			micros = -micros
		}
		return strconv.FormatInt(micros, 10)
	case kind == "year":
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return strconv.Itoa(n)
	case strings.Contains(column, "ZEROFILL"): // the type's padding is no part of the number
		if text = strings.TrimLeft(text, "0"); text == "" || text[0] == '.' {
			text = "0" + text
		}
	}
	return text
}

// printedByUs is a cell of gscd's JSON as a text.
func printedByUs(t *testing.T, kind string, raw json.RawMessage) string {
	t.Helper()
	text := string(raw)
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(raw, &text); err != nil {
			t.Fatal(err)
		}
	}
	switch {
	case text == "null" && string(raw) == "null":
	case isBytes(kind), kind == "point", kind == "geometry":
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		text = hex.EncodeToString(b)
	case kind == "float", kind == "double":
		bits := map[string]int{"float": 32, "double": 64}[kind]
		f, err := strconv.ParseFloat(text, bits)
		if err != nil {
			t.Fatal(err)
		}
		text = strconv.FormatFloat(f, 'g', -1, bits)
	}
	return text
}

// lakeJSON gives a table's newest rows as JSON lines.
func (c *captured) lakeJSON(table string) string {
	return string(gscd(c.t, "query", "-c", c.config, "--table", table, "--format", "jsonl"))
}
