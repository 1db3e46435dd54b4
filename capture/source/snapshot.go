package source

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Snapshots are sessions that see the server's rows as of one moment.
type Snapshots struct {
	Sessions []*Session
	// Position is the moment in the binlog, Time the server's clock shortly before, in
	// microseconds.
	Position Position
	Time     int64
	// Locked tells that the short lock was taken.
	Locked bool
}

// Lock says whether the short lock may be taken to open several snapshots at one moment.
type Lock string

const (
	// LockAuto takes it where there is no other way to see one moment with all sessions,
	// and the user may.
	LockAuto Lock = "auto"
	// LockNever does with fewer sessions then.
	LockNever Lock = "never"
)

// ErrNeedsLock: without the lock a moment of this server can't be told.
var ErrNeedsLock = errors.New("MySQL does not tell where in the binlog a read is, so the load must begin under a short lock")

// Snapshot opens up to n sessions that see one moment. MariaDB tells the position of each
// read, so several that began between two transactions see the same; MySQL needs FLUSH
// TABLES WITH READ LOCK, for as long as it takes to begin n transactions.
func (s *Server) Snapshot(ctx context.Context, n int, lock Lock) (*Snapshots, error) {
	out := &Snapshots{}
	for range n {
		c, err := s.Connect(ctx)
		if err == nil {
			out.Sessions = append(out.Sessions, c)
			err = c.Exec("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
		}
		if err != nil {
			out.Close()
			return nil, err
		}
	}
	err := out.open(ctx, s, lock)
	if err != nil {
		out.Close()
		return nil, err
	}
	return out, nil
}

func (o *Snapshots) open(ctx context.Context, s *Server, lock Lock) error {
	if o.Sessions[0].MariaDB {
		same, err := o.together(ctx)
		if err != nil || same {
			return err
		}
	}
	if lock == LockNever && !o.Sessions[0].MariaDB {
		return ErrNeedsLock
	}
	if lock != LockNever {
		err := o.locked(ctx, s)
		if err == nil || !denied(err) {
			return err
		}
		if !o.Sessions[0].MariaDB {
			return fmt.Errorf("%w: %w", ErrNeedsLock, err)
		}
	}
	// One session alone sees one moment.
	o.keep(1)
	return o.begin(o.Sessions[0])
}

// keep closes all sessions but the first n.
func (o *Snapshots) keep(n int) {
	for _, c := range o.Sessions[n:] {
		c.Close()
	}
	o.Sessions = o.Sessions[:n]
}

const begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"

// together begins all at once until no transaction came in between, for a second.
func (o *Snapshots) together(ctx context.Context) (bool, error) {
	for end := time.Now().Add(time.Second); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		var err error
		if o.Time, err = o.Sessions[0].Clock(); err != nil {
			return false, err
		}
		failed := make(chan error, len(o.Sessions))
		for _, c := range o.Sessions {
			go func() { failed <- c.Exec(begin) }()
		}
		for range o.Sessions {
			err = errors.Join(err, <-failed)
		}
		if err != nil {
			return false, err
		}
		same := true
		var first Position
		for i, c := range o.Sessions {
			file, pos, err := c.SnapshotAt()
			if err != nil {
				return false, err
			}
			if i == 0 {
				if first, err = c.position(file, pos, ""); err != nil {
					return false, err
				}
			}
			same = same && file == first.File && pos == fmt.Sprint(first.Pos)
		}
		if same {
			o.Position = first
			return true, nil
		}
		for _, c := range o.Sessions {
			if err := c.Exec("ROLLBACK"); err != nil {
				return false, err
			}
		}
	}
	return false, ctx.Err()
}

// SnapshotAt is where in the binlog the consistent read of a session of MariaDB is. The error
// wraps ErrNoLog where the server does not say it: it writes none, or is MySQL.
func (s *Session) SnapshotAt() (file, pos string, err error) {
	rows, err := s.query("SHOW STATUS LIKE 'binlog_snapshot_%'")
	if err != nil {
		return "", "", err
	}
	for _, r := range rows {
		switch r["variable_name"] {
		case "Binlog_snapshot_file":
			file = r["value"]
		case "Binlog_snapshot_position":
			pos = r["value"]
		}
	}
	if file == "" {
		return "", "", fmt.Errorf("%s: %w", s.server.Name(), ErrNoLog)
	}
	return file, pos, nil
}

// begin begins the read of one session of MariaDB.
func (o *Snapshots) begin(c *Session) (err error) {
	if o.Time, err = c.Clock(); err != nil {
		return err
	}
	if err := c.Exec(begin); err != nil {
		return err
	}
	file, pos, err := c.SnapshotAt()
	if err != nil {
		return err
	}
	o.Position, err = c.position(file, pos, "")
	return err
}

// locked begins all sessions under the lock of another one.
func (o *Snapshots) locked(ctx context.Context, s *Server) (err error) {
	c, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close() // which also ends the lock
	// It waits for statements that run, and others would wait for it.
	if err := c.Exec("SET SESSION lock_wait_timeout = 10"); err != nil {
		return err
	}
	if err := c.Exec("FLUSH TABLES WITH READ LOCK"); err != nil {
		return err
	}
	o.Locked = true
	if o.Time, err = c.Clock(); err != nil {
		return err
	}
	for _, session := range o.Sessions {
		if err := session.Exec(begin); err != nil {
			return err
		}
	}
	if o.Position, err = c.Position(); err != nil {
		return err
	}
	return c.Exec("UNLOCK TABLES")
}

// Close ends all sessions.
func (o *Snapshots) Close() {
	o.keep(0)
}
