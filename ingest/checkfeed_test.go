package ingest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/savepoint"
)

// checkFeed compares the change data of a version with the rows of that version and of
// the one before: it must be the whole difference, one change a key.
func checkFeed(ctx context.Context, table *delta.Table, version int64, c *action.Commit) error {
	snap, err := table.SnapshotAt(ctx, version)
	if err != nil {
		return err
	}
	if on, _ := snap.Property(delta.PropertyChangeDataFeed); on != "true" {
		return nil
	}
	settings, err := savepoint.SettingsOf(snap)
	if err != nil {
		return err
	}
	is, err := rowsOf(table.Store(), snap)
	if err != nil {
		return err
	}
	rows := map[string]int{}
	if version > 0 {
		before, err := table.SnapshotAt(ctx, version-1)
		if errors.Is(err, delta.ErrVersionNotFound) {
			return nil // its log is cleaned away
		}
		if err != nil {
			return err
		}
		// A rollback takes columns away too: its changes have the columns that stay.
		was, err := rowsOf(table.Store(), before, snap.Schema().Names()...)
		if err != nil {
			return err
		}
		for _, r := range was {
			rows[r]++
		}
	}
	changes, err := changesOf(ctx, table, snap, settings.Key)
	if err != nil {
		return err
	}
	kinds := map[string][]string{} // by key
	counts := map[string]int{}
	for _, ch := range changes {
		kinds[ch.key] = append(kinds[ch.key], ch.kind)
		counts[ch.kind]++
		if ch.kind == scan.Delete || ch.kind == scan.UpdatePreimage {
			if rows[ch.row] == 0 {
				return fmt.Errorf("change data has the %s %s, and version %d has no such row", ch.kind, ch.row, version-1)
			}
			rows[ch.row]--
		}
	}
	for _, ch := range changes {
		if ch.kind == scan.Insert || ch.kind == scan.UpdatePostimage {
			rows[ch.row]++
		}
	}
	for _, r := range is {
		rows[r]--
	}
	for r, n := range rows {
		if n != 0 {
			return fmt.Errorf("change data leaves %d of the row %s too many", n, r)
		}
	}
	lacks := func(name string) bool { return snap.Schema().Index(name) < 0 }
	if slices.ContainsFunc(settings.Key, lacks) { // before the first row
		kinds = nil
	}
	for key, list := range kinds {
		slices.Sort(list)
		if len(list) > 1 && !slices.Equal(list, []string{scan.UpdatePostimage, scan.UpdatePreimage}) {
			return fmt.Errorf("change data has %v of the key %q", list, key)
		}
	}
	return checkFeedMetrics(c, counts)
}

// checkFeedMetrics compares the counts of the commit with its change data.
func checkFeedMetrics(c *action.Commit, counts map[string]int) error {
	var info struct {
		Metrics map[string]string `json:"operationMetrics"`
	}
	if err := json.Unmarshal(c.Info, &info); err != nil {
		return err
	}
	for metric, kind := range map[string]string{
		"numTargetRowsInserted": scan.Insert, "numTargetRowsUpdated": scan.UpdatePostimage, "numTargetRowsDeleted": scan.Delete,
	} {
		if text, ok := info.Metrics[metric]; ok && text != strconv.Itoa(counts[kind]) {
			return fmt.Errorf("%s is %s, the change data has %d", metric, text, counts[kind])
		}
	}
	return nil
}

// rowChanged is a row of change data as text.
type rowChanged struct{ kind, key, row string }

func changesOf(ctx context.Context, table *delta.Table, snap *delta.Snapshot, key []string) (list []rowChanged, err error) {
	for b, err := range scan.Changes(ctx, table, snap.Version(), snap.Version(), nil) {
		if err != nil {
			return nil, err
		}
		for r := range b.Rows {
			row, keyText := map[string]string{}, ""
			for i, f := range snap.Schema().Fields {
				cell := b.Columns[i][r]
				if slices.Contains(key, f.Name) {
					keyText += string(cell.AppendEncoded(nil))
				}
				if !cell.IsNull() {
					row[f.Name] = string(output.AppendJSON(nil, f.Type, cell))
				}
			}
			list = append(list, rowChanged{b.Kinds[r], keyText, rowText(row)})
		}
	}
	return list, nil
}

// onlySwitchesOn reports a commit that only switches change data on.
func onlySwitchesOn(c *action.Commit) bool {
	return c.Metadata != nil && c.Metadata.Configuration[delta.PropertyChangeDataFeed] == "true" && len(c.Adds)+len(c.Removes)+len(c.CDC) == 0
}
