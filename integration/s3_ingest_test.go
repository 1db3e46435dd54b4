//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gscd-io/gscd/savepoint"
)

// environment lets gscd and other engines reach the gateway from now on.
func (g *gateway) environment(t *testing.T) {
	t.Helper()
	for _, v := range g.variables(t, g.url) {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
}

// variables are what gscd and other engines need in their environment to reach
// the gateway at an address, its own or that of a proxy before it.
func (g *gateway) variables(t testing.TB, url string) []string {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(gatewaySecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{
		"GSCD_S3_ENDPOINT=" + url, "GSCD_S3_REGION=" + gatewayRegion, "GSCD_S3_PATH_STYLE=true",
		"GSCD_S3_ACCESS_KEY_ID=" + gatewayKey, "GSCD_S3_SECRET_ACCESS_KEY_FILE=" + secret,
		// delta-rs
		"AWS_ENDPOINT_URL=" + url, "AWS_ALLOW_HTTP=true", "AWS_REGION=" + gatewayRegion,
		"AWS_ACCESS_KEY_ID=" + gatewayKey, "AWS_SECRET_ACCESS_KEY=" + gatewaySecret,
	}
}

// A recording goes into a bucket, by a program that is killed again and again
// and ends at last. Every sealed day is what the source's server had: as the
// program reads it, and as delta-rs does.
func TestS3Ingest(t *testing.T) {
	stream := recordedStreams(t)[2]
	g := startGateway(t, "--keep-alive")
	g.environment(t)
	const address = "s3://" + gatewayBucket + "/dim/stock"
	args := []string{
		"ingest", "--location", address, "--topic", "s3.shop.stock", "--timezone", "UTC", "--key", strings.Join(stream.key, ","),
		"--batch-rows", "25", "--now", recordedEnd.Format(time.RFC3339), "--log-level", "warn",
	}
	for _, path := range stream.paths(t) {
		args = append(args, "--input", path)
	}
	killed := 0
	for k := range 8 {
		c := program(t, args...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(40+25*k) * time.Millisecond)
		_ = c.Process.Kill() // it may have ended
		if err := c.Wait(); err != nil {
			if c.ProcessState.Exited() {
				t.Fatalf("a run failed: %v", err)
			}
			killed++
		}
	}
	gscd(t, args...)
	t.Logf("killed %d times", killed)
	if killed == 0 {
		t.Error("no run was killed: they were too short")
	}

	r := rigOn(t, g.open(t, "dim/stock"), g.open(t, "dim/stock__dead_letter"), nil, stream.options(t))
	stream.checkDays(t, r)

	rs := startEngine(t, "delta-rs")
	days := 0
	for _, e := range r.labels().Entries {
		if e.State != savepoint.Sealed && e.State != savepoint.Open {
			continue
		}
		days++
		snapshot, err := r.table().SnapshotAt(ctx, e.Version)
		if err != nil {
			t.Fatal(err)
		}
		want, err := r.rowsAt(e.Version)
		if err != nil {
			t.Fatal(err)
		}
		var printed []row
		for line := range strings.Lines(string(gscd(t, "query", "--table", address, "--as-of", e.Name, "--format", "jsonl"))) {
			printed = append(printed, parseRow(t, []byte(line)))
		}
		sameRows(t, "gscd query --as-of "+e.Name, printed, want)
		own := ownContent(t, r.store.Store, snapshot, nil)
		got, err := rs.read(t, address, e.Version, "true", own)
		if err != nil {
			t.Errorf("%s: %v", e.Name, err)
			continue
		}
		if d := got.differs(own); d != "" {
			t.Errorf("delta-rs, %s: %s", e.Name, d)
		}
	}
	equal(t, "days", days, 4)

	// The rest of the commands, on a real storage.
	if out := gscd(t, "check", "--table", address, "--deep"); len(out) > 0 {
		t.Errorf("check: %s", out)
	}
	gscd(t, "vacuum", "--table", address, "--retain", "0s", "--grace", "0s")
	if out := gscd(t, "check", "--table", address, "--deep"); len(out) > 0 {
		t.Errorf("check behind a vacuum: %s", out)
	}
	stream.checkTable(t, recordedDays[1]+"/stock.csv", r.typedRows(r.version(recordedDays[1])))
	var plan struct{ Committed *int64 }
	if err := json.Unmarshal(gscd(t, "rollback", "--table", address, "--to", recordedDays[0], "--yes", "--format", "jsonl"), &plan); err != nil || plan.Committed == nil {
		t.Fatalf("rollback: %v, %+v", err, plan)
	}
	gscd(t, args...)
	sameList(t, "sealed behind a rollback", r.sealed(), recordedDays)
	for _, day := range recordedDays {
		stream.checkTable(t, day+"/stock.csv", r.typedRows(r.version(day)))
	}
}

// version gives the version of a label.
func (r *rig) version(label string) int64 {
	r.t.Helper()
	resolved, err := r.labels().Resolve(label, false)
	if err != nil {
		r.t.Fatal(err)
	}
	return resolved.Entry.Version
}

// A storage that goes away in the middle is waited for.
func TestS3Outage(t *testing.T) {
	stream := recordedStreams(t)[2]
	g := startGateway(t, "--keep-alive")
	g.environment(t)
	args := []string{
		"ingest", "--location", "s3://" + gatewayBucket + "/stock", "--topic", "s3.shop.stock", "--timezone", "UTC", "--key", strings.Join(stream.key, ","),
		"--batch-rows", "2", "--now", recordedEnd.Format(time.RFC3339), "--log-level", "warn", "--log-format", "json",
	}
	for _, path := range stream.paths(t) {
		args = append(args, "--input", path)
	}
	c, out := program(t, args...), &tail{}
	c.Stderr = out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	// Once the table is there.
	log := filepath.Join(g.dir, gatewayBucket, "stock", "_delta_log")
	for range 500 {
		if files, _ := filepath.Glob(log + "/*.json"); len(files) > 2 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	g.end(t, syscall.SIGKILL)
	time.Sleep(time.Second)
	g.start(t)
	if err := c.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if text := out.String(); !strings.Contains(text, "the storage is asked again") || !strings.Contains(text, "refuses connections") || strings.Contains(text, gatewaySecret) {
		t.Errorf("the log says\n%s", text)
	}
	stream.checkDays(t, rigOn(t, g.open(t, "stock"), g.open(t, "stock__dead_letter"), nil, stream.options(t)))
}

// Two programs that take the same topic into the same table at once get into
// each other's way, and lose nothing and double nothing.
func TestS3TwoIngesters(t *testing.T) {
	stream := recordedStreams(t)[2]
	g := startGateway(t)
	g.environment(t)
	args := []string{
		"ingest", "--location", "s3://" + gatewayBucket + "/stock", "--topic", "s3.shop.stock", "--timezone", "UTC", "--key", strings.Join(stream.key, ","),
		"--batch-rows", "10", "--now", recordedEnd.Format(time.RFC3339), "--log-level", "error",
	}
	for _, path := range stream.paths(t) {
		args = append(args, "--input", path)
	}
	var running []*exec.Cmd
	var outputs []*tail
	for range 3 {
		c, out := program(t, args...), &tail{}
		c.Stderr = out
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		running, outputs = append(running, c), append(outputs, out)
	}
	for i, c := range running {
		if err := c.Wait(); err != nil { // a loser may give up; it must say so
			t.Log(fmt.Sprint(err, ": ", outputs[i]))
		}
	}
	gscd(t, args...)
	stream.checkDays(t, rigOn(t, g.open(t, "stock"), g.open(t, "stock__dead_letter"), nil, stream.options(t)))
}
