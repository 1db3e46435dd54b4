package ingest

import (
	"fmt"
	"runtime/debug"
)

// PanicError is a panic of one of a table's goroutines: a fault of the program,
// which must stop one table and not the process.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("internal error: %v", e.Value) }

// Caught runs f, and gives a panic of it as a *PanicError.
func Caught(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
	}()
	return f()
}
