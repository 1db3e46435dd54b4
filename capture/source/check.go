package source

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Fault is one thing that keeps a server from being captured.
type Fault struct {
	// What is wrong, and the Statement or setting that mends it.
	What, Mend string
	// Warning: capture works, with less than it could.
	Warning bool
}

func (f Fault) String() string {
	if f.Mend == "" {
		return f.What
	}
	return f.What + "; " + f.Mend
}

// Needs are what a server is checked for.
type Needs struct {
	// ServerID is the one that we are to have.
	ServerID uint32
	// Lock: the load may need the short lock.
	Lock bool
	// Failover: there are several servers to go on from.
	Failover bool
	// Wanted tells databases that are captured.
	Wanted func(database string) bool
}

// The oldest servers whose binlog has what is needed.
const (
	oldestMySQL   = "5.7"
	oldestMariaDB = "10.2"
)

// Check looks for everything that is wrong, at once.
func (s *Session) Check(n Needs) (faults []Fault, err error) {
	v, err := s.variables("log_bin", "binlog_format", "binlog_row_image", "binlog_row_metadata", "binlog_row_value_options",
		"gtid_mode", "server_id", "log_slave_updates", "log_replica_updates")
	if err != nil {
		return nil, err
	}
	add := func(mend, what string, args ...any) {
		faults = append(faults, Fault{What: fmt.Sprintf(what, args...), Mend: mend})
	}
	warn := func(mend, what string, args ...any) {
		faults = append(faults, Fault{What: fmt.Sprintf(what, args...), Mend: mend, Warning: true})
	}
	if oldest := map[bool]string{true: oldestMariaDB, false: oldestMySQL}[s.MariaDB]; older(s.Version, oldest) {
		add("upgrade the server", "the server is %s, and %s is the oldest that can be captured", s.Version, oldest)
	}
	if v["log_bin"] != "ON" {
		add("write log_bin = mysql-bin below [mysqld] in the server's settings, and start it again", "log_bin is %s: the server writes no binlog", v["log_bin"])
	}
	if f := v["binlog_format"]; f != "ROW" {
		add("SET GLOBAL binlog_format = 'ROW', and write binlog_format = ROW into the server's settings; sessions keep the old one until they connect again",
			"binlog_format is %s: the binlog has statements where it must have rows", f)
	}
	if v["binlog_row_value_options"] != "" {
		add("SET GLOBAL binlog_row_value_options = ''", "binlog_row_value_options is %s: the binlog has parts of JSON values in place of whole ones", v["binlog_row_value_options"])
	}
	switch image := v["binlog_row_image"]; image {
	case "FULL", "FULL_NODUP":
	default:
		warn("SET GLOBAL binlog_row_image = 'FULL'", "binlog_row_image is %s: changes carry only some of the columns, the others are taken from the row that the table has", image)
	}
	if m, known := v["binlog_row_metadata"]; known && m != "FULL" {
		warn("SET GLOBAL binlog_row_metadata = 'FULL'", "binlog_row_metadata is %s: names and types of columns are known from the statements in the binlog alone", m)
	}
	if n.Failover && !s.MariaDB && v["gtid_mode"] != "ON" {
		add("SET GLOBAL gtid_mode = ON, step by step as MySQL's manual says, or name one server", "gtid_mode is %s, and several servers are named: without GTIDs there is no place to go on from on another one", v["gtid_mode"])
	}
	if id, _ := strconv.ParseUint(v["server_id"], 10, 32); uint32(id) == n.ServerID {
		add("set capture.server_id to a number that no server and no replica has", "the server has server_id %d itself", id)
	}
	if v["log_slave_updates"] == "OFF" || v["log_replica_updates"] == "OFF" {
		if is, err := s.isReplica(); err == nil && is {
			add("write log_slave_updates = ON into its settings and start it again, or name its primary", "the server is a replica, and log_slave_updates is OFF: its binlog lacks what it replicates")
		}
	}
	rights, err := s.checkRights(n)
	if err != nil {
		return nil, err
	}
	faults = append(faults, rights...)
	filters, err := s.checkFilters(n)
	return append(faults, filters...), err
}

// older compares versions by their first two numbers.
func older(version, than string) bool {
	numbers := func(v string) (n [2]int) {
		for i, part := range strings.SplitN(v, ".", 3) {
			if i < 2 {
				n[i], _ = strconv.Atoi(part)
			}
		}
		return n
	}
	a, b := numbers(version), numbers(than)
	return a[0] < b[0] || a[0] == b[0] && a[1] < b[1]
}

func (s *Session) isReplica() (bool, error) {
	statement := "SHOW SLAVE STATUS"
	if s.MariaDB {
		statement = "SHOW ALL SLAVES STATUS"
	}
	rows, err := s.query(statement)
	if code(err) == erSyntax {
		rows, err = s.query("SHOW REPLICA STATUS")
	}
	return len(rows) > 0, err
}

// checkRights looks for the rights on the server as a whole; those on tables show in
// which tables there are.
func (s *Session) checkRights(n Needs) (faults []Fault, err error) {
	r, err := s.conn.Execute("SHOW GRANTS")
	if err != nil {
		return nil, s.failed("SHOW GRANTS", err)
	}
	defer r.Close()
	var server []string // what is granted ON *.*
	roles := false
	for i := range r.RowNumber() {
		line, _ := r.GetString(i, 0)
		what, ok := strings.CutPrefix(line, "GRANT ")
		if privileges, on, found := strings.Cut(what, " ON "); ok && found {
			if strings.HasPrefix(on, "*.*") {
				server = append(server, strings.Split(strings.ToUpper(privileges), ", ")...)
			}
		} else if ok {
			roles = true
		}
	}
	has := func(names ...string) bool {
		for _, p := range server {
			for _, name := range append(names, "ALL PRIVILEGES", "SUPER") {
				if p == name {
					return true
				}
			}
		}
		return false
	}
	missing := func(granted, what string, names ...string) {
		if !has(names...) {
			faults = append(faults, Fault{What: "the right " + granted + " is missing: " + what,
				Mend: fmt.Sprintf("GRANT %s ON *.* TO %s", granted, s.account()), Warning: roles}) // a role may bring it
		}
	}
	missing("REPLICATION SLAVE", "it lets us read the binlog", "REPLICATION SLAVE", "REPLICATION REPLICA")
	if s.MariaDB && !older(s.Version, "10.5") {
		missing("BINLOG MONITOR", "it lets us ask where the binlog is", "BINLOG MONITOR", "REPLICATION CLIENT")
	} else {
		missing("REPLICATION CLIENT", "it lets us ask where the binlog is", "REPLICATION CLIENT")
	}
	if n.Lock && !s.MariaDB {
		missing("RELOAD", "it lets us begin the load at one moment, under a lock of a few milliseconds", "RELOAD")
	}
	return faults, nil
}

// account is the user as GRANT names it.
func (s *Session) account() string {
	rows, err := s.query("SELECT CURRENT_USER() AS u")
	if err != nil {
		return s.server.user
	}
	user, host, _ := strings.Cut(rows[0]["u"], "@")
	return "'" + user + "'@'" + host + "'"
}

// checkFilters looks for databases that the binlog leaves out.
func (s *Session) checkFilters(n Needs) (faults []Fault, err error) {
	rows, err := s.status()
	if denied(err) { // said already
		return nil, nil
	}
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	if only := rows[0]["binlog_do_db"]; only != "" {
		faults = append(faults, Fault{What: "binlog_do_db is " + only + ": by it the binlog lacks changes that are made with another default database",
			Mend: "take it out of the server's settings, and start it again"})
	}
	for _, db := range strings.Split(rows[0]["binlog_ignore_db"], ",") {
		if db != "" && n.Wanted(db) {
			faults = append(faults, Fault{What: "binlog_ignore_db has " + db + ": the binlog lacks its changes", Mend: "take it out of the server's settings, and start it again"})
		}
	}
	return faults, nil
}

// WaitForID waits until no replica has the server_id: one of ours that was killed is
// there for a while. It tells whether one still has it in the end; servers that do not
// tell have none.
func (s *Session) WaitForID(id uint32, patience time.Duration) (taken bool) {
	for end := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		rows, err := s.query("SHOW SLAVE HOSTS")
		if code(err) == erSyntax {
			rows, err = s.query("SHOW REPLICAS")
		}
		taken = false
		for _, r := range rows {
			if r["server_id"] == strconv.FormatUint(uint64(id), 10) {
				taken = true
			}
		}
		if err != nil || !taken || time.Now().After(end) {
			return taken && err == nil
		}
	}
}
