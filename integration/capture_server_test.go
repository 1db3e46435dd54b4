//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap/zaptest"

	"github.com/gscd-io/gscd/capture"
	"github.com/gscd-io/gscd/capture/event"
	dbserver "github.com/gscd-io/gscd/capture/source"
	"github.com/gscd-io/gscd/ingest/kafka"
)

// captureRig captures in this process into an embedded broker.
type captureRig struct {
	t       testing.TB
	cluster *kfake.Cluster
	o       capture.Options
}

func newCaptureRig(t testing.TB, servers ...*dbserver.Server) *captureRig {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SleepOutOfOrder())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	form, err := capture.Forms(event.GSCD, "s")
	if err != nil {
		t.Fatal(err)
	}
	return &captureRig{t, cluster, capture.Options{
		Name: "s", Servers: servers, ServerID: 77, Tables: []string{"shop.*"}, Form: form, UntilEnd: true, Heartbeat: time.Hour,
		Load: capture.LoadOptions{Parallel: 3, ChunkRows: 100}, Topics: kafka.NewTopic{Partitions: 2},
		Kafka: kafka.Options{Brokers: cluster.ListenAddrs()}, Writer: kafka.WriterOptions{StateTopic: "state"}, Log: zaptest.NewLogger(t),
	}}
}

func (r *captureRig) run() error {
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	err := capture.Run(ctx, r.o)
	if err == nil && ctx.Err() != nil {
		r.t.Fatal("it does not come to the end")
	}
	return err
}

func (r *captureRig) mustRun() {
	r.t.Helper()
	if err := r.run(); err != nil {
		r.t.Fatal(err)
	}
}

// rows are what was captured of a table: "op server [cells]".
func (r *captureRig) rows(table string) (out []string) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.ListenAddrs()...), kgo.ConsumeTopics("s.shop."+table), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer cl.Close()
	for {
		short, cancel := context.WithTimeout(r.t.Context(), 700*time.Millisecond)
		f := cl.PollFetches(short)
		cancel()
		if f.NumRecords() == 0 {
			return out
		}
		f.EachRecord(func(k *kgo.Record) {
			var v struct {
				Op            string
				Server        uint32
				Before, After json.RawMessage
			}
			if err := json.Unmarshal(k.Value, &v); err != nil {
				r.t.Fatalf("%s: %v", k.Value, err)
			}
			if row := v.After; v.Op != "h" && v.Op != "s" {
				if row == nil {
					row = v.Before
				}
				out = append(out, fmt.Sprintf("%s %d %s", v.Op, v.Server, row))
			}
		})
	}
}

func (r *captureRig) want(table string, want ...string) {
	r.t.Helper()
	got := r.rows(table)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.t.Errorf("%s:\n%s\nwant\n%s", table, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// serverOf reaches a server as another user.
func (m *maria) serverOf(user, password string) *dbserver.Server {
	s, err := dbserver.Open("mysql://"+user+"@"+m.address, dbserver.Options{Password: password})
	if err != nil {
		m.t.Fatal(err)
	}
	return s
}

// Everything that a server lacks is said at once, and how to mend it.
func TestCaptureFaults(t *testing.T) {
	t.Parallel()
	m := startMaria(t, "--binlog-format=MIXED", "--binlog-row-image=MINIMAL", "--binlog-row-metadata=NO_LOG", "--binlog-ignore-db=shop", "--server-id=77")
	m.run("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)", "CREATE USER poor IDENTIFIED BY 'p'", "GRANT SELECT ON shop.* TO poor")
	r := newCaptureRig(t, m.serverOf("poor", "p"))
	err := r.run()
	var faults *capture.FaultsError
	if !errors.As(err, &faults) {
		t.Fatal(err)
	}
	for _, want := range []string{
		"binlog_format is MIXED", "SET GLOBAL binlog_format = 'ROW'", "the server has server_id 77 itself",
		"the right REPLICATION SLAVE is missing", "the right BINLOG MONITOR is missing", "GRANT BINLOG MONITOR ON *.* TO 'poor'@'%'",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not said:\n%v", want, err)
		}
	}
	r.o.Servers = []*dbserver.Server{m.server()}
	r.o.Tables = []string{"other.*", "shop.*"}
	if err := r.run(); err == nil || !strings.Contains(err.Error(), "binlog_ignore_db has shop") {
		t.Errorf("%v", err)
	}
	r.o.Tables = []string{"other.*"}
	if err := r.run(); err == nil || !strings.Contains(err.Error(), "no table matches") {
		t.Errorf("%v", err)
	}
}

// The rights of the docs are enough; a log that was purged is said, and a reload goes on;
// tables that come later are captured from their first row on.
func TestCaptureServer(t *testing.T) {
	t.Parallel()
	m := startMaria(t)
	m.run("CREATE DATABASE shop", "USE shop", "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(10))", "CREATE TABLE other (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')", "INSERT INTO other VALUES (7)",
		"CREATE USER gscd IDENTIFIED BY 'p'", "GRANT SELECT ON shop.* TO gscd", "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO gscd")
	r := newCaptureRig(t, m.serverOf("gscd", "p"))
	r.o.Exclude = []string{"shop.other"}
	r.mustRun()
	r.want("t", `r 1 [1,"a"]`, `r 1 [2,"b"]`)

	// Stopped; tables are made, filled, renamed and altered meanwhile.
	m.run("CREATE TABLE later (id INT PRIMARY KEY)", "INSERT INTO later VALUES (5)", "ALTER TABLE later ADD COLUMN w INT", "INSERT INTO later VALUES (6, 60)",
		"UPDATE t SET v = 'c' WHERE id = 1", "ALTER TABLE t DROP COLUMN v", "DELETE FROM t WHERE id = 2")
	r.mustRun()
	r.want("t", `r 1 [1,"a"]`, `r 1 [2,"b"]`, `u 1 [1,"c"]`, `d 1 [2]`)
	r.want("later", `c 1 [5]`, `c 1 [6,60]`)
	r.want("other")

	// One that was left out is read when it no longer is.
	m.run("INSERT INTO other VALUES (8)")
	r.o.Exclude = nil
	r.mustRun()
	m.run("INSERT INTO other VALUES (9)")
	r.mustRun()
	r.want("other", `r 1 [7]`, `r 1 [8]`, `c 1 [9]`, `c 1 [8]`)
	r.want("later", `c 1 [5]`, `c 1 [6,60]`)

	m.run("INSERT INTO t VALUES (3)", "FLUSH LOGS", "FLUSH LOGS")
	rows, err := m.root.Execute("SHOW MASTER STATUS")
	if err != nil {
		t.Fatal(err)
	}
	newest, _ := rows.GetString(0, 0)
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		m.run("PURGE BINARY LOGS TO '" + newest + "'")
		logs, err := m.root.Execute("SHOW BINARY LOGS")
		if err != nil {
			t.Fatal(err)
		}
		if oldest, _ := logs.GetString(0, 0); oldest == newest {
			break
		}
		if time.Now().After(end) { // the server keeps them while a connection still reads them
			t.Fatal("the old logs do not go")
		}
	}
	if err := r.run(); !errors.Is(err, dbserver.ErrLogGone) {
		t.Fatalf("the log is gone: %v", err)
	}
	r.o.Reload = true
	r.mustRun()
	r.o.Reload = false
	m.run("INSERT INTO t VALUES (4)")
	r.mustRun()
	r.want("t", `r 1 [1,"a"]`, `r 1 [2,"b"]`, `u 1 [1,"c"]`, `d 1 [2]`, `r 1 [1]`, `r 1 [3]`, `c 1 [4]`)
}

// A replica takes the place of its primary: the stream goes on by GTID, each change once,
// with the number of the server that wrote it.
func TestCaptureFailover(t *testing.T) {
	t.Parallel()
	primary, replica := startMaria(t), startMaria(t, "--server-id=2", "--log-slave-updates")
	host, port, _ := net.SplitHostPort(primary.address)
	primary.run("CREATE USER repl IDENTIFIED BY 'p'", "GRANT REPLICATION SLAVE ON *.* TO repl")
	replica.run("FLUSH LOGS", "FLUSH LOGS", // so that its files are others
		fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '%s', MASTER_PORT = %s, MASTER_USER = 'repl', MASTER_PASSWORD = 'p', MASTER_USE_GTID = slave_pos", host, port), "START SLAVE")
	primary.run("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)", "INSERT INTO shop.t VALUES (1)")
	r := newCaptureRig(t, primary.server(), replica.server())
	r.mustRun()
	primary.run("INSERT INTO shop.t VALUES (2)")
	r.mustRun()
	primary.run("INSERT INTO shop.t VALUES (3)") // which only the replica can tell of
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if rows, err := replica.root.Execute("SELECT MAX(id) FROM shop.t"); err == nil {
			if n, _ := rows.GetInt(0, 0); n == 3 {
				break
			}
		}
		if time.Now().After(end) {
			t.Fatal("the replica does not follow")
		}
	}
	if _, err := primary.root.Execute("SHUTDOWN"); err != nil {
		t.Fatal(err)
	}
	replica.run("STOP SLAVE", "RESET SLAVE ALL", "INSERT INTO shop.t VALUES (4)")
	r.o.Servers[0] = unreachable(t)
	r.mustRun()
	replica.run("INSERT INTO shop.t VALUES (5)")
	r.mustRun()
	r.want("t", `r 1 [1]`, `c 1 [2]`, `c 1 [3]`, `c 2 [4]`, `c 2 [5]`)
}

// unreachable is a server that has gone.
func unreachable(t testing.TB) *dbserver.Server {
	s, err := dbserver.Open("mysql://root@"+freePorts(t, 1)[0], dbserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
