//go:build integration

package integration

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mountMemory mounts a file system of so many bytes in memory on a new folder. Only
// root may do that: who is not root has the test skipped.
func mountMemory(t testing.TB, size int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skipf("a file system of a size needs the right to mount one: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// remount makes a mounted file system one that can only be read, or not any more.
func remount(t testing.TB, dir string, flags uintptr) {
	t.Helper()
	var err error
	for range 200 { // it is refused while a file is being written
		if err = syscall.Mount("", dir, "", syscall.MS_REMOUNT|flags, ""); err == nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("remount %s: %v", dir, err)
}

// fill takes all that is free on a file system; the file that does is its answer.
func fill(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, piece := range []int{1 << 20, 4 << 10} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, piece))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	return path
}

// The disk of a table is full for a while, and then can only be read: the process
// waits in the one case and ends in the other, with the path and the reason; what
// is there can be read meanwhile; nothing is lost, and nothing is left behind.
func testDisks(t *testing.T, b *broker) {
	disk := mountMemory(t, 48<<20)
	f := newLocalFleet(t, b, filepath.Join(disk, "orders"))
	address := freePorts(t, 1)[0]
	f.settings = []string{"GSCD_HTTP_ADDRESS=" + address}
	f.load(200 * time.Millisecond)
	p := f.start("")
	f.untilOwner(p)
	goesOn := func() time.Duration {
		t.Helper()
		version, sealed, began := f.version(), len(f.rig.sealed()), time.Now()
		f.until("the table is written and a day sealed", time.Minute, func() bool {
			select {
			case <-p.ended:
				t.Fatalf("the process ended: %v\n%s", p.cmd.ProcessState, p.errors)
			default:
			}
			return f.version() > version+2 && len(f.rig.sealed()) > sealed
		})
		return time.Since(began)
	}
	goesOn()
	readable := func() {
		t.Helper()
		for _, day := range f.rig.sealed()[:1] {
			if out := gscd(t, "query", "--table", f.location, "--as-of", day, "--format", "jsonl"); len(out) == 0 {
				t.Errorf("%s has no rows", day)
			}
		}
	}

	for round := range 2 {
		ballast := fill(t, disk)
		said := standing{}
		f.until("/status says that the disk is full", 30*time.Second, func() bool {
			s, _ := standingAt(t, address)
			if s.Error != "" {
				said = s
			}
			return said.Error != ""
		})
		says(t, errors.New(said.Error), "no space left on device", f.location)
		before := f.version()
		time.Sleep(2 * time.Second)
		equal(t, "versions while the disk is full", f.version()-before, 0)
		readable()
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("disk full, round %d: /status says %q; a day is sealed %s after there is room again\n", round, said.Error, goesOn().Round(100*time.Millisecond))
	}

	remount(t, disk, syscall.MS_RDONLY)
	if !p.wait(time.Minute) {
		t.Fatalf("a process on a disk that can only be read goes on:\n%s", p.errors)
	}
	equal(t, "exit code", p.cmd.ProcessState.ExitCode(), 1)
	says(t, errors.New(p.errors.String()), "read-only file system", f.location)
	readable()
	// Nor does one start there; it says so at once.
	p = f.start("")
	if !p.wait(time.Minute) || p.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("started on a disk that can only be read: %v\n%s", p.cmd.ProcessState, p.errors)
	}
	says(t, errors.New(p.errors.String()), "read-only file system", f.location)
	remount(t, disk, 0)
	p = f.start("")
	f.untilOwner(p)
	goesOn()
	p.end(t, syscall.SIGTERM)
	equal(t, "exit code", p.cmd.ProcessState.ExitCode(), 0)
	rows := f.finish()
	left := 0
	err := filepath.WalkDir(disk, func(path string, _ os.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), ".gscd-tmp-") {
			left++
		}
		return err
	})
	if err != nil || left > 0 {
		t.Errorf("%d temporary files are left, %v", left, err)
	}
	if out := gscd(t, "check", "--table", f.location, "--deep"); len(out) > 0 {
		t.Errorf("check: %s", out)
	}
	fmt.Printf("disks: %d commits, %d days, %d records, %d rows compared\n", len(f.owners()), len(f.days()), f.sent, rows)
}

// A folder for temporary files that is full, or can only be read, fails a command
// with its path; the table is as before, and with room the command does its work.
func TestTempFolder(t *testing.T) {
	disk := mountMemory(t, 1<<20)
	dir := t.TempDir()
	table := filepath.Join(dir, "t")
	slice := func(name string, level int) string {
		var text bytes.Buffer
		text.WriteString("id,level,note\n")
		for id := range 60_000 {
			fmt.Fprintf(&text, "%d,%d,%s\n", (id*7919)%60_000, level, strings.Repeat(fmt.Sprint(id), 4))
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	load := func(day, file string) []string {
		return []string{
			"load", "--table", table, "--snapshot", day, "--full", file, "--key", "id", "--timezone", "UTC",
			"--memory", "1MiB", "--temp-dir", disk, "--format", "jsonl",
		}
	}
	run := func(args ...string) (string, int) {
		c, out := program(t, args...), &bytes.Buffer{}
		c.Stdout, c.Stderr = out, out
		if err := c.Run(); err != nil && c.ProcessState == nil {
			t.Fatal(err)
		}
		return out.String(), c.ProcessState.ExitCode()
	}
	first, second := slice("first.csv", 1), slice("second.csv", 2)
	args := load("2026-01-01", first)
	args[len(args)-3] = dir // with room
	gscd(t, args...)
	diff := []string{"diff", "--table", table, "2026-01-01", "2026-01-02", "--memory-limit", "64KiB", "--temp-dir", disk, "--format", "jsonl"}
	refused := func(reason string, args ...string) {
		t.Helper()
		out, code := run(args...)
		equal(t, "exit code of "+args[0], code, 1)
		says(t, errors.New(out), reason, disk)
		if entries, err := os.ReadDir(disk); err != nil || len(entries) > 0 {
			t.Errorf("%s leaves %v behind, %v", args[0], entries, err)
		}
	}
	versions := func() int {
		names, err := filepath.Glob(filepath.Join(table, "_delta_log", "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	before := versions()
	refused("no space left on device", load("2026-01-02", second)...)
	equal(t, "versions of a load that failed", versions(), before)
	remount(t, disk, syscall.MS_RDONLY)
	refused("read-only file system", load("2026-01-02", second)...)
	remount(t, disk, 0)
	equal(t, "versions of a load that failed", versions(), before)
	args = load("2026-01-02", second)
	args[len(args)-3] = dir
	gscd(t, args...)
	refused("no space left on device", diff...)
	diff[len(diff)-3] = dir
	if n := bytes.Count(gscd(t, diff...), []byte("\n")); n != 60_000 {
		t.Errorf("%d rows differ, want 60,000", n)
	}
}
