package delta

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/schema"
)

// Names of table features that gscd itself lists.
const (
	FeatureAppendOnly      = "appendOnly"
	FeatureInvariants      = "invariants"
	FeatureChangeDataFeed  = "changeDataFeed"
	FeatureDeletionVectors = "deletionVectors"
	FeatureTimestampNTZ    = "timestampNtz"
	FeatureColumnMapping   = "columnMapping"
	FeatureDomainMetadata  = "domainMetadata"

	FeatureCheckConstraints = "checkConstraints"
	FeatureGeneratedColumns = "generatedColumns"
	FeatureIdentityColumns  = "identityColumns"
	FeatureColumnDefaults   = "allowColumnDefaults"
	FeatureTypeWidening     = "typeWidening"
	FeatureV2Checkpoint     = "v2Checkpoint"

	FeatureInCommitTimestamp = "inCommitTimestamp"
	FeatureRowTracking       = "rowTracking"
	FeatureClustering        = "clustering"

	featureVacuumCheck  = "vacuumProtocolCheck"
	featureTypeWidening = "typeWidening"

	featureVariant          = "variantType"
	featureVariantShredding = "variantShredding"
)

// legacy lists the features that came with writer versions 2..6.
var legacy = []struct {
	writer, reader int32
	name           string
}{
	{2, 1, FeatureAppendOnly},
	{2, 1, FeatureInvariants},
	{3, 1, FeatureCheckConstraints},
	{4, 1, FeatureChangeDataFeed},
	{4, 1, FeatureGeneratedColumns},
	{5, 2, FeatureColumnMapping},
	{6, 1, FeatureIdentityColumns},
}

// readerFeatures are those that a reader must know too, and that gscd reads.
var readerFeatures = map[string]bool{
	FeatureDeletionVectors: true, FeatureTimestampNTZ: true, featureVacuumCheck: true, FeatureColumnMapping: true,
	FeatureV2Checkpoint: true, featureTypeWidening: true, featureTypeWidening + "-preview": true,
	featureVariant: true, featureVariant + "-preview": true, featureVariantShredding: true, featureVariantShredding + "-preview": true,
}

// foreignReaderFeatures are reader features of the protocol that gscd can't read
// yet; ProtocolFor must know them to put them in both lists.
var foreignReaderFeatures = []string{
	"catalogManaged", "geospatial",
}

// FeaturesOf gives the features that a protocol supports, listed or implied by
// its versions.
func FeaturesOf(p *action.Protocol) []string {
	if p.MinWriterVersion >= 7 {
		return p.WriterFeatures
	}
	var names []string
	for _, f := range legacy {
		if f.writer <= p.MinWriterVersion {
			names = append(names, f.name)
		}
	}
	return names
}

// ProtocolFor gives the lowest protocol that has the features: (1,2) without
// any, a legacy version where that suffices, else writer version 7 with lists,
// and reader version 3 only where a reader must know one of them. Names that are
// not the protocol's are taken as features of writers alone.
func ProtocolFor(features ...string) action.Protocol {
	return WithFeatures(action.Protocol{MinReaderVersion: 1, MinWriterVersion: 2}, features...)
}

// WithFeatures gives p with more features. Nothing is taken away, and what p
// implies by its versions is listed where lists come in.
func WithFeatures(p action.Protocol, features ...string) action.Protocol {
	have := FeaturesOf(&p)
	var missing []string
	for _, f := range features {
		if !slices.Contains(have, f) && !slices.Contains(missing, f) {
			missing = append(missing, f)
		}
	}
	if len(missing) == 0 {
		return p
	}
	if p.MinWriterVersion < 7 {
		if raised, ok := raiseLegacy(p, missing); ok {
			return raised
		}
	}
	out := action.Protocol{MinReaderVersion: p.MinReaderVersion, MinWriterVersion: 7, ReaderFeatures: slices.Clone(p.ReaderFeatures)}
	out.WriterFeatures = slices.Concat(missing, have)
	mustRead := func(f string) bool { return readerFeatures[f] || slices.Contains(foreignReaderFeatures, f) }
	if p.MinReaderVersion < 3 && slices.ContainsFunc(missing, mustRead) {
		out.MinReaderVersion = 3
		missing = out.WriterFeatures
	}
	if out.MinReaderVersion == 3 {
		for _, f := range missing {
			if mustRead(f) && !slices.Contains(out.ReaderFeatures, f) {
				out.ReaderFeatures = append(out.ReaderFeatures, f)
			}
		}
	}
	return out
}

// WithoutFeature gives p without a feature of writers alone, which needs no more than
// that its name goes. Where the rest is what a legacy version of writers means, p has
// that version again. A feature that readers must know stays: old commits may need it.
func WithoutFeature(p action.Protocol, feature string) action.Protocol {
	if p.MinWriterVersion < 7 || !slices.Contains(p.WriterFeatures, feature) || slices.Contains(p.ReaderFeatures, feature) {
		return p
	}
	p.WriterFeatures = slices.DeleteFunc(slices.Clone(p.WriterFeatures), func(f string) bool { return f == feature })
	for version := int32(2); version < 7 && p.MinReaderVersion < 3; version++ {
		low := action.Protocol{MinReaderVersion: p.MinReaderVersion, MinWriterVersion: version}
		if means := FeaturesOf(&low); len(means) == len(p.WriterFeatures) && !slices.ContainsFunc(means, func(f string) bool { return !slices.Contains(p.WriterFeatures, f) }) {
			return low
		}
	}
	return p
}

// raiseLegacy raises the versions alone, which older clients understand. Only
// change data feed is worth it: the versions of others bring much that is not asked for.
func raiseLegacy(p action.Protocol, missing []string) (action.Protocol, bool) {
	if len(missing) == 1 && missing[0] == FeatureChangeDataFeed {
		p.MinWriterVersion = 4
		return p, true
	}
	return p, false
}

// checkReadable refuses what can't be read right, by name.
func checkReadable(p *action.Protocol, m *action.Metadata) error {
	refuse := func(feature, why string) error {
		return &UnsupportedFeatureError{Feature: feature, Reading: true, Why: why}
	}
	if p.MinReaderVersion > 3 {
		return refuse(fmt.Sprintf("minReaderVersion %d", p.MinReaderVersion), "")
	}
	if p.MinReaderVersion == 3 {
		for _, f := range p.ReaderFeatures {
			if !readerFeatures[f] {
				return refuse(f, "")
			}
		}
	}
	if mode := mappingMode(p, m); mode != "" && mode != "name" && mode != "id" {
		return refuse(FeatureColumnMapping, "delta.columnMapping.mode is "+mode)
	}
	if provider := m.Format.Provider; provider != "" && provider != "parquet" {
		return refuse("format "+provider, "")
	}
	return nil
}

// mappingMode gives the column mapping in force, "" for none.
func mappingMode(p *action.Protocol, m *action.Metadata) string {
	mode := m.Configuration["delta.columnMapping.mode"]
	if mode == "" || mode == "none" || !(p.MinReaderVersion == 2 || slices.Contains(p.ReaderFeatures, FeatureColumnMapping)) {
		return ""
	}
	return mode
}

// CheckWritable says, before anything is planned, whether a transaction on one of
// the table's snapshots would be refused for a table feature, but for those that the
// table was opened with (WithWriterFeatures) or the caller implements itself
// (Transaction.Implements). The error wraps ErrUnsupportedFeature.
func (t *Table) CheckWritable(s *Snapshot, implemented ...string) error {
	return checkWritable(s.protocol, s.metadata, s.schema, slices.Concat(t.implemented, implemented))
}

// checkWritable refuses to write where a feature asks for what gscd does not
// do. A listed feature that nothing uses is no hindrance where its absence from
// data and metadata can be seen. What stands in implemented, the caller does.
func checkWritable(p *action.Protocol, m *action.Metadata, s *schema.Schema, implemented []string) error {
	refuse := func(feature, why string) error { return &UnsupportedFeatureError{Feature: feature, Why: why} }
	if p.MinWriterVersion > 7 {
		return refuse(fmt.Sprintf("minWriterVersion %d", p.MinWriterVersion), "")
	}
	property := func(key string) string {
		if m.Configuration[key] == "true" {
			return key + " is true"
		}
		return ""
	}
	fields := s.Fields
	if slices.Contains(implemented, VoidColumns) { // but not inside of others
		fields = slices.DeleteFunc(slices.Clone(fields), func(f schema.Field) bool { return f.Type.Primitive == schema.Void })
	}
	if why := fieldOf(fields, schema.Void, schema.Variant); why != "" {
		return refuse("a column type", why)
	}
	for _, f := range FeaturesOf(p) {
		if slices.Contains(implemented, f) {
			continue
		}
		why := ""
		switch f {
		case FeatureAppendOnly, FeatureChangeDataFeed, FeatureDeletionVectors, FeatureTimestampNTZ, featureVacuumCheck, FeatureDomainMetadata, FeatureV2Checkpoint,
			FeatureColumnMapping:
		case featureVariant, featureVariant + "-preview", featureVariantShredding, featureVariantShredding + "-preview":
			// A column of that type is refused above. delta-rs lists it in what it touches.
		case FeatureInvariants:
			why = fieldWith(s.Fields, "delta.invariants")
		case FeatureGeneratedColumns:
			why = fieldWith(s.Fields, "delta.generationExpression")
		case FeatureIdentityColumns:
			why = fieldWith(s.Fields, "delta.identity.")
		case FeatureColumnDefaults:
			why = fieldWith(s.Fields, "CURRENT_DEFAULT")
		case FeatureCheckConstraints:
			for key := range m.Configuration {
				if strings.HasPrefix(key, "delta.constraints.") {
					why = key
				}
			}
		case FeatureInCommitTimestamp:
			why = property("delta.enableInCommitTimestamps")
		default:
			return refuse(f, "")
		}
		if why != "" {
			return refuse(f, why)
		}
	}
	return nil
}

// VoidColumns is what a writer names, beside the features that it Implements, that leaves
// columns of the type void out of its files. It is no feature of the protocol.
const VoidColumns = "void columns"

// rowFeatures are about rows and columns alone: they are no hindrance to what writes
// neither.
var rowFeatures = []string{
	FeatureInvariants, FeatureCheckConstraints, FeatureGeneratedColumns, FeatureIdentityColumns, FeatureColumnDefaults,
	FeatureColumnMapping, FeatureTypeWidening, FeatureTypeWidening + "-preview", FeatureInCommitTimestamp, FeatureRowTracking, FeatureClustering,
	VoidColumns,
}

// checkMaintainable refuses checkpoints, vacuum and cleaning of the log where a feature
// asks for what gscd does not do there.
func (t *Table) checkMaintainable(s *Snapshot) error {
	return checkWritable(s.protocol, s.metadata, s.schema, slices.Concat(t.implemented, rowFeatures))
}

// fieldWith names a field, at any depth, that has a metadata key of that beginning.
func fieldWith(fields []schema.Field, prefix string) string {
	for _, f := range fields {
		for _, key := range slices.Sorted(maps.Keys(f.Metadata)) {
			if strings.HasPrefix(key, prefix) {
				return fmt.Sprintf("column %q has %s", f.Name, key)
			}
		}
		if why := typeWith(f.Type, prefix); why != "" {
			return why
		}
	}
	return ""
}

func typeWith(t schema.Type, prefix string) string {
	if t.Nested == nil {
		return ""
	}
	if why := fieldWith(t.Nested.Fields, prefix); why != "" {
		return why
	}
	if why := typeWith(t.Nested.Key, prefix); why != "" {
		return why
	}
	return typeWith(t.Nested.Element, prefix)
}

// usesNTZ reports whether a type holds a timestamp_ntz at any depth.
func usesNTZ(t schema.Type) bool { return holds(t, schema.TimestampNTZ) }

// holds reports whether a type holds one of some primitive types at any depth.
func holds(t schema.Type, some ...schema.Primitive) bool {
	if t.Nested == nil {
		return slices.Contains(some, t.Primitive)
	}
	return slices.ContainsFunc(t.Nested.Fields, func(f schema.Field) bool { return holds(f.Type, some...) }) ||
		holds(t.Nested.Key, some...) || holds(t.Nested.Element, some...)
}

// fieldOf names a field that holds one of some primitive types.
func fieldOf(fields []schema.Field, some ...schema.Primitive) string {
	for _, f := range fields {
		if holds(f.Type, some...) {
			return fmt.Sprintf("column %q is %s", f.Name, f.Type)
		}
	}
	return ""
}
