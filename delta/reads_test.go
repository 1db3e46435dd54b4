package delta_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
)

// What a transaction says that it read decides which commits it may follow.
func TestRebaseByReads(t *testing.T) {
	file := func(s *delta.Snapshot, path string) *action.Add {
		a, ok := s.File(path)
		if !ok {
			t.Fatalf("no %s", path)
		}
		return a
	}
	remove := func(path string, dataChange bool) func(*delta.Snapshot, *delta.Transaction) {
		return func(s *delta.Snapshot, x *delta.Transaction) {
			x.Remove(delta.RemoveOf(file(s, path), time.UnixMilli(1), dataChange))
		}
	}
	vector := func(path string) func(*delta.Snapshot, *delta.Transaction) {
		return func(s *delta.Snapshot, x *delta.Transaction) {
			x.Remove(delta.RemoveOf(file(s, path), time.UnixMilli(1), true))
			x.Add(withVector(file(s, path), 1))
		}
	}
	append1 := func(blind bool) func(*delta.Snapshot, *delta.Transaction) {
		return func(_ *delta.Snapshot, x *delta.Transaction) { x.Add(add("new")); x.IsBlindAppend = blind }
	}
	compact := func(s *delta.Snapshot, x *delta.Transaction) {
		remove("b", false)(s, x)
		quiet := add("b2")
		quiet.DataChange = false
		x.Add(quiet)
	}
	readA := func(s *delta.Snapshot) delta.Reads { return delta.Reads{Files: []action.FileKey{file(s, "a").Key()}} }
	readAll := func(*delta.Snapshot) delta.Reads { return delta.Reads{All: true} }
	nothing := func(*delta.Snapshot) delta.Reads { return delta.Reads{} }
	wouldMatch := func(s *delta.Snapshot) delta.Reads {
		r := readA(s)
		r.Match = func(a *action.Add) bool { return a.Path == "new" }
		return r
	}
	for name, c := range map[string]struct {
		ours      func(*delta.Snapshot, *delta.Transaction)
		reads     func(*delta.Snapshot) delta.Reads
		isolation delta.Isolation
		winner    func(*delta.Snapshot, *delta.Transaction)
		rule      delta.Rule
	}{
		"append, append":                         {nil, nothing, 0, append1(true), ""},
		"append, delete":                         {nil, nothing, 0, remove("a", true), ""},
		"append, compaction":                     {nil, nothing, 0, compact, ""},
		"read a, delete b":                       {remove("a", true), readA, 0, remove("b", true), ""},
		"read a, delete a":                       {nil, readA, 0, remove("a", true), delta.RuleRead},
		"read a, vector on a":                    {nil, readA, 0, vector("a"), delta.RuleRead},
		"two vectors on a":                       {vector("a"), readA, 0, vector("a"), delta.RuleFile},
		"vector on a, rewrite of a":              {vector("a"), nothing, 0, remove("a", false), delta.RuleFile},
		"two rewrites of a":                      {remove("a", true), nothing, 0, remove("a", true), delta.RuleFile},
		"read a, append elsewhere":               {remove("a", true), readA, 0, append1(true), ""},
		"filter, append that matches":            {remove("a", true), wouldMatch, delta.Serializable, append1(true), delta.RuleAdded},
		"filter, blind append, write ser.":       {remove("a", true), wouldMatch, delta.WriteSerializable, append1(true), ""},
		"filter, append that read, write ser.":   {remove("a", true), wouldMatch, delta.WriteSerializable, append1(false), delta.RuleAdded},
		"filter, append, no rows of ours change": {nil, wouldMatch, delta.SnapshotIsolation, append1(false), ""},
		"filter, compaction of another file":     {remove("a", true), wouldMatch, 0, compact, ""},
		"all, append":                            {nil, readAll, 0, append1(true), delta.RuleAdded},
		"all, append, write serializable":        {nil, readAll, delta.WriteSerializable, append1(true), ""},
		"all, delete":                            {nil, readAll, delta.WriteSerializable, remove("b", true), delta.RuleRead},
		"all, compaction":                        {nil, readAll, 0, compact, delta.RuleRead},
		"app that was read":                      {nil, func(*delta.Snapshot) delta.Reads { return delta.Reads{Apps: []string{"other"}} }, 0, func(_ *delta.Snapshot, x *delta.Transaction) { x.SetTxn("other", 3) }, delta.RuleTxn},
		"metadata":                               {nil, nothing, 0, func(_ *delta.Snapshot, x *delta.Transaction) { x.SetMetadata(metadata("table")) }, delta.RuleMetadata},
	} {
		t.Run(name, func(t *testing.T) {
			_, table, s := newTable(t, newClock())
			x := delta.NewTransaction(table, s)
			x.Add(add("a"))
			x.Add(add("b"))
			s = commit(t, x)
			ours := delta.NewTransaction(table, s)
			ours.Isolation = c.isolation
			ours.SetReads(c.reads(s))
			if c.ours != nil {
				c.ours(s, ours)
			}
			ours.SetTxn("ours", 1)
			winner := delta.NewTransaction(table, s)
			c.winner(s, winner)
			newer := commit(t, winner)
			err := ours.Rebase(newer)
			var conflict *delta.ConflictError
			if c.rule == "" && err == nil {
				if out := commit(t, ours); out.Version() != 3 {
					t.Errorf("%s", out)
				}
			} else if !errors.As(err, &conflict) || conflict.Rule != c.rule {
				t.Errorf("%v, want %q", err, c.rule)
			}
		})
	}
}
