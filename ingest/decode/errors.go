package decode

import (
	"fmt"

	"github.com/gscd-io/gscd/ingest/change"
)

// Reason is a short stable word for why a record can't be used. It is part of
// the dead-letter's format.
type Reason string

// The reasons.
const (
	// ReasonDecode: the bytes are not a record of the format.
	ReasonDecode Reason = "decode"
	// ReasonSchema: the schema that the record names is none, or can't be used.
	ReasonSchema Reason = "schema"
	// ReasonKey: nothing in the record tells which row it is about.
	ReasonKey Reason = "key"
	// ReasonValue: a cell is not a value of its column's type.
	ReasonValue Reason = "value"
)

// Error says why one record can't be used. The caller knows its topic,
// partition and offset and adds them.
type Error struct {
	Reason Reason
	// Column is the column of a ReasonValue, else empty.
	Column string
	Err    error
}

func (e *Error) Error() string {
	if e.Column != "" {
		return fmt.Sprintf("%s of column %q: %v", e.Reason, e.Column, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.Reason, e.Err)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

func decodeError(format string, args ...any) *Error {
	return &Error{Reason: ReasonDecode, Err: fmt.Errorf(format, args...)}
}

// refused makes err an *Error, and out empty but for its Op where there is one.
func refused(out *change.Change, err error) error {
	if err == nil {
		return nil
	}
	*out = change.Change{Op: out.Op}
	if _, ok := err.(*Error); !ok {
		err = &Error{Reason: ReasonDecode, Err: err}
	}
	return err
}

// tombstone makes a Tombstone of a record without value, whose key was read with keyErr.
func tombstone(o *Options, out *change.Change, keyErr error) error {
	out.Op = change.Tombstone
	if o.Tombstones != "delete" {
		return nil
	}
	return needKey(out, keyErr, "a tombstone that is to delete")
}
