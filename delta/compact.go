package delta

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore"
)

// CompactLog writes what the commits of versions from..to come to, both included, as a
// log compaction file, which readers may take in their place; the commits stay. It is
// read back before it is told of. It gives the key; one that is there is left as it is.
// The error is a *VersionNotFoundError where a commit is gone. Commits that change
// nothing, not even a txn, need no file: the key is "" then.
func (t *Table) CompactLog(ctx context.Context, from, to int64) (string, error) {
	key := deltalog.CompactedKey(from, to)
	fault := func(err error) (string, error) {
		return "", fmt.Errorf("compact the log of %s, versions %d to %d: %w", t.store, from, to, err)
	}
	if from < 0 || to <= from {
		return fault(fmt.Errorf("%w: it takes at least two versions", ErrInvalidTransaction))
	}
	compacted := newCompaction()
	for c, err := range t.Commits(ctx, from, to) {
		if err != nil {
			return fault(err)
		}
		compacted.apply(c.Commit)
	}
	commit := compacted.commit()
	data := commit.Append(nil)
	if len(data) == 0 {
		return "", nil
	}
	if err := t.store.PutIfAbsent(ctx, key, data); err != nil && !errors.Is(err, objstore.ErrExist) {
		return fault(err)
	}
	back, err := t.store.Get(ctx, key)
	if err != nil {
		return fault(err)
	}
	got, err := action.Decode(back)
	if err == nil && (len(got.Adds) != len(commit.Adds) || len(got.Removes) != len(commit.Removes) || len(got.Txns) != len(commit.Txns) || len(got.Domains) != len(commit.Domains)) {
		err = fmt.Errorf("%w: it reads as another state", ErrCorrupt)
	}
	if err != nil {
		// A reader that took it would be led astray; the commits say the same without it.
		return fault(errors.Join(fmt.Errorf("read %s back: %w", key, err), t.store.Delete(ctx, key)))
	}
	return key, nil
}

// compaction is commits put together: of each key the last action stays, removes and
// ended domains too, since they take back what came before.
type compaction struct {
	protocol *action.Protocol
	metadata *action.Metadata
	txns     map[string]action.Txn
	domains  map[string]action.DomainMetadata
	adds     map[action.FileKey]*action.Add
	removes  map[action.FileKey]*action.Remove
	came     map[string]int // paths, in the order in which they became part of the table
}

func newCompaction() *compaction {
	return &compaction{
		txns: map[string]action.Txn{}, domains: map[string]action.DomainMetadata{},
		adds: map[action.FileKey]*action.Add{}, removes: map[action.FileKey]*action.Remove{}, came: map[string]int{},
	}
}

func (x *compaction) apply(c *action.Commit) {
	if c.Protocol != nil {
		x.protocol = c.Protocol
	}
	if c.Metadata != nil {
		x.metadata = c.Metadata
	}
	for _, t := range c.Txns {
		x.txns[t.AppID] = t
	}
	for _, d := range c.Domains {
		x.domains[d.Domain] = d
	}
	for _, r := range c.Removes {
		delete(x.adds, r.Key())
		x.removes[r.Key()] = r
	}
	for _, a := range c.Adds {
		delete(x.removes, a.Key())
		if _, ok := x.came[a.Path]; !ok {
			x.came[a.Path] = len(x.came)
		}
		x.adds[a.Key()] = a
	}
}

func (x *compaction) commit() *action.Commit {
	c := &action.Commit{Protocol: x.protocol, Metadata: x.metadata}
	for _, app := range slices.Sorted(maps.Keys(x.txns)) {
		c.Txns = append(c.Txns, x.txns[app])
	}
	for _, name := range slices.Sorted(maps.Keys(x.domains)) {
		c.Domains = append(c.Domains, x.domains[name])
	}
	c.Adds = slices.SortedFunc(maps.Values(x.adds), func(a, b *action.Add) int { return cmp.Compare(x.came[a.Path], x.came[b.Path]) })
	c.Removes = slices.SortedFunc(maps.Values(x.removes), func(a, b *action.Remove) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.DeletionVector.UniqueID(), b.DeletionVector.UniqueID()))
	})
	return c
}

// WriteChecksum writes the version checksum file of a snapshot: its size, number of
// files, protocol and metadata. Engines check what they read against it, so it is
// written of a snapshot alone, which is exact; txns and domains are left out. One that
// is there is left as it is. gscd writes none by itself.
func (t *Table) WriteChecksum(ctx context.Context, s *Snapshot) error {
	fault := func(err error) error {
		return fmt.Errorf("write the checksum of version %d of %s: %w", s.version, t.store, err)
	}
	commit, err := t.Commit(ctx, s.version)
	if err != nil {
		return fault(err)
	}
	var size int64
	for _, add := range s.Files() {
		size += add.Size
	}
	// The actions stand in it as in a commit.
	lines := strings.Split(strings.TrimSpace(string((&action.Commit{Protocol: s.protocol, Metadata: s.metadata}).Append(nil))), "\n")
	sum := map[string]any{"tableSizeBytes": size, "numFiles": s.numFiles, "numMetadata": 1, "numProtocol": 1}
	for _, line := range lines {
		var one map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			return fault(err)
		}
		if raw, ok := one["metaData"]; ok {
			sum["metadata"] = raw
		}
		if raw, ok := one["protocol"]; ok {
			sum["protocol"] = raw
		}
	}
	info := action.ParseInfo(commit.Info)
	if info.TxnID != "" {
		sum["txnId"] = info.TxnID
	}
	if info.InCommitTimestamp != nil {
		sum["inCommitTimestampOpt"] = *info.InCommitTimestamp
	}
	data, err := json.Marshal(sum)
	if err != nil {
		return fault(err)
	}
	if err := t.store.PutIfAbsent(ctx, deltalog.ChecksumKey(s.version), data); err != nil && !errors.Is(err, objstore.ErrExist) {
		return fault(err)
	}
	return nil
}
