package delta

import (
	"slices"

	"github.com/gscd-io/gscd/delta/action"
)

// summary is what Rebase must know of a commit.
type summary struct {
	version    int64
	txnID      string
	operation  string
	dataChange bool
	metadata   bool
	protocol   bool
	apps       []string
	domains    []string
	removed    map[action.FileKey]bool
	// blind says that the commit read nothing; added are its files with new rows.
	blind bool
	added []*action.Add
}

// Isolation says what a transaction may be put behind.
type Isolation uint8

const (
	// Serializable: the table is as if the commits had happened one after the other, in
	// the order of their versions.
	Serializable Isolation = iota
	// WriteSerializable: as if in some order. Rows that a commit added without reading
	// anything need not have been seen.
	WriteSerializable
	// SnapshotIsolation is for transactions that change no rows: added rows don't matter.
	SnapshotIsolation
)

// String gives the level as commitInfo names it.
func (i Isolation) String() string {
	switch i {
	case WriteSerializable:
		return "WriteSerializable"
	case SnapshotIsolation:
		return "SnapshotIsolation"
	}
	return "Serializable"
}

// isolation is the level that is in force: what changes no rows needs no more than to
// see one version.
func (x *Transaction) isolation() string {
	if !x.DataChange() && len(x.commit.Adds)+len(x.commit.Removes) > 0 {
		return SnapshotIsolation.String()
	}
	return x.Isolation.String()
}

// Reads says what a transaction was planned on.
type Reads struct {
	// Files were read, live at the base.
	Files []action.FileKey
	// All says that every file was.
	All bool
	// Apps are the applications whose newest txn was read.
	Apps []string
	// Match reports whether a file may have rows that would have been read, had it been
	// there; nil: none has.
	Match func(*action.Add) bool
}

// maxRecent bounds how many commits a snapshot remembers for Rebase.
const maxRecent = 64

func summarize(version int64, c *action.Commit) summary {
	info := action.ParseInfo(c.Info)
	s := summary{
		version: version, txnID: info.TxnID, operation: info.Operation,
		metadata: c.Metadata != nil, protocol: c.Protocol != nil, blind: info.IsBlindAppend,
	}
	for _, t := range c.Txns {
		s.apps = append(s.apps, t.AppID)
	}
	for _, d := range c.Domains {
		s.domains = append(s.domains, d.Domain)
	}
	for _, a := range c.Adds {
		if a.DataChange {
			s.dataChange = true
			s.added = append(s.added, a)
		}
	}
	if len(c.Removes) > 0 {
		s.removed = make(map[action.FileKey]bool, len(c.Removes))
	}
	for _, r := range c.Removes {
		s.dataChange = s.dataChange || r.DataChange
		s.removed[r.Key()] = true
	}
	return s
}

// between gives the commits after version up to s, or false where s does not
// know all of them.
func (s *Snapshot) between(version int64) ([]summary, bool) {
	n := s.version - version
	if n < 0 || n > int64(len(s.recent)) {
		return nil, false
	}
	return s.recent[int64(len(s.recent))-n:], true
}

// conflict names the rule by which the transaction can't follow the winner, ""
// for none.
func (x *Transaction) conflict(winner *summary) Rule {
	switch {
	case winner.txnID != "" && winner.txnID == x.txnID:
		return RuleOwnCommit
	case winner.protocol:
		return RuleProtocol
	case winner.metadata:
		return RuleMetadata
	case winner.dataChange && x.reads == nil:
		return RuleData
	}
	for _, t := range x.commit.Txns {
		if slices.Contains(winner.apps, t.AppID) {
			return RuleTxn
		}
	}
	for _, d := range x.commit.Domains {
		if slices.Contains(winner.domains, d.Domain) {
			return RuleDomain
		}
	}
	for _, r := range x.commit.Removes {
		if winner.removed[r.Key()] {
			return RuleFile
		}
	}
	if x.reads != nil {
		return x.reads.conflict(winner, x.Isolation)
	}
	return ""
}

// conflict names the rule by which what was read is not what a transaction after the
// winner would have read.
func (r *Reads) conflict(winner *summary, isolation Isolation) Rule {
	for _, app := range r.Apps {
		if slices.Contains(winner.apps, app) {
			return RuleTxn
		}
	}
	if r.All && len(winner.removed) > 0 {
		return RuleRead
	}
	for _, key := range r.Files {
		if winner.removed[key] {
			return RuleRead
		}
	}
	if isolation == SnapshotIsolation || isolation == WriteSerializable && winner.blind {
		return ""
	}
	if r.All && len(winner.added) > 0 || r.Match != nil && slices.ContainsFunc(winner.added, r.Match) {
		return RuleAdded
	}
	return ""
}

// Rebase puts the transaction on a newer snapshot, as Update or a Conflict gives
// it, so that it can be committed again. That is right only where the commits
// between left alone everything the transaction was planned on; else the error
// is a *ConflictError and the transaction stays as it was.
func (x *Transaction) Rebase(newer *Snapshot) error {
	if x.base == nil {
		return &ConflictError{newer.version, "", RuleMetadata} // someone else created the table
	}
	winners, known := newer.between(x.base.version)
	if !known {
		return &ConflictError{newer.version, "", RuleUnknown}
	}
	for i := range winners {
		if rule := x.conflict(&winners[i]); rule != "" {
			return &ConflictError{winners[i].version, winners[i].operation, rule}
		}
	}
	x.base = newer
	return nil
}
