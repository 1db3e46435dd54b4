package delta

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/stats"
)

// Properties and domains of what a commit is stamped with.
const (
	propertyInCommit          = "delta.enableInCommitTimestamps"
	propertyInCommitVersion   = "delta.inCommitTimestampEnablementVersion"
	propertyInCommitTimestamp = "delta.inCommitTimestampEnablementTimestamp"
	propertyRowTrackingOff    = "delta.rowTrackingSuspended"
	domainRowTracking         = "delta.rowTracking"
)

// effective gives protocol and metadata as they are after the transaction.
func (x *Transaction) effective() (p *action.Protocol, m *action.Metadata) {
	p, m = x.commit.Protocol, x.commit.Metadata
	if x.base != nil {
		if p == nil {
			p = x.base.protocol
		}
		if m == nil {
			m = x.base.metadata
		}
	}
	return p, m
}

// inCommitTimestamp gives the time that the commit must carry, later than that of the
// version before ("In-Commit Timestamps"); 0 where the table has none.
func (x *Transaction) inCommitTimestamp(ctx context.Context, now time.Time) (int64, error) {
	p, m := x.effective()
	if m.Configuration[propertyInCommit] != "true" || !slices.Contains(FeaturesOf(p), FeatureInCommitTimestamp) {
		return 0, nil
	}
	at := now.UnixMilli()
	if x.base == nil || x.base.metadata.Configuration[propertyInCommit] != "true" {
		return at, nil
	}
	info, err := x.table.CommitInfo(ctx, x.base.version)
	if err != nil {
		return 0, fmt.Errorf("in-commit timestamp: %w", err)
	}
	if before := action.ParseInfo(info).InCommitTimestamp; before != nil {
		at = max(at, *before+1)
	}
	return at, nil
}

// enableInCommit says in the metadata from which version on commits have timestamps,
// where the table had none from its first one on.
func (x *Transaction) enableInCommit(c *action.Commit, at int64) {
	if at == 0 || x.base == nil || c.Metadata == nil || x.base.metadata.Configuration[propertyInCommit] == "true" {
		return
	}
	m := *c.Metadata
	m.Configuration = maps.Clone(m.Configuration)
	m.Configuration[propertyInCommitVersion] = strconv.FormatInt(x.version(), 10)
	m.Configuration[propertyInCommitTimestamp] = strconv.FormatInt(at, 10)
	c.Metadata = &m
}

// tracksRows reports whether every file must have numbers for its rows ("Row Tracking").
func (x *Transaction) tracksRows() bool {
	p, m := x.effective()
	return slices.Contains(FeaturesOf(p), FeatureRowTracking) && m.Configuration[propertyRowTrackingOff] != "true"
}

// keepsRowNumbers reports whether every row that was there has its number still.
func (x *Transaction) keepsRowNumbers() bool {
	return x.KeepsRowNumbers || x.IsBlindAppend || !slices.ContainsFunc(x.commit.Adds, func(a *action.Add) bool { return a.BaseRowID == nil })
}

// highWaterMark is the configuration of domainRowTracking.
type highWaterMark struct {
	RowID int64 `json:"rowIdHighWaterMark"`
}

// numberRows gives the rows of files that have no numbers the next ones. The error wraps
// ErrInvalidTransaction, or ErrCorrupt where the log's mark can't be read.
func (x *Transaction) numberRows(c *action.Commit) error {
	if !x.tracksRows() {
		return nil
	}
	mark := highWaterMark{-1}
	if x.base != nil {
		if d, ok := x.base.domains.get(domainRowTracking); ok {
			if err := json.Unmarshal([]byte(d.Configuration), &mark); err != nil {
				return fmt.Errorf("%w: domain %s: %w", ErrCorrupt, domainRowTracking, err)
			}
		}
	}
	before := mark
	version := x.version()
	c.Adds = slices.Clone(c.Adds)
	for _, a := range c.Adds {
		if a.BaseRowID != nil { // of a version that was restored, below the mark, or of a table that is cloned
			rows, _ := stats.NumRecords(a.Stats)
			mark.RowID = max(mark.RowID, *a.BaseRowID+max(rows, 1)-1)
		}
	}
	for i, a := range c.Adds {
		if a.BaseRowID != nil && a.DefaultRowCommitVersion != nil {
			continue
		}
		numbered := *a
		if a.BaseRowID == nil {
			rows, known := stats.NumRecords(a.Stats)
			if !known {
				return fmt.Errorf("%w: add of %q without stats.numRecords on a table with the feature %s", ErrInvalidTransaction, a.Path, FeatureRowTracking)
			}
			first := mark.RowID + 1
			numbered.BaseRowID = &first
			mark.RowID += rows
		}
		if a.DefaultRowCommitVersion == nil {
			numbered.DefaultRowCommitVersion = &version
		}
		c.Adds[i] = &numbered
	}
	if mark == before {
		return nil
	}
	raw, err := json.Marshal(mark)
	c.Domains = append(slices.Clone(c.Domains), action.DomainMetadata{Domain: domainRowTracking, Configuration: string(raw)})
	return err
}
