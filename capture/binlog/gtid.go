package binlog

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/google/uuid"
)

// gtid is a transaction's; the zero one is none.
type gtid struct {
	text string
	sid  uuid.UUID
	tag  mysql.Tag
	gno  int64
	of   *mysql.MariadbGTID
}

func (g gtid) String() string { return g.text }

// executed is the set of transactions up to the safe position.
type executed struct {
	start   string
	mysql   *mysql.MysqlGTIDSet
	mariadb map[uint32]mysql.MariadbGTID // the last of each domain
	wait    []gtid
	known   bool // the set at the begin of the log is
	decided bool
}

// flavor makes the set, when the server's kind is known.
func (e *executed) flavor(mariadb bool) error {
	if e.decided {
		return nil
	}
	e.decided, e.known = true, e.start != ""
	if !mariadb {
		set, err := mysql.ParseMysqlGTIDSet(e.start)
		if err != nil {
			return fmt.Errorf("the GTID set to start at is %q: %w", e.start, err)
		}
		e.mysql = set.(*mysql.MysqlGTIDSet)
		return nil
	}
	e.mariadb = map[uint32]mysql.MariadbGTID{}
	for text := range strings.SplitSeq(e.start, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		g, err := mysql.ParseMariadbGTID(text)
		if err != nil {
			return fmt.Errorf("the GTID set to start at is %q: %w", e.start, err)
		}
		e.mariadb[g.DomainID] = *g
	}
	return nil
}

// previous takes the set that a file of MySQL begins with.
func (e *executed) previous(body []byte) error {
	if e.known || e.mysql == nil {
		return nil
	}
	p := &replication.PreviousGTIDsEvent{}
	if err := p.Decode(body); err != nil {
		return corrupt("previous GTIDs: %v", err)
	}
	set, err := mysql.ParseMysqlGTIDSet(p.GTIDSets)
	if err != nil {
		return corrupt("previous GTIDs: %v", err)
	}
	e.mysql, e.known = set.(*mysql.MysqlGTIDSet), true
	return nil
}

// list takes the last GTID of each domain, which a file of MariaDB begins with.
func (e *executed) list(body []byte) error {
	c := cursor{b: body}
	n := c.uint(4) & (1<<28 - 1)
	if c.err != nil || n*16 > uint64(len(c.b)) {
		return corrupt("a list of %d GTIDs in %d bytes", n, len(body))
	}
	if e.known || e.mariadb == nil {
		return nil
	}
	e.known = true
	for range n {
		g := mysql.MariadbGTID{DomainID: uint32(c.uint(4)), ServerID: uint32(c.uint(4)), SequenceNumber: c.uint(8)}
		e.mariadb[g.DomainID] = g
	}
	return nil
}

func (e *executed) add(g gtid) {
	for _, w := range e.wait {
		e.addOne(w)
	}
	e.wait = e.wait[:0]
	e.addOne(g)
}

func (e *executed) addOne(g gtid) {
	switch {
	case g.of != nil && e.mariadb != nil:
		e.mariadb[g.of.DomainID] = *g.of
		e.known = true
	case g.gno != 0 && e.mysql != nil:
		e.mysql.AddGTIDWithTag(g.sid, g.tag, g.gno)
	}
}

// later adds one when no transaction is waiting any more.
func (e *executed) later(g gtid) {
	if g.text != "" {
		e.wait = append(e.wait, g)
	}
}

func (e *executed) String() string {
	switch {
	case !e.known:
		return e.start
	case e.mariadb != nil:
		var out []string
		for _, domain := range slices.Sorted(maps.Keys(e.mariadb)) {
			g := e.mariadb[domain]
			out = append(out, g.String())
		}
		return strings.Join(out, ",")
	case e.mysql != nil:
		return e.mysql.String()
	}
	return e.start
}

// begin opens a transaction.
func (r *Reader) open(alone bool) {
	r.tx = transaction{open: !alone, alone: alone, begin: r.begin}
}

// beginMySQL takes the event that begins a group of MySQL.
func (r *Reader) beginMySQL(kind replication.EventType, body []byte) error {
	r.open(true) // BEGIN opens it
	g := replication.GTIDEvent{}
	var err error
	if kind == replication.GTID_TAGGED_LOG_EVENT {
		t := replication.GtidTaggedLogEvent{}
		err = t.Decode(body)
		g = t.GTIDEvent
	} else {
		err = g.Decode(body)
	}
	if err != nil {
		return corrupt("GTID: %v", err)
	}
	// The original commit stays the same on every replica.
	if r.tx.time = int64(g.OriginalCommitTimestamp); r.tx.time == 0 {
		r.tx.time = int64(g.ImmediateCommitTimestamp)
	}
	if r.tx.time < 0 || r.tx.time >= 253402300800e6 {
		return corrupt("a commit at %d microseconds", r.tx.time)
	}
	if kind == replication.ANONYMOUS_GTID_EVENT || g.GNO == 0 {
		return nil
	}
	id := gtid{tag: g.Tag, gno: g.GNO}
	if id.sid, err = uuid.FromBytes(g.SID); err != nil {
		return corrupt("GTID: %v", err)
	}
	id.text = id.sid.String() + ":"
	if tag := g.Tag.String(); tag != "" {
		id.text += tag + ":"
	}
	id.text += strconv.FormatInt(g.GNO, 10)
	r.tx.gtid = id
	return nil
}

// beginMariaDB takes the event that begins a group of MariaDB, and is its BEGIN too.
func (r *Reader) beginMariaDB(body []byte) error {
	if len(body) < 13 {
		return corrupt("a GTID of %d bytes", len(body))
	}
	g := &replication.MariadbGTIDEvent{}
	g.GTID.ServerID = r.header.ServerID
	if err := g.Decode(body); err != nil {
		return corrupt("GTID: %v", err)
	}
	r.open(g.IsStandalone())
	of := g.GTID
	r.tx.gtid = gtid{text: of.String(), of: &of}
	const preparedXA = 64
	r.tx.xa = g.Flags&preparedXA != 0
	return nil
}
