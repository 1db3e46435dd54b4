package scan

import (
	"context"
	"sync"

	"github.com/gscd-io/gscd/delta/objstore"
)

// Reading is how much of its files a scan reads.
type Reading struct {
	// RowGroups are those of the files that will be read; of them RowGroupsRead can have a
	// matching row by the statistics in the files.
	RowGroups, RowGroupsRead int
	// Pages are those of the columns to read, in all row groups whose files say where
	// pages lie; PagesRead are those that are decompressed.
	Pages, PagesRead int64
}

// Reading counts what will be read. It reads the footers and the page indexes of the
// files; its errors are OpenFile's.
func (s *Scan) Reading(ctx context.Context) (total Reading, err error) {
	var mu sync.Mutex
	err = objstore.InParallel(ctx, len(s.files), s.options.Parallelism, func(ctx context.Context, i int) error {
		file, err := OpenFile(ctx, s.store, s.files[i])
		if err != nil {
			return err
		}
		skip, err := s.skipper(s.files[i], file)
		if err != nil {
			return err
		}
		own := Reading{RowGroups: file.NumRowGroups()}
		for g := range own.RowGroups {
			if skip.group(g) {
				all, _, err := file.Pages(g, s.columns(), nil)
				if err != nil {
					return FileError(s.files[i], err)
				}
				own.Pages += all
				continue
			}
			own.RowGroupsRead++
			all, read, err := file.Pages(g, s.columns(), skip.rows(g))
			if err != nil {
				return FileError(s.files[i], err)
			}
			own.Pages, own.PagesRead = own.Pages+all, own.PagesRead+read
		}
		mu.Lock()
		defer mu.Unlock()
		total.RowGroups += own.RowGroups
		total.RowGroupsRead += own.RowGroupsRead
		total.Pages += own.Pages
		total.PagesRead += own.PagesRead
		return nil
	})
	return total, err
}
