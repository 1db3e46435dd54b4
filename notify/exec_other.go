//go:build !unix

package notify

import (
	"context"
	"errors"
	"time"
)

// Exec runs a program for each event: on Unix only, where all that it starts can be ended.
type Exec struct {
	Command []string
	Timeout time.Duration
}

var errNoExec = errors.New("hook: programs are run on Unix only")

// Send is Sender's.
func (x *Exec) Send(context.Context, *Event) error { return errNoExec }

// Check finds a program that can't be run.
func (x *Exec) Check() error { return errNoExec }
