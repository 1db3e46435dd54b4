package notify

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gscd-io/gscd/ingest/change"
)

// Sender tells one event, and returns when whom it tells has taken it. Safe for
// concurrent use.
type Sender interface {
	Send(ctx context.Context, e *Event) error
}

// Sink is a Sender and what it wants to hear.
type Sink struct {
	// Name is the sink's in metrics, logs, and the objects that keep what it was told:
	// letters, digits, - and _.
	Name   string
	Sender Sender
	// On are the kinds that are told.
	On []Kind
	// Tables are the names of the tables; empty: all.
	Tables []string
	// LateChanges is from how many late changes of an open label on Late is told.
	LateChanges int64
	// StallAfter is how long a seal may be due before Stall is told.
	StallAfter time.Duration
}

func (s *Sink) wants(kind Kind) bool { return kind == Test || slices.Contains(s.On, kind) }

func (s *Sink) covers(table string) bool {
	return len(s.Tables) == 0 || slices.Contains(s.Tables, table)
}

// Publisher writes records to a topic, each at least once.
type Publisher interface {
	Publish(ctx context.Context, records []*change.Record) error
}

// Topic tells events to a topic: the value is the event's JSON, the key the table's name.
type Topic struct {
	Name string
	To   Publisher
}

// Send is Sender's.
func (t *Topic) Send(ctx context.Context, e *Event) error {
	body, err := e.JSON()
	if err != nil {
		return err
	}
	r := &change.Record{
		Key: []byte(e.Data.Table), Value: body, Timestamp: e.Time.UnixMilli(),
		Headers: []change.Header{{Key: "content-type", Value: []byte(ContentType)}, {Key: "gscd-event", Value: []byte(e.Kind)}},
	}
	if err := t.To.Publish(ctx, []*change.Record{r}); err != nil {
		return fmt.Errorf("tell topic %s: %w", t.Name, err)
	}
	return nil
}
