package write

import (
	"context"
	"time"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/schema"
)

// ChangeFiles writes the change data files of a commit that its caller puts together:
// below _change_data/, by partition, with the kind of each change behind the table's
// columns. A commit that has any must have all of its changes in them, since readers
// then look at nothing else. It is used by one goroutine.
type ChangeFiles struct {
	set    *fileSet
	counts map[string]int64 // rows by kind
}

// NewChangeFiles makes the set for a table whose columns and metadata, behind the
// commit, are s (column mapping applied) and m. memory bounds the rows and unfinished
// files that are held, in bytes.
func NewChangeFiles(ctx context.Context, store objstore.Store, s *schema.Schema, m *action.Metadata, memory int64) (*ChangeFiles, error) {
	l, err := changeLayoutOf(s, m)
	if err != nil {
		return nil, err
	}
	return &ChangeFiles{set: newFileSet(ctx, store, l, time.Now, true, defaultTarget, memory), counts: map[string]int64{}}, nil
}

// Write adds a row, in the order of the table's columns; cells behind them are left
// out. kind is one of scan.Insert, Delete, UpdatePreimage and UpdatePostimage. The row
// is copied.
func (c *ChangeFiles) Write(kind string, row []schema.Value) error {
	c.counts[kind]++
	return c.set.write(row, kind)
}

// Rows gives how many rows of a kind were written.
func (c *ChangeFiles) Rows(kind string) int64 { return c.counts[kind] }

// Close stores what is open and gives the actions of all files, none where no row was
// written. After an error nothing is under way, and what was stored is nobody's.
func (c *ChangeFiles) Close() ([]*action.CDC, error) {
	if err := c.set.close(); err != nil {
		c.set.abandon()
		return nil, err
	}
	return c.set.cdc, nil
}

// Abandon gives up what is open, in place of Close.
func (c *ChangeFiles) Abandon() { c.set.abandon() }
