package server

import (
	"errors"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
)

// Fault is the kind of an error that has stopped a table, for scripts: the text
// of the error is for people.
type Fault string

// The kinds. OtherFault is an error that none of the others is.
const (
	LostOwnership   Fault = "lost_ownership"
	DeadLetterLimit Fault = "dead_letter_limit"
	LostOffsets     Fault = "lost_offsets"
	LateChange      Fault = "late_change"
	ForeignCommit   Fault = "foreign_commit"
	WrongCalendar   Fault = "calendar_or_key"
	ByPolicy        Fault = "policy"
	InternalFault   Fault = "internal"
	PassingFault    Fault = "passing"
	OtherFault      Fault = "other"
)

// FaultOf is the kind of an error, "" for none.
func FaultOf(err error) Fault {
	var lost *change.LostOffsetsError
	var broken *ingest.PanicError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &broken):
		return InternalFault
	case errors.Is(err, ingest.ErrLostOwnership):
		return LostOwnership
	case errors.Is(err, ingest.ErrTooManyDeadLetters):
		return DeadLetterLimit
	case errors.As(err, &lost), errors.Is(err, ingest.ErrRecreated):
		return LostOffsets
	case errors.Is(err, ingest.ErrLate):
		return LateChange
	case errors.Is(err, ingest.ErrForeignCommit):
		return ForeignCommit
	case errors.Is(err, ingest.ErrCalendar):
		return WrongCalendar
	case errors.Is(err, ingest.ErrRefused), errors.Is(err, ingest.ErrNoKey):
		return ByPolicy
	case Retryable(err):
		return PassingFault
	}
	return OtherFault
}

// advice is what a person does about a fault.
var advice = map[Fault]string{
	LostOwnership:   "One process ingests a table: find the other one (`owner` in `gscd status`), stop one of the two, and send this one a SIGHUP if it is the one to stay.",
	DeadLetterLimit: "Look at `gscd dead-letter list`, mend format, source, key or columns in the configuration, and send SIGHUP: the table goes on at the record at which it stopped.",
	LostOffsets:     "Load the table anew, or accept the loss with on_lost_offsets: continue, which marks this label and all later ones incomplete.",
	LateChange:      "Decide about the record that the error names: late: fold applies it in the open label, late: dead_letter keeps it aside. Then send SIGHUP.",
	ForeignCommit:   "Another engine has changed the table: do what the error says.",
	WrongCalendar:   "Give the configuration the calendar and key that the table has, and send SIGHUP.",
	ByPolicy:        "A policy of the configuration says fail: do what the error says, and send SIGHUP.",
	InternalFault:   "This is a fault of gscd: keep the log with its stack, report it, and start the process again.",
	PassingFault:    "Mend what the error names: the table is started again within a minute by itself.",
	OtherFault:      "Do what the error says, and send SIGHUP: that tries the table again.",
}
