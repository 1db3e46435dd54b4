package capture

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gscd-io/gscd/capture/event"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/kafka"
)

// output writes records in batches, each with the state behind it.
type output struct {
	o      *Options
	writer *kafka.Writer
	state  *state
	topics *topics
	form   Form
	arena  arena

	bytes   int       // of the batch
	records int64     // of the batch
	began   time.Time // the batch; zero: it is empty
	total   int64     // records of the session
}

// record is one to be written.
type record struct {
	topic      string
	key, value []byte
	headers    []change.Header
	everywhere bool
	// single topics are those beside the tables', of one partition.
	single bool
}

// event writes the records of an event of a table.
func (w *output) event(ctx context.Context, e *event.Event) error {
	if e.Op == event.Heartbeat {
		return nil
	}
	name := w.o.topicOf(tableOf(e))
	return w.form.Append(e, func(m Message) error {
		return w.write(ctx, &record{cmp.Or(m.Topic, name), w.arena.keep(m.Key), w.arena.keep(m.Value), m.Headers, m.Everywhere, m.Topic != ""})
	})
}

// tableOf names the table of an event: that before a statement.
func tableOf(e *event.Event) (database, table string) {
	if e.Op == event.Schema && e.Old != nil {
		return e.Old.Database, e.Old.Name
	}
	return e.Table.Database, e.Table.Name
}

// write writes a record whose bytes stay as they are.
func (w *output) write(ctx context.Context, r *record) error {
	t, err := w.topics.get(ctx, r.topic, r.single)
	if err != nil {
		return err
	}
	if !r.everywhere {
		return w.to(ctx, t, event.Partition(r.key, t.partitions), r)
	}
	for p := range t.partitions {
		if err := w.to(ctx, t, p, r); err != nil {
			return err
		}
	}
	return nil
}

func (w *output) to(ctx context.Context, t *topic, partition int32, r *record) error {
	if w.began.IsZero() {
		w.began = time.Now()
	}
	w.bytes += len(r.key) + len(r.value)
	w.records++
	t.written[partition] = true
	err := w.writer.Write(ctx, &change.Record{Topic: t.name, Partition: partition, Key: r.key, Value: r.value, Headers: r.headers})
	if err != nil {
		return kafkaError{err}
	}
	return nil
}

// full tells that the batch has all that it should have.
func (w *output) full() bool {
	return w.bytes >= w.o.Batch.Bytes || !w.began.IsZero() && time.Since(w.began) >= w.o.Batch.Interval
}

// commit writes the batch with what is pending of the state.
func (w *output) commit(ctx context.Context) error {
	records, err := w.state.records()
	if err != nil {
		return err
	}
	if w.began.IsZero() && len(records) == 0 {
		return nil
	}
	if err := w.writer.Commit(ctx, records); err != nil {
		return kafkaError{err}
	}
	clear(w.state.pending)
	w.total += w.records
	w.bytes, w.records, w.began = 0, 0, time.Time{}
	return nil
}

// heartbeat tells partitions that were not written to since the last one of the time.
func (w *output) heartbeat(ctx context.Context, s event.Source) error {
	e := event.Event{Op: event.Heartbeat, Source: s}
	return w.form.Append(&e, func(m Message) error {
		r := record{m.Topic, w.arena.keep(m.Key), w.arena.keep(m.Value), m.Headers, false, m.Topic != ""}
		if m.Topic != "" {
			return w.write(ctx, &r)
		}
		for _, name := range w.known() {
			t, err := w.topics.get(ctx, name, false)
			if err != nil {
				return err
			}
			for p, written := range t.written {
				if !written {
					if err := w.to(ctx, t, int32(p), &r); err != nil {
						return err
					}
				}
				t.written[p] = false
			}
		}
		return nil
	})
}

// known are the topics of this capture.
func (w *output) known() []string { return slices.Sorted(maps.Keys(w.state.topics)) }
