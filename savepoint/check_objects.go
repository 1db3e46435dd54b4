package savepoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/selfsum"
)

// checkObjects compares every object that the table may still read with what it says of
// its own bytes: also what no row depends on now, such as a footer's bounds, by which a
// query leaves rows out. What other programs wrote has no such sum; its rows are read, and
// compared with the content checksum where there is one.
func (c *checker) checkObjects(ctx context.Context) error {
	if !c.Deep {
		return nil
	}
	todo := map[string]func(context.Context, string) error{}
	for key := range c.needs {
		todo[key] = c.checkDataBytes
	}
	for _, r := range c.newest.Tombstones() {
		if key, err := action.Key(r.Path); err == nil {
			todo[key] = c.checkDataBytes
		}
		if r.DeletionVector != nil {
			if key, stored, err := delta.VectorKey(r.DeletionVector); err == nil && stored {
				todo[key] = c.checkDataBytes
			}
		}
	}
	for _, commit := range c.listing.Commits {
		todo[deltalog.CommitKey(commit.Version)] = c.checkCommitBytes
	}
	for key := range c.objects {
		if strings.HasPrefix(key, changeDataFolder) {
			todo[key] = c.checkDataBytes
		}
	}
	for _, f := range c.report.Faults {
		delete(todo, f.File) // said already
	}
	maps.DeleteFunc(todo, func(key string, _ func(context.Context, string) error) bool {
		_, there := c.objects[key]
		return !there || c.needs[key] != nil && c.needs[key].bad
	})
	return c.eachObject(ctx, todo)
}

// changeDataFolder is where change data files lie.
const changeDataFolder = "_change_data/"

// eachObject runs a check of each object, and reports those that are damaged.
func (c *checker) eachObject(ctx context.Context, todo map[string]func(context.Context, string) error) error {
	keys := slices.Sorted(maps.Keys(todo))
	var done atomic.Int64
	var mu sync.Mutex
	damaged, trouble := map[string]error{}, error(nil)
	err := objstore.InParallel(ctx, len(keys), fileReaders, func(ctx context.Context, i int) error {
		err := todo[keys[i]](ctx, keys[i])
		tell(c.Progress, "checking the bytes of objects", int(done.Add(1)), len(keys))
		if err == nil {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if isDamage(err) || errors.Is(err, selfsum.ErrDiffers) || errors.Is(err, dv.ErrCorrupt) {
			damaged[keys[i]] = err
		} else if trouble == nil {
			trouble = err
		}
		return nil
	})
	if err = errors.Join(err, trouble); err != nil {
		return err
	}
	for key, err := range damaged {
		c.objectFault(key, err)
	}
	return nil
}

// objectFault reports a damaged object for those that need it.
func (c *checker) objectFault(key string, err error) {
	if n := c.needs[key]; n != nil {
		n.bad = true
		c.fileFault(key, "bytes", n, err.Error())
		return
	}
	f := Fault{Check: "bytes", Severity: SeverityWarning, Version: -1, File: key, Message: err.Error() + "; no savepoint and not the newest version needs it",
		Repair: "bring it back from a copy of the storage, or wait until `gscd vacuum` removes it"}
	if name := deltalog.ParseName(strings.TrimPrefix(key, deltalog.Dir)); name.Kind == deltalog.CommitFile {
		f.Version = name.Version
	}
	c.fault(f)
}

// checkDataBytes compares a data file, or a file of deletion vectors, with its sums.
func (c *checker) checkDataBytes(ctx context.Context, key string) error {
	if strings.HasSuffix(key, ".bin") {
		data, err := c.store.Get(ctx, key)
		if err != nil {
			return err
		}
		return dv.CheckFile(data)
	}
	size := c.objects[key]
	_, err := selfsum.Parquet.CheckReader(objstore.NewReaderAt(ctx, c.store, key, size), size)
	return err
}

// checkCommitBytes reads a commit as every reader does.
func (c *checker) checkCommitBytes(ctx context.Context, key string) error {
	data, err := c.store.Get(ctx, key)
	if err != nil {
		return err
	}
	_, err = deltalog.DecodeCommit(data)
	return err
}

// checkFileList compares the list of a version's files with the version, where there is one.
func (c *checker) checkFileList(ctx context.Context, s *delta.Snapshot, p Pin) error {
	key := fileListKey(s.Version())
	if _, there := c.objects[key]; !there || !c.Deep {
		return nil
	}
	want, err := fileList(s)
	if err != nil {
		return nil // a fault of the version's own
	}
	got, err := c.store.Get(ctx, key)
	if err != nil || string(got) == string(want) {
		return err
	}
	f := faultOf(p, "list", SeverityWarning, "the list of its files is not what the version says")
	f.File, f.Repair = key, "delete it: nothing of gscd's reads it; `gscd check --repair` writes it again"
	if c.Repair {
		if err := c.store.Put(ctx, key, want); err != nil {
			return fmt.Errorf("write %s again: %w", key, err)
		}
		f.Repaired, f.Repair = true, "done: written again"
	}
	c.fault(f)
	return nil
}
