//go:build integration

package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestCapture captures a MariaDB server into a real Kafka, and ingests what is there.
func TestCapture(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	m := startMaria(t)
	for _, form := range []string{"gscd", "debezium-schemas"} {
		t.Run("killed under load, "+form, func(t *testing.T) { testCaptureKilled(t, b, m, form, "transactions") })
	}
	t.Run("killed under load, without transactions", func(t *testing.T) { testCaptureKilled(t, b, m, "gscd", "idempotent") })
	t.Run("days", func(t *testing.T) { testCaptureDays(t, b, m) })
	t.Run("heartbeats", func(t *testing.T) { testCaptureHeartbeats(t, b, m) })
}

// captured is a database of its own that is captured.
type captured struct {
	t      testing.TB
	b      *broker
	m      *maria
	dir    string
	db     string
	config string
	tables []string
}

var capturedDatabases int

func newCaptured(t testing.TB, b *broker, m *maria, form, delivery string, tables ...string) *captured {
	capturedDatabases++
	batch := "{interval: 50ms, bytes: 256KiB}"
	if len(tables) == 0 { // a measure
		batch = "{}"
	}
	c := &captured{t: t, b: b, m: m, dir: t.TempDir(), db: fmt.Sprintf("shop%d", capturedDatabases), tables: tables}
	m.run("CREATE DATABASE "+c.db, "USE "+c.db)
	var text strings.Builder
	fmt.Fprintf(&text, `kafka: {brokers: ["%[1]s"]}
calendar: {timezone: UTC}
capture:
  name: %[2]s
  servers: ["mysql://root@%[3]s"]
  server_id: %[4]d
  tables: ["%[2]s.*"]
  partitions: 3
  form: %[5]s
  delivery: %[6]s
  heartbeat: 1h
  load: {parallel: 3, chunk_rows: 2000}
  batch: %[7]s
tables:
`, b.address, c.db, m.address, 1000+capturedDatabases, form, delivery, batch)
	for _, table := range tables {
		fmt.Fprintf(&text, "  - {name: %s, location: %q, topics: [%s.%s.%s], batch: {interval: 1s}}\n", table, filepath.Join(c.dir, table), c.db, c.db, table)
	}
	c.config = filepath.Join(c.dir, "gscd.yaml")
	if err := os.WriteFile(c.config, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// connect gives a session of its own in the database.
func (c *captured) connect() *client.Conn {
	conn, err := client.Connect(c.m.address, "root", "", c.db)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	return conn
}

// until captures to the end of the log.
func (c *captured) until() {
	gscd(c.t, "capture", "-c", c.config, "--until-end", "--log-level", "error")
}

// server gives a table's rows as gscd prints them in csv.
func (c *captured) server(table, order string) string {
	c.t.Helper()
	r, err := c.m.root.Execute("SELECT * FROM " + c.db + "." + table + " ORDER BY " + order)
	if err != nil {
		c.t.Fatal(err)
	}
	defer r.Close()
	var out strings.Builder
	for i, f := range r.Fields {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(f.Name)
	}
	out.WriteByte('\n')
	for i := range r.RowNumber() {
		for j := range r.Fields {
			if j > 0 {
				out.WriteByte(',')
			}
			null, _ := r.IsNull(i, j)
			text, err := r.GetString(i, j)
			if err != nil {
				c.t.Fatal(err)
			}
			switch {
			case null:
			case text == "":
				out.WriteString(`""`)
			default:
				out.WriteString(text)
			}
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// lake gives a table's rows at a point, "" is now.
func (c *captured) lake(table, order, label string) string {
	args := []string{"query", "-c", c.config, "--table", table, "--order-by", order, "--format", "csv"}
	if label != "" {
		args = append(args, "--as-of", label)
	}
	return string(gscd(c.t, args...))
}

func (c *captured) same(what, got, want string) {
	c.t.Helper()
	if got == want {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	c.t.Errorf("%s: %d rows, want %d", what, len(g)-2, len(w)-2)
	for i, n := 0, 0; i < max(len(g), len(w)) && n < 5; i++ {
		var x, y string
		if i < len(g) {
			x = g[i]
		}
		if i < len(w) {
			y = w[i]
		}
		if x != y {
			n++
			c.t.Logf("line %d: %.200s\n    want %.200s", i, x, y)
		}
	}
}

// captureRecord is what a record says of itself, in both forms.
type captureRecord struct {
	Op      string `json:"op"`
	File    string `json:"file"`
	Pos     int64  `json:"pos"`
	Row     int    `json:"row"`
	Payload *struct {
		Op     string        `json:"op"`
		Source captureRecord `json:"source"`
	} `json:"payload"`
}

// checkOnce reads a table's topic: each read and change is there once, and of a key in order.
func (c *captured) checkOnce(table string) {
	c.t.Helper()
	topic := c.db + "." + c.db + "." + table
	from, left := map[int32]kgo.Offset{}, map[int32]int64{}
	for p, end := range ended(c.t, c.b, topic) {
		if end > 0 {
			from[p], left[p] = kgo.NewOffset().At(0), end
		}
	}
	cl := c.b.client(c.t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	defer cl.Close()
	seen, last, n := map[string]bool{}, map[string]string{}, 0
	for len(left) > 0 {
		f := cl.PollFetches(ctx)
		if err := f.Err(); err != nil {
			c.t.Fatal(err)
		}
		f.EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
			if r.Attrs.IsControl() || r.Value == nil {
				return
			}
			var v captureRecord
			if err := json.Unmarshal(r.Value, &v); err != nil {
				c.t.Fatalf("%s: %v", r.Value, err)
			}
			if v.Payload != nil {
				op := v.Payload.Op
				v = v.Payload.Source
				v.Op = op
			}
			if v.Op == "h" || v.Op == "s" {
				return
			}
			n++
			// The parts of an update that moves a row have one position, and different keys.
			id := fmt.Sprintf("%s %s:%d:%d %s", v.Op, v.File, v.Pos, v.Row, r.Key)
			if seen[id] {
				c.t.Errorf("twice: %s", id)
			}
			seen[id] = true
			at := fmt.Sprintf("%s:%012d:%06d", v.File, v.Pos, v.Row)
			if v.Op != "r" {
				if at < last[string(r.Key)] {
					c.t.Errorf("key %s: %s behind %s", r.Key, at, last[string(r.Key)])
				}
				last[string(r.Key)] = at
			}
		})
	}
	c.t.Logf("%s: %d records", topic, n)
}

// load makes the tables and rows that are there at the beginning.
func (c *captured) fill() {
	c.m.run("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer VARCHAR(40), amount DECIMAL(12,2), state VARCHAR(10))",
		"CREATE TABLE items (order_id BIGINT, line INT, name VARCHAR(40) NOT NULL, PRIMARY KEY (order_id, line))",
		"CREATE TABLE customers (name VARCHAR(40) CHARACTER SET latin1 PRIMARY KEY, points INT UNSIGNED)",
		"INSERT INTO orders SELECT seq, CONCAT('c', seq % 100), seq / 7, IF(seq % 5, 'open', NULL) FROM seq_1_to_30000",
		"INSERT INTO items SELECT seq DIV 3, seq % 3, CONCAT('item ', seq) FROM seq_1_to_20000",
		"INSERT INTO customers SELECT CONCAT('customer é', seq), seq FROM seq_1_to_5000")
}

// randomChange makes one random change.
func randomChange(r *rand.Rand, run func(string)) {
	id := r.IntN(40_000)
	switch r.IntN(12) {
	case 0, 1:
		run(fmt.Sprintf("INSERT IGNORE INTO orders (id, customer, amount, state) VALUES (%d, '', -%d.5, 'new'), (%d, NULL, NULL, 'new')", id, id, id+50_000))
	case 2, 3, 4:
		run(fmt.Sprintf("UPDATE orders SET amount = amount + 1, state = 'paid' WHERE id BETWEEN %d AND %d", id, id+r.IntN(10)))
	case 5:
		run(fmt.Sprintf("DELETE FROM orders WHERE id BETWEEN %d AND %d", id, id+r.IntN(3)))
	case 6:
		run(fmt.Sprintf("UPDATE IGNORE orders SET id = id + 100000 WHERE id = %d", id))
	case 7:
		run("BEGIN")
		run(fmt.Sprintf("UPDATE items SET name = CONCAT('renamed ', %d) WHERE order_id = %d", r.IntN(1000), id%7000))
		run(fmt.Sprintf("UPDATE customers SET points = points + 1 WHERE name = 'customer é%d'", id%5000))
		run([]string{"COMMIT", "ROLLBACK"}[r.IntN(2)])
	case 8:
		run(fmt.Sprintf("REPLACE INTO items VALUES (%d, 7, 'replaced')", id%7000))
	case 9:
		run(fmt.Sprintf("DELETE FROM items WHERE order_id = %d", id%7000))
	case 10:
		run(fmt.Sprintf("REPLACE INTO customers VALUES ('new é%d', 4000000000)", id%100))
	case 11:
		if r.IntN(20) == 0 {
			run(fmt.Sprintf("UPDATE orders SET state = 'bulk%d' WHERE id %% 4 = 0", id%10))
		}
	}
}

// testCaptureKilled kills the capture again and again, in the load and behind it, while
// rows change; in the end the tables are the server's.
func testCaptureKilled(t *testing.T, b *broker, m *maria, form, delivery string) {
	c := newCaptured(t, b, m, form, delivery, "orders", "items", "customers")
	c.fill()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	stop := make(chan struct{})
	var busy sync.WaitGroup
	end := sync.OnceFunc(func() { close(stop); busy.Wait() })
	defer end()
	for i := range uint64(2) {
		conn := c.connect()
		busy.Go(func() {
			r := rand.New(rand.NewPCG(seed, i))
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(r.IntN(4)) * time.Millisecond):
				}
				randomChange(r, func(s string) {
					if res, err := conn.Execute(s); err == nil { // one may wait for the other in vain
						res.Close()
					} else if !strings.Contains(err.Error(), "1213") {
						t.Errorf("%s: %v", s, err)
					}
				})
				if i == 0 && n == 400 {
					if _, err := conn.Execute("ALTER TABLE orders ADD COLUMN note VARCHAR(20)"); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	r := rand.New(rand.NewPCG(seed, 9))
	for range 8 {
		p := startProcess(t, binary(t), "capture", "-c", c.config, "--log-level", "warn")
		if p.wait(time.Duration(150+r.IntN(700)) * time.Millisecond) {
			t.Fatalf("it ended by itself:\n%s", p.errors)
		}
		p.end(t, syscall.SIGKILL)
	}
	p := startProcess(t, binary(t), "capture", "-c", c.config, "--log-level", "warn")
	time.Sleep(1500 * time.Millisecond)
	p.end(t, syscall.SIGTERM)
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d after SIGTERM:\n%s", code, p.errors)
	}
	end()
	c.until()
	gscd(t, "ingest", "-c", c.config, "--until-end", "--log-level", "error")
	for table, order := range map[string]string{"orders": "id", "items": "order_id,line", "customers": "name"} {
		server := c.server(table, strings.Replace(order, "name", "CAST(name AS BINARY)", 1))
		c.same(table, c.lake(table, order, ""), server)
		if delivery == "transactions" {
			c.checkOnce(table)
		}
	}
}

// testCaptureDays has three business days, each with its rows as the server had them in
// the end: by gscd's own capture, and by Debezium's connector beside it.
func testCaptureDays(t *testing.T, b *broker, m *maria) {
	orders := map[string]string{"orders": "id", "items": "order_id,line", "customers": "name"}
	c := newCaptured(t, b, m, "gscd", "transactions", "orders", "items", "customers")
	c.m.run("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer VARCHAR(40), amount DECIMAL(12,2), state VARCHAR(10))",
		"CREATE TABLE items (order_id BIGINT, line INT, name VARCHAR(40) NOT NULL, PRIMARY KEY (order_id, line))",
		"CREATE TABLE customers (name VARCHAR(40) CHARACTER SET latin1 PRIMARY KEY, points INT UNSIGNED)")
	c.until() // there is nothing to load
	connector := startDebezium(t, b, m, c.db)
	text := fmt.Sprintf("kafka: {brokers: [%q]}\ncalendar: {timezone: UTC}\ntables:\n", b.address)
	for table := range orders {
		text += fmt.Sprintf("  - {name: %s, location: %q, topics: [dbz.%s.%s]}\n", table, filepath.Join(c.dir, "dbz", table), c.db, table)
	}
	beside := *c
	beside.config = filepath.Join(c.dir, "debezium.yaml")
	if err := os.WriteFile(beside.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	r := rand.New(rand.NewPCG(1, 2))
	want := map[string]string{}
	days := []string{"2022-07-15", "2022-07-16", "2022-07-17"}
	for i, day := range days {
		for n := range 400 {
			at := time.Duration(n) * 86_000 * time.Second / 400
			start, _ := time.Parse(time.DateOnly, day)
			c.m.run(fmt.Sprintf("SET timestamp = %d", start.Add(at).Unix()))
			randomChange(r, func(s string) { c.m.run(s) })
		}
		if i == 1 {
			c.m.run("ALTER TABLE orders ADD COLUMN note VARCHAR(20)", "UPDATE orders SET note = 'seen' WHERE id % 2 = 0")
		}
		c.until()
		for table, order := range orders {
			want[table+day] = c.server(table, strings.Replace(order, "name", "CAST(name AS BINARY)", 1))
		}
	}
	for table, row := range map[string]string{"orders": "(999999999, 'last', 0, '', '')", "items": "(999999999, 0, 'last')", "customers": "('last', 999999999)"} {
		c.m.run("INSERT INTO " + table + " VALUES " + row)
		connector.until("dbz."+c.db+"."+table, "999999999")
	}
	c.m.run("SET timestamp = DEFAULT")
	gscd(t, "ingest", "-c", c.config, "--until-end", "--log-level", "error")
	gscd(t, "ingest", "-c", beside.config, "--until-end", "--log-level", "error")
	for table, order := range orders {
		for i, day := range days {
			c.same(table+" "+day, c.lake(table, order, day), want[table+day])
			if got := beside.lake(table, order, day); i < len(days)-1 { // the last rows above are of the last day
				c.same(table+" "+day+" by Debezium", got, want[table+day])
			}
		}
	}
	if out := gscd(t, "snapshots", "-c", c.config, "--table", "orders", "--format", "csv"); bytes.Count(out, []byte("sealed")) < 3 {
		t.Errorf("%s", out)
	}
}

// testCaptureHeartbeats has one change in one of three partitions: heartbeats prove for all
// that the source lived past its day, so that no clock has to.
func testCaptureHeartbeats(t *testing.T, b *broker, m *maria) {
	c := newCaptured(t, b, m, "gscd", "transactions", "orders")
	text := bytes.Replace(readFile(t, c.config), []byte("heartbeat: 1h"), []byte("heartbeat: 1s"), 1)
	if err := os.WriteFile(c.config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	m.run("CREATE TABLE orders (id INT PRIMARY KEY)")
	c.until()
	m.run("SET timestamp = UNIX_TIMESTAMP('2022-07-16 08:00:00')", "INSERT INTO orders VALUES (1)", "SET timestamp = DEFAULT")
	p := startProcess(t, binary(t), "capture", "-c", c.config, "--log-level", "error")
	time.Sleep(4 * time.Second)
	p.end(t, syscall.SIGTERM)
	gscd(t, "ingest", "-c", c.config, "--until-end", "--log-level", "error")
	c.same("orders", c.lake("orders", "id", "2022-07-16"), "id\n1\n")
	out := string(gscd(t, "snapshots", "-c", c.config, "--table", "orders", "--format", "csv"))
	if day := out[strings.Index(out, "2022-07-16"):]; !strings.Contains(day, ",sealed,") || strings.Contains(day[:strings.Index(day, "\n")], "by clock") {
		t.Errorf("the day is not sealed by what its partitions show:\n%.600s", out)
	}
}

// debezium is Kafka Connect with Debezium's connector.
type debezium struct {
	t   testing.TB
	b   *broker
	dir string
	p   *process
}

// startDebezium captures a database by Debezium's connector, under the prefix dbz.
func startDebezium(t testing.TB, b *broker, m *maria, db string, settings ...string) *debezium {
	dir := t.TempDir()
	host, port, _ := strings.Cut(m.address, ":")
	const json = "org.apache.kafka.connect.json.JsonConverter"
	worker := fmt.Sprintf("bootstrap.servers=%s\nkey.converter=%s\nvalue.converter=%[2]s\noffset.storage.file.filename=%s\noffset.flush.interval.ms=1000\nlisteners=http://%s\n",
		b.address, json, filepath.Join(dir, "offsets"), freePorts(t, 1)[0]) + strings.Join(settings, "\n")
	connector := strings.Join([]string{
		"name=dbz", "connector.class=io.debezium.connector.mariadb.MariaDbConnector", "tasks.max=1", "database.hostname=" + host, "database.port=" + port, "database.user=root", "database.password=",
		"database.ssl.mode=disable", "database.server.id=5555", "topic.prefix=dbz", "database.include.list=" + db, "snapshot.mode=initial", "topic.creation.default.replication.factor=1", "topic.creation.default.partitions=3",
		"schema.history.internal=io.debezium.storage.file.history.FileSchemaHistory", "schema.history.internal.file.filename=" + filepath.Join(dir, "history"), "skipped.operations=none",
	}, "\n")
	for name, text := range map[string]string{"worker.properties": worker, "connector.properties": connector} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := &debezium{t: t, b: b, dir: dir}
	d.start()
	return d
}

// start starts Connect, and waits until the connector streams.
func (d *debezium) start() {
	t := d.t
	p := startProcess(t, "java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", filepath.Join(component(t, "connect"), "*"),
		"-Dlog4j2.configurationFile="+engineFile(t, "log4j2.properties"), "org.apache.kafka.connect.cli.ConnectStandalone", filepath.Join(d.dir, "worker.properties"), filepath.Join(d.dir, "connector.properties"))
	streams, output := make(chan struct{}), &tail{}
	go func() {
		lines := bufio.NewScanner(p.stdout)
		lines.Buffer(nil, 1<<20)
		began := sync.OnceFunc(func() { close(streams) })
		for lines.Scan() {
			_, _ = output.Write(append(lines.Bytes(), '\n'))
			if strings.Contains(lines.Text(), "Connected to binlog") {
				began()
			}
		}
	}()
	select {
	case <-streams:
	case <-p.ended:
		t.Fatalf("Connect has ended:\n%s%s", output, p.errors)
	case <-time.After(10 * time.Minute):
		t.Fatalf("Debezium does not stream after ten minutes:\n%s%s", output, p.errors)
	}
	d.p = p
}

// until waits for a record with a text.
func (d *debezium) until(topic, text string) {
	cl := d.b.client(d.t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); {
		short, cancel := context.WithTimeout(ctx, time.Second)
		f := cl.PollFetches(short)
		cancel()
		found := false
		f.EachRecord(func(r *kgo.Record) {
			found = found || bytes.Contains(r.Key, []byte(text)) || bytes.Contains(r.Value, []byte(text))
		})
		if found {
			return
		}
	}
	d.t.Fatalf("topic %s: no record with %s:\n%s", topic, text, d.p.errors)
}
