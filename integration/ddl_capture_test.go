//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ddlScript is one of testdata/ddl.sql, for a table of its own.
type ddlScript struct {
	name, table string
	lines       []string
	// touch: every row is changed in the end; incomplete: a query says that the day is.
	touch, incomplete bool
}

func ddlScripts(t *testing.T) (scripts []*ddlScript) {
	t.Helper()
	text, err := os.ReadFile("testdata/ddl.sql")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(text), "\n\n")
	for _, line := range strings.Split(strings.TrimSpace(body), "\n") {
		if name, ok := strings.CutPrefix(line, "-- "); ok {
			scripts = append(scripts, &ddlScript{
				name: name, table: fmt.Sprintf("t%02d", len(scripts)+1),
				touch: strings.Contains(name, "(touch)"), incomplete: strings.Contains(name, "(incomplete)"),
			})
			continue
		}
		s := scripts[len(scripts)-1]
		s.lines = append(s.lines, strings.ReplaceAll(line, "$t", s.table))
	}
	return scripts
}

// TestCaptureDDL alters more than thirty tables under load, each in another way, while capture and
// ingest are killed again and again: in the end the tables are the server's.
func TestCaptureDDL(t *testing.T) {
	t.Parallel()
	scripts := ddlScripts(t)
	var tables []string
	for _, s := range scripts {
		tables = append(tables, s.table)
	}
	c := newCaptured(t, startBroker(t), startMaria(t), "gscd", "transactions", tables...)
	conn := c.connect()
	run := func(statement string) {
		t.Helper()
		if _, err := conn.Execute(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	r := rand.New(rand.NewPCG(5, 5))
	next := 100
	traffic := func(s *ddlScript) {
		for range 6 {
			switch r.IntN(4) {
			case 0:
				next++
				run(fmt.Sprintf("INSERT INTO %s (id, n) VALUES (%d, %d)", s.table, next, r.IntN(100)))
			case 1:
				run(fmt.Sprintf("DELETE FROM %s WHERE id = %d", s.table, r.IntN(40)))
			default:
				run(fmt.Sprintf("UPDATE %s SET n = n + 1 WHERE id %% 7 = %d", s.table, r.IntN(7)))
			}
		}
	}
	for _, s := range scripts {
		run(fmt.Sprintf("CREATE TABLE %s (id INT PRIMARY KEY, a VARCHAR(20), b VARCHAR(20), c DECIMAL(10,2), n INT) DEFAULT CHARSET utf8mb4", s.table))
		run(fmt.Sprintf("INSERT INTO %s SELECT seq, CONCAT('a', seq), CONCAT('b', seq), seq + 0.5, seq FROM seq_1_to_40", s.table))
	}
	c.until()
	var work []func()
	for at := 0; len(work) < 1000; at++ { // the scripts side by side
		any := false
		for _, s := range scripts {
			if at < len(s.lines) {
				any = true
				work = append(work, func() {
					for _, statement := range strings.Split(s.lines[at], "; ") {
						run(statement)
					}
					traffic(s)
				})
			}
		}
		if !any {
			break
		}
	}
	const rounds = 5
	for i := range rounds {
		capture := startProcess(t, binary(t), "capture", "-c", c.config, "--log-level", "error")
		ingest := startProcess(t, binary(t), "ingest", "-c", c.config, "--log-level", "error")
		for _, do := range work[i*len(work)/rounds : (i+1)*len(work)/rounds] {
			do()
			time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
		}
		time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
		capture.end(t, syscall.SIGKILL)
		ingest.end(t, syscall.SIGKILL)
	}
	for _, s := range scripts {
		if s.touch {
			run("UPDATE " + s.table + " SET n = n + 1")
		}
		traffic(s)
	}
	c.until()
	gscd(t, "ingest", "-c", c.config, "--until-end", "--log-level", "error")
	program := theProgram(t)
	for _, s := range scripts {
		c.sameColumns(s)
		_, notice, _ := program("query", "-c", c.config, "--table", s.table, "--limit", "1", "--format", "json")
		if said := strings.Contains(notice, "incomplete"); said != s.incomplete {
			t.Errorf("%s: the notice of a query is %q", s.name, notice)
		}
	}
}

// sameColumns compares the rows by the names of columns. One that no row has brought yet
// is NULL in all of them.
func (c *captured) sameColumns(s *ddlScript) {
	c.t.Helper()
	var lake []map[string]any
	columns := map[string]bool{}
	for line := range strings.Lines(string(gscd(c.t, "query", "-c", c.config, "--table", s.table, "--order-by", "id", "--format", "jsonl"))) {
		row := map[string]any{}
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&row); err != nil {
			c.t.Fatal(err)
		}
		for name := range row {
			columns[name] = true
		}
		lake = append(lake, row)
	}
	result, err := c.m.root.Execute("SELECT column_name FROM information_schema.columns WHERE table_schema = '" + c.db + "' AND table_name = '" + s.table + "'")
	if err != nil {
		c.t.Fatal(err)
	}
	var names []string
	for i := range result.RowNumber() {
		name, _ := result.GetString(i, 0)
		names = append(names, name)
	}
	for name := range columns {
		if !slices.Contains(names, name) {
			c.t.Errorf("%s: the column %s, and the server has %v", s.name, name, names)
		}
	}
	rows, err := c.m.root.Execute("SELECT `" + strings.Join(names, "`, `") + "` FROM " + c.db + "." + s.table + " ORDER BY id")
	if err != nil {
		c.t.Fatal(err)
	}
	if rows.RowNumber() != len(lake) {
		c.t.Errorf("%s: %d rows, want %d", s.name, len(lake), rows.RowNumber())
		return
	}
	for i := range rows.RowNumber() {
		got, want := map[string]string{}, map[string]string{}
		for j, name := range names {
			if null, _ := rows.IsNull(i, j); !null {
				want[name], _ = rows.GetString(i, j)
			}
			if v := lake[i][name]; v != nil {
				got[name] = fmt.Sprint(v)
			}
		}
		if !maps.Equal(got, want) {
			c.t.Errorf("%s: %v\nwant %v", s.name, got, want)
			return
		}
	}
}

// TestCaptureOnlineSchemaChange lets the real pt-online-schema-change alter a table under
// load: its copy is no rows of the table, and the swap of the two is a change of columns.
func TestCaptureOnlineSchemaChange(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("pt-online-schema-change")
	if err != nil {
		t.Skip("no pt-online-schema-change on this machine: apt-get install --no-install-recommends percona-toolkit")
	}
	c := newCaptured(t, startBroker(t), startMaria(t), "gscd", "transactions", "orders")
	conn := c.connect()
	run := func(statement string) {
		t.Helper()
		if _, err := conn.Execute(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	run("CREATE TABLE orders (id INT PRIMARY KEY, a VARCHAR(20), b VARCHAR(20), n INT)")
	run("INSERT INTO orders SELECT seq, CONCAT('a', seq), CONCAT('b', seq), 0 FROM seq_1_to_3000")
	c.until()
	capture := startProcess(t, binary(t), "capture", "-c", c.config, "--log-level", "error")
	ingest := startProcess(t, binary(t), "ingest", "-c", c.config, "--log-level", "error")
	r := rand.New(rand.NewPCG(7, 7))
	host, port, err := net.SplitHostPort(c.m.address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	var said []byte
	go func() {
		var err error
		said, err = exec.Command(tool, "--execute", "--no-version-check", "--recursion-method=none", "--chunk-size=100", "--sleep=0.02",
			"--alter", "ADD COLUMN x INT, MODIFY a VARCHAR(40), DROP COLUMN b", "h="+host+",P="+port+",u=root,D="+c.db+",t=orders").CombinedOutput()
		done <- err
	}()
	changes, next := 0, 3000
	for altering := true; altering || changes < 200; changes++ {
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("pt-online-schema-change: %v\n%s", err, said)
			}
			altering = false
		default:
		}
		switch r.IntN(4) {
		case 0:
			next++
			run(fmt.Sprintf("INSERT INTO orders (id, a, n) VALUES (%d, 'new', 1)", next))
		case 1:
			run(fmt.Sprintf("DELETE FROM orders WHERE id = %d", r.IntN(next)+1))
		default:
			run(fmt.Sprintf("UPDATE orders SET n = n + 1, a = CONCAT('é', n) WHERE id %% 50 = %d", r.IntN(50)))
		}
	}
	run("UPDATE orders SET x = id WHERE id < 100")
	capture.end(t, syscall.SIGTERM)
	ingest.end(t, syscall.SIGTERM)
	c.until()
	gscd(t, "ingest", "-c", c.config, "--until-end", "--log-level", "error")
	t.Logf("%d changes while it ran and behind it", changes)
	c.sameColumns(&ddlScript{name: "pt-online-schema-change", table: "orders"})
	if rows := string(gscd(t, "query", "-c", c.config, "--table", "orders", "--limit", "1", "--format", "jsonl")); strings.Contains(rows, `"b":`) || !strings.Contains(rows, `"x":`) {
		t.Errorf("the columns are those of before: %s", rows)
	}
}
