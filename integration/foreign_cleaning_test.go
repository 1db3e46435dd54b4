//go:build integration

package integration

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/savepoint"
)

// age makes every file of the table 40 days old: older than any engine's default.
func (r *rig) age() {
	r.t.Helper()
	old := time.Now().AddDate(0, 0, -40)
	for _, key := range r.objects() {
		if err := os.Chtimes(filepath.Join(r.store.Store.String(), filepath.FromSlash(key)), old, old); err != nil {
			r.t.Fatal(err)
		}
	}
}

// checkSays runs gscd check, which must end with a code, and gives what it printed.
func (r *rig) checkSays(code int, more ...string) string {
	r.t.Helper()
	var out bytes.Buffer
	c := program(r.t, append([]string{"check", "--table", r.store.Store.String(), "--format", "csv"}, more...)...)
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); c.ProcessState == nil {
		r.t.Fatal(err)
	}
	if got := c.ProcessState.ExitCode(); got != code {
		r.t.Errorf("gscd check %v ends with %d, want %d:\n%s", more, got, code, &out)
	}
	return out.String()
}

// shortened is how an engine is told to take the protection away, and to clean the log.
func shortened(engine string) (shorten, clean []request) {
	const interval = "interval 1 hours"
	if engine == "Spark" {
		sql := func(text string) request { return request{"do": "sql", "text": text} }
		return []request{sql("ALTER TABLE {path} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = '" + interval + "', 'delta.logRetentionDuration' = '" + interval +
				"', 'delta.enableExpiredLogCleanup' = 'true')")},
			[]request{sql("ALTER TABLE {path} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')"), {"do": "comment", "text": "cleaned"}}
	}
	return []request{{"do": "properties", "set": map[string]string{
		"delta.deletedFileRetentionDuration": interval, "delta.logRetentionDuration": interval, "delta.enableExpiredLogCleanup": "true",
	}}}, []request{{"do": "checkpoint"}, {"do": "cleanup"}}
}

// cleaningOf has an engine clean the log of a table with three sealed days. With the table's
// settings nothing is lost. Behind its own ALTER, which check and the ingester find, the
// islands go: check names each, no day has wrong rows, and a repair brings them back.
func cleaningOf(t *testing.T, e *engine) {
	topic := newTopic(0)
	r := users(localRig(t, topic, func(o *ingest.Options) { o.Protect = savepoint.ProtectBackup }), topic)
	goOn(topic)
	r.workAt("2022-07-18T01:00:00+08:00")
	user(topic, "u", 2, "Xiamen", "18T10", 300)
	r.workAt("2022-07-18T11:00:00+08:00")
	r.workAt("2022-07-19T01:00:00+08:00")
	days := map[string]string{
		"2022-07-16": usersOf16, "2022-07-17": "1 Suzhou, 2 Hangzhou, 4 Wuxi, 5 Suzhou, 6 Hangzhou",
		"2022-07-18": "1 Suzhou, 2 Xiamen, 4 Wuxi, 5 Suzhou, 6 Hangzhou",
	}
	shorten, clean := shortened(e.name)
	all := func(requests []request) {
		t.Helper()
		for _, q := range requests {
			r.age()
			e.do(t, r, q)
		}
	}
	before := r.objects()
	all(clean)
	for _, key := range before {
		if !slices.Contains(r.objects(), key) {
			t.Errorf("with the table's settings %s is gone", key)
		}
	}
	r.checkSays(0)

	all(shorten)
	if said := r.checkSays(3); strings.Count(said, "\nproperties,") != 3 {
		t.Errorf("three properties were changed: %s", said)
	}
	r.restart()
	r.mustWork() // sets them again
	if said := r.checkSays(0, "--repair"); strings.Contains(said, "\nproperties,") {
		t.Errorf("the ingester has not set the properties again: %s", said)
	}

	m := r.labels()
	all(shorten)
	all(clean)
	var lost []string
	for label := range days {
		resolved, err := m.Resolve(label, true)
		if err != nil {
			t.Fatal(err)
		}
		v := resolved.Entry.Version
		gone := false
		for _, key := range []string{deltalog.CommitKey(v), deltalog.CheckpointKey(v)} {
			if !slices.Contains(r.objects(), key) {
				lost, gone = append(lost, fmt.Sprintf("island,error,%s,%d,%s,", label, v, key)), true
			}
		}
		if rows, err := r.rowsAt(v); gone && err == nil {
			t.Errorf("%s lacks log files and is read: %v", label, rows)
		}
	}
	said := r.checkSays(3)
	for _, line := range lost {
		if !strings.Contains(said, line) {
			t.Errorf("check does not say %q:\n%s", line, said)
		}
	}
	if len(lost) == 0 {
		t.Fatalf("%s has cleaned nothing: %v", e.name, r.objects())
	}
	fmt.Printf("%s, with shortened properties: %d log files of savepoints lost\n", e.name, len(lost))
	r.checkSays(0, "--repair")
	readDays(t, r, days, e)
	r.restart()
	user(topic, "d", 6, "Hangzhou", "19T10", 400)
	r.workAt("2022-07-20T01:00:00+08:00")
	days["2022-07-19"] = "1 Suzhou, 2 Xiamen, 4 Wuxi, 5 Suzhou"
	readDays(t, r, days, e)
	r.checkSays(0, "--deep")

	// Where gscd's last commit was no seal, no backup has it: the days come back, and the
	// ingester says what is gone, and how to go on.
	user(topic, "u", 2, "Foshan", "20T10", 500)
	r.workAt("2022-07-20T11:00:00+08:00")
	all(shorten)
	all(clean)
	r.checkSays(3)
	r.checkSays(3, "--repair")
	r.restart()
	says(t, r.work(), "gscd's progress is gone", "gscd adopt")
	for label, want := range days {
		txn, ok := r.newest().Txn(savepoint.SealAppID(label))
		if !ok {
			t.Fatalf("%s is not in the map", label)
		}
		equal(t, label, cities(t, r, txn.Version), want)
	}
}

// newest opens the newest version.
func (r *rig) newest() *delta.Snapshot {
	r.t.Helper()
	s, err := r.table().Snapshot(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// TestForeignCleaning has delta-rs clean a table's log.
func TestForeignCleaning(t *testing.T) {
	t.Parallel()
	cleaningOf(t, startEngine(t, "delta-rs"))
}
