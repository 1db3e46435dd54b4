package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// freeAddress is one that nobody listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Two processes share two tables, and the command tells who has which.
func TestScaleOut(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, "users", "shops")
	c.produce(
		c.upsert("users", 0, 1, "ann", "2022-07-16T10:00:00Z"),
		c.upsert("shops", 1, 2, "bob", "2022-07-16T11:00:00Z"),
	)
	var tables strings.Builder
	for _, name := range []string{"users", "shops"} {
		fmt.Fprintf(&tables, "  - {location: %q, topics: [%s]}\n", filepath.Join(c.dir, name), name)
	}
	file := c.write("gscd.yaml", fmt.Sprintf("kafka: {brokers: [%q]}\ncalendar: {timezone: UTC}\nscale_out: {group: lake}\ntables:\n%s", c.brokers(), &tables))
	start := func(name string) *process {
		return spawn(t, "ingest", "-c", file, "--scale-out-member", name, "--http", freeAddress(t), "--log-format", "json")
	}
	a := start("a")
	a.until("a has both tables", func() bool {
		code, _ := a.get("/readyz")
		return code == http.StatusOK && a.metric(`gscd_group_tables{which="mine"}`) == "2"
	})
	b := start("b")
	b.until("b has one of them", func() bool {
		code, _ := b.get("/readyz")
		return code == http.StatusOK && a.metric(`gscd_group_tables{which="mine"}`) == "1" && b.metric(`gscd_group_tables{which="mine"}`) == "1" &&
			b.metric(`gscd_tables{state="running"}`) == "1"
	})
	command := func(args ...string) (stdout, stderr string, code int) {
		app, out, errs := newTestApp()
		code = run(append(args, "-c", file), app, commands)
		return out.String(), errs.String(), code
	}
	out, errs, code := command("status", "--group", "--format", "json")
	var g struct {
		Group   string
		Member  *string
		Members []struct {
			Member, Address string
			Error           *string
			Tables          []struct {
				Table string
				State *string
				Open  *string
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &g); err != nil || code != exitOK {
		t.Fatalf("%v, exit %d: %s%s", err, code, out, errs)
	}
	if g.Group != "lake" || g.Member != nil || len(g.Members) != 2 || g.Members[0].Member != "a" || g.Members[1].Address != b.http {
		t.Errorf("%s", out)
	}
	for _, m := range g.Members {
		if m.Error != nil || len(m.Tables) != 1 || *m.Tables[0].State != "running" || m.Tables[0].Open == nil {
			t.Errorf("%s", out)
		}
	}

	// A process that is gone is said to be, and what was given to it is shown.
	_ = b.cmd.Process.Signal(syscall.SIGKILL)
	_ = b.cmd.Wait()
	out, errs, code = command("status", "--group", "--format", "csv")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != exitOK || len(lines) != 3 || !strings.HasPrefix(lines[0], "member,table,since,waits_for_member,state,error,") ||
		!strings.HasPrefix(lines[1], "a,") || !strings.HasPrefix(lines[2], "b,") || !strings.Contains(errs, "member b does not tell of its tables: ") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	// Under its name it finds what it had.
	b = start("b")
	b.until("b has its table again", func() bool { return b.metric(`gscd_tables{state="running"}`) == "1" })

	// A second process of one name ends the first.
	again := start("b")
	b.await("under the name of this member")
	again.until("it has the table", func() bool { return again.metric(`gscd_tables{state="running"}`) == "1" })

	for _, w := range []struct {
		want string
		args []string
	}{
		{"--until-end and scale_out.group lake don't go together", []string{"ingest", "--until-end"}},
		{"--scale-out-session-timeout: 50ms is out of bounds", []string{"ingest", "--scale-out-session-timeout", "50ms"}},
		{"--group and --why are two questions", []string{"status", "--group", "--why"}},
	} {
		if _, errs, code := command(w.args...); code != exitUsage || !strings.Contains(errs, w.want) {
			t.Errorf("%q: exit %d: %s", w.args, code, errs)
		}
	}
	app, _, errors := newTestApp()
	if code := run([]string{"status", "--group", "--brokers", "x:1"}, app, commands); code != exitUsage {
		t.Errorf("exit %d: %s", code, errors)
	}
}
