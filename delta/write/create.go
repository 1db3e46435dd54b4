package write

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/schema"
)

// Definition says what a table to be made is like.
type Definition struct {
	Columns     []schema.Field
	PartitionBy []string
	// Properties are table properties, delta.feature.NAME = supported among them. The
	// protocol is the lowest that columns, properties and Features ask for.
	Properties        map[string]string
	Features          []string
	Name, Description string
}

// Column is a column that may be NULL, for Definition and AddColumn.
func Column(name string, t schema.Type) schema.Field {
	return schema.Field{Name: name, Type: t, Nullable: true}
}

// Create makes a table with the rows of a Source, none for the zero Source. The error
// wraps ErrExists where there is one.
func Create(ctx context.Context, table *delta.Table, d Definition, s Source, options ...Option) (Result, error) {
	return create(ctx, table, d, s, false, options)
}

// Replace makes a table, or gives one that is there other columns, properties and rows:
// older versions stay. Properties that the Definition does not name go.
func Replace(ctx context.Context, table *delta.Table, d Definition, s Source, options ...Option) (Result, error) {
	return create(ctx, table, d, s, true, options)
}

func create(ctx context.Context, table *delta.Table, d Definition, s Source, replace bool, list []Option) (Result, error) {
	op := newOperation(table, list)
	base, err := table.Snapshot(ctx)
	if errors.Is(err, delta.ErrNotATable) {
		base, err = nil, nil
	}
	for {
		if err != nil {
			op.clean(ctx)
			return op.result, err
		}
		if op.known(base) {
			op.result.Known, op.result.Version, op.result.Snapshot = true, base.Version(), base
			op.clean(ctx)
			return op.result, nil
		}
		if base != nil && !replace {
			op.clean(ctx)
			return op.result, fmt.Errorf("create %s: %w", table.Store(), ErrExists)
		}
		op.result.Attempts++
		var p *plan
		if p, err = op.planDefinition(ctx, base, d, s, replace); err != nil {
			err = fmt.Errorf("create %s: %w", table.Store(), err)
			continue
		}
		if op.o.app != "" {
			p.tx.SetTxn(op.o.app, op.o.version)
		}
		for app, version := range op.o.txns {
			p.tx.SetTxn(app, version)
		}
		newer, fault := op.commit(ctx, p)
		switch {
		case fault == nil && newer == nil:
			op.result.Committed, op.result.Counts = true, p.counts
			return op.result, nil
		case errors.Is(fault, objstore.ErrUnknownOutcome):
			return op.result, fault // what was stored may be part of the table
		case newer == nil || op.result.Attempts >= op.o.attempts:
			op.clean(ctx)
			return op.result, fault
		}
		base = newer
	}
}

// planDefinition plans to make a table of a definition, in place of base if there is one.
func (op *operation) planDefinition(ctx context.Context, base *delta.Snapshot, d Definition, s Source, replace bool) (*plan, error) {
	m, protocol, err := d.metadata(base)
	if err != nil {
		return nil, err
	}
	created := op.table.Now().UnixMilli()
	if m.CreatedTime == nil {
		m.CreatedTime = &created
	}
	mapped, err := mappedSchema(m)
	if err != nil {
		return nil, err
	}
	l, err := layoutOf(mapped, m)
	if err != nil {
		return nil, err
	}
	r := rulesOf(l)
	p := &plan{op: op, snapshot: base, layout: l, rules: r, began: time.Now()}
	p.tx = delta.NewTransaction(op.table, base)
	p.tx.Implements(implemented...)
	p.tx.SetMetadata(*m)
	if base == nil || !sameProtocol(&protocol, base.Protocol()) {
		p.tx.SetProtocol(protocol)
	}
	if base != nil {
		for _, a := range base.Files() {
			p.removeAll(a)
		}
		for _, d := range base.Domains() {
			if d.Domain == domainClustering { // by columns that are no more
				d.Removed = true
				p.tx.SetDomain(d)
			}
		}
	}
	p.tx.SetReads(delta.Reads{All: true})
	operation := "CREATE TABLE"
	if replace {
		operation = "CREATE OR REPLACE TABLE"
	}
	var metrics map[string]int64
	if s.rows != nil {
		operation += " AS SELECT"
		rows, err := p.source(ctx, s, false, nil)
		if err != nil {
			return nil, err
		}
		p.insert(rows)
		metrics = map[string]int64{"numFiles": p.counts.FilesAdded, "numOutputRows": p.counts.Inserted, "numOutputBytes": p.counts.BytesAdded}
	}
	p.info(operation, map[string]string{
		"isManaged": "false", "description": m.Description, "partitionBy": jsonText(m.PartitionColumns), "properties": jsonText(m.Configuration),
	}, metrics)
	return p, nil
}

const featurePrefix = "delta.feature."

// metadata gives metadata and protocol of a table of the definition. What base, which may
// be nil, has of protocol and of ids of columns stays.
func (d *Definition) metadata(base *delta.Snapshot) (*action.Metadata, action.Protocol, error) {
	m := &action.Metadata{
		ID: uuid.NewString(), Name: d.Name, Description: d.Description, Format: action.Format{Provider: "parquet"},
		PartitionColumns: []string{}, Configuration: map[string]string{},
	}
	protocol := delta.ProtocolFor()
	maxID := int32(0)
	if base != nil {
		m.ID, m.CreatedTime, protocol = base.Metadata().ID, base.Metadata().CreatedTime, *base.Protocol()
		maxID = maxColumnID(base.Metadata())
	}
	features := slices.Clone(d.Features)
	for key, value := range d.Properties {
		if name, ok := strings.CutPrefix(key, featurePrefix); ok {
			features = append(features, name)
			continue
		}
		m.Configuration[key] = value
	}
	if m.Configuration[delta.PropertyRowTracking] == "true" {
		m.Configuration[delta.PropertyRowIDColumn] = "_row-id-col-" + uuid.NewString()
		m.Configuration[delta.PropertyRowVersionColumn] = "_row-commit-version-col-" + uuid.NewString()
	}
	fields := bare(d.Columns)
	if mode := m.Configuration[delta.PropertyColumnMapping]; mode == "name" || mode == "id" {
		fields = assignIDs(fields, &maxID, base != nil) // older versions have the other names
	}
	if maxID > 0 {
		m.Configuration[delta.PropertyMaxColumnID] = strconv.Itoa(int(maxID))
	}
	s, err := schema.New(fields...)
	if err != nil {
		return nil, protocol, fmt.Errorf("%w: %w", ErrColumn, err)
	}
	if err := checkNames(fields, m.Configuration); err != nil {
		return nil, protocol, err
	}
	for _, name := range d.PartitionBy {
		i := s.IndexFold(name)
		if i < 0 {
			return nil, protocol, fmt.Errorf("%w: partition column %q; the table has %q", ErrColumn, name, s.Names())
		}
		m.PartitionColumns = append(m.PartitionColumns, s.Fields[i].Name)
	}
	m.SchemaString = s.String()
	return m, delta.WithFeatures(protocol, featuresFor(features, fields, m.Configuration)...), nil
}

// checkNames refuses names of columns that files can't have without column mapping, or
// that change data uses.
func checkNames(fields []schema.Field, configuration map[string]string) error {
	mapped := configuration[delta.PropertyColumnMapping] == "name" || configuration[delta.PropertyColumnMapping] == "id"
	for _, f := range fields {
		if name, odd := oddName(f, mapped); odd {
			return fmt.Errorf("%w: the name %q, unless %s is name", ErrColumn, name, delta.PropertyColumnMapping)
		}
		if strings.HasPrefix(strings.ToLower(f.Name), "_c") && configuration[delta.PropertyChangeDataFeed] == "true" &&
			slices.Contains([]string{changeColumn, "_commit_version", "_commit_timestamp"}, strings.ToLower(f.Name)) {
			return fmt.Errorf("%w: change data has a column %q of its own", ErrColumn, f.Name)
		}
	}
	return nil
}

// oddName finds a name that can't be, of a field or of one in it.
func oddName(f schema.Field, mapped bool) (name string, odd bool) {
	if f.Name == "" || !mapped && strings.ContainsAny(f.Name, oddCharacters) {
		return f.Name, true
	}
	return oddInside(f.Type, mapped)
}

func oddInside(t schema.Type, mapped bool) (name string, odd bool) {
	if t.Nested == nil {
		return "", false
	}
	for _, f := range t.Nested.Fields {
		if name, odd = oddName(f, mapped); odd {
			return name, odd
		}
	}
	if name, odd = oddInside(t.Nested.Key, mapped); odd {
		return name, odd
	}
	return oddInside(t.Nested.Element, mapped)
}

// featuresFor gives the features that columns and properties ask for, and those of list.
func featuresFor(list []string, fields []schema.Field, configuration map[string]string) []string {
	add := func(name string, due bool) {
		if due && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	isTrue := func(key string) bool { return configuration[key] == "true" }
	add(delta.FeatureTimestampNTZ, slices.ContainsFunc(fields, func(f schema.Field) bool { return hasNTZ(f.Type) }))
	add(delta.FeatureDeletionVectors, isTrue(delta.PropertyDeletionVectors))
	add(delta.FeatureChangeDataFeed, isTrue(delta.PropertyChangeDataFeed))
	add(delta.FeatureAppendOnly, isTrue(delta.PropertyAppendOnly))
	add(delta.FeatureTypeWidening, isTrue(delta.PropertyTypeWidening))
	add(delta.FeatureV2Checkpoint, configuration[delta.PropertyCheckpointPolicy] == "v2")
	add(delta.FeatureInCommitTimestamp, isTrue("delta.enableInCommitTimestamps"))
	add(delta.FeatureRowTracking, isTrue(delta.PropertyRowTracking))
	if slices.Contains(list, delta.FeatureRowTracking) || slices.Contains(list, delta.FeatureClustering) {
		add(delta.FeatureDomainMetadata, true)
	}
	mode := configuration[delta.PropertyColumnMapping]
	add(delta.FeatureColumnMapping, mode == "name" || mode == "id")
	for _, key := range slices.Sorted(maps.Keys(configuration)) {
		add(delta.FeatureCheckConstraints, strings.HasPrefix(key, constraintsPrefix))
	}
	for _, f := range fields {
		for key := range f.Metadata {
			add(delta.FeatureGeneratedColumns, key == metadataGeneration)
			add(delta.FeatureColumnDefaults, key == metadataDefault)
			add(delta.FeatureInvariants, key == metadataInvariants)
			add(delta.FeatureIdentityColumns, strings.HasPrefix(key, metadataIdentity))
		}
	}
	return list
}

func hasNTZ(t schema.Type) bool {
	if t.Nested == nil {
		return t.Primitive == schema.TimestampNTZ
	}
	return slices.ContainsFunc(t.Nested.Fields, func(f schema.Field) bool { return hasNTZ(f.Type) }) || hasNTZ(t.Nested.Key) || hasNTZ(t.Nested.Element)
}

func sameProtocol(a, b *action.Protocol) bool {
	return a.MinReaderVersion == b.MinReaderVersion && a.MinWriterVersion == b.MinWriterVersion &&
		slices.Equal(a.ReaderFeatures, b.ReaderFeatures) && slices.Equal(a.WriterFeatures, b.WriterFeatures)
}
