package source

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Position is a place in a server's binlog, between two transactions.
type Position struct {
	File string
	Pos  uint64
	// GTIDs is the set of all transactions before it, as the server writes it; empty
	// where the server has none.
	GTIDs string
}

// String gives FILE:POS.
func (p Position) String() string { return p.File + ":" + strconv.FormatUint(p.Pos, 10) }

// Identity tells servers apart.
type Identity struct {
	ServerID uint32
	// UUID is MySQL's server_uuid; empty on MariaDB.
	UUID string
}

// variables of the server, global ones, by name in lower case.
func (s *Session) variables(names ...string) (map[string]string, error) {
	rows, err := s.query("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('" + strings.Join(names, "','") + "')")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, r := range rows {
		out[strings.ToLower(r["variable_name"])] = r["value"]
	}
	return out, nil
}

// Identity asks who the server is.
func (s *Session) Identity() (Identity, error) {
	v, err := s.variables("server_id", "server_uuid")
	if err != nil {
		return Identity{}, err
	}
	id, _ := strconv.ParseUint(v["server_id"], 10, 32)
	return Identity{ServerID: uint32(id), UUID: v["server_uuid"]}, nil
}

// ErrNoLog: the server writes no binlog.
var ErrNoLog = errors.New("the server writes no binlog")

// Position asks where the binlog ends now.
func (s *Session) Position() (Position, error) {
	rows, err := s.status()
	if err != nil {
		return Position{}, err
	}
	if len(rows) == 0 {
		return Position{}, fmt.Errorf("%s: %w", s.server.Name(), ErrNoLog)
	}
	return s.position(rows[0]["file"], rows[0]["position"], rows[0]["executed_gtid_set"])
}

// status is the row that tells where the binlog ends.
func (s *Session) status() ([]row, error) {
	rows, err := s.query("SHOW MASTER STATUS")
	if code(err) == erSyntax { // MySQL from 8.4 on
		rows, err = s.query("SHOW BINARY LOG STATUS")
	}
	return rows, err
}

// position adds what MariaDB tells of a place, which is not in its status.
func (s *Session) position(file, pos, gtids string) (p Position, err error) {
	p.File, p.GTIDs = file, strings.ReplaceAll(gtids, "\n", "")
	if p.Pos, err = strconv.ParseUint(pos, 10, 64); err != nil || file == "" {
		return p, fmt.Errorf("%s tells of the position %q %q", s.server.Name(), file, pos)
	}
	if s.MariaDB {
		p.GTIDs, err = s.gtidsAt(p.File, p.Pos)
	}
	return p, err
}

// gtidsAt is the set of transactions before a place, of MariaDB.
func (s *Session) gtidsAt(file string, pos uint64) (string, error) {
	rows, err := s.query(fmt.Sprintf("SELECT BINLOG_GTID_POS(%s, %d) AS g", text(file), pos))
	if err != nil || len(rows) == 0 {
		return "", err
	}
	return rows[0]["g"], nil
}

// Clock is the server's clock, in microseconds since 1970.
func (s *Session) Clock() (int64, error) {
	rows, err := s.query("SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS UNSIGNED) AS t")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(rows[0]["t"], 10, 64)
}

// ErrLogGone is wrapped by errors about a position that the server can't go on from.
var ErrLogGone = errors.New("the binlog is gone")

// Resume says how the stream goes on from a position that was read from a server of
// identity was: by file and position where this is that server and still has the log,
// else by GTID. The error wraps ErrLogGone.
func (s *Session) Resume(at Position, was Identity) (byGTID bool, err error) {
	is, err := s.Identity()
	if err != nil {
		return false, err
	}
	logs, err := s.query("SHOW BINARY LOGS")
	if err != nil {
		return false, err
	}
	if is == was {
		byFile, err := s.holds(logs, at)
		if err != nil || byFile {
			return false, err
		}
	}
	if at.GTIDs != "" {
		return true, s.checkGTIDs(at, logs)
	}
	oldest := ""
	if len(logs) > 0 {
		oldest = ", its oldest is " + logs[0]["log_name"]
	}
	if is != was {
		return false, fmt.Errorf("%w: position %s is of the server with server_id %d %s, %s has server_id %d, and there is no GTID to find the place by: go back to that server, or begin anew",
			ErrLogGone, at, was.ServerID, was.UUID, s.server.Name(), is.ServerID)
	}
	return false, fmt.Errorf("%w: %s does not have %s any more%s", ErrLogGone, s.server.Name(), at, oldest)
}

// holds tells whether the server has the log up to the position, and that it is the same log.
func (s *Session) holds(logs []row, at Position) (bool, error) {
	for _, l := range logs {
		if l["log_name"] != at.File {
			continue
		}
		size, _ := strconv.ParseUint(l["file_size"], 10, 64)
		if size < at.Pos {
			return false, nil
		}
		if !s.MariaDB || at.GTIDs == "" {
			return true, nil
		}
		gtids, err := s.gtidsAt(at.File, at.Pos)
		if code(err) != 0 { // no event begins there
			return false, nil
		}
		return sameGTIDs(gtids, at.GTIDs), err
	}
	return false, nil
}

// checkGTIDs asks whether the server still has all transactions behind the set.
func (s *Session) checkGTIDs(at Position, logs []row) error {
	if s.MariaDB {
		return nil // it says so itself when it is asked for the stream
	}
	rows, err := s.query("SELECT GTID_SUBSET(@@GLOBAL.gtid_purged, " + text(at.GTIDs) + ") AS kept, GTID_SUBSET(" + text(at.GTIDs) + ", @@GLOBAL.gtid_executed) AS known")
	switch {
	case err != nil:
		return err
	case rows[0]["kept"] != "1":
		return fmt.Errorf("%w: %s has purged transactions that were not read yet (gtid_purged)", ErrLogGone, s.server.Name())
	case rows[0]["known"] != "1":
		return fmt.Errorf("%w: %s lacks transactions that were read already: it is behind, or not of the same cluster", ErrLogGone, s.server.Name())
	}
	return nil
}

// sameGTIDs compares sets of MariaDB, whose domains come in any order.
func sameGTIDs(a, b string) bool {
	set := func(s string) map[string]bool {
		m := map[string]bool{}
		for _, g := range strings.Split(s, ",") {
			m[strings.TrimSpace(g)] = true
		}
		return m
	}
	x, y := set(a), set(b)
	if len(x) != len(y) {
		return false
	}
	for g := range x {
		if !y[g] {
			return false
		}
	}
	return true
}
