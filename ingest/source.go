package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/gscd-io/gscd/ingest/change"
)

// Source gives the records of a table's topics. *kafka.Consumer and
// *recording.Recording are Sources. One goroutine at a time uses it.
type Source interface {
	// Partitions gives every partition that fresh metadata knows, with its log
	// start and high watermark, all as of one moment; at is the reader's clock
	// before the broker was asked.
	Partitions(ctx context.Context) (states []change.PartitionState, at time.Time, err error)
	// Assign starts reading at exactly these offsets and drops what was fetched before.
	Assign(ctx context.Context, offsets map[change.PartitionID]int64) error
	// Poll waits a short while for records and gives them in offset order per partition.
	Poll(ctx context.Context, maxRecords int) ([]change.Block, error)
	// Pause and Resume stop and restart partitions without losing what was fetched.
	Pause(ids ...change.PartitionID)
	Resume(ids ...change.PartitionID)
}

// offsetPublisher is a Source that can tell lag tools how far a table is.
type offsetPublisher interface {
	PublishOffsets(ctx context.Context, offsets map[change.PartitionID]int64) error
}

// partitionWatcher is a Source that tells from metadata which its tables share
// whether there are partitions that are not read.
type partitionWatcher interface {
	NewPartitions(ctx context.Context, maxAge time.Duration) (bool, error)
}

// settledEnder is a Source that may be slow to bring what it has, or has records
// that can't be read yet, of open transactions: it tells for each partition the
// offset up to which reading comes without a new record. Of a Source without it
// a Poll that brings nothing is the end.
type settledEnder interface {
	SettledEnds(ctx context.Context) (map[change.PartitionID]int64, error)
}

// topicIdentifier is a Source whose topics have ids that change when a topic is made anew.
type topicIdentifier interface {
	TopicIDs() map[string]string
	// ExpectTopicIDs sets the ids that the offsets belong to; nil: those that
	// the broker will name.
	ExpectTopicIDs(map[string]string)
}

// What stops a lane and is not retried.
var (
	// ErrLate: a late change under late: fail.
	ErrLate = errors.New("a change came after its label was sealed")
	// ErrTooManyDeadLetters: the configuration is wrong, not the data.
	ErrTooManyDeadLetters = errors.New("too many dead letters")
	// ErrNoKey: the records name no key and none is configured.
	ErrNoKey = errors.New("the table has no key")
	// ErrRefused: a policy says fail.
	ErrRefused = errors.New("refused by policy")
	// ErrCalendar: the table was written under another calendar or key.
	ErrCalendar = errors.New("the table has another calendar or key")
	// ErrRecreated: the topic is another one than the table's offsets belong to.
	ErrRecreated = change.ErrTopicRecreated
)
