package write

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
)

// SetProperties sets properties of the table, delta.feature.NAME = supported among them.
// delta.columnMapping.mode may go from none to name. delta.enableRowTracking gives every file
// numbers for its rows in the same commit, which so is as long as the list of files.
func SetProperties(properties map[string]string) Change {
	return func(a *alteration) error {
		for _, key := range slices.Sorted(maps.Keys(properties)) {
			value := properties[key]
			switch {
			case strings.HasPrefix(key, featurePrefix):
				a.features = append(a.features, strings.TrimPrefix(key, featurePrefix))
			case strings.HasPrefix(key, constraintsPrefix):
				return refuse("%s: constraints are added by AddConstraint, which looks at the rows", key)
			case key == delta.PropertyRowTracking && value == "true" && a.metadata.Configuration[key] != "true":
				if err := a.numberRows(); err != nil {
					return err
				}
			case key == delta.PropertyMaxColumnID || key == delta.PropertyRowIDColumn || key == delta.PropertyRowVersionColumn:
				return refuse("%s is not to be set", key)
			case key == delta.PropertyColumnMapping:
				now := a.metadata.Configuration[key]
				switch {
				case value == now || value == "none" && now == "":
				case value == "name" && !a.isMapped():
					a.mapColumns()
				default:
					return refuse("%s goes from none to name only, not to %q", key, value)
				}
			default:
				a.metadata.Configuration[key] = value
			}
		}
		a.step("SET TBLPROPERTIES", map[string]string{"properties": jsonText(properties)})
		return nil
	}
}

// numberRows turns row tracking on: in the same commit every file gets numbers for its
// rows, so that no version has rows without.
func (a *alteration) numberRows() error {
	c := a.metadata.Configuration
	if c[propertyRowTrackingOff] == "true" {
		return refuse("%s is true: take it away first", propertyRowTrackingOff)
	}
	c[delta.PropertyRowTracking] = "true"
	if c[delta.PropertyRowIDColumn] == "" {
		c[delta.PropertyRowIDColumn] = "_row-id-col-" + uuid.NewString()
	}
	if c[delta.PropertyRowVersionColumn] == "" {
		c[delta.PropertyRowVersionColumn] = "_row-commit-version-col-" + uuid.NewString()
	}
	a.plan.tx.SetReads(delta.Reads{All: true})
	a.plan.tx.KeepsRowNumbers, a.plan.tx.Restates = true, true // there were none
	for _, add := range a.plan.snapshot.Files() {
		if add.BaseRowID != nil && add.DefaultRowCommitVersion != nil {
			continue
		}
		again := *add
		again.DataChange = false
		if _, known := stats.NumRecords(add.Stats); !known && add.BaseRowID == nil {
			if add.Stats != "" {
				return refuse("%s: the statistics of %s have no number of rows: write the file anew first", delta.PropertyRowTracking, add.Path)
			}
			f, err := a.plan.reader.open(a.ctx, add)
			if err != nil {
				return err
			}
			again.Stats = fmt.Sprintf(`{"numRecords":%d}`, f.NumRows())
		}
		a.plan.tx.Add(&again)
	}
	return nil
}

// propertyRowTrackingOff says that files get no numbers though the table has the feature.
const propertyRowTrackingOff = "delta.rowTrackingSuspended"

// UnsetProperties takes properties away; one that is not there is no error.
func UnsetProperties(keys ...string) Change {
	return func(a *alteration) error {
		for _, key := range keys {
			if strings.HasPrefix(key, constraintsPrefix) || key == delta.PropertyColumnMapping || key == delta.PropertyMaxColumnID ||
				key == delta.PropertyRowIDColumn || key == delta.PropertyRowVersionColumn {
				return refuse("property %s can't be taken away", key)
			}
			delete(a.metadata.Configuration, key)
		}
		a.step("UNSET TBLPROPERTIES", map[string]string{"properties": jsonText(keys), "ifExists": "true"})
		return nil
	}
}

// AddConstraint adds a CHECK constraint: a filter that must be true of every row, those
// that are there included. The error wraps ErrRow where it is not.
func AddConstraint(name, condition string) Change {
	return func(a *alteration) error {
		key := constraintsPrefix + strings.ToLower(name)
		if _, ok := a.metadata.Configuration[key]; ok || name == "" {
			return refuse("the constraint %q is there, or has no name", name)
		}
		s, err := schema.New(a.fields...)
		if err != nil {
			return refuse("%w", err)
		}
		where, err := expr.Parse(condition, s)
		if err != nil {
			return refuse("constraint %s: %w", name, err)
		}
		if err := a.holds(name, where); err != nil {
			return err
		}
		a.metadata.Configuration[key] = condition
		a.step("ADD CONSTRAINT", map[string]string{"name": name, "expr": condition})
		return nil
	}
}

// holds looks whether a condition is true of every row of the table.
func (a *alteration) holds(name string, where *expr.Predicate) error {
	r := a.plan.reader
	if !where.Fits(r.layout.schema) {
		return refuse("constraint %s: add it after the change of its columns, by itself", name)
	}
	files := r.snapshot.Files()
	a.plan.tx.SetReads(delta.Reads{All: true})
	columns := where.Columns()
	if len(columns) == 0 {
		columns = []int{r.layout.data[0]}
	}
	for _, add := range files {
		evaluator := where.NewEvaluator()
		dead, err := delta.ReadDeletionVector(a.ctx, r.store, add)
		if err != nil {
			return scan.FileError(add, err)
		}
		f, err := r.open(a.ctx, add)
		if err != nil {
			return err
		}
		sel := make([]int32, 0, batchRows)
		row := make([]schema.Value, len(r.layout.schema.Fields))
		err = r.scan(a.ctx, add, f, columns, nil, func(b *block) error {
			sel = sel[:0]
			for i := range int32(b.rows) {
				if dead == nil || !dead.Contains(uint32(b.first+int64(i))) {
					sel = append(sel, i)
				}
			}
			all := slices.Clone(sel)
			kept := evaluator.Select(b.columns, sel)
			for i, at := range all {
				if i >= len(kept) || kept[i] != at {
					return fmt.Errorf("%w: the constraint %s (%s) does not hold for a row that is there: %s", ErrRow, name, where.Text(),
						a.plan.rules.shown(b.row(int(at), row), where.Columns()))
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// DropConstraint takes a CHECK constraint away.
func DropConstraint(name string) Change {
	return func(a *alteration) error {
		key := constraintsPrefix + strings.ToLower(name)
		if _, ok := a.metadata.Configuration[key]; !ok {
			return refuse("there is no constraint %q; the table has %q", name, constraintsOf(&a.metadata))
		}
		delete(a.metadata.Configuration, key)
		a.step("DROP CONSTRAINT", map[string]string{"name": name})
		return nil
	}
}
