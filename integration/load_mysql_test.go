//go:build integration

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	osuser "os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"

	dbserver "github.com/gscd-io/gscd/capture/source"
	"github.com/gscd-io/gscd/slice/mysql"
)

const mariaPassword = "s3cr3t-of-the-reader"

// mariaDB starts a server of its own with TLS, and with more settings; it is skipped where there is none on the machine.
func mariaDB(t testing.TB, settings ...string) (address, ca string, root *client.Conn) {
	t.Helper()
	daemon, err := exec.LookPath("mariadbd")
	if err != nil {
		if daemon = "/usr/sbin/mariadbd"; !isFile(daemon) {
			t.Skip("no mariadbd on this machine: apt-get install --no-install-recommends mariadb-server")
		}
	}
	me, err := osuser.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "gscd-maria-") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	data := filepath.Join(dir, "data")
	install := exec.Command("mariadb-install-db", "--no-defaults", "--datadir="+data, "--user="+me.Username, "--auth-root-authentication-method=normal", "--skip-test-db")
	install.Env = append(os.Environ(), "TMPDIR="+dir) // servers that share one remove each other's files
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("mariadb-install-db: %v\n%s", err, out)
	}
	certificate := func(args ...string) {
		if out, err := exec.Command("openssl", args...).CombinedOutput(); err != nil {
			t.Fatalf("openssl: %v\n%s", err, out)
		}
	}
	ca = filepath.Join(dir, "server.pem")
	certificate("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", filepath.Join(dir, "server.key"), "-out", ca, "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = free.Addr().String()
	free.Close()
	_, port, _ := net.SplitHostPort(address)
	var out bytes.Buffer
	server := exec.Command(daemon, append([]string{"--no-defaults", "--datadir=" + data, "--tmpdir=" + dir, "--user=" + me.Username, "--port=" + port, "--bind-address=127.0.0.1", "--socket=" + filepath.Join(dir, "s"),
		"--skip-name-resolve", "--innodb-buffer-pool-size=32M", "--ssl-ca=" + ca, "--ssl-cert=" + ca, "--ssl-key=" + filepath.Join(dir, "server.key"), "--character-set-server=utf8mb4",
		"--log-bin=" + filepath.Join(dir, "maria-bin"), "--binlog-format=ROW", "--server-id=77"}, settings...)...)
	server.Stdout, server.Stderr = &out, &out
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	for deadline := time.Now().Add(60 * time.Second); ; {
		if root, err = client.Connect(address, "root", "", ""); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("mariadbd does not answer: %v\n%s", err, out.String())
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Cleanup(func() { root.Close() })
	return address, ca, root
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// gscdFails runs a command that must fail, and gives what it said and its code.
func gscdFails(t *testing.T, environment []string, args ...string) (said string, code int) {
	t.Helper()
	c := program(t, args...)
	c.Env = append(os.Environ(), environment...)
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("gscd %s: %v, and it should have failed:\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), exit.ExitCode()
}

// A table of a real server becomes a day, each value with every digit, in one consistent
// read, over TLS; the password is nowhere.
func TestLoadMySQL(t *testing.T) {
	t.Parallel()
	address, ca, root := mariaDB(t)
	run := func(statement string) {
		t.Helper()
		if _, err := root.Execute(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	run("SET time_zone = '+08:00'")
	run("CREATE DATABASE shop")
	run("CREATE USER reader IDENTIFIED BY '" + mariaPassword + "' REQUIRE SSL")
	run("GRANT SELECT ON shop.* TO reader")
	run("CREATE TABLE shop.`odd ``name` (id BIGINT UNSIGNED PRIMARY KEY, t TINYINT, u TINYINT UNSIGNED, price DECIMAL(30,10), f FLOAT, d DOUBLE, b BIT(1), bits BIT(12), " +
		"born DATE, dt DATETIME(6), ts TIMESTAMP(3) NULL, tm TIME(6), y YEAR, name VARCHAR(50), raw VARBINARY(20), e ENUM('a','b'), s SET('x','y'), j JSON)")
	run("INSERT INTO shop.`odd ``name` VALUES (18446744073709551615, -128, 255, 12345678901234567890.0123456789, 0.1, 0.1, b'1', b'101010101010', " +
		"'9999-12-31', '2022-07-16 23:59:59.999999', '2022-07-16 08:00:00.123', '-838:59:59.5', 2022, 'é|\\t\\0\"', 0x00ff, 'b', 'x,y', '{\"k\":1}'), " +
		"(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', NULL, NULL, NULL, NULL)")

	dir := t.TempDir()
	secret := filepath.Join(dir, "password")
	if err := os.WriteFile(secret, []byte(mariaPassword+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	table, from := filepath.Join(dir, "t"), "mysql://reader@"+address+"/shop/odd%20%60name"
	secure := []string{"GSCD_MYSQL_PASSWORD_FILE=" + secret, "GSCD_MYSQL_CA_FILE=" + ca}
	out := string(gscdIn(t, secure, "load", "--snapshot", "2022-07-16", from, "--table", table, "--key", "id", "--timezone", "Asia/Shanghai"))
	if strings.Contains(out, mariaPassword) {
		t.Error("the password is printed")
	}
	rows := string(gscd(t, "query", "--table", table, "--as-of", "2022-07-16", "--order-by", "id", "--format", "jsonl"))
	want := `{"id":2,"t":null,"u":null,"price":null,"f":null,"d":null,"b":null,"bits":null,"born":null,"dt":null,"ts":null,"tm":null,"y":null,"name":"","raw":null,"e":null,"s":null,"j":null}
{"id":18446744073709551615,"t":-128,"u":255,"price":12345678901234567890.0123456789,"f":0.1,"d":0.1,"b":true,"bits":2730,"born":"9999-12-31","dt":"2022-07-16T23:59:59.999999","ts":"2022-07-16T00:00:00.123000Z","tm":-3020399500000,"y":2022,"name":"é|\t\u0000\"","raw":"AP8=","e":"b","s":"x,y","j":"{\"k\":1}"}
`
	if rows != want {
		t.Errorf("rows:\n%s\nwant\n%s", rows, want)
	}

	run("UPDATE shop.`odd ``name` SET t = 5 WHERE id = 2")
	if out := string(gscdIn(t, secure, "load", "--snapshot", "2022-07-17", from, "--table", table)); !strings.Contains(out, `"new":0,"changed":1,"deleted":0,"unchanged":1`) {
		t.Error(out)
	}

	// What is refused says so, without the password.
	for _, tt := range []struct {
		name        string
		environment []string
		from        string
		code        int
		says        string
	}{
		{"wrong password", []string{"GSCD_MYSQL_PASSWORD=" + mariaPassword + "x", "GSCD_MYSQL_CA_FILE=" + ca}, from, 1, "Access denied"},
		{"no TLS where the user must", []string{"GSCD_MYSQL_PASSWORD=" + mariaPassword}, from, 1, "Access denied"},
		{"an unknown authority", []string{"GSCD_MYSQL_PASSWORD=" + mariaPassword, "GSCD_MYSQL_TLS=require"}, from, 1, "certificate"},
		{"no such table", secure, "mysql://reader@" + address + "/shop/none", 1, "no such table"},
		{"password in the address", secure, "mysql://reader:" + mariaPassword + "@" + address + "/shop/t", 2, "GSCD_MYSQL_PASSWORD"},
		{"no table in the address", secure, "mysql://reader@" + address + "/shop", 2, "DATABASE/TABLE"},
	} {
		said, code := gscdFails(t, tt.environment, "load", "--snapshot", "2022-07-18", tt.from, "--table", table)
		if code != tt.code || !strings.Contains(said, tt.says) || strings.Contains(said, mariaPassword) {
			t.Errorf("%s: exit %d\n%s", tt.name, code, said)
		}
	}
	t.Run("one consistent read", func(t *testing.T) { consistentRead(t, address, ca, run) })
	t.Run("where it stands in the log", func(t *testing.T) { loadPosition(t, address, ca, root) })
}

// loadPosition: while nothing is written, a read stands where the log ends.
func loadPosition(t *testing.T, address, ca string, root *client.Conn) {
	table, err := mysql.Open("mysql://reader@"+address+"/shop/accounts", dbserver.Options{Password: mariaPassword, CAFile: ca})
	if err != nil {
		t.Fatal(err)
	}
	if table.At() != nil {
		t.Error("a position before anything was read")
	}
	rows, err := table.Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range rows.Rows {
		if err != nil {
			t.Fatal(err)
		}
	}
	status, err := root.Execute("SHOW MASTER STATUS")
	if err != nil {
		t.Fatal(err)
	}
	file, _ := status.GetString(0, 0)
	pos, _ := status.GetInt(0, 1)
	at := table.At()
	if at == nil || at.ServerID != 77 || at.Position.Pos != pos || !strings.HasSuffix(file, fmt.Sprintf(".%06d", at.Position.File)) || time.Since(time.UnixMicro(at.Time)).Abs() > time.Hour {
		t.Errorf("%+v, want %s:%d of server 77", at, file, pos)
	}
}

// consistentRead loads while another session moves amounts about: their sum never changes.
func consistentRead(t *testing.T, address, ca string, run func(string)) {
	run("CREATE TABLE shop.accounts (id INT PRIMARY KEY, amount INT)")
	values := make([]string, 20_000)
	for i := range values {
		values[i] = fmt.Sprintf("(%d,100)", i)
	}
	run("INSERT INTO shop.accounts VALUES " + strings.Join(values, ","))
	mover, err := client.Connect(address, "root", "", "shop")
	if err != nil {
		t.Fatal(err)
	}
	defer mover.Close()
	ctx, stop := context.WithCancel(context.Background())
	var moving sync.WaitGroup
	moving.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			_, _ = mover.Execute(fmt.Sprintf("UPDATE accounts SET amount = amount + IF(id = %d, 7, -7) WHERE id IN (%d, %d)", i%20_000, i%20_000, 19_999-i%20_000))
		}
	})
	table, err := mysql.Open("mysql://reader@"+address+"/shop/accounts", dbserver.Options{Password: mariaPassword, CAFile: ca})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		rows, err := table.Open(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		sum, n := int64(0), 0
		for row, err := range rows.Rows {
			if err != nil {
				t.Fatal(err)
			}
			sum += row[1].I
			n++
		}
		if sum != 100*20_000 || n != 20_000 {
			t.Errorf("%d rows, sum %d", n, sum)
		}
	}
	stop()
	moving.Wait()
}

// TestLoadMySQLBehindCapture: a table begins with the rows of the server while its changes
// are in Kafka already, from before and behind them: those of before change nothing, and in
// the end the table is the server's.
func TestLoadMySQLBehindCapture(t *testing.T) {
	t.Parallel()
	c := newCaptured(t, startBroker(t), startMaria(t), "gscd", "transactions", "users")
	text, err := os.ReadFile(c.config)
	if err != nil {
		t.Fatal(err)
	}
	never := strings.Replace(string(text), "load: {", "load: {mode: never, ", 1)
	if err := os.WriteFile(c.config, []byte(never), 0o600); err != nil || never == string(text) {
		t.Fatal(err)
	}
	conn := c.connect()
	run := func(statements ...string) {
		t.Helper()
		for _, s := range statements {
			if _, err := conn.Execute(s); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
	}
	run("CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(20), n INT)", "INSERT INTO users SELECT seq, CONCAT('u', seq), 0 FROM seq_1_to_200")
	c.until() // from here on, without the rows
	run("UPDATE users SET n = n + 1 WHERE id <= 100", "DELETE FROM users WHERE id = 7", "INSERT INTO users VALUES (7, 'again', 5)", "DELETE FROM users WHERE id = 8", "UPDATE users SET id = 1009 WHERE id = 9")
	c.until()
	from := "mysql://root@" + c.m.address + "/" + c.db + "/users"
	out := string(gscdIn(t, nil, "load", "-c", c.config, "--table", "users", "--key", "id", "--snapshot", time.Now().UTC().Format(time.DateOnly), from, "--format", "jsonl"))
	if !strings.Contains(out, `"new":199,`) || !strings.Contains(out, `"log_position":{"server_id":`) {
		t.Fatal(out)
	}
	run("UPDATE users SET n = n + 10 WHERE id % 3 = 0", "DELETE FROM users WHERE id = 10", "INSERT INTO users VALUES (8, 'back', 1)", "UPDATE users SET id = 9 WHERE id = 1009")
	c.until()
	gscd(t, "ingest", "-c", c.config, "--until-end", "--log-level", "error")
	c.same("rows", c.lake("users", "id", ""), c.server("users", "id"))
	status := string(gscd(t, "status", "-c", c.config, "--table", "users", "--format", "json"))
	if !strings.Contains(status, `"superseded":105,`) { // 100, 1 and 1, 1, and a key change of two records
		t.Error(status)
	}
}
