package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/gscd-io/gscd/config"
)

// The exit codes that scripts may rely on.
const (
	exitOK          = 0
	exitFailed      = 1   // the operation failed
	exitUsage       = 2   // wrong usage or configuration
	exitNo          = 3   // the answer is no: a check found a fault, a day is not sealed
	exitInterrupted = 130 // Ctrl-C or SIGTERM, but for commands that end cleanly
	exitPipe        = 141 // who read the output has gone: what a shell makes of SIGPIPE
)

// exitError is an error that says with which code the program ends.
type exitError struct {
	code int
	err  error
	// quiet: the command has said everything itself.
	quiet bool
}

func (e *exitError) Error() string { return e.err.Error() }

func (e *exitError) Unwrap() error { return e.err }

// usagef is an error of wrong usage: exit 2.
func usagef(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// nof is the answer no: exit 3.
func nof(format string, args ...any) error {
	return &exitError{code: exitNo, err: fmt.Errorf(format, args...)}
}

// silently is an error of which the command has printed all that there is to say.
func silently(code int, err error) error {
	return &exitError{code: code, err: err, quiet: true}
}

// exitCode decides the code of an error. started tells whether the command had
// begun: what goes wrong before is wrong usage.
func exitCode(err error, started, interrupted bool) int {
	var exit *exitError
	var faults *config.Faults
	switch {
	case err == nil:
		return exitOK
	case interrupted && errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &faults), !started:
		return exitUsage
	}
	return exitFailed
}
