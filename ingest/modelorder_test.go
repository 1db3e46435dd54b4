package ingest_test

import "cmp"

// pastOf is what a partition has brought before: the ground of rule 6.
type pastOf struct {
	servers map[string]*serverPast
	gtids   map[string]bool
	gtid    string // the last one
}

type serverPast struct {
	resets int
	high   *verdict           // the change at the highest position of the line
	at     map[[3]string]bool // the changes at it
	file   int64              // the highest log file number, reads included
}

// repeats finds the line of a record, opening one where its binlog was begun
// anew, and tells a redelivery.
func (past *pastOf) repeats(v *verdict, isRead bool) bool {
	s := past.servers[v.server]
	if s == nil {
		s = &serverPast{file: -1}
		past.servers[v.server] = s
	}
	defer func() { v.line = line{v.server, s.resets} }()
	if !v.hasPos {
		return false
	}
	anew := func() {
		*s = serverPast{resets: s.resets + 1, file: v.pos.File}
		past.gtids, past.gtid, v.newLine = map[string]bool{}, "", true
	}
	newer := v.ownTime && v.t > v.mark // than everything of the partition
	if newer && v.pos.File < s.file && v.kind != loneRead {
		anew()
	}
	s.file = max(s.file, v.pos.File)
	if isRead {
		return false
	}
	id := [3]string{v.old, v.new, map[bool]string{true: "all"}[v.kind == truncate]}
	taken := s.high != nil && (v.pos.Compare(s.high.pos) < 0 || v.pos == s.high.pos && s.at[id])
	other := v.gtid != "" && v.gtid != past.gtid
	if other {
		taken = past.gtids[v.gtid]
	}
	if taken && !newer {
		return true
	}
	if taken {
		anew()
	}
	if s.high == nil || v.pos.Compare(s.high.pos) > 0 {
		s.high, s.at = v, map[[3]string]bool{}
	}
	s.at[id] = true
	if other {
		past.gtid, past.gtids[v.gtid] = v.gtid, true
	}
	return false
}

// order is rule 7: positive where x stands behind y in the source's order,
// negative before it, 0 where neither does.
func order(x, y *verdict) int {
	offsets := cmp.Or(cmp.Compare(x.record.Offset, y.record.Offset), cmp.Compare(x.rank, y.rank))
	same := x.record.Partition == y.record.Partition
	switch {
	case same && (x.rank == asChange && y.rank == asChange || x.line != y.line || !x.hasPos || !y.hasPos):
		return offsets
	case x.line == y.line:
		return cmp.Or(x.pos.Compare(y.pos), cmp.Compare(x.rank, y.rank))
	}
	return cmp.Or(cmp.Compare(x.t, y.t), cmp.Compare(x.rank, y.rank), cmp.Compare(x.record.Partition, y.record.Partition), offsets)
}
