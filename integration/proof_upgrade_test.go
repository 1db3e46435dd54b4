//go:build integration

package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// previousBinary builds the program as it was: of the newest release before this commit, else
// of the commit before it, or of GSCD_PREVIOUS. It skips where the clone does not have that commit.
func previousBinary(t *testing.T) (path, revision string) {
	t.Helper()
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", ".."}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	var err error
	if revision = os.Getenv("GSCD_PREVIOUS"); revision == "" {
		if revision, err = git("describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD~1"); err != nil {
			if revision, err = git("rev-parse", "--short", "HEAD~1"); err != nil {
				t.Skip("this clone has no commit before its newest one: fetch with a depth of 2 or more")
			}
		}
	}
	dir := t.TempDir()
	archive, err := exec.Command("git", "-C", "..", "archive", revision).Output()
	if err != nil {
		t.Fatalf("git archive %s: %v", revision, err)
	}
	unpack := exec.Command("tar", "-x", "-C", dir)
	unpack.Stdin = bytes.NewReader(archive)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpack %s: %v\n%s", revision, err, out)
	}
	path = filepath.Join(dir, "gscd-previous")
	build := exec.Command("go", "build", "-o", path, "-ldflags", "-X main.release="+revision, "./cmd/gscd")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build gscd of %s: %v\n%s", revision, err, out)
	}
	return path, revision
}

// A release is rolled out under load, with the new pod before the end of the old one, as a
// rolling update has it; it is rolled back with the old one behind the end of the new one,
// as Recreate does; and rolled out again. Every day is what the model says, whichever release
// has sealed it. More changes than these in an hour would have to wait for their turn.
func testRollingUpdate(t *testing.T, b *broker) {
	previous, revision := previousBinary(t)
	f := newLocalFleet(t, b, filepath.Join(t.TempDir(), "orders"))
	start := func(program string) *process {
		p := startProcessIn(t, f.settings, program, append(f.arguments(), "--drift-idle", "100000h")...)
		f.untilOwner(p)
		return p
	}
	// Each release seals days of its own, and leaves held changes to the next one.
	sealsDays := func(who string) {
		t.Helper()
		sealed := len(f.rig.sealed())
		f.until(who+" has sealed two days", 5*time.Minute, func() bool { return len(f.rig.sealed()) >= sealed+2 })
	}
	began := time.Now()
	f.load(150 * time.Millisecond)
	old := start(previous)
	sealsDays("the release before")
	next := start(binary(t))
	time.Sleep(rand.N(300 * time.Millisecond))
	old.end(t, syscall.SIGTERM)
	if old.cmd.ProcessState.ExitCode() != 0 { // it may have found out before it was told
		f.lostOwnership(old, 0)
	}
	sealsDays("this release")
	next.end(t, syscall.SIGTERM)
	equal(t, "exit code", next.cmd.ProcessState.ExitCode(), 0)
	old = start(previous)
	sealsDays("the release before, again,")
	checkReaders(t, f, previous)
	old.end(t, syscall.SIGTERM)
	equal(t, "exit code", old.cmd.ProcessState.ExitCode(), 0)
	rows := f.finish() // by this release
	checkReaders(t, f, previous)
	owners := f.owners()
	equal(t, "changes of the owner", changes(owners), 3)
	fmt.Printf("rolling update, %s: %s and this tree in turns, %d commits, %d days, %d records, %d rows compared\n",
		time.Since(began).Round(time.Second), revision, len(owners), len(f.days()), f.sent, rows)
}

// checkReaders has the release before read what this one has written, by label.
func checkReaders(t *testing.T, f *fleet, previous string) {
	t.Helper()
	for _, label := range f.rig.sealed() {
		args := []string{"query", "--table", f.location, "--as-of", label, "--order-by", "id", "--format", "jsonl"}
		got, err := exec.Command(previous, args...).Output()
		if err != nil {
			t.Fatalf("the release before: gscd %q: %v", args, err)
		}
		if want := gscd(t, args...); !bytes.Equal(got, want) || !json.Valid(bytes.SplitN(got, []byte("\n"), 2)[0]) {
			t.Errorf("%s: the release before reads\n%.300s\nthis one\n%.300s", label, got, want)
		}
	}
}
