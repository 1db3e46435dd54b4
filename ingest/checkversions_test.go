package ingest_test

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
)

// walk goes through the versions since the last walk: P2 (one label a version,
// never down but at a rollback) and P3 (every record taken has one fate).
func (tr *trial) walk() error {
	table, err := delta.Open(ctx, tr.store)
	if err != nil {
		return nil // no table yet
	}
	newest := tr.newest()
	_, all := tr.m.states()
	at := map[change.PartitionID]map[int64]label{}
	for _, v := range all {
		id := change.PartitionID{Topic: "t", Partition: v.record.Partition}
		if at[id] == nil {
			at[id] = map[int64]label{}
		}
		at[id][v.record.Offset] = v.at
	}
	var before *progress.Progress
	for v := tr.checked; v >= 0 && before == nil; v-- { // one that switches change data on has none
		before, err = progressAt(table, v)
		if errors.Is(err, delta.ErrVersionNotFound) {
			break // its log is cleaned away
		}
		if err != nil {
			return err
		}
	}
	for v := tr.checked + 1; v <= newest; v++ {
		c, err := table.Commit(ctx, v)
		if errors.Is(err, delta.ErrVersionNotFound) {
			continue // a vacuum beside has cleaned it away
		}
		if err != nil {
			return err
		}
		if err := checkFeed(ctx, table, v, c); err != nil && !tr.others[v] && v > tr.vacuumed { // they write none
			return fmt.Errorf("version %d: %w", v, err)
		}
		p, err := progress.Decode(c.Info)
		if err == nil && p == nil && (onlySwitchesOn(c) || tr.others[v] || movesOnly(c) || recordsChecksum(c)) {
			continue
		}
		if err != nil || p == nil {
			return fmt.Errorf("version %d: progress %v, %w: %s", v, p, err, c.Info)
		}
		if err := tr.checkVersion(c, p, before, at, v <= tr.vacuumed); err != nil {
			return fmt.Errorf("version %d (%s of %s): %w", v, p.Kind, p.Label, err)
		}
		before = p
	}
	tr.checked = newest
	return nil
}

func progressAt(table *delta.Table, v int64) (*progress.Progress, error) {
	info, err := table.CommitInfo(ctx, v)
	if err != nil {
		return nil, err
	}
	return progress.Decode(info)
}

// checkVersion compares a version with its own progress and the one before. gone tells
// that its files may have been vacuumed.
func (tr *trial) checkVersion(c *action.Commit, p, before *progress.Progress, at map[change.PartitionID]map[int64]label, gone bool) error {
	if n := p.Totals.Missing(); n != 0 {
		return fmt.Errorf("P3: %d records without a fate: %+v", n, p.Totals)
	}
	var offsets, taken, held int64
	for _, part := range p.State.Partitions {
		offsets += part.Next - part.Start
		for _, e := range tr.events {
			if r := e.record; r.Partition == part.Kafka && r.Offset >= part.Start && r.Offset < part.Next {
				taken++
			}
		}
	}
	for _, f := range p.Held {
		held += f.Count - f.Applied
	}
	if p.Totals.Taken != taken || p.Totals.Holes != offsets-taken || p.Totals.Held != held {
		return fmt.Errorf("P3: %+v, but %d records of %d offsets were taken, and %d are held", p.Totals, taken, offsets, held)
	}
	changes := slices.ContainsFunc(c.Adds, func(a *action.Add) bool { return a.DataChange }) ||
		slices.ContainsFunc(c.Removes, func(r *action.Remove) bool { return r.DataChange })
	if changes && p.Kind != progress.Batch && p.Kind != progress.Rollback {
		return errors.New("P2: it changes data")
	}
	if name := tr.name(p.State.Open); p.Label != name {
		return fmt.Errorf("P2: the open label is %s", name)
	}
	if before != nil && p.Kind != progress.Rollback && p.State.Open < before.State.Open {
		return fmt.Errorf("P2: the version before is of %s", before.Label)
	}
	if p.Kind != progress.Batch || gone {
		return nil
	}
	return tr.checkFiles(c, p, at)
}

// movesOnly tells a commit of gscd that moves rows and changes none.
func movesOnly(c *action.Commit) bool {
	info := action.ParseInfo(c.Info)
	return (info.Operation == "OPTIMIZE" || info.Operation == "REORG") && !slices.ContainsFunc(c.Adds, func(a *action.Add) bool { return a.DataChange }) &&
		!slices.ContainsFunc(c.Removes, func(r *action.Remove) bool { return r.DataChange })
}

// checkFiles reads of every new file which changes its rows come of, dead ones too.
func (tr *trial) checkFiles(c *action.Commit, p *progress.Progress, at map[change.PartitionID]map[int64]label) error {
	old := map[string]bool{}
	for _, r := range c.Removes {
		old[r.Path] = true
	}
	for _, a := range c.Adds {
		if old[a.Path] {
			continue
		}
		key, err := action.Key(a.Path)
		if err != nil {
			return err
		}
		data, err := tr.store.Get(ctx, key)
		if err != nil {
			return err
		}
		f, err := parquet.OpenBytes(data)
		if err != nil {
			return err
		}
		for b, err := range f.Scan(ctx, ingest.Hidden[:2], parquet.ScanOptions{}) {
			if err != nil {
				return err
			}
			for i := range b.Rows {
				if (b.Columns[0][i].IsNull() || b.Columns[1][i].I < 0) && len(tr.others) > 0 {
					continue // another engine has written it, and a copy keeps that
				}
				id := change.PartitionID{Topic: "t", Partition: int32(b.Columns[0][i].I)}
				l, judged := at[id][b.Columns[1][i].I]
				if !judged || l > p.State.Open || l < p.State.Open && !tr.o.CopyOnWrite {
					return fmt.Errorf("P2: it holds %s@%d, which is of label %s", id, b.Columns[1][i].I, tr.name(l))
				}
			}
		}
	}
	return nil
}

// recordsChecksum tells a commit that holds nothing but checksums.
func recordsChecksum(c *action.Commit) bool {
	return action.ParseInfo(c.Info).Operation == "CHECKSUM" && len(c.Adds)+len(c.Removes) == 0 && c.Metadata == nil && c.Protocol == nil
}
