package capture

import (
	"github.com/gscd-io/gscd/capture/event"
	"github.com/gscd-io/gscd/ingest/change"
)

// Form makes records of events. One is for one goroutine.
type Form interface {
	// Append calls emit for each record of an event, in order. What emit gets is good
	// until it returns.
	Append(e *event.Event, emit func(Message) error) error
}

// Message is a record to be.
type Message struct {
	// Topic is one of its own; empty: that of the event's table, of a heartbeat those of
	// all tables.
	Topic string
	// Key is nil where the row has none.
	Key, Value []byte
	Headers    []change.Header
	// Everywhere: each partition of the topic gets it.
	Everywhere bool
}

// Forms gives what makes the records of a form, one for each goroutine. The error names
// the forms that there are.
func Forms(form event.Form, name string) (func() Form, error) {
	if _, err := event.NewEncoder(form); err != nil {
		return nil, err
	}
	return func() Form {
		encoder, err := event.NewEncoder(form)
		if err != nil { // it was made before
			panic(err)
		}
		return &encoded{encoder: encoder, own: form == event.GSCD, name: name}
	}, nil
}

// encoded makes records as event.Encoder writes them.
type encoded struct {
	encoder *event.Encoder
	own     bool // not Debezium's
	name    string
}

// Append puts statements and heartbeats where they belong: in gscd's own form into each
// partition of the table, in order with the rows there; in Debezium's form where its
// connector puts them.
func (f *encoded) Append(e *event.Event, emit func(Message) error) error {
	topic := ""
	switch {
	case f.own:
	case e.Op == event.Schema:
		topic = f.name
	case e.Op == event.Heartbeat:
		topic = "__debezium-heartbeat." + f.name
	}
	return f.encoder.Records(e, func(r event.Record) error {
		m := Message{Topic: topic, Key: r.Key, Value: r.Value, Everywhere: r.Everywhere}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, change.Header{Key: h.Key, Value: append([]byte{}, h.Value...)})
		}
		if err := emit(m); err != nil {
			return err
		}
		if f.own || e.Op != event.Delete && !newKey(r.Headers) {
			return nil
		}
		m.Value = nil // Debezium's tombstone
		return emit(m)
	})
}

// newKey tells the delete of an update that changes the key.
func newKey(headers []event.Header) bool {
	for _, h := range headers {
		if h.Key == "__debezium.newkey" {
			return true
		}
	}
	return false
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
