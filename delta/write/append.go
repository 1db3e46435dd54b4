package write

import (
	"context"
	"fmt"
	"slices"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/schema"
)

// Append adds the rows of a Source. It reads nothing of the table, so that other writers
// are no hindrance, unless they change columns or rules.
func Append(ctx context.Context, table *delta.Table, s Source, options ...Option) (Result, error) {
	return newOperation(table, options).run(ctx, func(ctx context.Context, p *plan) (bool, error) {
		rows, err := p.source(ctx, s, false, nil)
		if err != nil {
			return false, fmt.Errorf("append to %s: %w", table.Store(), err)
		}
		p.insert(rows)
		p.tx.IsBlindAppend = true
		p.tx.SetReads(delta.Reads{})
		p.writeInfo("Append", "", nil)
		return len(rows.adds) > 0, nil
	})
}

// Overwrite replaces all rows of a table by those of a Source; the columns stay.
func Overwrite(ctx context.Context, table *delta.Table, s Source, options ...Option) (Result, error) {
	return newOperation(table, options).run(ctx, func(ctx context.Context, p *plan) (bool, error) {
		rows, err := p.source(ctx, s, false, nil)
		if err != nil {
			return false, fmt.Errorf("overwrite %s: %w", table.Store(), err)
		}
		for _, a := range p.snapshot.Files() {
			p.removeAll(a)
		}
		p.insert(rows)
		p.tx.SetReads(delta.Reads{All: true})
		p.writeInfo("Overwrite", "", nil)
		return true, nil
	})
}

// OverwritePartitions replaces the rows of the partitions that the Source has rows of, and
// leaves the others alone (dynamic partition overwrite). A table without partitions is
// one partition.
func OverwritePartitions(ctx context.Context, table *delta.Table, s Source, options ...Option) (Result, error) {
	return newOperation(table, options).run(ctx, func(ctx context.Context, p *plan) (bool, error) {
		rows, err := p.source(ctx, s, false, nil)
		if err != nil {
			return false, fmt.Errorf("overwrite partitions of %s: %w", table.Store(), err)
		}
		written := map[string]bool{}
		for _, a := range rows.adds {
			key, err := p.partitionKey(a)
			if err != nil {
				return false, err
			}
			written[key] = true
		}
		within := func(a *action.Add) bool {
			key, err := p.partitionKey(a)
			return err != nil || written[key]
		}
		var read []action.FileKey
		for _, a := range p.snapshot.Files() {
			if _, err := p.partitionKey(a); err != nil {
				return false, err
			}
			if within(a) {
				p.removeAll(a)
				read = append(read, a.Key())
			}
		}
		p.insert(rows)
		p.tx.SetReads(delta.Reads{Files: read, Match: within})
		p.writeInfo("Overwrite", "", map[string]string{"partitionOverwriteMode": "dynamic"})
		return len(rows.adds) > 0, nil
	})
}

// partitionKey names the partition of a file by its values, however they are written.
func (p *plan) partitionKey(a *action.Add) (string, error) {
	var key []byte
	for _, c := range p.layout.partitions {
		v, err := p.reader.partition(a, c)
		if err != nil {
			return "", err
		}
		key = v.AppendEncoded(key)
	}
	return string(key), nil
}

// ReplaceWhere replaces the rows for which a filter is true by those of a Source, for all
// of which it must be true too.
func ReplaceWhere(ctx context.Context, table *delta.Table, where string, s Source, options ...Option) (Result, error) {
	return newOperation(table, options).run(ctx, func(ctx context.Context, p *plan) (bool, error) {
		filter, err := expr.Parse(where, p.layout.schema)
		if err != nil {
			return false, err
		}
		evaluator := filter.NewEvaluator()
		cells, one := make([][]schema.Value, len(p.layout.schema.Fields)), []int32{0}
		take := func(row []schema.Value) error {
			for i := range row {
				cells[i] = row[i : i+1]
			}
			if len(evaluator.Select(cells, append(one[:0], 0))) == 0 {
				return fmt.Errorf("%w: a row to replace others where %s is not such a row: %s", ErrRow, where, p.rules.shown(row, filter.Columns()))
			}
			return nil
		}
		// A file that is written anew shows rows that stay as new ones, unless change data
		// says what happened.
		byPartition := !slices.ContainsFunc(filter.Columns(), func(c int) bool { return !slices.Contains(p.layout.partitions, c) })
		feed := p.feed() && !byPartition && !p.vectors()
		rows, err := p.source(ctx, s, feed, take)
		if err != nil {
			return false, fmt.Errorf("replace rows of %s: %w", table.Store(), err)
		}
		if err := p.deleteRows(ctx, filter, func([]*touched) bool { return feed }); err != nil {
			return false, err
		}
		p.insert(rows)
		p.writeInfo("Overwrite", where, nil)
		return true, nil
	})
}

// removeAll ends a file and counts its rows.
func (p *plan) removeAll(a *action.Add) {
	p.remove(a)
	if n, known := (&touched{add: a, all: -1}).live(); known {
		p.counts.Deleted += n
	} else {
		p.counts.DeletedUnknown = true
	}
}

// writeInfo names a WRITE.
func (p *plan) writeInfo(mode, predicate string, more map[string]string) {
	parameters := map[string]string{"mode": mode, "partitionBy": jsonText(append([]string{}, p.layout.metadata.PartitionColumns...))}
	if predicate != "" {
		parameters["predicate"] = predicate
	}
	for key, value := range more {
		parameters[key] = value
	}
	c := &p.counts
	metrics := map[string]int64{"numFiles": c.FilesAdded, "numOutputRows": c.Inserted, "numOutputBytes": c.BytesAdded}
	if mode != "Append" {
		metrics["numRemovedFiles"], metrics["numRemovedBytes"] = c.FilesRemoved, c.BytesRemoved
		metrics["numAddedChangeFiles"], metrics["numCopiedRows"] = c.ChangeFiles, c.Copied
		if !c.DeletedUnknown {
			metrics["numDeletedRows"] = c.Deleted
		}
		p.vectorMetrics(metrics, "numDeletionVectors")
	}
	p.info("WRITE", parameters, metrics)
}

func (p *plan) vectorMetrics(metrics map[string]int64, prefix string) {
	metrics[prefix+"Added"] = p.counts.VectorsAdded
	metrics[prefix+"Removed"] = p.counts.VectorsRemoved
	metrics[prefix+"Updated"] = p.counts.VectorsUpdated
}
