package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta/write"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/kafka"
)

// What is committed while a follower runs is printed, and it says where to go on.
func TestChangesFollow(t *testing.T) {
	dir, table := changedTable(t)
	follow := func(f changesFlags, format string, until string) (stdout, stderr string) {
		t.Helper()
		var out, errors lockedBuffer
		a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errors, log: zap.NewNop()}
		a.flags.table, a.flags.format = dir, format
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended := make(chan error, 1)
		f.follow, f.poll = true, 5*time.Millisecond
		go func() { ended <- a.followChanges(ctx, f) }()
		for end := time.Now().Add(10 * time.Second); !strings.Contains(out.String(), until) && time.Now().Before(end); {
			if strings.Contains(errors.String(), "following behind version 4") && !strings.Contains(out.String(), "Chengdu") {
				if _, err := write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}}, write.Values([][]any{{5, "Chengdu"}})); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		return out.String(), errors.String()
	}
	stdout, stderr := follow(changesFlags{fromVersion: -1, toVersion: -1}, "jsonl", "Chengdu")
	if strings.Count(stdout, "\n") != 1 || !strings.Contains(stdout, `{"id":5,"city":"Chengdu","_change_type":"insert","_commit_version":5,`) ||
		!strings.HasSuffix(stderr, "stopped behind version 5: --from-version 6 goes on\n") {
		t.Errorf("from now on: %s%s", stdout, stderr)
	}
	stdout, _ = follow(changesFlags{fromVersion: 4, toVersion: -1}, "csv", "Chengdu")
	if lines := strings.Split(stdout, "\n"); len(lines) != 4 || !strings.HasPrefix(lines[0], "id,city,_change_type") || !strings.HasPrefix(lines[1], "2,Hangzhou,delete,4,") || !strings.HasPrefix(lines[2], "5,Chengdu,insert,5,") {
		t.Errorf("from a version: %s", stdout)
	}
	for args, says := range map[string]string{
		"--follow --to-version 3":      "have no end",
		"--sealed --from-version 1":    "--sealed goes with --follow or --to-topic",
		"--shape cdf --from-version 1": "--shape goes with --to-topic",
		"--to-topic x --shape json":    "--shape json is unknown: use debezium or cdf",
		"--to-topic x":                 "no broker is configured",
		"--follow --format json":       "--format json is one array",
		"--follow --from-version 99":   "--from-version 99 is not the next one",
		"--to-topic x --columns id":    "--columns and --format are of what is printed",
		"--follow --poll 0s":           "--poll 0s",
		"--follow --net":               "it has no labels that could be sealed",
		"--follow --from 2022-07-16":   "it has no labels",
		"--to-topic x --brokers h:1 --from-version 0 --transaction-timeout 1ms": "give a second or more",
	} {
		a, _, stderr := newTestApp()
		if code := run(append([]string{"changes", "--table", dir}, strings.Fields(args)...), a, commands); code == 0 || !strings.Contains(stderr.String(), says) {
			t.Errorf("%s: exit %d: %s", args, code, stderr)
		}
	}
}

// Changes of days go into a topic, and back into a table of the same days.
func TestChangesToTopic(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, "users", "users.changes")
	for day := 16; day <= 19; day++ {
		for id := range 4 {
			c.produce(c.upsert("users", int32(id%2), id, fmt.Sprintf("day %d", day), fmt.Sprintf("2022-07-%dT10:00:00Z", day)))
		}
	}
	c.ok(c.ingestArgs("users", "--until-end", "--now", "2022-07-19T12:00:00Z")...)
	table := filepath.Join(c.dir, "users")
	to := []string{"changes", "--table", table, "--to-topic", "users.changes", "--brokers", c.brokers(), "--net"}
	c.ok(to...)
	c.ok(to...) // there is nothing new
	code, _, stderr := c.gscd("changes", "--table", table, "--to-topic", "nowhere", "--brokers", c.brokers(), "--net")
	if code != 1 || !strings.Contains(stderr, "topic nowhere: the topic to write to does not exist: create it") {
		t.Errorf("no topic: exit %d: %s", code, stderr)
	}

	c.ok("ingest", "--location", filepath.Join(c.dir, "copy"), "--topic", "users.changes", "--brokers", c.brokers(), "--timezone", "UTC", "--until-end", "--now", "2022-07-20T12:00:00Z")
	for day := 16; day <= 18; day++ {
		label := fmt.Sprintf("2022-07-%d", day)
		want := c.ok("query", "--table", table, "--as-of", label, "--order-by", "id", "--format", "csv")
		if got := c.ok("query", "--table", filepath.Join(c.dir, "copy"), "--as-of", label, "--order-by", "id", "--format", "csv"); got != want || strings.Count(got, "\n") != 5 {
			t.Errorf("%s:\n%swant\n%s", label, got, want)
		}
	}
	// A day is one transaction, with its label.
	k, err := kafka.New(kafka.Options{Brokers: c.ListenAddrs(), Topics: []string{"users.changes"}})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Assign(t.Context(), map[change.PartitionID]int64{{Topic: "users.changes", Partition: 0}: 0, {Topic: "users.changes", Partition: 1}: 0}); err != nil {
		t.Fatal(err)
	}
	labels := map[string]int{}
	for n := 0; n < 12; {
		blocks, err := k.Poll(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			for _, r := range b.Records {
				var value struct {
					Payload struct {
						Op     string
						Source struct{ Label string }
					}
				}
				if err := json.Unmarshal(r.Value, &value); err != nil {
					t.Fatal(err)
				}
				labels[value.Payload.Source.Label+value.Payload.Op]++
				n++
			}
		}
	}
	if fmt.Sprint(labels) != "map[2022-07-16c:4 2022-07-17u:4 2022-07-18u:4]" {
		t.Errorf("labels %v", labels)
	}
}
