package savepoint

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/snapshotter"
)

// Judge tells of each sealed label of the map whether a policy keeps its savepoint.
func (m *Map) Judge(policy Policy, now time.Time) []Verdict {
	newest := 1
	if m.Progress.Slices > 0 {
		newest = 2 // a corrected slice of the newest label begins at the one before it
	}
	return policy.Judge(m.Calendar, m.Entries, now, newest)
}

// errNothing ends an edit that would change nothing.
var errNothing = errors.New("nothing to do")

// maxDeletedOnce bounds the labels that one commit deletes: each is an action of its own,
// and named in the commitInfo.
const maxDeletedOnce = 10_000

// ApplyPolicy deletes the savepoints of labels that a policy does not keep, in a commit that
// names them and the policy; where they are very many, in some. Named savepoints, rolled-back
// ones that are still kept, and what is deleted already are not looked at. A conflict with a
// running ingester is tried again, by the map as it is then. It gives what was deleted, in
// rising order, and the version of the last commit, -1 for none. Files go with the next vacuum.
func ApplyPolicy(ctx context.Context, table *delta.Table, policy Policy, now time.Time) (deleted []Verdict, version int64, err error) {
	version = -1
	for {
		var going []Verdict
		parameters := map[string]string{"action": "retention", "policy": policy.Text}
		v, err := edit(ctx, table, "apply the retention policy "+policy.Text, parameters, func(_ *delta.Snapshot, m *Map, tx *delta.Transaction, p *progress.Progress) error {
			going = nil
			for _, verdict := range m.Judge(policy, now) {
				if !verdict.Keep && len(going) < maxDeletedOnce {
					going = append(going, verdict)
				}
			}
			if len(going) == 0 {
				return errNothing
			}
			parameters["labels"] = deleteByPolicy(tx, p, policy, going)
			return nil
		})
		if errors.Is(err, errNothing) {
			return deleted, version, nil
		}
		if err != nil {
			return deleted, version, err
		}
		deleted, version = append(deleted, going...), v
	}
}

// deleteByPolicy gives the names of what it deletes, as a list of JSON.
func deleteByPolicy(tx *delta.Transaction, p *progress.Progress, policy Policy, going []Verdict) string {
	names, labels := make([]string, len(going)), make([]snapshotter.Label, len(going))
	for i, v := range going {
		names[i], labels[i] = v.Name, v.Label
		tx.SetTxn(SealAppID(v.Name), gone(v.Version))
	}
	p.NoteDeletedByPolicy(policy.Text, labels)
	list, err := json.Marshal(names)
	if err != nil {
		panic("savepoint: " + err.Error()) // strings
	}
	return string(list)
}
