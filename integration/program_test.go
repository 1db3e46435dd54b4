//go:build integration

package integration

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var buildBinary = sync.OnceValues(func() (string, error) {
	path, err := filepath.Abs(filepath.Join("..", "build", "integration", "gscd"))
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", path, "../cmd/gscd").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// binary gives the path of the program, built from this tree.
func binary(t testing.TB) string {
	t.Helper()
	path, err := buildBinary()
	if err != nil {
		t.Fatalf("build gscd: %v", err)
	}
	return path
}

// gscd runs a command to its end, which must be a good one, and gives what it printed.
func gscd(t testing.TB, args ...string) []byte {
	t.Helper()
	return gscdIn(t, nil, args...)
}

// gscdIn is gscd with more variables in its environment.
func gscdIn(t testing.TB, environment []string, args ...string) []byte {
	t.Helper()
	var out, faults bytes.Buffer
	c := program(t, args...)
	c.Env = append(os.Environ(), environment...)
	c.Stdout, c.Stderr = &out, &faults
	if err := c.Run(); err != nil {
		t.Fatalf("gscd %q: %v\n%s%s", args, err, faults.Bytes(), out.Bytes())
	}
	return out.Bytes()
}
