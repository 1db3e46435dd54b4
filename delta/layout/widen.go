package layout

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/schema"
)

// Widen gives columns of a table wider types (delta.Widens): all rows are written into
// files that have them, in one commit that changes no value. Versions before it stay as
// they are. Unlike the protocol's type widening it needs no table feature, so
// whoever reads the table before reads it after.
//
// Of options only TargetSize, Extra, Footer, MemoryLimit, TempDir, DryRun and Progress
// count. Rows that other writers add or delete meanwhile are followed until the commit
// comes first. Columns that have their type already are left alone; where all have,
// nothing is written. The error is as Optimize's; ErrColumn: a column is not there, has
// a rule or a partition for its type, or a type that the new one does not hold.
func Widen(ctx context.Context, table *delta.Table, types map[string]schema.Type, options Options) (*Report, error) {
	x := &optimizer{table: table, report: &Report{}, all: true}
	err := x.widen(ctx, types, Options{
		TargetSize: options.TargetSize, Extra: options.Extra, Footer: options.Footer, MemoryLimit: options.MemoryLimit,
		TempDir: options.TempDir, DryRun: options.DryRun, Progress: options.Progress,
	})
	x.report.Snapshot = x.base
	if err != nil {
		err = fmt.Errorf("widen columns of %s: %w", table.Store(), err)
	}
	return x.report, err
}

func (x *optimizer) widen(ctx context.Context, types map[string]schema.Type, options Options) error {
	var err error
	if x.base, err = x.table.Snapshot(ctx); err != nil {
		return err
	}
	var ready []*rewritten
	defer func() {
		for _, r := range ready {
			r.writer.close()
		}
	}()
	for try := range commitTries {
		if x.o, err = options.resolved(x.base); err != nil {
			return err
		}
		if err := x.takeOver(); err != nil {
			return err
		}
		var changed []schema.Field
		if x.fields, changed, err = widened(x.base, types); err != nil || len(changed) == 0 {
			return err
		}
		bins := x.uncovered(ready)
		if x.o.DryRun {
			_, err := x.runBins(ctx, bins)
			return err
		}
		for len(bins) > 0 {
			parts, err := x.splitByExtra(ctx, bins[0])
			if err != nil {
				return err
			}
			bins = bins[1:]
			for _, b := range parts {
				r, err := x.rewrite(ctx, b)
				if err != nil {
					return err
				}
				for _, in := range r.inputs {
					in.file = nil // there may be thousands of them, and their rows are read
				}
				ready = append(ready, r)
			}
		}
		acts, still, void, err := x.gather(ctx, ready)
		if err != nil {
			return err
		}
		if ready = still; len(void) > 0 {
			continue // their files are taken again
		}
		s, err := schema.New(x.fields...)
		if err != nil {
			return err
		}
		metadata := *x.base.Metadata()
		metadata.SchemaString = s.String()
		acts.tx.SetMetadata(metadata)
		if protocol := delta.WithFeatures(*x.base.Protocol(), featuresOfTypes(changed)...); len(protocol.WriterFeatures) > len(x.base.Protocol().WriterFeatures) {
			acts.tx.SetProtocol(protocol)
		}
		acts.describeWidening(changed)
		if committed, err := x.store(ctx, acts); err != nil || committed {
			return err
		}
		if try > 0 {
			if err := pause(ctx, rand.N(shortestPause<<min(try, 8))); err != nil {
				return err
			}
		}
		before := ready
		ready, err = x.follow(ctx, before, &void)
		for _, r := range before {
			if !slices.Contains(ready, r) {
				r.writer.close()
			}
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %d commits in a row", ErrContended, commitTries)
}

// widened gives the columns of a table with their new types, and those that change.
func widened(s *delta.Snapshot, types map[string]schema.Type) (fields, changed []schema.Field, err error) {
	fields = slices.Clone(s.Schema().Fields)
	names := make([]string, 0, len(types))
	for name := range types {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		at, to := s.Schema().IndexFold(name), types[name]
		if at < 0 {
			return nil, nil, fmt.Errorf("%w: %q; the table has %q", ErrColumn, name, s.Schema().Names())
		}
		f := &fields[at]
		if f.Type.String() == to.String() {
			continue
		}
		switch {
		case !delta.Widens(f.Type, to):
			return nil, nil, fmt.Errorf("%w: %q is of type %s, and %s does not hold all values of that", ErrColumn, f.Name, f.Type, to)
		case slices.Contains(s.Metadata().PartitionColumns, f.Name):
			return nil, nil, fmt.Errorf("%w: %q is a partition column, whose values are in the log", ErrColumn, f.Name)
		}
		for key := range f.Metadata {
			if key == "delta.generationExpression" || strings.HasPrefix(key, "delta.identity.") {
				return nil, nil, fmt.Errorf("%w: the table makes the values of %q itself (%s)", ErrColumn, f.Name, key)
			}
		}
		f.Type = to
		if _, has := f.Metadata[delta.MetadataTypeChanges]; has { // no file is left that has an older type
			kept := make(map[string]json.RawMessage, len(f.Metadata))
			for key, value := range f.Metadata {
				if key != delta.MetadataTypeChanges {
					kept[key] = value
				}
			}
			f.Metadata = kept
		}
		changed = append(changed, *f)
	}
	return fields, changed, nil
}

// featuresOfTypes are what the protocol must name for some columns.
func featuresOfTypes(fields []schema.Field) (features []string) {
	if slices.ContainsFunc(fields, func(f schema.Field) bool { return f.Type.Primitive == schema.TimestampNTZ }) {
		features = append(features, delta.FeatureTimestampNTZ)
	}
	return features
}

// uncovered plans the live files that no rewritten bin has read.
func (x *optimizer) uncovered(ready []*rewritten) []*bin {
	covered := map[string]bool{}
	for _, r := range ready {
		for _, in := range r.inputs {
			covered[in.add.Path] = true
		}
	}
	open := map[string]*bin{}
	var bins []*bin
	for _, add := range x.base.Files() {
		if covered[add.Path] {
			continue
		}
		p := partitionOf(x.base, add)
		b := open[p.folder]
		if b == nil || len(x.o.OrderBy) == 0 && b.bytes()+add.Size > x.o.TargetSize {
			b = &bin{partition: p}
			open[p.folder], bins = b, append(bins, b)
		}
		b.files = append(b.files, add)
	}
	return bins
}

// describeWidening writes the commitInfo as an ALTER TABLE … CHANGE COLUMN has it.
func (a *actions) describeWidening(changed []schema.Field) {
	columns := make([]string, len(changed))
	for i, f := range changed {
		columns[i] = f.Name + " " + f.Type.String()
	}
	a.tx.SetCommitInfo("CHANGE COLUMN", map[string]string{"columns": jsonList(columns...)}, a.metrics(), nil)
}
