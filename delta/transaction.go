package delta

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/selfsum"
)

// OwnVersion as the version of a txn stands for the version that the
// transaction is committed as.
const OwnVersion = int64(math.MinInt64)

// Transaction gathers the actions of a commit. It is used by one goroutine, and
// committed once; after a Conflict it may be put on a newer snapshot (Rebase)
// and committed again. Actions given to it must not change any more.
type Transaction struct {
	// IsBlindAppend says that nothing was read to make the transaction.
	IsBlindAppend bool
	// AbsolutePaths lets the transaction add files outside of the root, as a shallow
	// clone does. Without it only those that are live already may be added again.
	AbsolutePaths bool
	// Restates lets the transaction add a live file again, under the same deletion vector,
	// with another size or other statistics. No row changes by that.
	Restates bool
	// KeepsRowNumbers says that rows which the transaction moves or changes keep their
	// numbers (RowTracking). Without it that is told only where no row does.
	KeepsRowNumbers bool
	// Isolation says which commits the transaction may follow; see Rebase.
	Isolation Isolation

	table  *Table
	base   *Snapshot
	commit action.Commit
	txnID  string

	reads       *Reads
	implemented []string

	operation  string
	parameters map[string]string
	metrics    map[string]string
	extra      map[string]any
	done       bool
}

// NewTransaction starts a commit on top of base; nil creates the table.
func NewTransaction(table *Table, base *Snapshot) *Transaction {
	return &Transaction{table: table, base: base, txnID: uuid.NewString(), operation: "WRITE"}
}

// Base gives the snapshot that the transaction is on; nil for one that creates the table.
func (x *Transaction) Base() *Snapshot { return x.base }

// TxnID is the identity of the transaction, as commitInfo.txnId tells it.
func (x *Transaction) TxnID() string { return x.txnID }

// Add makes a data file part of the table.
func (x *Transaction) Add(a *action.Add) { x.commit.Adds = append(x.commit.Adds, a) }

// Remove ends the life of a live file; see RemoveOf.
func (x *Transaction) Remove(r *action.Remove) { x.commit.Removes = append(x.commit.Removes, r) }

// AddCDC names a file of change data.
func (x *Transaction) AddCDC(f *action.CDC) { x.commit.CDC = append(x.commit.CDC, f) }

// SetMetadata replaces the table's metadata.
func (x *Transaction) SetMetadata(m action.Metadata) { x.commit.Metadata = &m }

// SetProtocol replaces the table's protocol.
func (x *Transaction) SetProtocol(p action.Protocol) { x.commit.Protocol = &p }

// SetTxn records a version of an application; of two calls for one AppID the
// later one counts.
func (x *Transaction) SetTxn(appID string, version int64) {
	for i := range x.commit.Txns {
		if x.commit.Txns[i].AppID == appID {
			x.commit.Txns[i].Version = version
			return
		}
	}
	x.commit.Txns = append(x.commit.Txns, action.Txn{AppID: appID, Version: version})
}

// SetReads says what the transaction was planned on, so that Rebase may put it behind
// commits that left that alone. Without it any change of rows is a conflict.
func (x *Transaction) SetReads(r Reads) { x.reads = &r }

// Implements names features whose rules the caller keeps in what it writes, so that
// tables that use them may be written: constraints, generated columns, column mapping.
func (x *Transaction) Implements(features ...string) {
	x.implemented = append(x.implemented, features...)
}

// SetDomain writes a metadata domain, or ends it. The table must list domainMetadata.
func (x *Transaction) SetDomain(d action.DomainMetadata) {
	x.commit.Domains = slices.DeleteFunc(x.commit.Domains, func(o action.DomainMetadata) bool { return o.Domain == d.Domain })
	x.commit.Domains = append(x.commit.Domains, d)
}

// SetCommitInfo says what the commit is. extra holds further keys of commitInfo
// (json.RawMessage values are taken as they are, on one line); the keys that the
// transaction writes itself win. nil maps are empty.
func (x *Transaction) SetCommitInfo(operation string, parameters, metrics map[string]string, extra map[string]any) {
	x.operation, x.parameters, x.metrics, x.extra = operation, parameters, metrics, extra
}

// DataChange reports whether any file action changes rows.
func (x *Transaction) DataChange() bool {
	return slices.ContainsFunc(x.commit.Adds, func(a *action.Add) bool { return a.DataChange }) ||
		slices.ContainsFunc(x.commit.Removes, func(r *action.Remove) bool { return r.DataChange })
}

// version is the version that a commit on the base gets.
func (x *Transaction) version() int64 {
	if x.base == nil {
		return 0
	}
	return x.base.version + 1
}

// build gives the commit as it is written now.
func (x *Transaction) build(ctx context.Context, now time.Time) (*action.Commit, error) {
	c := x.commit
	c.Txns = slices.Clone(c.Txns)
	stamp := now.UnixMilli()
	for i := range c.Txns {
		if c.Txns[i].Version == OwnVersion {
			c.Txns[i].Version = x.version()
		}
		c.Txns[i].LastUpdated = &stamp
	}
	at, err := x.inCommitTimestamp(ctx, now)
	if err != nil {
		return nil, err
	}
	x.enableInCommit(&c, at)
	if err := x.numberRows(&c); err != nil {
		return nil, err
	}
	c.Info, err = x.info(now, at)
	return &c, err
}

// info writes the commitInfo object: the protocol's customary keys in their
// customary order, then the extra ones.
func (x *Transaction) info(now time.Time, inCommit int64) (json.RawMessage, error) {
	out := []byte{'{'}
	written := map[string]bool{}
	var fault error
	put := func(key string, value any) {
		raw, err := json.Marshal(value)
		if err != nil {
			fault = fmt.Errorf("%w: commitInfo.%s: %w", ErrInvalidTransaction, key, err)
			return
		}
		if written[key] {
			return
		}
		if written[key] = true; len(out) > 1 {
			out = append(out, ',')
		}
		out = append(action.AppendString(out, key), ':')
		out = append(out, raw...)
	}
	orEmpty := func(m map[string]string) map[string]string {
		if m == nil {
			return map[string]string{}
		}
		return m
	}
	if inCommit > 0 {
		put("inCommitTimestamp", inCommit)
	}
	put("timestamp", now.UnixMilli())
	put("operation", x.operation)
	put("operationParameters", orEmpty(x.parameters))
	if x.base != nil {
		put("readVersion", x.base.version)
	}
	put("isolationLevel", x.isolation())
	put("isBlindAppend", x.IsBlindAppend)
	put("operationMetrics", orEmpty(x.metrics))
	put("engineInfo", x.table.engine)
	put("txnId", x.txnID)
	if x.tracksRows() {
		put("tags", map[string]string{"delta.rowTracking.preserved": strconv.FormatBool(x.keepsRowNumbers())})
	}
	for _, key := range sortedKeys(x.extra) {
		if key != selfsum.Member {
			put(key, x.extra[key])
		}
	}
	put(selfsum.Member, selfsum.Zeros) // Commit knows the rest of the bytes
	return append(out, '}'), fault
}

// validate finds what would make the commit illegal. The error wraps
// ErrInvalidTransaction or ErrUnsupportedFeature.
func (x *Transaction) validate() error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrInvalidTransaction}, args...)...)
	}
	protocol, metadata := x.commit.Protocol, x.commit.Metadata
	implemented := slices.Concat(x.table.implemented, x.implemented)
	var columns *schema.Schema
	if x.base != nil {
		// The rules in force bind also the commit that changes them.
		if err := checkWritable(x.base.protocol, x.base.metadata, x.base.schema, implemented); err != nil {
			return err
		}
		columns = x.base.schema
		if protocol == nil {
			protocol = x.base.protocol
		}
		if metadata == nil {
			metadata = x.base.metadata
		}
	}
	if protocol == nil || metadata == nil {
		return invalid("a new table needs metadata and protocol")
	}
	if x.commit.Metadata != nil {
		var err error
		if columns, err = parseSchema(protocol, metadata); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidTransaction, err)
		}
		if metadata.ID == "" {
			return invalid("metadata without an id")
		}
		for _, name := range metadata.PartitionColumns {
			if columns.Index(name) < 0 {
				return invalid("partition column %q is not in the schema", name)
			}
		}
	}
	if x.commit.Protocol != nil || x.commit.Metadata != nil {
		if err := checkReadable(protocol, metadata); err != nil {
			return err
		}
		if err := checkWritable(protocol, metadata, columns, implemented); err != nil {
			return err
		}
		if err := checkFeatures(protocol, metadata, columns); err != nil {
			return err
		}
	}
	if len(x.commit.Domains) > 0 && !slices.Contains(FeaturesOf(protocol), FeatureDomainMetadata) {
		return invalid("a metadata domain on a table without the feature %s", FeatureDomainMetadata)
	}
	return x.validateFiles(protocol, metadata, columns)
}

// checkFeatures asks that what metadata and schema use is in the protocol.
func checkFeatures(p *action.Protocol, m *action.Metadata, s *schema.Schema) error {
	have := FeaturesOf(p)
	missing := func(feature, why string) error {
		return fmt.Errorf("%w: %s, but the protocol lacks the feature %s (WithFeatures)", ErrInvalidTransaction, why, feature)
	}
	if slices.ContainsFunc(s.Fields, func(f schema.Field) bool { return usesNTZ(f.Type) }) && !slices.Contains(have, FeatureTimestampNTZ) {
		return missing(FeatureTimestampNTZ, "a column is a timestamp_ntz")
	}
	for property, feature := range map[string]string{
		PropertyDeletionVectors: FeatureDeletionVectors, PropertyChangeDataFeed: FeatureChangeDataFeed, PropertyAppendOnly: FeatureAppendOnly,
		PropertyTypeWidening: FeatureTypeWidening, propertyInCommit: FeatureInCommitTimestamp,
	} {
		if m.Configuration[property] == "true" && !slices.Contains(have, feature) {
			return missing(feature, property+" is true")
		}
	}
	if m.Configuration[PropertyCheckpointPolicy] == "v2" && !slices.Contains(have, FeatureV2Checkpoint) {
		return missing(FeatureV2Checkpoint, PropertyCheckpointPolicy+" is v2")
	}
	if p.MinReaderVersion == 3 && p.MinWriterVersion != 7 {
		return fmt.Errorf("%w: minReaderVersion 3 needs minWriterVersion 7", ErrInvalidTransaction)
	}
	for _, f := range p.ReaderFeatures {
		if !slices.Contains(p.WriterFeatures, f) {
			return fmt.Errorf("%w: reader feature %s is no writer feature", ErrInvalidTransaction, f)
		}
	}
	return nil
}

func (x *Transaction) validateFiles(p *action.Protocol, m *action.Metadata, columns *schema.Schema) error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrInvalidTransaction}, args...)...)
	}
	appendOnly := m.Configuration[PropertyAppendOnly] == "true" || x.base != nil && x.base.metadata.Configuration[PropertyAppendOnly] == "true"
	removed := make(map[string]bool, len(x.commit.Removes))
	for _, r := range x.commit.Removes {
		if x.base == nil || !x.base.has(r.Key()) {
			return invalid("remove of %q %s, which is not live", r.Path, r.DeletionVector.UniqueID())
		}
		if removed[r.Path] {
			return invalid("two removes of %q", r.Path)
		}
		if removed[r.Path] = true; r.DataChange && appendOnly {
			return invalid("remove of %q, but %s is true", r.Path, PropertyAppendOnly)
		}
	}
	vectors := slices.Contains(FeaturesOf(p), FeatureDeletionVectors)
	added := make(map[string]bool, len(x.commit.Adds))
	for _, a := range x.commit.Adds {
		if added[a.Path] {
			return invalid("two adds of %q", a.Path)
		}
		added[a.Path] = true
		if x.base != nil && !removed[a.Path] {
			if live, ok := x.base.File(a.Path); ok && !(x.Restates && !a.DataChange && a.Key() == live.Key()) {
				return invalid("add of %q, which is live, without its remove", a.Path)
			}
		}
		if err := x.checkPath(a.Path, removed[a.Path]); err != nil {
			return fmt.Errorf("%w: add: %w", ErrInvalidTransaction, err)
		}
		if a.Size < 0 {
			return invalid("add of %q: size %d", a.Path, a.Size)
		}
		if len(a.PartitionValues) != len(m.PartitionColumns) {
			return invalid("add of %q: %d partition values for %d partition columns", a.Path, len(a.PartitionValues), len(m.PartitionColumns))
		}
		for _, name := range m.PartitionColumns {
			if i := columns.Index(name); i >= 0 {
				name = columns.Fields[i].Stored()
			}
			if _, ok := a.PartitionValues[name]; !ok {
				return invalid("add of %q: no value of partition column %q", a.Path, name)
			}
		}
		if a.DeletionVector == nil {
			continue
		}
		if !vectors {
			return invalid("add of %q with a deletion vector, but the protocol lacks the feature %s", a.Path, FeatureDeletionVectors)
		}
		if !strings.Contains(a.Stats, `"numRecords"`) {
			return invalid("add of %q with a deletion vector, but without stats.numRecords", a.Path)
		}
	}
	for _, f := range x.commit.CDC {
		if _, err := action.Key(f.Path); err != nil {
			return fmt.Errorf("%w: cdc: %w", ErrInvalidTransaction, err)
		}
	}
	return nil
}

// checkPath refuses a path that can't be read, and an absolute one that is new here.
func (x *Transaction) checkPath(path string, live bool) error {
	_, err := action.Key(path)
	if errors.Is(err, ErrAbsolutePath) && (live || x.AbsolutePaths) {
		_, err = action.AbsolutePath(path)
	}
	return err
}
