package demo

import (
	"time"
)

// user is a row of the source table: id BIGINT PRIMARY KEY, name, city.
type user struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
	City string `json:"city"`
}

// The cities between which the users move.
const (
	beijing  = "Beijing"
	hangzhou = "Hangzhou"
	wuhan    = "Wuhan"
)

// shop is the source: a MySQL server with one table, and its binlog.
type shop struct {
	users map[int64]user
	pos   int64
}

// binlogFile is the shop's only binlog; no day is busy enough for a second one.
const binlogFile = "mysql-bin.000042"

// logged is one row event of the binlog, or one read of a load.
type logged struct {
	op            string // Debezium's: r, c, u, d
	before, after *user
	// begun is when the statement began: MySQL stamps row events with it, in
	// whole seconds, and writes them when the transaction commits.
	begun time.Time
	pos   int64
	// snapshot is Debezium's word for where in a load a read stands.
	snapshot string
}

func newShop() *shop {
	s := &shop{users: map[int64]user{}, pos: 157}
	for i, u := range []struct{ name, city string }{
		{"Chen Jie", beijing}, {"Li Na", beijing}, {"Wang Fang", beijing},
		{"Zhao Lei", hangzhou}, {"Liu Yang", hangzhou}, {"Sun Li", hangzhou},
		{"Zhou Min", wuhan}, {"Wu Tao", wuhan}, {"He Jing", wuhan},
	} {
		id := int64(i + 1)
		s.users[id] = user{id, u.name, u.city}
	}
	return s
}

// read is a consistent read of the whole table in order of the key, all of it
// at the binlog's present end.
func (s *shop) read(at time.Time) []logged {
	var events []logged
	for id := int64(1); id <= int64(len(s.users)); id++ {
		u := s.users[id]
		events = append(events, logged{op: "r", after: &u, begun: at, pos: s.pos, snapshot: "true"})
	}
	events[0].snapshot, events[len(events)-1].snapshot = "first", "last"
	return events
}

// commit writes an event at the end of the binlog.
func (s *shop) commit(e logged) logged {
	s.pos += 311 // about the size of a transaction of one row
	e.pos, e.snapshot = s.pos, "false"
	return e
}

// move commits an update that was begun at a time.
func (s *shop) move(begun time.Time, id int64, city string) logged {
	before := s.users[id]
	after := before
	after.City = city
	s.users[id] = after
	return s.commit(logged{op: "u", before: &before, after: &after, begun: begun})
}

// join commits an insert.
func (s *shop) join(begun time.Time, id int64, name, city string) logged {
	u := user{id, name, city}
	s.users[id] = u
	return s.commit(logged{op: "c", after: &u, begun: begun})
}

// leave commits a delete.
func (s *shop) leave(begun time.Time, id int64) logged {
	u := s.users[id]
	delete(s.users, id)
	return s.commit(logged{op: "d", before: &u, begun: begun})
}
