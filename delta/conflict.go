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
}

// maxRecent bounds how many commits a snapshot remembers for Rebase.
const maxRecent = 64

func summarize(version int64, c *action.Commit) summary {
	info := action.ParseInfo(c.Info)
	s := summary{
		version: version, txnID: info.TxnID, operation: info.Operation,
		metadata: c.Metadata != nil, protocol: c.Protocol != nil,
	}
	for _, t := range c.Txns {
		s.apps = append(s.apps, t.AppID)
	}
	for _, d := range c.Domains {
		s.domains = append(s.domains, d.Domain)
	}
	for _, a := range c.Adds {
		s.dataChange = s.dataChange || a.DataChange
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
	case winner.dataChange:
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
