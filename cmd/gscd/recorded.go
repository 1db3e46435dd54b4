package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/ingest/recording"
)

// openRecording opens the files of --input for one table. topics are the
// recorded topics that belong to it; none means all, where it is the only table.
func openRecording(t *config.Table, topics []string, files []string, only bool) (*recording.Recording, error) {
	if len(topics) == 0 && !only {
		return nil, usagef("table %s has no topics: set them, or give --topic-table TOPIC=%s", t.Name, t.Name)
	}
	if len(topics) == 0 && t.SchemaTopic != "" {
		return nil, usagef("table %s has a schema_topic and no topics: set them, or give --topic-table TOPIC=%s", t.Name, t.Name)
	}
	o := recording.Options{Topics: topics, MaxRecord: int64(t.MaxRecord)}
	switch {
	case !only: // a line without a topic is an error: it could belong to any table
	case len(topics) == 1:
		o.Topic = topics[0]
	case len(topics) == 0:
		o.Topic = t.Name
	}
	r, err := recording.Open(files, o)
	if err != nil {
		return nil, err
	}
	states, _, err := r.Partitions(context.Background())
	if err == nil && len(states) == 0 {
		err = nothingRecorded(t, topics, files, o)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// recordedSchemas opens the records of a table's schema topic among those of --input.
func recordedSchemas(t *config.Table, files []string) func(context.Context) (ingest.Source, io.Closer, error) {
	return func(context.Context) (ingest.Source, io.Closer, error) {
		r, err := recording.Open(files, recording.Options{Topics: []string{t.SchemaTopic}, MaxRecord: int64(t.MaxRecord)})
		return r, r, err
	}
}

// nothingRecorded says what there is in place of a table's topics. A recording
// without any record is fine.
func nothingRecorded(t *config.Table, topics, files []string, o recording.Options) error {
	o.Topics = nil
	r, err := recording.Open(files, o)
	if err != nil {
		return err
	}
	defer r.Close()
	states, _, err := r.Partitions(context.Background())
	if err != nil || len(states) == 0 {
		return err
	}
	var found []string
	for _, st := range states {
		if !slices.Contains(found, st.ID.Topic) {
			found = append(found, st.ID.Topic)
		}
	}
	return usagef("the recording has no record of topic %s, it has those of %s: give --topic-table %s=%s",
		strings.Join(topics, ", "), strings.Join(found, ", "), found[0], t.Name)
}

// recordingClock is the clock of the seal rule for a recording: the largest
// broker timestamp, else the largest event time, else the zero time.
func recordingClock(ctx context.Context, r *recording.Recording, o *ingest.Options) (time.Time, error) {
	if r.HasTimestamps() {
		return time.UnixMilli(r.MaxBrokerTimestamp()), nil
	}
	states, _, err := r.Partitions(ctx)
	if err != nil {
		return time.Time{}, err
	}
	from := map[change.PartitionID]int64{}
	left := map[change.PartitionID]int64{}
	for _, st := range states {
		from[st.ID], left[st.ID] = st.Earliest, st.End
	}
	if err := r.Assign(ctx, from); err != nil {
		return time.Time{}, err
	}
	times := o.Decode
	times.History = nil // types don't matter
	d, err := decode.New(o.Format, times)
	if err != nil {
		return time.Time{}, err
	}
	largest := int64(0)
	for len(left) > 0 {
		blocks, err := r.Poll(ctx, 0)
		if err != nil {
			return time.Time{}, fmt.Errorf("look for the largest event time: %w", err)
		}
		for _, b := range blocks {
			var arena change.Arena
			for _, rec := range b.Records {
				if rec.Oversize > 0 {
					continue
				}
				var c change.Change
				var wait *decode.SchemaError
				switch err := d.Decode(rec, &arena, &c); {
				case errors.As(err, &wait):
					return time.Time{}, fmt.Errorf("look for the largest event time: %w", err)
				case err == nil && c.Op != change.Filtered:
					largest = max(largest, c.EventTime)
				}
			}
			if b.Next >= left[b.ID] {
				delete(left, b.ID)
			}
		}
	}
	if largest == 0 {
		return time.Time{}, nil
	}
	return time.UnixMicro(largest), nil
}
