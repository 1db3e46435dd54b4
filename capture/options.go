package capture

import (
	"errors"
	"path"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/capture/source"
	"github.com/gscd-io/gscd/ingest/kafka"
)

// Options say what is read and written.
type Options struct {
	// Name is the source's logical name.
	Name string
	// Servers are one server, or those of a cluster: the first that answers is read.
	Servers []*source.Server
	// ServerID is ours among the servers' replicas.
	ServerID uint32
	// Tables and Exclude are patterns DATABASE.TABLE as of path.Match.
	Tables, Exclude []string

	// Topic names the topic of a table, by {name}, {database} and {table}.
	Topic string
	// Topics says how topics are made; their Name is not used.
	Topics kafka.NewTopic
	// Form makes the records' forms: one for each goroutine that makes records.
	Form func() Form

	// Never leaves the load out: changes from now on alone.
	Never bool
	Load  LoadOptions
	// Heartbeat is how often partitions without changes are told of the time. Default 10 s.
	Heartbeat time.Duration
	Batch     Batch
	// Reload forgets the kept position, and begins with a load.
	Reload bool
	// UntilEnd stops where the binlog ended at the start.
	UntilEnd bool

	Kafka  kafka.Options
	Writer kafka.WriterOptions

	Log *zap.Logger
}

// LoadOptions say how rows are read.
type LoadOptions struct {
	// Parallel is the number of connections. Default 4.
	Parallel int
	// ChunkRows is how many rows one takes at a time. Default 50,000.
	ChunkRows int
	Lock      source.Lock
}

// Batch is what is written together: until Interval has passed since the first change or
// Bytes are reached, at the next end of a transaction; past twice Bytes in its middle.
type Batch struct {
	Interval time.Duration
	Bytes    int
}

func (o Options) withDefaults() Options {
	if o.Load.Parallel <= 0 {
		o.Load.Parallel = 4
	}
	if o.Load.ChunkRows <= 0 {
		o.Load.ChunkRows = 50_000
	}
	if o.Load.Lock == "" {
		o.Load.Lock = source.LockAuto
	}
	if o.Heartbeat <= 0 {
		o.Heartbeat = 10 * time.Second
	}
	if o.Batch.Interval <= 0 {
		o.Batch.Interval = 200 * time.Millisecond
	}
	if o.Batch.Bytes <= 0 {
		o.Batch.Bytes = 8 << 20
	}
	if o.Topic == "" {
		o.Topic = "{name}.{database}.{table}"
	}
	if o.Topics.Partitions <= 0 {
		o.Topics.Partitions = 4
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return o
}

func (o *Options) validate() error {
	switch {
	case o.Name == "":
		return errors.New("capture: no name")
	case len(o.Servers) == 0:
		return errors.New("capture: no server")
	case o.ServerID == 0:
		return errors.New("capture: no server_id")
	case o.Form == nil:
		return errors.New("capture: no form of records")
	}
	return nil
}

// wanted tells whether a table is captured.
func (o *Options) wanted(database, table string) bool {
	return !source.IsSystem(database) && matches(o.Tables, database+"."+table) && !matches(o.Exclude, database+"."+table)
}

// wantedDatabase tells whether a table of a database may be captured.
func (o *Options) wantedDatabase(database string) bool {
	for _, p := range o.Tables {
		db, _, _ := strings.Cut(p, ".")
		if ok, _ := path.Match(db, database); ok {
			return true
		}
	}
	return false
}

func matches(patterns []string, name string) bool {
	for _, p := range patterns {
		// A slash in a name is no separator here.
		if ok, _ := path.Match(p, strings.ReplaceAll(name, "/", "_")); ok {
			return true
		}
	}
	return false
}

// topicOf names a table's topic. What Kafka does not take becomes _.
func (o *Options) topicOf(database, table string) string {
	name := strings.NewReplacer("{name}", o.Name, "{database}", database, "{table}", table).Replace(o.Topic)
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
}
