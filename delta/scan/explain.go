package scan

import (
	"context"
	"sync"

	"github.com/gscd-io/gscd/delta/objstore"
)

// RowGroups counts the row groups of the files that will be read, and those of them
// that can have a matching row by the statistics in the files. It reads their footers;
// its errors are OpenFile's.
func (s *Scan) RowGroups(ctx context.Context) (all, read int, err error) {
	var mu sync.Mutex
	err = objstore.InParallel(ctx, len(s.files), s.options.Parallelism, func(ctx context.Context, i int) error {
		file, err := OpenFile(ctx, s.store, s.files[i])
		if err != nil {
			return err
		}
		skip, err := s.groupSkipper(s.files[i], file)
		if err != nil {
			return err
		}
		groups := file.NumRowGroups()
		kept := 0
		for g := range groups {
			if skip == nil || !skip(g) {
				kept++
			}
		}
		mu.Lock()
		defer mu.Unlock()
		all, read = all+groups, read+kept
		return nil
	})
	return all, read, err
}
