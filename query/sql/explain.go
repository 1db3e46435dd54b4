//go:build cgo

package sql

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/scan"
)

// Explain says what Run would open for a statement. It reads logs and the footers of
// the files that are left over; its errors are Run's.
func Explain(ctx context.Context, text string, o Options) (*Explanation, error) {
	o = o.withDefaults()
	p, err := openPlanner(ctx, text, &o)
	if err != nil {
		return nil, err
	}
	defer p.close()
	if s := p.statement; s.explain { // of what is explained
		s.text, s.explain, s.dry = s.query, false, false
	}
	if err := p.plan(ctx); err != nil {
		return nil, err
	}
	if o.Notice != nil {
		for _, n := range p.notices {
			o.Notice(n)
		}
	}
	for _, r := range p.readings {
		if err := r.open(ctx); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp(o.TempDir, "gscd-sql-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for temporary files: %w", err)
	}
	defer os.RemoveAll(dir)
	x, err := p.prepareFiles(ctx, dir, true)
	if err != nil {
		return nil, err
	}
	defer x.close()
	fetched, err := x.files.footers(ctx)
	if err != nil {
		return nil, err
	}
	return p.explanation(x.files, fetched), nil
}

// footers reads the footers of the files that are read, finds the row groups that can
// have rows, and says how much is to be fetched of each file.
func (f *files) footers(ctx context.Context) (map[*dataFile]int64, error) {
	fetched := map[*dataFile]int64{}
	var mu sync.Mutex
	err := objstore.InParallel(ctx, len(f.order), fileReaders, func(ctx context.Context, i int) error {
		file := f.order[i]
		if len(file.scans) == 0 {
			return nil
		}
		if !file.of.remote() {
			if err := file.readFooter(); err != nil {
				return fmt.Errorf("table %s: %w", file.of.Name, file.asFault(err))
			}
			return nil
		}
		bytes, err := file.fetchFooter(ctx)
		if err != nil {
			return fmt.Errorf("table %s: %w", file.of.Name, file.asFault(err))
		}
		for _, span := range file.excerpt {
			bytes += span.To - span.From
		}
		mu.Lock()
		defer mu.Unlock()
		fetched[file] = bytes
		return nil
	})
	return fetched, err
}

// readFooter reads the footer of a local file.
func (f *dataFile) readFooter() error {
	source, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer source.Close()
	if f.footer, err = parquet.Open(source, f.add.Size); err != nil {
		return err
	}
	f.kept = f.keptGroups()
	return scan.CheckRows(f.add, f.footer.NumRows())
}

// keptGroups tells which row groups can have a row for one of the scans of a file.
func (f *dataFile) keptGroups() []bool {
	kept := make([]bool, f.footer.NumRowGroups())
	for i := range kept {
		kept[i] = slices.ContainsFunc(f.scans, func(s *tableScan) bool {
			return !s.canSkip(func(where *expr.Predicate) bool { return scan.CanSkipRowGroup(f.footer, i, s.stored(), where) })
		})
	}
	return kept
}

func (p *planner) explanation(f *files, fetched map[*dataFile]int64) *Explanation {
	e := &Explanation{}
	for _, file := range f.order {
		if len(file.scans) > 0 {
			e.Files++
			e.Bytes += file.add.Size
			e.Fetched += fetched[file]
		}
	}
	for _, r := range p.readings {
		t := TableExplanation{Name: r.Name}
		if r.Labels != nil {
			for i := range r.Labels.Entries {
				if entry := &r.Labels.Entries[i]; !entry.Kept && canAnswer(entry) {
					t.Labels++
				}
			}
		}
		for _, d := range r.days {
			day := DayExplanation{Label: d.label, Version: d.version}
			for _, add := range d.snapshot.Files() {
				day.Files++
				key, _ := keyOf(r, add) // filesOf has done the same
				file := f.data[fileID{of: r, key: key}]
				if file == nil || len(file.scans) == 0 {
					continue
				}
				day.Opened++
				day.Bytes += file.add.Size
				day.Fetch += fetched[file]
				groups := file.footer.NumRowGroups()
				day.RowGroups += groups
				day.ReadGroups += groups
				for _, kept := range file.kept {
					if !kept {
						day.ReadGroups--
					}
				}
			}
			t.Days = append(t.Days, day)
		}
		e.Tables = append(e.Tables, t)
	}
	return e
}
