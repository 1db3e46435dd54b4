package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

// A rollback asks the brokers first: what the topic no longer has can't be read again.
func TestRollbackAsksBrokers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "users")
	for day := 16; day <= 19; day++ {
		c.produce(c.upsert("users", 0, day, "n", fmt.Sprintf("2022-07-%dT10:00:00Z", day)))
	}
	c.ok(c.ingestArgs("users", "--until-end", "--now", "2022-07-19T12:00:00Z")...)
	table := filepath.Join(c.dir, "users")
	file := c.write("gscd.yaml", fmt.Sprintf("kafka: {brokers: [%q]}\ncalendar: {timezone: UTC}\ntables: [{location: %q, topics: [users]}]", c.brokers(), table))

	code, stdout, stderr := c.gscd("rollback", "-c", file, "--to", "2022-07-16", "--dry-run", "--format", "jsonl")
	if code != 0 || strings.Contains(stderr, "replay was not checked") || !strings.Contains(stdout, `"offsets":{"users/0":2}`) {
		t.Errorf("dry run: exit %d: %s%s", code, stdout, stderr)
	}
	var cut kadm.Offsets
	cut.Add(kadm.Offset{Topic: "users", At: 3})
	if _, err := c.admin().DeleteRecords(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	before := c.ok("snapshots", "-c", file)
	code, _, stderr = c.gscd("rollback", "-c", file, "--to", "2022-07-16", "--yes")
	if code != 1 || !strings.Contains(stderr, "partition 0 of topic users would go on at offset 2, the oldest there is 3; replay is possible to a label whose offset there is 3 or more, or roll back with --no-replay") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if after := c.ok("snapshots", "-c", file); after != before {
		t.Errorf("a refused rollback changed the table:\n%s\nwas\n%s", after, before)
	}
	c.ok("rollback", "-c", file, "--to", "2022-07-17", "--dry-run") // goes on at offset 3

	// A topic made anew has none of them, and without brokers nobody knows.
	if _, err := c.admin().DeleteTopics(t.Context(), "users"); err != nil {
		t.Fatal(err)
	}
	code, _, stderr = c.gscd("rollback", "-c", file, "--to", "2022-07-17", "--yes")
	if code != 1 || !strings.Contains(stderr, "users") || !strings.Contains(stderr, "--no-replay") {
		t.Errorf("without the topic: exit %d: %s", code, stderr)
	}
	if _, err := c.admin().CreateTopics(t.Context(), 1, 1, nil, "users"); err != nil {
		t.Fatal(err)
	}
	code, _, stderr = c.gscd("rollback", "-c", file, "--to", "2022-07-17", "--yes")
	if code != 1 || !strings.Contains(stderr, "the topic was deleted and created again") {
		t.Errorf("with another topic of the name: exit %d: %s", code, stderr)
	}
	c.Close()
	code, _, stderr = c.gscd("rollback", "-c", file, "--to", "2022-07-17", "--yes")
	if code != 1 || !strings.Contains(stderr, "no broker answers") {
		t.Errorf("without brokers: exit %d: %s", code, stderr)
	}
	c.ok("rollback", "-c", file, "--to", "2022-07-16", "--no-replay", "--yes")
	if after := c.ok("snapshots", "-c", file, "--format", "csv"); !strings.Contains(after, "2022-07-18,") || !strings.Contains(after, "2022-07-18,5,rolled-back") {
		t.Errorf("after --no-replay:\n%s", after)
	}
}

// A script has nobody to ask.
func TestRollbackConfirms(t *testing.T) {
	a, _, stderr := newTestApp()
	err := a.confirm("Roll back?")
	if exitCode(err, true, false) != exitUsage || !strings.Contains(err.Error(), "give --yes, or --dry-run") || stderr.Len() > 0 {
		t.Errorf("without a terminal: %v, asked %q", err, stderr)
	}
}
