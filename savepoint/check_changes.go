package savepoint

import (
	"context"
	"fmt"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
)

// checkChangeData looks whether the change data files that commits name are there. Vacuum
// takes them from the oldest version on, so those that are missing before the first
// version that is whole are gone by age, and no fault.
func (c *checker) checkChangeData(ctx context.Context) error {
	if on, _ := c.newest.Property(delta.PropertyChangeDataFeed); on != "true" {
		return nil
	}
	whole, i := false, 0
	for commit, err := range deltalog.ReadCommits(ctx, c.store, c.listing.Commits) {
		if err != nil {
			if ctx.Err() == nil && isDamage(err) {
				return nil // reported by who needs the commit
			}
			return err
		}
		version := c.listing.Commits[i].Version
		i++
		for _, f := range commit.CDC {
			key, err := action.Key(f.Path)
			if err != nil {
				return fmt.Errorf("change data of version %d: %w", version, err)
			}
			size, there := c.objects[key]
			message := ""
			switch {
			case there && size != f.Size:
				message = fmt.Sprintf("it has %d bytes, the log says %d", size, f.Size)
			case !there && whole:
				message = "it is missing"
			}
			whole = whole || there
			if message == "" {
				continue
			}
			c.fault(Fault{Check: "change_data", Severity: SeverityWarning, Version: version, File: key,
				Message: message + "; the changes of this version can't be read",
				Repair:  fmt.Sprintf("bring it back from a copy of the storage, or read changes from version %d on", version+1)})
		}
	}
	return nil
}
