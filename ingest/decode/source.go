package decode

import (
	"fmt"
	"math"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

// A slot is a member of Debezium's source block that matters.
type slot uint8

const (
	slotNone slot = iota
	slotName
	slotServerID
	slotFile
	slotPos
	slotRow
	slotGTID
	slotTsMs
	slotTsUs
	slotTsNs
	slotDB
	slotTable
	slotSnapshot
	slotCommitTS
	slots
)

func slotOf(name string) slot {
	switch name {
	case "name":
		return slotName
	case "server_id":
		return slotServerID
	case "file":
		return slotFile
	case "pos":
		return slotPos
	case "row":
		return slotRow
	case "gtid":
		return slotGTID
	case "ts_ms":
		return slotTsMs
	case "ts_us":
		return slotTsUs
	case "ts_ns":
		return slotTsNs
	case "db":
		return slotDB
	case "table":
		return slotTable
	case "snapshot":
		return slotSnapshot
	case "commit_ts": // TiCDC's
		return slotCommitTS
	}
	return slotNone
}

// source reads the source block. Its values are looked at only when asked for:
// a record of another table is no error, whatever they are.
type source struct {
	at [slots]token
}

// find places the members.
func (s *source) find(b []byte, members []member) error {
	s.at = [slots]token{}
	for i := range members {
		m := &members[i]
		at := slotOf(view(b[m.name.start:m.name.end]))
		if at == slotNone {
			continue
		}
		if s.at[at].kind != kindNone {
			return fmt.Errorf("%q twice in the source block", b[m.name.start:m.name.end])
		}
		s.at[at] = m.value
	}
	return nil
}

// of reports whether the change is of the table "db.table".
func (s *source) of(o *Options, r *cells, out *change.Change) bool {
	db, ok1 := s.str(slotDB, r)
	name, ok2 := s.str(slotTable, r)
	return ok1 && ok2 && o.takes(db, name, out)
}

// isTable reports whether table is "db.name".
func isTable(table, db, name string) bool {
	return len(table) == len(db)+1+len(name) && strings.HasPrefix(table, db) && table[len(db)] == '.' && strings.HasSuffix(table, name)
}

// str gives a string member; ok is false where it is none.
func (s *source) str(at slot, r *cells) (string, bool) {
	t := s.at[at]
	if t.kind != kindString {
		return "", false
	}
	out, err := text(r.b, t, r.arena)
	return out, err == nil
}

// int gives an integer member, 0 where it is missing or null.
func (s *source) int(at slot, r *cells) (int64, error) {
	t := s.at[at]
	if t.kind == kindNone || t.kind == kindNull {
		return 0, nil
	}
	return r.whole(t)
}

// time gives an integer member in the given parts of a second; anything else
// is no time.
func (s *source) time(at slot, r *cells) (int64, bool) {
	t := s.at[at]
	if t.kind != kindNumber || t.flags&flagInteger == 0 {
		return 0, false
	}
	return integer(r.raw(t))
}

// eventTime gives the event's time in microseconds, 0 where it has none: the
// finest of the three times that agrees with ts_ms.
func (s *source) eventTime(r *cells) (int64, error) {
	var ms, us, ns sourceTime
	ms.n, ms.ok = s.time(slotTsMs, r)
	us.n, us.ok = s.time(slotTsUs, r)
	ns.n, ns.ok = s.time(slotTsNs, r)
	t, ok := eventTime(ms, us, ns)
	beyond := t == 0 && !ms.ok && s.at[slotTsMs].kind == kindNumber && s.at[slotTsMs].flags&flagInteger != 0 // past 64 bits
	if !ok || beyond {
		return 0, fmt.Errorf("source.ts_ms is %.30s: %w", r.raw(s.at[slotTsMs]), errTimeRange)
	}
	return t, nil
}

// sourceTime is one of the three times of a source block.
type sourceTime struct {
	n  int64
	ok bool // it is there
}

// eventTime gives the finest of the three that agrees with the milliseconds, in
// microseconds; ok is false where it can't be microseconds in 64 bits.
func eventTime(ms, us, ns sourceTime) (t int64, ok bool) {
	switch {
	case us.ok && (!ms.ok || floorDiv(us.n, 1000) == ms.n):
		return us.n, true
	case ns.ok && (!ms.ok || floorDiv(ns.n, 1_000_000) == ms.n):
		return floorDiv(ns.n, 1000), true
	}
	return ms.n * 1000, ms.n <= math.MaxInt64/1000 && ms.n >= math.MinInt64/1000
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// position gives the place in the binlog; ok is false where there is none.
func (s *source) position(r *cells) (p change.Position, ok bool, err error) {
	file, _ := s.str(slotFile, r)
	if p.File, ok = fileNumber(file); !ok {
		return p, false, nil
	}
	if s.at[slotPos].kind == kindNone {
		return p, false, fmt.Errorf("source has the file %.40q but no pos", file)
	}
	if p.Pos, err = s.int(slotPos, r); err != nil {
		return p, false, fmt.Errorf("source.pos is %.30s", r.raw(s.at[slotPos]))
	}
	row, err := s.int(slotRow, r)
	if err != nil || row < 0 || row > math.MaxInt32 {
		return p, false, fmt.Errorf("source.row is %.30s", r.raw(s.at[slotRow]))
	}
	p.Row = int32(row)
	return p, true, nil
}

// fileNumber is the number in which the name of a binlog file ends.
func fileNumber(file string) (int64, bool) {
	number := file[strings.LastIndexByte(file, '.')+1:]
	if number == "" || len(number) > 18 || !allDigits(number) {
		return 0, false
	}
	return integer([]byte(number))
}

// load tells a read of a table from a change of it.
func (s *source) load(r *cells) (read bool, load change.Load) {
	t := s.at[slotSnapshot]
	if t.kind == kindTrue {
		return true, 0
	}
	snapshot, _ := s.str(slotSnapshot, r)
	return snapshotLoad(snapshot)
}

// snapshotLoad is what source.snapshot says.
func snapshotLoad(snapshot string) (read bool, load change.Load) {
	switch snapshot {
	case "true":
		return true, 0
	// A snapshot of several tables flags each table's own first and last read.
	case "first", "first_in_data_collection":
		return true, change.FirstRead
	case "last", "last_in_data_collection":
		return true, change.LastRead
	case "incremental":
		return true, change.Incremental
	}
	return false, 0
}

// commits reports whether the event time is that of TiCDC's commit_ts, whose upper
// bits are milliseconds.
func (s *source) commits(eventTime int64, r *cells) bool {
	ts, ok := s.time(slotCommitTS, r)
	return ok && ts > 0 && ts>>18 == floorDiv(eventTime, 1000)
}

// isMySQLGTID reports whether the text is uuid:n or uuid:tag:n.
func isMySQLGTID(s string) bool {
	if len(s) < 38 || s[36] != ':' {
		return false
	}
	for i := range 36 {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (s[i] == '-') {
			return false
		}
	}
	return true
}

// columnTime gives the event time that a cell says, in microseconds; 0 where
// it is NULL.
func columnTime(v schema.Value, typ schema.Type) (int64, error) {
	switch {
	case v.Kind == schema.Null || v.Kind == schema.Unavailable:
		return 0, nil
	case v.Kind == schema.String && typ.Primitive == schema.Unknown || typ.Primitive == schema.StringType:
		n, _, err := parseTimestamp(v.S, false)
		if err == errNoZone {
			n, _, err = parseTimestamp(v.S, true)
		}
		return n, err
	case v.Kind == schema.Int && (typ.Primitive == schema.Timestamp || typ.Primitive == schema.TimestampNTZ):
		return v.I, nil
	case v.Kind == schema.Int && typ.Primitive == schema.Date:
		return v.I * microsPerDay, nil
	case v.Kind == schema.Int && (typ.Primitive == schema.Unknown || typ.Primitive == schema.Long):
		return millis.inMicros(v.I)
	}
	return 0, errTimestamp
}
