package integration

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var ctx = context.Background()

// sharedFile gives the path of a file of the shared test data, or skips the test.
func sharedFile(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("GSCD_TESTDATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no shared test data (%v): set GSCD_TESTDATA", err)
	}
	return path
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// theProgram builds gscd and gives what runs it: what it printed, and its exit code.
func theProgram(t testing.TB) func(args ...string) (stdout, stderr string, code int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gscd")
	if out, err := exec.Command("go", "build", "-o", path, "../cmd/gscd").CombinedOutput(); err != nil {
		t.Fatalf("build gscd: %v\n%s", err, out)
	}
	return func(args ...string) (string, string, int) {
		t.Helper()
		var out, errs bytes.Buffer
		c := exec.Command(path, args...)
		c.Stdout, c.Stderr = &out, &errs
		if err := c.Run(); err != nil && c.ProcessState == nil {
			t.Fatal(err)
		}
		return out.String(), errs.String(), c.ProcessState.ExitCode()
	}
}

func instant(t testing.TB, at string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, at)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func sameList[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// says checks that an error is there and names all of the words.
func says(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one that says %q", words)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error %q does not say %q", err, w)
		}
	}
}
