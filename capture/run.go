package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/capture/binlog"
	"github.com/gscd-io/gscd/capture/source"
	"github.com/gscd-io/gscd/ddl"
	"github.com/gscd-io/gscd/ingest/kafka"
)

// FaultsError says everything for which a server can't be captured.
type FaultsError struct {
	Server string
	Faults []source.Fault
}

func (e *FaultsError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s can't be captured:", e.Server)
	for _, f := range e.Faults {
		b.WriteString("\n  " + f.String())
	}
	return b.String()
}

// Run captures until ctx ends (nil then), or, with UntilEnd, until the end that the binlog
// had at the start. After a fault of the network, and where a server has gone, it goes on
// from the state in Kafka. The error is a *FaultsError, or wraps source.ErrLogGone,
// ErrState, kafka.ErrFenced and others of a Writer, or those of binlog.
func Run(ctx context.Context, o Options) error {
	if err := o.validate(); err != nil {
		return err
	}
	o = o.withDefaults()
	o.Writer.ID = "gscd-capture/" + o.Name
	if o.Writer.Timeout == 0 {
		o.Writer.Timeout = time.Minute // readers wait for as long behind one that was killed
	}
	writer, err := kafka.NewWriter(o.Kafka, o.Writer)
	if err != nil {
		return err
	}
	defer writer.Close()
	const longest = time.Minute
	for wait := time.Second; ; wait = min(2*wait, longest) {
		began := time.Now()
		s := &session{o: &o, writer: writer}
		err := s.run(ctx)
		s.close()
		switch {
		case ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled) || errors.Is(err, ctx.Err())):
			return nil
		case err == nil:
			return nil
		case errors.Is(err, errReload):
			o.Log.Warn("read all rows anew", zap.Error(err))
			wait = time.Second / 2
			continue
		case !retryable(writer, err):
			return err
		}
		if time.Since(began) > longest {
			wait = time.Second
		}
		o.Log.Warn("go on from the state in Kafka", zap.Duration("in", wait), zap.Error(err))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// retryable tells whether going on later may help.
func retryable(w *kafka.Writer, err error) bool {
	var k kafkaError
	if errors.As(err, &k) {
		return w.Retryable(k.error)
	}
	var faults *FaultsError
	var network net.Error
	switch {
	case errors.As(err, &faults), errors.Is(err, source.ErrLogGone), errors.Is(err, ErrState), errors.Is(err, source.ErrNeedsLock):
		return false
	case errors.Is(err, source.ErrPassing):
		return true
	case source.IsServer(err):
		return false
	}
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, source.ErrLost)
}

// session is one try: from the state in Kafka on.
type session struct {
	o      *Options
	writer *kafka.Writer
	state  *state
	out    *output

	server  *source.Server
	conn    *source.Session
	who     source.Identity
	catalog *ddl.Catalog
	// snapshots are open from the beginning of a load on.
	snapshots *source.Snapshots
}

func (s *session) close() {
	s.closeSnapshots()
	if s.conn != nil {
		s.conn.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.writer.Abort(ctx); err != nil {
		s.o.Log.Debug("the open transaction ends by its timeout", zap.Error(err))
	}
	s.writer.Close()
}

func (s *session) run(ctx context.Context) error {
	s.state = newState()
	if err := s.writer.Start(ctx, s.state.take); err != nil {
		if errors.Is(err, ErrState) {
			return err
		}
		return kafkaError{err}
	}
	if err := s.state.ready(s.o.Name); err != nil {
		return err
	}
	if s.o.Reload && s.state.position != nil {
		s.state.position, s.state.load = nil, nil
		s.o.Reload = false // once
	}
	s.out = &output{o: s.o, writer: s.writer, state: s.state, topics: newTopics(s.o, s.writer, s.state), form: s.o.Form()}
	if err := s.connect(ctx); err != nil {
		return err
	}
	var end *source.Position
	if s.o.UntilEnd {
		p, err := s.conn.Position()
		if err != nil {
			return err
		}
		end = &p
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	if err := s.load(ctx); err != nil {
		return err
	}
	return s.stream(ctx, end)
}

// connect takes the first server that answers, and checks it.
func (s *session) connect(ctx context.Context) (err error) {
	var failed []error
	for _, server := range s.o.Servers {
		if s.conn, err = server.Connect(ctx); err == nil {
			s.server = server
			break
		}
		failed = append(failed, err)
	}
	if s.conn == nil {
		return errors.Join(failed...)
	}
	faults, err := s.conn.Check(source.Needs{
		ServerID: s.o.ServerID, Failover: len(s.o.Servers) > 1, Wanted: s.o.wantedDatabase,
		Lock: !s.o.Never && s.o.Load.Lock != source.LockNever && s.state.position == nil,
	})
	if err != nil {
		return err
	}
	tables, err := s.conn.Tables(s.o.wanted)
	if err != nil {
		return err
	}
	if len(tables) == 0 && s.state.position == nil {
		faults = append(faults, source.Fault{What: "no table matches capture.tables " + strings.Join(s.o.Tables, ", ") + ", or " + s.server.User() + " may not read it",
			Mend: "correct the patterns, or GRANT SELECT on the tables"})
	}
	for _, f := range faults {
		if f.Warning {
			s.o.Log.Warn(f.What, zap.String("mend", f.Mend))
		}
	}
	faults = slices.DeleteFunc(faults, func(f source.Fault) bool { return f.Warning })
	if len(faults) == 0 && s.conn.WaitForID(s.o.ServerID, 10*time.Second) {
		faults = append(faults, source.Fault{What: fmt.Sprintf("a replica with server_id %d reads the binlog", s.o.ServerID),
			Mend: "stop it, or set capture.server_id to a number that no server and no replica has"})
	}
	if len(faults) > 0 {
		return &FaultsError{Server: s.server.Name(), Faults: faults}
	}
	s.who, err = s.conn.Identity()
	return err
}

// newCatalog gives a catalog with what the server sets.
func (s *session) newCatalog() (*ddl.Catalog, ddl.Session, error) {
	charset, fold, err := s.conn.Charset()
	if err != nil {
		return nil, ddl.Session{}, err
	}
	databases, err := s.conn.Databases()
	if err != nil {
		return nil, ddl.Session{}, err
	}
	c := ddl.NewCatalog()
	c.FoldNames = fold
	for _, d := range databases {
		c.SetCharset(d.Name, d.Charset)
	}
	return c, ddl.Session{MariaDB: s.conn.MariaDB, Charset: charset}, nil
}

// stream goes on from the position.
func (s *session) stream(ctx context.Context, end *source.Position) error {
	saved := s.state.position
	from := saved.position()
	byGTID, err := s.conn.Resume(from, saved.identity())
	if err != nil {
		return err
	}
	if byGTID {
		s.o.Log.Info("go on by GTID", zap.String("server", s.server.Name()), zap.String("gtids", from.GTIDs))
	}
	stream, err := s.server.Stream(source.StreamOptions{ServerID: s.o.ServerID, MariaDB: s.conn.MariaDB, From: from, ByGTID: byGTID})
	if err != nil {
		return err
	}
	defer stream.Close()
	t := &tracked{Catalog: s.catalog}
	writing, stop := lingering(ctx, 15*time.Second)
	defer stop()
	w := &streamer{o: s.o, out: s.out, writing: writing, state: s.state, session: s.conn, who: s.who, catalog: t, base: from, skip: saved.Skip, end: end, boundary: saved.Skip == 0}
	w.reader = binlog.NewReader(stream, t, binlog.Options{Name: s.o.Name, Wanted: s.o.wanted, Start: binlog.Position(from)})
	t.position = func() source.Position { return source.Position(w.reader.Position()) }
	s.o.Log.Info("read the binlog", zap.String("server", s.server.Name()), zap.String("from", from.String()))
	err = w.run(ctx)
	s.o.Log.Info("stopped reading the binlog", zap.String("at", w.base.String()), zap.Int64("records", s.out.total))
	return err
}

// lingering gives a context that ends some time after ctx.
func lingering(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-out.Done():
		case <-time.After(after):
			cancel()
		}
	})
	return out, func() { stop(); cancel() }
}
