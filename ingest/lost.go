package ingest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/snapshotter"
)

// acceptsLoss reports whether a source's error is about offsets that are gone
// and the lane goes on without them: by policy, or because nothing was taken yet.
func (l *Lane) acceptsLoss(err error) bool {
	var source *SourceError
	if !errors.As(err, &source) || l.ctx.Err() != nil || l.o.OnLostOffsets != Continue && l.p != nil {
		return false
	}
	return len(change.LostOffsets(err)) > 0 || errors.Is(err, change.ErrTopicRecreated) && l.o.OnLostOffsets == Continue
}

// nameLoss names the labels that a loss concerns which was met while reading.
func (l *Lane) nameLoss(err error) error {
	var source *SourceError
	if l.p == nil || !errors.As(err, &source) || len(change.LostOffsets(err)) == 0 && !errors.Is(err, change.ErrTopicRecreated) {
		return err
	}
	return l.wouldLack(err)
}

// wouldLack says of lost offsets which labels would lack them.
func (l *Lane) wouldLack(lost error) error {
	return fmt.Errorf("table %s: label %s and all later ones would be incomplete: %w", l.o.Name, l.o.Calendar.Name(l.state().Open), lost)
}

// checkTopicIDs gives the topics that are others than those that the offsets belong to.
func (l *Lane) checkTopicIDs() (recreated []string, err error) {
	src, ok := l.source.(topicIdentifier)
	if !ok {
		return nil, nil
	}
	now := src.TopicIDs()
	for topic, id := range l.p.TopicIDs {
		if got, there := now[topic]; there && got != id && topic != l.o.HeartbeatTopic {
			if l.o.OnLostOffsets != Continue {
				return nil, fmt.Errorf("table %s: %w: topic %s has id %s, the table's offsets belong to id %s: label %s and all later ones would be incomplete; write to a new table, or load again into this one with on_lost_offsets: continue",
					l.o.Name, ErrRecreated, topic, got, id, l.o.Calendar.Name(l.state().Open))
			}
			recreated = append(recreated, topic)
		}
	}
	l.p.TopicIDs = now
	return recreated, nil
}

// forgetHeartbeats drops the partitions of a heartbeat topic that is no longer used.
func (l *Lane) forgetHeartbeats() {
	l.state().Partitions = slices.DeleteFunc(l.state().Partitions, func(p *snapshotter.Partition) bool {
		return p.Heartbeat && !l.isHeartbeat(p.ID())
	})
}

// checkOffsets compares the offsets to go on from with what the topics have.
// What is lost stops the table, or by policy marks its labels and is passed over.
func (l *Lane) checkOffsets(states []change.PartitionState, recreated []string) error {
	known := map[change.PartitionID]change.PartitionState{}
	for _, st := range states {
		known[st.ID] = st
	}
	var lost []error
	for _, p := range l.state().Partitions {
		st, there := known[p.ID()]
		anew := slices.Contains(recreated, p.Topic)
		switch {
		case there && !anew && st.Earliest <= p.Next && p.Next <= st.End:
		case p.Heartbeat && there:
			p.Next = min(max(p.Next, st.Earliest), st.End)
		case l.o.OnLostOffsets == Continue && there:
			l.passOver(p, st, anew)
		default:
			lost = append(lost, &change.LostOffsetsError{ID: p.ID(), Wanted: p.Next, Earliest: st.Earliest, End: st.End})
		}
		l.committed[p.ID()] = p.Next
	}
	if len(lost) > 0 {
		return l.wouldLack(errors.Join(lost...))
	}
	return nil
}

// passOver goes on where the topic can be read: at its oldest offset, or, where
// a leader that knew less has cut it off, at its end.
func (l *Lane) passOver(p *snapshotter.Partition, st change.PartitionState, anew bool) {
	next := st.Earliest
	switch {
	case anew:
		l.markIncomplete(fmt.Sprintf("topic %s was recreated; offset %d of %s was the next one", p.Topic, p.Next, p.ID()))
	case p.Next < st.Earliest:
		l.markIncomplete(fmt.Sprintf("offsets %d to %d of %s were lost", p.Next, st.Earliest-1, p.ID()))
	default:
		next = st.End
		l.markIncomplete(fmt.Sprintf("offsets %d to %d of %s are gone, and what comes in their place may lack some", st.End, p.Next-1, p.ID()))
	}
	moveTo(l.p, p, next)
	l.batch.dirty = true
}
