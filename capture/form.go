package capture

import (
	"github.com/gscd-io/gscd/capture/event"
	"github.com/gscd-io/gscd/ingest/change"
)

// Form makes records of events. One is for one goroutine.
type Form interface {
	// Append calls emit for each record of an event of a table, in order. What emit gets
	// is good until it returns.
	Append(e *event.Event, emit func(Message) error) error
	// HeartbeatTopic is where heartbeats go; empty: to each partition of the tables' topics.
	HeartbeatTopic() string
}

// Message is a record to be.
type Message struct {
	// Key is nil where the row has none.
	Key, Value []byte
	Headers    []change.Header
	// Everywhere: each partition of the topic gets it.
	Everywhere bool
}

// arena keeps bytes of records in large pieces.
type arena struct{ free []byte }

const arenaPiece = 256 << 10

// keep copies b; nil stays nil.
func (a *arena) keep(b []byte) []byte {
	if b == nil {
		return nil
	}
	if len(b) > arenaPiece/4 {
		return append([]byte{}, b...)
	}
	if len(b) > len(a.free) {
		a.free = make([]byte, arenaPiece)
	}
	out := a.free[:len(b):len(b)]
	copy(out, b)
	a.free = a.free[len(b):]
	return out
}
