package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/ingest/transform"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// Policies: what to do where the contract leaves a choice.
const (
	Fold       = "fold"
	DeadLetter = "dead_letter"
	Fail       = "fail"
	Clamp      = "clamp"
	ApplyIt    = "apply"
	Ignore     = "ignore"
	Merge      = "merge"
	Replace    = "replace"
	AsValue    = "value"
	AsNull     = "null"
	Add        = "add"
	Keep       = "keep"
	Continue   = "continue"
	DeleteIt   = "delete"
	Refuse     = "refuse"
	Allow      = "allow"
)

// Options says how a table is ingested. The zero value of a field takes its
// default; a duration or MaxDeleteFraction below zero stands for zero itself.
type Options struct {
	// Name of the table in messages.
	Name string
	// Store is the table's root, DeadLetterStore that of its dead-letter table.
	Store, DeadLetterStore objstore.Store
	// DeadLetterTopic, where set, is told of every dead letter too.
	DeadLetterTopic DeadLetterTopic
	Calendar        *snapshotter.Calendar
	// Key columns; empty: those of the first record's key.
	Key []string
	// Append is mode append: a table without a key, of which each insert and
	// read is a row; Key must be empty. Updates and deletes are dead letters.
	Append bool
	// Decoder is the format and its settings.
	Format string
	Decode decode.Options
	// SchemaTopic, where set, gives the types of records without schemas.
	SchemaTopic *SchemaTopic
	// Transform, where set, leaves out columns and rows, hides values and renames
	// columns before anything else is done. Names elsewhere here are the table's.
	Transform *transform.Rules
	// Columns are the declared types of columns.
	Columns map[string]schema.Type

	// DriftWait (10 min) must be larger than MaxClockSkew (5 min); DriftIdle 5 min.
	DriftWait, DriftIdle, MaxClockSkew time.Duration

	Late          string // Fold | DeadLetter | Fail
	Future        string // DeadLetter | Clamp
	Truncate      string // ApplyIt | Ignore | Fail
	PartialImage  string // Merge | DeadLetter | Fail
	NullKey       string // AsValue | DeadLetter | Fail
	NewColumn     string // Add | Ignore | Fail
	MissingColumn string // Keep | Fail
	DDL           string // Follow | KeepBoth | Fail: of renamed and dropped columns
	BadValue      string // DeadLetter | AsNull | Fail
	Reload        string // Replace | Merge
	Tombstones    string // Ignore | DeleteIt
	OnLostOffsets string // Fail | Continue
	Compacted     string // Refuse | Allow, of topics that Kafka compacts
	// SealProof is none, or any: at least one watermark at or past the label's
	// end, or heartbeat: the same, where the partitions of HeartbeatTopic (one
	// of the source's topics) take part.
	SealProof      string
	HeartbeatTopic string
	// Start is where a table that does not exist yet begins to read.
	Start Start

	// MaxDeleteFraction is the part of the rows (0..1, default 0.2) that a
	// repeated load may take away.
	MaxDeleteFraction float64
	// DeadLetterFraction of the last 10,000 records (default 0.01) stops the
	// table, where at least DeadLetterFloor (100) of them are dead letters.
	// DeadLetterFraction below 0: the first one stops it.
	DeadLetterFraction float64
	DeadLetterFloor    int
	// MaxRecord is the size past which a record is a dead letter (64 MiB).
	MaxRecord int64

	// A batch closes at BatchRows records (200,000), half of BatchBytes of records
	// (256 MiB: the batch that is taken and the one that is written may hold that much
	// together) or BatchInterval (60 s), whichever comes first. A batch that touches many
	// files for few rows, or behind which more than a batch waits to be read, waits
	// longer, up to BatchMaxInterval (10 min).
	BatchRows        int
	BatchBytes       int64
	BatchInterval    time.Duration
	BatchMaxInterval time.Duration
	CopyOnWrite      bool
	PartitionBy      []string
	Rewrites         Rewrites
	// ChangeData switches Delta's change data feed on, for a table that is there too.
	// It is never switched off here: what a table's property says is followed.
	ChangeData bool
	// Properties are added to a table that is created.
	Properties map[string]string
	// SavepointDays is how long the table's properties protect savepoints (3650).
	SavepointDays int
	// CheckpointEvery is the number of commits between checkpoints (20).
	CheckpointEvery int64
	// Protect is savepoint.ProtectNone, ProtectBackup or ProtectLock: a table that is there
	// is made so, in its property and its protocol. "" leaves it as it is, and a new one to
	// Properties.
	Protect string
	// Backup keeps a copy of each savepoint's checkpoint and commit below _delta_log/_gscd,
	// also where the table's property does not ask for that.
	Backup bool
	// Lists are written at each seal for engines that do not read the log (none).
	Lists savepoint.ListKind
	// Tracer is told where the time of batches goes; nil for nobody.
	Tracer Tracer
	// SealChecksum records the checksum of a label's rows right behind its seal.
	SealChecksum bool

	// Now is the clock of the seal rule (time.Now). UntilEnd stops the lane
	// when nothing is left to do without a new record or a later clock.
	Now      func() time.Time
	UntilEnd bool
	// Turns is from how many raises of the owner epoch in an hour on a starter waits
	// before it takes the table (3; progress.MaxRaised at most). Where a group says who
	// starts, hand-overs are nobody's quarrel, and there may be more of them.
	Turns int
	// IndexProgress, where set, is told how many of the files are in the key index
	// that is being built.
	IndexProgress func(files, of int)
	// PollRecords bounds how many records a poll brings (5,000).
	PollRecords int
	// Decoders is the number of decoding goroutines (2).
	Decoders int
	Log      *zap.Logger
	// IndexDir, where set, is a folder on local disk in which the key index is kept
	// between starts, in one file a table. It is never needed.
	IndexDir   string
	indexEvery int64 // commits between two savings, for tests (0: indexFileCommits)

	// What the lane shares with others, and who watches it; nil for none.
	Budget   Budget
	Gate     Gate
	Observer Observer

	// For tests. turns, where set, tells when the lane does itself what goroutines of
	// their own do else. serial lets no batch be taken while one is written.
	// lookAheadFrom is the constant of that name.
	turns         func() bool
	serial        bool
	lookAheadFrom int
}

// DeadLetterTopic takes records that tell of dead letters. *kafka.Sink is one.
type DeadLetterTopic interface {
	// Check tells whether it can be written to.
	Check(ctx context.Context) error
	// Publish gives nil once all records are stored.
	Publish(ctx context.Context, records []*change.Record) error
	// Retryable tells whether trying again may help after an error of the two.
	Retryable(err error) bool
	// Close gives up its connections; a later Publish makes new ones.
	Close()
}

func (o *Options) setDefaults() {
	str := func(s *string, d string) {
		if *s == "" {
			*s = d
		}
	}
	if o.lookAheadFrom == 0 {
		o.lookAheadFrom = lookAheadFrom
	}
	str(&o.Late, Fold)
	str(&o.Future, DeadLetter)
	str(&o.Truncate, ApplyIt)
	str(&o.PartialImage, Merge)
	str(&o.NullKey, AsValue)
	str(&o.NewColumn, Add)
	str(&o.MissingColumn, Keep)
	str(&o.DDL, Follow)
	str(&o.BadValue, DeadLetter)
	str(&o.Reload, Replace)
	if o.Transform.Sharded() != "" {
		o.Reload = Merge // a load of one shard says nothing of the others
	}
	str(&o.Tombstones, Ignore)
	str(&o.OnLostOffsets, Fail)
	str(&o.Compacted, Refuse)
	str(&o.SealProof, "none")
	str(&o.Format, "debezium-json")
	dur := func(d *time.Duration, def time.Duration) {
		switch {
		case *d == 0:
			*d = def
		case *d < 0:
			*d = 0
		}
	}
	dur(&o.DriftWait, 10*time.Minute)
	dur(&o.DriftIdle, 5*time.Minute)
	dur(&o.MaxClockSkew, 5*time.Minute)
	dur(&o.BatchInterval, time.Minute)
	dur(&o.BatchMaxInterval, max(10*time.Minute, o.BatchInterval))
	o.BatchRows = orInt(o.BatchRows, 200_000)
	o.BatchBytes = orInt(o.BatchBytes, 256<<20)
	o.PollRecords = orInt(o.PollRecords, 5_000)
	o.Decoders = orInt(o.Decoders, 2)
	o.DeadLetterFloor = orInt(o.DeadLetterFloor, 100)
	o.MaxRecord = orInt(o.MaxRecord, 64<<20)
	o.CheckpointEvery = orInt(o.CheckpointEvery, 20)
	o.SavepointDays = orInt(o.SavepointDays, 3650)
	if o.MaxDeleteFraction == 0 {
		o.MaxDeleteFraction = .2
	}
	o.MaxDeleteFraction = max(0, o.MaxDeleteFraction)
	if o.DeadLetterFraction == 0 {
		o.DeadLetterFraction = .01
	}
	if o.Append && len(o.Key) == 0 {
		o.Key = AppendKey
	}
	o.Decode.Room = len(Hidden)
	if s := o.SchemaTopic; s != nil {
		s.History = decode.NewSchemaHistory(s.Topic, o.MaxClockSkew.Microseconds())
		o.Decode.History = s.History
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
}

func orInt[T ~int | ~int64](v, d T) T {
	if v == 0 {
		return d
	}
	return v
}

// Validate gives every fault of the options, joined.
func (o *Options) Validate() error {
	var faults []error
	if o.Store == nil {
		faults = append(faults, errors.New("no store: give the table a location"))
	}
	if o.Calendar == nil {
		faults = append(faults, errors.New("no calendar: set granularity and timezone"))
	}
	if o.DriftWait <= o.MaxClockSkew {
		faults = append(faults, fmt.Errorf("drift.wait %s must be larger than max_clock_skew %s", o.DriftWait, o.MaxClockSkew))
	}
	if (o.SealProof == "heartbeat") != (o.HeartbeatTopic != "") {
		faults = append(faults, errors.New("seal.proof heartbeat and its topic go together"))
	}
	if o.Lists == savepoint.SymlinkList && !o.CopyOnWrite {
		faults = append(faults, errors.New("seal.manifest symlink needs write.mode copy-on-write: who reads such manifests knows no deletion vectors, and would see deleted rows"))
	}
	if o.Append && !slices.Equal(o.Key, AppendKey) {
		faults = append(faults, fmt.Errorf("mode append is for tables without a key, and the key %v is set: leave out one of the two", o.Key))
	}
	if err := o.checkRows(o.Format); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// checkRows refuses formats whose records hold several rows for a table whose rows
// are told apart by their records.
func (o *Options) checkRows(format string) error {
	if o.Append && decode.ManyRows(format) {
		return fmt.Errorf("mode append tells rows apart by their records, and one of %s may hold several: set a key", format)
	}
	return nil
}
