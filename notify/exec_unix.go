//go:build unix

package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// Exec runs a program for each event: never through a shell, with the event's JSON on
// standard input and its names in the environment.
type Exec struct {
	// Command is the program and its arguments.
	Command []string
	// Timeout ends the program and all that it has started; default 30 s.
	Timeout time.Duration
}

// passed are the variables that a hook gets of ours: no setting, and no secret.
var passed = []string{"PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// maxSaid is how much of what a hook prints is kept for its error.
const maxSaid = 2 << 10

// Send is Sender's. An exit other than 0 is an error.
func (x *Exec) Send(ctx context.Context, e *Event) error {
	body, err := e.JSON()
	if err != nil {
		return err
	}
	timeout := x.Timeout
	if timeout <= 0 {
		timeout = 30 * time.Second
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it ran for longer than %s, and was ended", timeout))
	defer cancel()
	c := exec.CommandContext(ctx, x.Command[0], x.Command[1:]...)
	c.Env = environment(e)
	c.Stdin = bytes.NewReader(body)
	said := &head{}
	c.Stdout, c.Stderr = said, said
	// A group of its own, so that what the program has started ends with it.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	if err := c.Run(); err != nil {
		if why := context.Cause(ctx); why != nil {
			err = why
		}
		if text := firstLine(said.text); text != "" {
			return fmt.Errorf("hook %s: %w: %.200q", x.Command[0], err, text)
		}
		return fmt.Errorf("hook %s: %w", x.Command[0], err)
	}
	return nil
}

// environment is that of a hook.
func environment(e *Event) []string {
	var env []string
	for _, name := range passed {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	d := &e.Data
	env = append(env, "GSCD_EVENT="+string(e.Kind), "GSCD_EVENT_ID="+e.ID, "GSCD_TABLE="+d.Table, "GSCD_LOCATION="+d.Location, "GSCD_LABEL="+d.Label)
	if d.Version != nil {
		env = append(env, "GSCD_VERSION="+strconv.FormatInt(*d.Version, 10))
	}
	return env
}

// head keeps the first part of what is written to it.
type head struct{ text []byte }

func (t *head) Write(p []byte) (int, error) {
	t.text = append(t.text, p[:min(len(p), maxSaid-len(t.text))]...)
	return len(p), nil
}

// Check finds a program that is not there.
func (x *Exec) Check() error {
	if len(x.Command) == 0 {
		return errors.New("no command")
	}
	if _, err := exec.LookPath(x.Command[0]); err != nil {
		return fmt.Errorf("hook: %w", err)
	}
	return nil
}
