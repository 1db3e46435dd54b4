package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
)

// SchemaTopic is the DDL topic of a table's connector, which gives the types of
// records without schemas. It is read from its first record to its end before
// anything is decoded, and again to its end before anything young is decoded and
// before each commit: what a record means hangs on the topic alone, and is the same
// after a restart. One lane at a time uses it.
type SchemaTopic struct {
	// Topic is its name.
	Topic string
	// Open gives a Source of that topic alone.
	Open func(ctx context.Context) (Source, io.Closer, error)
	// History is what was read, the one that the decoders have.
	History *decode.SchemaHistory

	source Source
	closer io.Closer
	next   map[change.PartitionID]int64
	readAt time.Time
}

// errSchemaLate reports that rows were decoded by a definition that was no longer
// theirs: what was taken is dropped, and taken again.
var errSchemaLate = errors.New("the schema topic has defined the table anew, in front of rows that were taken")

// read reads the topic to its end.
func (s *SchemaTopic) read(ctx context.Context, o *decode.Options) error {
	at := time.Now()
	if s.source == nil {
		source, closer, err := s.Open(ctx)
		if err != nil {
			return err
		}
		s.source, s.closer = source, closer
	}
	states, _, err := s.source.Partitions(ctx)
	if err != nil {
		return sourceError(s.source, err)
	}
	if err := s.check(ctx, states); err != nil {
		return err
	}
	ends := map[change.PartitionID]int64{}
	if src, ok := s.source.(settledEnder); ok {
		if ends, err = src.SettledEnds(ctx); err != nil {
			return sourceError(s.source, err)
		}
	} else {
		for _, st := range states {
			ends[st.ID] = st.End
		}
	}
	late := false
	for behind(s.next, ends) {
		blocks, err := s.source.Poll(ctx, 1000)
		if err != nil {
			return sourceError(s.source, err)
		}
		for _, b := range blocks {
			for _, r := range b.Records {
				if r.Offset < s.next[b.ID] {
					continue
				}
				again, err := s.History.Add(r, o)
				if err != nil {
					return fmt.Errorf("%w: %w", ErrRefused, err)
				}
				late = late || again
			}
			s.next[b.ID] = max(s.next[b.ID], b.Next)
		}
	}
	s.History.MarkRead()
	s.readAt = at
	if late {
		return errSchemaLate
	}
	return nil
}

func behind(next, ends map[change.PartitionID]int64) bool {
	for id, end := range ends {
		if next[id] < end {
			return true
		}
	}
	return false
}

// check refuses a topic that does not have all that was written to it, in order. A
// source that has not been read is assigned.
func (s *SchemaTopic) check(ctx context.Context, states []change.PartitionState) error {
	switch {
	case len(states) == 0:
		return fmt.Errorf("%w: there is no such topic: schema_topic is the connector's topic.prefix", ErrRefused)
	case len(states) > 1:
		return fmt.Errorf("%w: it has %d partitions, which have no order: make it anew with one, and let the connector make a snapshot", ErrRefused, len(states))
	case s.next == nil && states[0].Earliest > 0:
		return fmt.Errorf("%w: its first %d records were removed: set its retention.ms to -1, and let the connector make a snapshot", ErrRefused, states[0].Earliest)
	case s.next != nil && states[0].End < s.next[states[0].ID]:
		return fmt.Errorf("%w: it ends at offset %d, and %d records of it were read: it was made anew; start again", ErrRefused, states[0].End, s.next[states[0].ID])
	case s.next != nil:
		return nil
	}
	if src, ok := s.source.(compactor); ok {
		topics, err := src.Compacted(ctx)
		if err != nil {
			return sourceError(s.source, err)
		}
		if len(topics) > 0 {
			return fmt.Errorf("%w: it is compacted (cleanup.policy), so Kafka removes statements: set its cleanup.policy to delete and its retention.ms to -1", ErrRefused)
		}
	}
	next := map[change.PartitionID]int64{states[0].ID: 0}
	if err := s.source.Assign(ctx, next); err != nil {
		return sourceError(s.source, err)
	}
	s.next = next
	return nil
}

// close gives up the connections: who reads again begins at the first record.
func (s *SchemaTopic) close() {
	if s == nil {
		return
	}
	if s.closer != nil {
		_ = s.closer.Close() // only read from
	}
	s.source, s.closer, s.next = nil, nil, nil
}

// readSchemas reads the schema topic, where there is one, to its end.
func (l *Lane) readSchemas() error {
	s := l.o.SchemaTopic
	if s == nil {
		return nil
	}
	if s.next == nil {
		// From the first record on, into a new history: the decoders know it by the pointer.
		s.History.Clear()
	}
	err := s.read(l.ctx, &l.o.Decode)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errSchemaLate):
		l.o.Log.Warn("the schema topic came late: what was taken since the last commit is taken again; rows committed just before may have been read with older types",
			zap.String("table", l.o.Name), zap.String("topic", s.Topic))
		return fmt.Errorf("%w: %w", errReload, err)
	}
	return fmt.Errorf("table %s: schema topic %s: %w", l.o.Name, s.Topic, err)
}

// readSchemasFor reads the schema topic for blocks that may be younger than what was
// read of it.
func (l *Lane) readSchemasFor(blocks []change.Block) error {
	s := l.o.SchemaTopic
	if s == nil {
		return nil
	}
	known := s.readAt.Add(-l.o.MaxClockSkew).UnixMilli()
	for _, b := range blocks {
		for _, r := range b.Records {
			if r.Timestamp < 0 || r.Timestamp > known {
				return l.readSchemas()
			}
		}
	}
	return nil
}

// How long a record waits for its definition: the topic's record may be on its way
// while the row is here.
const (
	definitionWait  = 30 * time.Second
	definitionRetry = 500 * time.Millisecond
)

// awaitDefinition decodes a record anew whose definition was not there yet.
func (l *Lane) awaitDefinition(r *change.Record, c *change.Change, decodeErr error) (error, error) {
	if l.o.SchemaTopic == nil || !errors.Is(decodeErr, decode.ErrUndefined) {
		return decodeErr, nil
	}
	for {
		if err := l.readSchemas(); err != nil {
			return nil, err
		}
		decodeErr = l.decoder.Decode(r, l.arena, c)
		if !errors.Is(decodeErr, decode.ErrUndefined) || time.Since(time.UnixMilli(r.Timestamp)) > definitionWait {
			return decodeErr, nil
		}
		select {
		case <-l.ctx.Done():
			return nil, l.ctx.Err()
		case <-time.After(definitionRetry):
		}
	}
}
