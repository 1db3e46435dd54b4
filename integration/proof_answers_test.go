//go:build integration

package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Answers of the storage break off in the middle, stall there, or end too early
// with a length that says that this was all: no run takes a part for the whole.
func testBrokenAnswers(t *testing.T, b *broker) {
	f := newFleet(t, b, "answers")
	proxy := startStoreProxy(t, f.gateway)
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(randomSeed(t), 4))
	given := map[string]int{}
	damaged := func(names map[int]string, acts ...int) storeFault {
		return func(r storeRequest) int {
			mu.Lock()
			defer mu.Unlock()
			if r.kind() != "read" && r.kind() != "list" || rng.IntN(3) > 0 {
				return 0
			}
			act := acts[rng.IntN(len(acts))]
			given[names[act]+" "+r.kind()]++
			return act
		}
	}
	names := map[int]string{cutBody: "cut", shortBody: "short", breakOff: "no answer to"}
	run := func(args ...string) ([]byte, string, int) {
		var out, faults bytes.Buffer
		c := program(t, args...)
		c.Env = append(os.Environ(), f.environment(proxy.URL)...)
		c.Stdout, c.Stderr = &out, &faults
		if err := c.Run(); err != nil && c.ProcessState == nil {
			t.Fatal(err)
		}
		return out.Bytes(), faults.String(), c.ProcessState.ExitCode()
	}
	for range 4 { // each passes a midnight
		f.pass(20*time.Hour, 60)
		f.pass(f.toMidnight()+f.driftWait+2*time.Minute, 60)
		b.untilSettled(t, f.topic)
		proxy.set(damaged(names, cutBody, shortBody, breakOff))
		if _, faults, code := run(append(f.arguments(), "--until-end", "--now", f.now.Format(time.RFC3339))...); code != 0 {
			t.Fatalf("a run ended with %d:\n%s", code, faults)
		}
		// Who reads gets all or an error.
		day := f.rig.sealed()[0]
		query := []string{"query", "--table", f.location, "--as-of", day, "--format", "jsonl", "--order-by", "id"}
		got, faults, code := run(query...)
		proxy.set(nil)
		want, _, _ := run(query...)
		if code == 0 && !bytes.Equal(got, want) || code != 0 && !strings.Contains(faults, "s3://"+gatewayBucket) {
			t.Errorf("a query of answers that break off: code %d, %d bytes, want %d\n%s", code, len(got), len(want), faults)
		}
	}
	// One that stalls is given up, and asked again.
	f.pass(5*time.Hour, 60)
	b.untilSettled(t, f.topic)
	stalled := false
	proxy.set(func(r storeRequest) int {
		mu.Lock()
		defer mu.Unlock()
		if stalled || r.kind() != "read" {
			return 0
		}
		stalled = true
		return stallBody
	})
	began := time.Now()
	if _, faults, code := run(append(f.arguments(), "--until-end", "--now", f.now.Format(time.RFC3339))...); code != 0 || !stalled || !strings.Contains(faults, "answered nothing for 30s") {
		t.Errorf("an answer that stalls (%v): code %d\n%s", stalled, code, faults)
	}
	took := time.Since(began)
	proxy.set(nil)
	gscdIn(t, f.environment(f.gateway.url), append(f.arguments(), "--until-end", "--now", f.end().Format(time.RFC3339))...)
	f.checkAll(f.rig)
	rows := f.checkRows(f.rig)
	for _, kind := range []string{"cut read", "short read", "short list", "no answer to read"} {
		if given[kind] == 0 {
			t.Errorf("no answer was %s: no test (%v)", kind, given)
		}
	}
	fmt.Printf("broken answers %v, one that stalled (%s): %d commits, %d days, %d records, %d rows compared\n", given, took.Round(time.Second), len(f.owners()), len(f.days()), f.sent, rows)
}

// Credentials end while the program runs: those of a program that says when they
// do, and those of files that somebody writes anew. It goes on with the new ones;
// a table whose credentials are refused, with no others there, stops and says so.
func testCredentials(t *testing.T, b *broker) {
	f := newFleet(t, b, "credentials")
	iam := t.TempDir()
	f.gateway.end(t, syscall.SIGTERM)
	f.gateway.args = append(f.gateway.args[:len(f.gateway.args)-2:len(f.gateway.args)-2], "--iam-dir", iam, "posix", f.gateway.dir)
	f.gateway.start(t)
	admin := func(args ...string) {
		t.Helper()
		c := exec.Command(filepath.Join(component(t, "versitygw"), "versitygw"), append([]string{
			"admin", "--access", gatewayKey, "--secret", gatewaySecret, "--region", gatewayRegion, "--endpoint-url", f.gateway.url,
		}, args...)...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	const secret = "a-secret-of-many"
	newUser := func(name string) {
		t.Helper()
		admin("create-user", "--access", name, "--secret", secret+name, "--role", "admin")
	}
	remove := func(name string) { t.Helper(); admin("delete-user", "--access", name) }
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fromProcess := func(user string, ends time.Time) {
		t.Helper()
		text, err := json.Marshal(map[string]any{"Version": 1, "AccessKeyId": user, "SecretAccessKey": secret + user, "Expiration": ends.UTC().Format(time.RFC3339)})
		if err != nil {
			t.Fatal(err)
		}
		write("process.json", string(text))
	}
	environment := func(more ...string) []string {
		return append([]string{
			"GSCD_S3_ENDPOINT=" + f.gateway.url, "GSCD_S3_REGION=" + gatewayRegion, "GSCD_S3_PATH_STYLE=true", "AWS_EC2_METADATA_DISABLED=true",
		}, more...)
	}
	start := func(more ...string) *process {
		t.Helper()
		return startProcessIn(t, environment(more...), binary(t), append(f.arguments(), "--drift-idle", "100000h")...)
	}
	goesOn := func(p *process) {
		t.Helper()
		version, sealed := f.version(), len(f.rig.sealed())
		f.until("the table is written and a day sealed", time.Minute, func() bool {
			select {
			case <-p.ended:
				t.Fatalf("the process ended: %v\n%s", p.cmd.ProcessState, p.errors)
			default:
			}
			return f.version() > version+2 && len(f.rig.sealed()) > sealed
		})
	}
	f.load(200 * time.Millisecond)

	// A program that gives credentials and their end.
	newUser("AKIDFIRST")
	ends := time.Now().Add(8 * time.Second)
	fromProcess("AKIDFIRST", ends)
	config := write("config", "[default]\ncredential_process = cat "+filepath.Join(dir, "process.json")+"\n")
	p := start("AWS_CONFIG_FILE="+config, "AWS_SHARED_CREDENTIALS_FILE="+filepath.Join(dir, "none"))
	f.untilOwner(p)
	goesOn(p)
	newUser("AKIDSECOND")
	fromProcess("AKIDSECOND", time.Now().Add(time.Hour))
	time.Sleep(time.Until(ends.Add(time.Second)))
	remove("AKIDFIRST")
	goesOn(p)
	p.end(t, syscall.SIGTERM)
	equal(t, "exit code", p.cmd.ProcessState.ExitCode(), 0)

	// Files of gscd's own that are written anew.
	id, own := write("id", "AKIDSECOND"), write("secret", secret+"AKIDSECOND")
	p = start("GSCD_S3_ACCESS_KEY_ID_FILE="+id, "GSCD_S3_SECRET_ACCESS_KEY_FILE="+own)
	f.untilOwner(p)
	goesOn(p)
	newUser("AKIDTHIRD")
	write("id", "AKIDTHIRD")
	write("secret", secret+"AKIDTHIRD")
	remove("AKIDSECOND")
	goesOn(p)
	// And when there are no others the table stops.
	remove("AKIDTHIRD")
	if !p.wait(time.Minute) {
		t.Fatalf("a process whose credentials are refused goes on:\n%s", p.errors)
	}
	equal(t, "exit code", p.cmd.ProcessState.ExitCode(), 1)
	says(t, errors.New(p.errors.String()), "does not know the access key", f.location)
	if strings.Contains(p.errors.String(), secret) {
		t.Errorf("a secret is in the log:\n%s", p.errors)
	}

	rows := f.finish()
	fmt.Printf("credentials: %d commits, %d days, %d records, %d rows compared\n", len(f.owners()), len(f.days()), f.sent, rows)
}
