package source

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
)

// StreamOptions say where a Stream begins.
type StreamOptions struct {
	// ServerID is ours.
	ServerID uint32
	MariaDB  bool
	From     Position
	// ByGTID begins behind the set From.GTIDs, whatever the files are called.
	ByGTID bool
	// Silence is how long the server may have nothing to say before it says so. Default 1 s.
	Silence time.Duration
}

// Stream is a server's binlog as it is written, event by event. What was received and not
// taken yet is bounded: 16 MiB, or one event.
type Stream struct {
	server *Server
	syncer *replication.BinlogSyncer
	buffer *buffer
	done   chan struct{}
}

// Stream begins to read the binlog. It ends with Close.
func (s *Server) Stream(o StreamOptions) (*Stream, error) {
	if o.Silence <= 0 {
		o.Silence = time.Second
	}
	flavor := mysql.MySQLFlavor
	if o.MariaDB {
		flavor = mysql.MariaDBFlavor
	}
	out := &Stream{server: s, buffer: newBuffer(16 << 20), done: make(chan struct{})}
	tls := s.tls
	if tls != nil {
		tls = tls.Clone()
	}
	out.syncer = replication.NewBinlogSyncer(replication.BinlogSyncerConfig{
		ServerID: o.ServerID, Flavor: flavor, Host: s.host, Port: s.port, User: s.user, Password: s.password, TLSConfig: tls,
		RawModeEnabled: true, DisableRetrySync: true, DiscardGTIDSet: true, Localhost: "gscd",
		// A server that says nothing at all for long is gone.
		HeartbeatPeriod: o.Silence, ReadTimeout: max(30*time.Second, 10*o.Silence),
		SynchronousEventHandler: out.buffer, Logger: slog.New(slog.DiscardHandler),
	})
	streamer, err := out.start(o, flavor)
	if err != nil {
		out.syncer.Close()
		return nil, out.explain(err)
	}
	go func() { // it gives no event, only why it has ended
		defer close(out.done)
		_, err := streamer.GetEvent(context.Background())
		out.buffer.fail(out.explain(err))
	}()
	return out, nil
}

func (s *Stream) start(o StreamOptions, flavor string) (*replication.BinlogStreamer, error) {
	if o.ByGTID || o.From.Pos > math.MaxUint32 && o.From.GTIDs != "" {
		set, err := mysql.ParseGTIDSet(flavor, o.From.GTIDs)
		if err != nil {
			return nil, fmt.Errorf("the GTID set %q: %w", o.From.GTIDs, err)
		}
		return s.syncer.StartSyncGTID(set)
	}
	if o.From.Pos > math.MaxUint32 {
		return nil, fmt.Errorf("%w: the position %s is past 4 GiB, which servers give by GTID alone", ErrLogGone, o.From)
	}
	return s.syncer.StartSync(mysql.Position{Name: o.From.File, Pos: uint32(o.From.Pos)})
}

// explain says what an error of the stream means.
func (s *Stream) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case code(err) == erMasterFatal:
		return fmt.Errorf("%w: %s: %w", ErrLogGone, s.server.Name(), err)
	}
	return fmt.Errorf("read the binlog of %s: %w", s.server.Name(), marked(err))
}

// Next waits for the next event: header, body and checksum, which are the caller's.
func (s *Stream) Next(ctx context.Context) ([]byte, error) { return s.buffer.take(ctx) }

// Close ends the stream.
func (s *Stream) Close() {
	s.buffer.fail(context.Canceled)
	s.syncer.Close()
	<-s.done
}

// buffer holds events between the one who receives and the one who takes.
type buffer struct {
	limit int

	mu     sync.Mutex
	events [][]byte
	bytes  int
	err    error
	// arrived and taken have one token while there is something, or room.
	arrived, taken chan struct{}
}

func newBuffer(limit int) *buffer {
	return &buffer{limit: limit, arrived: make(chan struct{}, 1), taken: make(chan struct{}, 1)}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// HandleEvent takes an event in, waiting for room.
func (b *buffer) HandleEvent(e *replication.BinlogEvent) error {
	for {
		b.mu.Lock()
		switch {
		case b.err != nil:
			defer b.mu.Unlock()
			return b.err
		case len(b.events) == 0 || b.bytes+len(e.RawData) <= b.limit:
			b.events, b.bytes = append(b.events, e.RawData), b.bytes+len(e.RawData)
			b.mu.Unlock()
			signal(b.arrived)
			return nil
		}
		b.mu.Unlock()
		<-b.taken
	}
}

// fail ends the buffer: what is in it is still taken, unless the taker ended it.
func (b *buffer) fail(err error) {
	b.mu.Lock()
	if b.err == nil {
		b.err = err
	}
	b.mu.Unlock()
	signal(b.arrived)
	signal(b.taken)
}

func (b *buffer) take(ctx context.Context) ([]byte, error) {
	for {
		b.mu.Lock()
		if len(b.events) > 0 {
			raw := b.events[0]
			b.events[0] = nil
			b.events, b.bytes = b.events[1:], b.bytes-len(raw)
			if len(b.events) == 0 {
				b.events = nil
			}
			b.mu.Unlock()
			signal(b.taken)
			return raw, nil
		}
		err := b.err
		b.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-b.arrived:
		}
	}
}
