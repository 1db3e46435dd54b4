package write

import (
	"fmt"
	"strconv"

	"github.com/gscd-io/gscd/delta"
)

// Option changes how an operation is done.
type Option func(*options)

type options struct {
	target    int64
	memory    int64
	tempDir   string
	attempts  int
	parallel  int
	isolation *delta.Isolation
	app       string
	version   int64
	txns      map[string]int64
	info      map[string]any
}

const (
	defaultTarget   = 128 << 20
	defaultMemory   = 256 << 20
	defaultAttempts = 10
	defaultParallel = 4
)

func optionsOf(list []Option) options {
	o := options{memory: defaultMemory, attempts: defaultAttempts, parallel: defaultParallel}
	for _, option := range list {
		option(&o)
	}
	return o
}

// WithTargetFileSize is the size, in bytes, near which a data file ends. Without it the
// table's delta.targetFileSize says so, else it is 128 MiB.
func WithTargetFileSize(bytes int64) Option { return func(o *options) { o.target = bytes } }

// WithMemory bounds the rows and the parts of unfinished files that are held, in bytes;
// 256 MiB without it. With less than 32 MiB files end before their target size.
func WithMemory(bytes int64) Option { return func(o *options) { o.memory = bytes } }

// WithTempDir is where the rows of a Merge go that do not fit into memory; the system's
// folder for temporary files without it.
func WithTempDir(dir string) Option { return func(o *options) { o.tempDir = dir } }

// WithAttempts is how often an operation is planned at most; 10 without it.
func WithAttempts(n int) Option { return func(o *options) { o.attempts = n } }

// WithIsolation says which commits the operation may follow without being planned
// anew. Without it the table's delta.isolationLevel says so, else delta.Serializable.
func WithIsolation(level delta.Isolation) Option {
	return func(o *options) { o.isolation = &level }
}

// WithTxn makes the operation idempotent: it is version of the application, and is left
// out where the table has that version of it or a later one.
func WithTxn(app string, version int64) Option {
	return func(o *options) { o.app, o.version = app, version }
}

// WithTxns puts further txn actions into the commit: state of the caller's that moves with
// the rows. They decide nothing.
func WithTxns(txns map[string]int64) Option { return func(o *options) { o.txns = txns } }

// WithCommitInfo puts further keys into the commitInfo.
func WithCommitInfo(extra map[string]any) Option { return func(o *options) { o.info = extra } }

func (o *options) targetOf(s *delta.Snapshot) int64 {
	if o.target > 0 {
		return o.target
	}
	if s != nil {
		text, _ := s.Property("delta.targetFileSize")
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
			return n
		}
	}
	return defaultTarget
}

func (o *options) isolationOf(s *delta.Snapshot) delta.Isolation {
	if o.isolation != nil {
		return *o.isolation
	}
	if s != nil {
		if level, _ := s.Property(delta.PropertyIsolationLevel); level == delta.WriteSerializable.String() {
			return delta.WriteSerializable
		}
	}
	return delta.Serializable
}

// Result says what became of an operation that did not fail.
type Result struct {
	// Committed is false where nothing was to be done: no row matched, or Known.
	Committed bool
	// Known says that the table had the operation already (WithTxn).
	Known bool
	// Version is the version that was written; where none was, the one that was looked at.
	Version int64
	// Snapshot is the table at Version.
	Snapshot *delta.Snapshot
	// Attempts is how often the operation was planned, Followed how many commits of others
	// it was put behind without that.
	Attempts, Followed int
	// Counts is what the operation did to rows.
	Counts
}

// Counts counts rows and files. Rows that were only copied from one file to another
// are Copied alone.
type Counts struct {
	Source                             int64 // rows of the Source
	Inserted, Updated, Deleted, Copied int64
	// DeletedUnknown says that files went of which the log does not tell the rows.
	DeletedUnknown                               bool
	FilesAdded, FilesRemoved                     int64
	BytesAdded, BytesRemoved                     int64
	ChangeFiles, ChangeBytes                     int64
	VectorsAdded, VectorsRemoved, VectorsUpdated int64
}

// String counts the rows.
func (r Result) String() string {
	if !r.Committed {
		return fmt.Sprintf("version %d stays", r.Version)
	}
	return fmt.Sprintf("version %d: %d inserted, %d updated, %d deleted", r.Version, r.Inserted, r.Updated, r.Deleted)
}
