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
// of the commit before it. It skips where the clone does not have that commit.
func previousBinary(t *testing.T) (path, revision string) {
	t.Helper()
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", ".."}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	revision, err := git("describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD~1")
	if err != nil {
		if revision, err = git("rev-parse", "--short", "HEAD~1"); err != nil {
			t.Skip("this clone has no commit before its newest one: fetch with a depth of 2 or more")
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

// A release is rolled out under load, rolled back, and rolled out again: with the new pod
// before the end of the old one, as a rolling update has it, and behind it, as Recreate
// does. Every day is what the model says, whichever release has sealed it.
func testRollingUpdate(t *testing.T, b *broker) {
	previous, revision := previousBinary(t)
	f := newLocalFleet(t, b, filepath.Join(t.TempDir(), "orders"))
	start := func(program string) *process {
		return startProcessIn(t, f.settings, program, append(f.arguments(), "--drift-idle", "100000h")...)
	}
	stop := func(p *process) {
		t.Helper()
		p.end(t, syscall.SIGTERM)
		// It may have found out before it was told.
		if p.cmd.ProcessState.ExitCode() != 0 {
			f.lostOwnership(p, 0)
		}
	}
	days := func() int { return len(f.rig.sealed()) }
	f.load(150 * time.Millisecond)
	began := time.Now()
	at := start(previous)
	f.untilOwner(at)
	for i, step := range []struct {
		program string
		beside  bool
	}{{binary(t), true}, {previous, true}, {binary(t), false}, {previous, false}, {binary(t), true}} {
		// Each release seals days, and leaves held changes to the next one.
		sealed := days()
		f.until("the process at work has sealed a day", 5*time.Minute, func() bool { return days() > sealed })
		if !step.beside {
			stop(at)
		}
		next := start(step.program)
		f.untilOwner(next)
		if step.beside {
			time.Sleep(rand.N(300 * time.Millisecond))
			stop(at)
		}
		at = next
		if i == 0 {
			checkReaders(t, f, previous)
		}
	}
	sealed := days()
	f.until("the last process has sealed a day", 5*time.Minute, func() bool { return days() > sealed })
	stop(at)
	rows := f.finish()
	checkReaders(t, f, previous)
	owners := f.owners()
	equal(t, "changes of the owner", changes(owners), 6)
	fmt.Printf("rolling update, %s: %s and this tree in turns of 6, %d commits, %d days, %d records, %d rows compared\n",
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
