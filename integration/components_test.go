//go:build integration

package integration

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// component gives the folder of an installed component. Who asks for these tests
// by their build tag wants them run: what is missing is no reason to skip.
func component(t testing.TB, name string) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "build", "integration", name)
	if _, err := os.Stat(dir + ".installed"); err != nil {
		t.Fatalf("%s is not installed (%v): run `make integration`, or integration/engines/install.sh build/integration", name, err)
	}
	return dir
}

// engineFile gives the absolute path of a file of the folder engines.
func engineFile(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("engines", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// process is a running component. It ends with the test, and with the test's
// process, however that ends.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.ReadCloser
	errors *tail
	ended  chan struct{}
}

func startProcess(t testing.TB, name string, args ...string) *process {
	t.Helper()
	return startProcessIn(t, nil, name, args...)
}

// startProcessIn starts a process with more variables in its environment.
func startProcessIn(t testing.TB, environment []string, name string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(name, args...), errors: &tail{}, ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), environment...)
	// Not to get the Ctrl-C of a terminal: who stops it is the test.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = p.errors
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	// A pipe of our own: Wait would close the command's before all was read.
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout, p.cmd.Stdout = out, in
	if path, err := buildBinary(); err == nil && name == path {
		seen := &watcher{}
		p.cmd.Stderr = io.MultiWriter(p.errors, seen)
		p.stdout = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(out, seen), out}
		t.Cleanup(func() { seen.check(t, args, p.cmd.Env) }) // after the one below: it has ended then
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	_ = in.Close() // the process has its own
	go func() {
		_ = p.cmd.Wait() // how it ended is in its state
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.end(t, syscall.SIGKILL)
		_ = p.stdout.Close()
	})
	return p
}

// end sends a signal and waits for the end of the process.
func (p *process) end(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("stop %s: %v", p.cmd.Path, err)
	}
	select {
	case <-p.ended:
	case <-time.After(30 * time.Second):
		t.Errorf("%s did not end within 30 s of %s", p.cmd.Path, s)
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// wait waits for the end of a process; false where it does not come in time.
func (p *process) wait(within time.Duration) bool {
	select {
	case <-p.ended:
	case <-time.After(within):
	}
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// tail keeps the last of what is written to it, for messages.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 4 << 10

func (w *tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = append(w.buf, b...)
	if n := len(w.buf) - tailBytes; n > 0 {
		w.buf = bytes.Clone(w.buf[n:])
	}
	return len(b), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.buf)
}
