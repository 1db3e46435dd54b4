//go:build integration

package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// composeService is what the tests need of a service of deploy/compose/docker-compose.yml.
type composeService struct {
	Command     []string
	Environment map[string]string
	Volumes     []string
}

// composition is deploy/compose on this machine: its files in a folder, where addresses and
// folders of the containers have become those of processes.
type composition struct {
	t        *testing.T
	dir      string
	services map[string]composeService
	// What a file says, and what stands there here.
	swaps [][2]string
	// Addresses of the processes.
	mariadb, kafka, controller, connect, s3, gscd, prometheus string
	said                                                      *tail // by gscd
}

var composeVariable = regexp.MustCompile(`\$\{\w+:-([^}]*)\}`)

func newComposition(t *testing.T) *composition {
	t.Helper()
	ports := freePorts(t, 7)
	c := &composition{
		t: t, dir: t.TempDir(), mariadb: ports[0], kafka: ports[1], controller: ports[2], connect: ports[3], s3: ports[4], gscd: ports[5], prometheus: ports[6],
	}
	text := composeVariable.ReplaceAllString(string(readFile(t, "../deploy/compose/docker-compose.yml")), "$1")
	var file struct{ Services map[string]composeService }
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	c.services = file.Services
	return c
}

// swap says what the containers call a thing, and what it is called here.
func (c *composition) swap(there, here string) { c.swaps = append(c.swaps, [2]string{there, here}) }

// file writes the copy of a file, in which nothing but swaps differs, and gives its path.
func (c *composition) file(name string, swaps ...[2]string) string {
	c.t.Helper()
	was := string(readFile(c.t, filepath.Join("../deploy/compose", name)))
	is, back := was, was
	for _, s := range swaps {
		if !strings.Contains(is, s[0]) {
			c.t.Errorf("%s has no %s", name, s[0])
		}
		is = strings.ReplaceAll(is, s[0], s[1])
	}
	back = is
	for _, s := range slices.Backward(swaps) {
		back = strings.ReplaceAll(back, s[1], s[0])
	}
	if back != was {
		c.t.Errorf("%s: the copy differs by more than %q", name, swaps)
	}
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(is), 0o644); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// properties are a service's variables that begin with a prefix, as the images turn them into
// properties: _ is a dot.
func (c *composition) properties(service, prefix string) map[string]string {
	p := map[string]string{}
	for name, value := range c.services[service].Environment {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			p[strings.ToLower(strings.ReplaceAll(rest, "_", "."))] = value
		}
	}
	return p
}

func propertiesText(p map[string]string) []byte {
	var lines []string
	for k, v := range p {
		lines = append(lines, k+"="+v)
	}
	slices.Sort(lines)
	return []byte(strings.Join(lines, "\n") + "\n")
}

// startMariaDB starts the server with the arguments of the compose file, and has it run the first statements.
func (c *composition) startMariaDB() {
	c.mariadb, _, _ = mariaDB(c.t, c.services["mariadb"].Command...)
	c.client(bytes.NewReader(readFile(c.t, "../deploy/compose/shop.sql")), "--user=root")
}

// client runs the client of MariaDB.
func (c *composition) client(stdin io.Reader, args ...string) string {
	c.t.Helper()
	host, port, _ := strings.Cut(c.mariadb, ":")
	cmd := exec.Command("mariadb", append([]string{"--no-defaults", "--host=" + host, "--port=" + port}, args...)...)
	cmd.Stdin = stdin
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("mariadb %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// startKafka starts a broker with the properties that the image makes of the variables.
func (c *composition) startKafka() *broker {
	p := c.properties("kafka", "KAFKA_")
	for key, s := range map[string][2]string{
		"listeners":                {"PLAINTEXT://:9092,CONTROLLER://:9093", "PLAINTEXT://" + c.kafka + ",CONTROLLER://" + c.controller},
		"advertised.listeners":     {"PLAINTEXT://kafka:9092", "PLAINTEXT://" + c.kafka},
		"controller.quorum.voters": {"1@kafka:9093", "1@" + c.controller},
		"log.dirs":                 {"/var/lib/kafka/data", filepath.Join(c.dir, "kafka")},
	} {
		equal(c.t, "kafka: "+key, p[key], s[0])
		p[key] = s[1]
	}
	b := &broker{t: c.t, dir: c.t.TempDir(), address: c.kafka}
	if err := os.WriteFile(b.file("server.properties"), propertiesText(p), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if out, err := exec.Command("java", b.java("kafka.tools.StorageTool", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", b.file("server.properties"))...).CombinedOutput(); err != nil {
		c.t.Fatalf("format the broker's storage: %v\n%s", err, out)
	}
	b.start()
	return b
}

// makeTopics runs the command of the service topics. Kafka's package has no kafka-topics.sh: a
// script in its place writes down what it is asked for, which is then made.
func (c *composition) makeTopics(b *broker) {
	script, calls := filepath.Join(c.dir, "kafka-topics.sh"), filepath.Join(c.dir, "kafka-topics.calls")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"$*\" >> '"+calls+"'\n"), 0o755); err != nil {
		c.t.Fatal(err)
	}
	command := c.services["topics"].Command
	line := strings.NewReplacer("$$", "$", "/opt/kafka/bin/kafka-topics.sh", script, "kafka:9092", c.kafka).Replace(command[2])
	if out, err := exec.Command(command[0], command[1], line).CombinedOutput(); err != nil {
		c.t.Fatalf("topics: %v\n%s", err, out)
	}
	form := regexp.MustCompile(`^--bootstrap-server (\S+) --create --if-not-exists --topic (\S+) --partitions (\d+)\n$`)
	for call := range strings.Lines(string(readFile(c.t, calls))) {
		m := form.FindStringSubmatch(call)
		if m == nil || m[1] != c.kafka {
			c.t.Fatalf("topics: %s", call)
		}
		partitions, err := strconv.Atoi(m[3])
		if err != nil {
			c.t.Fatal(err)
		}
		b.createTopic(c.t, m[2], int32(partitions))
	}
}

// startConnect starts Kafka Connect as the image does: some variables by their own names, others with CONNECT_ before them.
func (c *composition) startConnect() {
	p := c.properties("connect", "CONNECT_")
	for name, value := range c.services["connect"].Environment {
		switch name {
		case "BOOTSTRAP_SERVERS", "GROUP_ID", "CONFIG_STORAGE_TOPIC", "OFFSET_STORAGE_TOPIC", "STATUS_STORAGE_TOPIC":
			p[strings.ToLower(strings.ReplaceAll(name, "_", "."))] = value
		default:
			if !strings.HasPrefix(name, "CONNECT_") {
				c.t.Errorf("connect: the image does not know the variable %s", name)
			}
		}
	}
	equal(c.t, "connect: brokers", p["bootstrap.servers"], "kafka:9092")
	p["bootstrap.servers"] = c.kafka
	p["key.converter"], p["value.converter"] = "org.apache.kafka.connect.json.JsonConverter", "org.apache.kafka.connect.json.JsonConverter" // the image's own
	p["listeners"] = "http://" + c.connect
	path := filepath.Join(c.dir, "connect.properties")
	if err := os.WriteFile(path, propertiesText(p), 0o600); err != nil {
		c.t.Fatal(err)
	}
	process := startProcess(c.t, "java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(component(c.t, "connect"), "*"),
		"-Dlog4j2.configurationFile="+engineFile(c.t, "log4j2.properties"), "org.apache.kafka.connect.cli.ConnectDistributed", path)
	output := &tail{}
	go io.Copy(output, process.stdout)
	c.until("Connect answers", 2*time.Minute, func() bool {
		if process.wait(0) {
			c.t.Fatalf("Connect has ended:\n%s%s", output, process.errors)
		}
		return c.get("http://"+c.connect+"/connectors") != ""
	})
}

// startConnector does what the service connector does.
func (c *composition) startConnector() {
	command := strings.Join(c.services["connector"].Command, " ")
	if !strings.Contains(command, "-X PUT") || !strings.HasSuffix(command, "http://connect:8083/connectors/shop/config") {
		c.t.Fatalf("connector: %s", command)
	}
	host, port, _ := strings.Cut(c.mariadb, ":")
	config := c.file("connector.json", [2]string{`"database.hostname": "mariadb"`, `"database.hostname": "` + host + `"`},
		[2]string{`"database.port": "3306"`, `"database.port": "` + port + `"`}, [2]string{"kafka:9092", c.kafka})
	request, err := http.NewRequest("PUT", "http://"+c.connect+"/connectors/shop/config", bytes.NewReader(readFile(c.t, config)))
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	// A worker that has just come up answers 409 while it finds its place in the group.
	c.until("the connector is taken", time.Minute, func() bool {
		request.Body, _ = request.GetBody()
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			c.t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode == http.StatusConflict || answer.StatusCode == http.StatusServiceUnavailable {
			return false
		}
		if answer.StatusCode >= 300 {
			c.t.Fatalf("the connector is refused: %s\n%s", answer.Status, text)
		}
		return true
	})
	c.until("the connector runs", 2*time.Minute, func() bool {
		status := c.get("http://" + c.connect + "/connectors/shop/status")
		if strings.Contains(status, "FAILED") {
			c.t.Fatalf("the connector has failed: %s", status)
		}
		return strings.Count(status, "RUNNING") == 2 // it, and its task
	})
}

// startS3 makes the bucket and starts the gateway, by the commands of the compose file.
func (c *composition) startS3() {
	data := filepath.Join(c.dir, "s3")
	if err := os.Mkdir(data, 0o755); err != nil {
		c.t.Fatal(err)
	}
	bucket := c.services["bucket"].Command
	if out, err := exec.Command(bucket[0], bucket[1], strings.ReplaceAll(bucket[2], "/data", data)).CombinedOutput(); err != nil {
		c.t.Fatalf("bucket: %v\n%s", err, out)
	}
	args := slices.Clone(c.services["s3"].Command)
	for i := range args {
		args[i] = strings.ReplaceAll(strings.ReplaceAll(args[i], ":7070", c.s3), "/data", data)
	}
	p := startProcess(c.t, filepath.Join(component(c.t, "versitygw"), "versitygw"), args...)
	go io.Copy(io.Discard, p.stdout)
}

// startGSCD starts the program, again and again while it ends, as the compose file says.
func (c *composition) startGSCD() {
	s := c.services["gscd"]
	c.environment()
	args := slices.Clone(s.Command)
	i := slices.Index(args, "0.0.0.0:9090")
	if i < 0 {
		c.t.Fatalf("gscd: %q", args)
	}
	args[i] = c.gscd
	c.said = &tail{}
	stop, done := make(chan struct{}), make(chan struct{})
	c.t.Cleanup(func() { close(stop); <-done })
	go func() {
		defer close(done)
		for {
			cmd := exec.Command(binary(c.t), args...)
			cmd.Env = append(os.Environ(), c.environment()...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			cmd.Stdout, cmd.Stderr = c.said, c.said
			if err := cmd.Start(); err != nil {
				return
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case err := <-ended:
				c.t.Logf("gscd ended (%v), and is started again: %s", err, c.said)
			case <-stop:
				_ = cmd.Process.Signal(syscall.SIGTERM)
				<-ended
				return
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
			}
		}
	}()
}

// environment is that of gscd.
func (c *composition) environment() (list []string) {
	config := filepath.Join(c.dir, "gscd.yaml")
	if _, err := os.Stat(config); err != nil {
		c.file("gscd.yaml", [2]string{"kafka:9092", c.kafka}, [2]string{"s3:7070", c.s3})
	}
	for name, value := range c.services["gscd"].Environment {
		switch name {
		case "GSCD_CONFIG":
			equal(c.t, "gscd: its configuration", value, "/etc/gscd/gscd.yaml")
			value = config
		case "TMPDIR":
			value = c.dir
		}
		list = append(list, name+"="+value)
	}
	return list
}

// startTrino starts a server with the catalog of the compose file.
func (c *composition) startTrino() string {
	catalog := c.file("trino-lake.properties", [2]string{"s3:7070", c.s3}, [2]string{"/tmp/metastore", filepath.Join(c.dir, "metastore")})
	var environment []string
	for name, value := range c.services["trino"].Environment {
		environment = append(environment, name+"="+value)
	}
	dir := c.t.TempDir()
	return startTrinoWith(c.t, dir, environment, map[string]string{"lake": string(readFile(c.t, catalog))})
}

// trino asks a statement, and gives the rows.
func (c *composition) trino(address, sql string) [][]any {
	c.t.Helper()
	var rows [][]any
	request, err := http.NewRequest("POST", address+"/v1/statement", strings.NewReader(sql))
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("X-Trino-User", "test")
	for {
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			c.t.Fatal(err)
		}
		var page struct {
			NextURI string
			Data    [][]any
			Error   *struct{ Message, ErrorName string }
		}
		err = json.NewDecoder(answer.Body).Decode(&page)
		answer.Body.Close()
		if err != nil {
			c.t.Fatal(err)
		}
		if page.Error != nil {
			c.t.Fatalf("%s: %s: %s", sql, page.Error.ErrorName, page.Error.Message)
		}
		rows = append(rows, page.Data...)
		if page.NextURI == "" {
			return rows
		}
		if request, err = http.NewRequest("GET", page.NextURI, nil); err != nil {
			c.t.Fatal(err)
		}
	}
}

// startPrometheus checks the configuration and starts the server with it, where it is installed.
func (c *composition) startPrometheus() bool {
	home := filepath.Join("..", "build", "integration", "prometheus", "usr", "bin")
	if !isFile(filepath.Join(home, "prometheus")) {
		c.t.Log("Prometheus is not installed: its configuration was not tried")
		return false
	}
	config := c.file("prometheus.yml", [2]string{"gscd:9090", c.gscd})
	rules := readFile(c.t, "../deploy/prometheus/rules.yaml")
	if err := os.WriteFile(filepath.Join(c.dir, "rules.yaml"), rules, 0o644); err != nil {
		c.t.Fatal(err)
	}
	if out, err := exec.Command(filepath.Join(home, "promtool"), "check", "config", config).CombinedOutput(); err != nil {
		c.t.Fatalf("promtool: %v\n%s", err, out)
	}
	p := startProcess(c.t, filepath.Join(home, "prometheus"), "--config.file="+config, "--storage.tsdb.path="+filepath.Join(c.dir, "tsdb"), "--web.listen-address="+c.prometheus, "--log.level=warn")
	go io.Copy(io.Discard, p.stdout)
	return true
}

// get gives the body of an answer, "" where there is no good one.
func (c *composition) get(address string) string {
	answer, err := http.Get(address)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}

func (c *composition) until(what string, within time.Duration, reached func() bool) {
	c.t.Helper()
	for end := time.Now().Add(within); !reached(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("not within %s: %s", within, what)
		}
	}
}

// orders are the rows of the server, and of a table of the lake, in one form.
const ordersColumns = "id,user_id,total,state"

func (c *composition) orders() string {
	out := c.client(nil, "--user=root", "--batch", "--raw", "--skip-column-names", "shop", "--execute=SELECT "+ordersColumns+" FROM orders ORDER BY id")
	return strings.ReplaceAll(out, "\t", ",")
}

// The services of deploy/compose, each from its package and with the files that the containers
// get: changes of the script go from MariaDB's log through Debezium and Kafka into a bucket, and
// Trino reads the version that gscd names. GSCD_SOAK waits for the seal of a five-minute label too.
func TestComposeServices(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := newComposition(t)
	lap := func(what string) { t.Logf("%5.1f s  %s", time.Since(began).Seconds(), what) }
	trinoLacks := trinoLacks(t)
	trino := ""
	if trinoLacks == "" {
		trino = c.startTrino() // it takes longest to come up
	}
	binary(t)
	c.startS3()
	c.startMariaDB()
	lap("MariaDB has the shop")
	b := c.startKafka()
	lap("Kafka serves")
	c.makeTopics(b)
	lap("the topics are made")
	c.startConnect()
	c.startConnector()
	lap("Debezium streams")
	c.startGSCD()
	watched := c.startPrometheus()

	host, port, _ := strings.Cut(c.mariadb, ":")
	script := c.file("changes.sh", [2]string{"mariadb --host mariadb ", "mariadb --no-defaults --host " + host + " --port " + port + " "})
	changes := startProcess(t, "bash", script)
	c.until("the script has changed some rows", time.Minute, func() bool { return strings.Count(c.orders(), "\n") > 12 })
	changes.end(t, syscall.SIGTERM)
	want := c.orders()
	lap(fmt.Sprintf("the script has left %d orders", strings.Count(want, "\n")))

	query := func(args ...string) string {
		cmd := exec.Command(binary(t), append([]string{"query", "--table", "orders", "--columns", ordersColumns, "--order-by", "id", "--format", "csv", "--log-level", "error"}, args...)...)
		cmd.Env = append(os.Environ(), c.environment()...)
		out, err := cmd.Output() // on standard error it says that the label is open
		if err != nil {
			return fmt.Sprintf("%v: %s", err, out) // as long as there is no table
		}
		_, rows, _ := strings.Cut(string(out), "\n")
		return rows
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(500 * time.Millisecond) {
		got := query()
		if got == want {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the lake has:\n%s\nthe server:\n%s\nstatus: %s\ngscd: %s", got, want, c.get("http://"+c.gscd+"/status"), c.said)
		}
	}
	lap("the lake has the server's rows")

	snapshot := func(state string) (version, rows int64, label string) {
		var newest struct {
			Label, State  string
			Version, Rows int64
		}
		for line := range strings.Lines(string(gscdIn(t, c.environment(), "snapshots", "--table", "orders", "--format", "jsonl"))) {
			one := newest
			if err := json.Unmarshal([]byte(line), &one); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if one.State == state {
				newest = one
			}
		}
		return newest.Version, newest.Rows, newest.Label
	}
	inTrino := func(version int64, want string) {
		t.Helper()
		if trino == "" {
			t.Log(trinoLacks)
			return
		}
		var got strings.Builder
		for _, row := range c.trino(trino, fmt.Sprintf("SELECT %s FROM lake.shop.orders FOR VERSION AS OF %d ORDER BY id", ordersColumns, version)) {
			for i, cell := range row {
				if i > 0 {
					got.WriteByte(',')
				}
				fmt.Fprint(&got, cell)
			}
			got.WriteByte('\n')
		}
		if got.String() != want {
			t.Errorf("Trino reads of version %d:\n%s\nwant\n%s", version, got.String(), want)
		}
	}
	if trino != "" {
		c.until("Trino is up", 2*time.Minute, func() bool {
			return strings.Contains(c.get(trino+"/v1/info"), `"starting":false`)
		})
		lap("Trino is up")
		// The statements of the README.
		readme := string(readFile(t, "../deploy/compose/README.md"))
		for _, sql := range regexp.MustCompile(`trino --execute "([^"]+)"`).FindAllStringSubmatch(readme, -1) {
			if !strings.HasPrefix(sql[1], "SELECT") { // whose version is an example's
				c.trino(trino, sql[1])
			}
		}
	}
	version, rows, label := snapshot("open")
	equal(t, "rows of the open label "+label, rows, int64(strings.Count(want, "\n")))
	inTrino(version, want)
	lap(fmt.Sprintf("Trino reads version %d, %s so far: %d rows", version, label, rows))

	if watched {
		c.until("Prometheus has what gscd tells", time.Minute, func() bool {
			answer := c.get("http://" + c.prometheus + "/api/v1/query?query=" + url.QueryEscape(`sum(gscd_rows{job="gscd"})`))
			return strings.Contains(answer, `"value"`)
		})
		lap("Prometheus scrapes gscd")
	}
	if os.Getenv("GSCD_SOAK") == "" {
		t.Log("no label was waited for: GSCD_SOAK=6m does")
		return
	}
	changes = startProcess(t, "bash", script)
	c.until("a label is sealed", 8*time.Minute, func() bool { _, _, label = snapshot("sealed"); return label != "" })
	changes.end(t, syscall.SIGTERM)
	version, rows, label = snapshot("sealed")
	sealed := query("--as-of", label)
	equal(t, "rows of the sealed label "+label, int64(strings.Count(sealed, "\n")), rows)
	inTrino(version, sealed)
	lap(fmt.Sprintf("Trino reads the sealed label %s: version %d, %d rows", label, version, rows))
}
