package ingest

import (
	"errors"
	"fmt"
	"time"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/snapshotter"
)

// rejection is why a record is a dead letter.
type rejection struct {
	reason, detail, column string
}

func (r *rejection) Error() string { return r.reason + ": " + r.detail }

func reject(reason, format string, args ...any) *rejection {
	return &rejection{reason: reason, detail: fmt.Sprintf(format, args...)}
}

// earliestTime is 1990: an event time before it is taken for a mistake.
var earliestTime = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// eventTime gives the time that decides a change's label, in microseconds, and
// whether it is the event's own. It is judged from the record alone.
func (o *Options) eventTime(r *change.Record, c *change.Change) (t int64, own bool, err *rejection) {
	broker, known := r.Timestamp*1000, r.Timestamp > 0
	if !known && c.ProcessingTime > 0 {
		broker, known = c.ProcessingTime*1000, true
	}
	switch {
	case c.EventTime < earliestTime:
		if !known {
			return 0, false, reject("time", "neither the event nor the record has a time")
		}
		return broker, false, nil
	case known && c.EventTime > broker+o.MaxClockSkew.Microseconds():
		if o.Future != Clamp {
			return 0, false, reject("future", "event time %s is more than %s after the record's %s",
				time.UnixMicro(c.EventTime).UTC().Format(time.RFC3339Nano), o.MaxClockSkew, time.UnixMicro(broker).UTC().Format(time.RFC3339Nano))
		}
		return broker, false, nil
	}
	return c.EventTime, true, nil
}

// keys gives the encoded keys that a change deletes and writes, "" for none.
func (l *Lane) keys(c *change.Change, partition int32, offset int64) (old, new string, _ *rejection) {
	switch {
	case c.Op == change.Truncate:
		return "", "", nil
	case c.Op == change.Schema:
		return "", schemaKey, nil
	case l.o.Append:
		return l.appendKey(c, partition, offset)
	}
	if len(l.key) == 0 {
		return "", "", reject("key", "no key is configured and the record names none")
	}
	of := func(cols *change.Columns, cells []schema.Value) (string, *rejection) {
		k, err := l.keyOf(cols, cells)
		if err == nil {
			return k, nil // before bad, which would be allocated
		}
		var bad *badValue
		if errors.As(err, &bad) {
			return "", &rejection{"key", bad.err.Error(), bad.column}
		}
		return k, nil
	}
	before, err := of(c.BeforeColumns, c.Before)
	if err != nil {
		return "", "", err
	}
	if c.Op == change.Delete || c.Op == change.Tombstone {
		if before == "" {
			if before, err = of(c.KeyColumns, c.Key); err != nil {
				return "", "", err
			}
		}
		if before == "" {
			return "", "", reject("key", "neither the row before nor the record's key has the key columns %v", l.key)
		}
		return before, "", nil
	}
	after, err := of(c.Columns, c.After)
	if err != nil {
		return "", "", err
	}
	if after == "" {
		if after, err = of(c.KeyColumns, c.Key); err != nil {
			return "", "", err
		}
	}
	if after == "" {
		return "", "", reject("key", "neither the row after nor the record's key has the key columns %v", l.key)
	}
	if c.Op == change.Update && before != "" && before != after {
		return before, after, nil
	}
	return "", after, nil
}

// schemaKey stands for the key of all statements, by which none is given an earlier
// label than one before it. No encoded key begins so.
const schemaKey = "\xff\xffschema"

// AppendKey is the key of a table in mode append: each row is a record of its own.
var AppendKey = []string{HiddenPrefix + "partition", HiddenPrefix + "offset"}

// appendKey gives the key of a row of a table without one: its record's coordinates.
func (l *Lane) appendKey(c *change.Change, partition int32, offset int64) (old, new string, _ *rejection) {
	switch c.Op {
	case change.Insert, change.Read:
		l.keyBuf = schema.IntValue(int64(partition)).AppendEncoded(l.keyBuf[:0])
		l.keyBuf = schema.IntValue(offset).AppendEncoded(l.keyBuf)
		return "", l.arena.String(l.keyBuf), nil
	}
	return "", "", reject("key", "the table has no key (mode: append), so the row of this %s can't be found", c.Op)
}

// appendIdentity tells rows apart that one statement wrote at one position: by
// what is in them, since redelivered they have other coordinates.
func (l *Lane) appendIdentity(c *change.Change) uint64 {
	buf := l.keyBuf[:0]
	for _, v := range c.After {
		buf = v.AppendEncoded(buf)
	}
	l.keyBuf = buf
	return identity("", string(buf), c.Op == change.Truncate)
}

// event makes what the judge needs of a change.
func event(c *change.Change, offset, t int64, own bool, old, new string) snapshotter.Event {
	e := snapshotter.Event{
		Kind: snapshotter.RowChange, Offset: offset, Keys: [2]string{old, new}, Time: t, OwnTime: own,
		Server: c.Server, Position: c.Position, HasPosition: c.HasPosition, GTID: c.GTID,
		Identity: identity(old, new, c.Op == change.Truncate),
	}
	switch {
	case c.Op == change.Truncate:
		e.Kind = snapshotter.TableTruncate
	case c.Op == change.Read && c.Load&change.Incremental != 0:
		e.Kind = snapshotter.IncrementalRead
	case c.Op == change.Read:
		e.Kind = snapshotter.FullRead
		e.FirstRead, e.LastRead = c.Load&change.FirstRead != 0, c.Load&change.LastRead != 0
	}
	return e
}

// identity hashes (FNV-1a, cut to 53 bits) what tells changes at one position apart.
func identity(old, new string, truncate bool) uint64 {
	h := uint64(14695981039346656037)
	step := func(b byte) { h = (h ^ uint64(b)) * 1099511628211 }
	for i := range len(old) {
		step(old[i])
	}
	step(0xff)
	for i := range len(new) {
		step(new[i])
	}
	if truncate {
		step(0xfe)
	}
	return h >> 11
}
