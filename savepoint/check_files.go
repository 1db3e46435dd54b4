package savepoint

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/drift"
	"github.com/gscd-io/gscd/ingest/marker"
	"github.com/gscd-io/gscd/ingest/settled"
	"github.com/gscd-io/gscd/progress"
)

// need is an object that versions refer to.
type need struct {
	size int64 // at least, for a file of deletion vectors
	pins []Pin // by rising version; the newest version has no names
	bad  bool
}

// refer notes what a version refers to.
func (c *checker) refer(s *delta.Snapshot, p Pin) {
	err := references(s, func(key string, size int64) {
		n := c.needs[key]
		if n == nil {
			n = &need{}
			c.needs[key] = n
		}
		n.size = max(n.size, size)
		if !slices.ContainsFunc(n.pins, func(q Pin) bool { return q.Version == p.Version && len(q.Names) == len(p.Names) }) {
			n.pins = append(n.pins, p)
		}
	})
	if err != nil {
		f := faultOf(p, "savepoint", SeverityError, err.Error())
		f.Repair = "the log names a file outside of the table: gscd writes none; find out who did"
		c.fault(f)
	}
	if c.Deep {
		c.keepParts(s)
	}
}

// checkFiles looks whether every file is there, with the size that the log says.
func (c *checker) checkFiles() {
	for key, n := range c.needs {
		size, there := c.objects[key]
		isVector := strings.HasSuffix(key, ".bin")
		message := ""
		switch {
		case !there:
			message = "it is missing"
		case isVector && size < n.size:
			message = fmt.Sprintf("it has %d bytes, a deletion vector ends at %d", size, n.size)
		case !isVector && size != n.size:
			message = fmt.Sprintf("it has %d bytes, the log says %d", size, n.size)
		default:
			continue
		}
		n.bad = true
		c.fileFault(key, "file", n, message)
	}
}

// fileFault reports a file once, for all that need it.
func (c *checker) fileFault(key, check string, n *need, message string) {
	slices.SortFunc(n.pins, func(a, b Pin) int { return int(a.Version - b.Version) })
	var names []string
	newest := false
	f := Fault{Check: check, Severity: SeverityError, Version: n.pins[0].Version, File: key}
	for _, p := range n.pins {
		newest = newest || len(p.Names) == 0
		names = append(names, p.Names...)
	}
	f.Repair = "bring it back from a copy of the storage (versions of the bucket, a snapshot of the disk)"
	if len(names) > 0 {
		f.Label = names[0]
	}
	switch {
	case newest && len(names) == 0:
		f.Message = message + "; the newest version needs it"
		f.Repair += ", or roll back to a label that does not need it"
	case newest:
		f.Message = fmt.Sprintf("%s; the newest version and %s need it", message, shortList(names))
	default:
		f.Message = fmt.Sprintf("%s; %s need it", message, shortList(names))
		f.Repair += ", or give the savepoints up with `gscd savepoint delete`"
	}
	c.fault(f)
}

// shortList names the first and the last of many.
func shortList(names []string) string {
	if len(names) <= 3 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%d savepoints from %s to %s", len(names), names[0], names[len(names)-1])
}

// sideFile is a file of held changes or of delete markers, and who names it.
type sideFile struct {
	kind string
	size int64
	pin  Pin
	read func(ctx context.Context) error
}

// checkSideFiles looks at the held changes and delete markers of the progress in
// force and of every savepoint's.
func (c *checker) checkSideFiles(ctx context.Context) error {
	files := map[string]sideFile{}
	for _, p := range c.pins {
		c.sideFilesOf(files, c.progress[p.Version], p)
	}
	if txn, ok := c.newest.Txn(progress.AppID); ok {
		c.sideFilesOf(files, c.progress[txn.Version], Pin{Version: txn.Version})
	}
	for key, f := range files {
		message := ""
		switch size, there := c.objects[key]; {
		case !there:
			message = "it is missing"
		case size != f.size:
			message = fmt.Sprintf("it has %d bytes, the progress says %d", size, f.size)
		case c.Deep:
			if err := f.read(ctx); err != nil {
				if ctx.Err() != nil {
					return err
				}
				message = err.Error()
			}
		}
		if message == "" {
			continue
		}
		fault := faultOf(f.pin, f.kind, SeverityError, message)
		fault.File = key
		if fault.Label == "" {
			fault.Repair = "bring it back from a copy of the storage, or roll back to a label and read the topic again"
		} else {
			fault.Message += "; a rollback to " + fault.Label + " needs it"
			fault.Repair = "bring it back from a copy of the storage, or give up rolling back to this label: its rows can still be read"
		}
		c.fault(fault)
	}
	return nil
}

func (c *checker) sideFilesOf(files map[string]sideFile, p *progress.Progress, pin Pin) {
	if p == nil {
		return
	}
	for _, f := range p.Held {
		if _, known := files[f.Key]; !known || len(pin.Names) == 0 {
			files[f.Key] = sideFile{"held", f.Bytes, pin, func(ctx context.Context) error { return readHeld(ctx, c, f) }}
		}
	}
	for _, f := range p.Markers {
		if _, known := files[f.Key]; !known || len(pin.Names) == 0 {
			files[f.Key] = sideFile{"marker", f.Bytes, pin, func(ctx context.Context) error {
				_, err := marker.Load(ctx, c.store, []progress.MarkerFile{f})
				return err
			}}
		}
	}
	for _, f := range p.Settled {
		if _, known := files[f.Key]; !known || len(pin.Names) == 0 {
			files[f.Key] = sideFile{"settled", f.Bytes, pin, func(ctx context.Context) error {
				_, err := settled.Load(ctx, c.store, []progress.SettledFile{f})
				return err
			}}
		}
	}
}

func readHeld(ctx context.Context, c *checker, f drift.File) error {
	f.Applied = 0
	r := drift.NewReader(ctx, c.store, []drift.File{f})
	defer r.Close()
	for {
		if e, _, err := r.Next(); err != nil || e == nil {
			return err
		}
	}
}

// checkBackups looks whether the copies of pinned log files are there and, with
// Deep, whether they are good.
func (c *checker) checkBackups(ctx context.Context) error {
	if c.labels == nil || !BacksUp(c.labels.settings.Protect) {
		return nil
	}
	for _, p := range c.pins {
		if c.progress[p.Version] == nil || len(c.progress[p.Version].Seals) == 0 {
			continue // a named savepoint, or one whose commit is lost: reported already
		}
		if err := c.checkBackup(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) checkBackup(ctx context.Context, p Pin) error {
	if err := c.compareBackup(ctx, p); err != nil {
		return err
	}
	missing := false
	for _, key := range islandFiles(p.Version) {
		size, there := c.objects[backupKey(key)]
		switch {
		case !there:
			missing = true
			continue
		case size == 0:
		case !c.Deep:
			continue
		default:
			_, err := c.backupOf(ctx, key)
			if err == nil {
				continue
			}
			if !isDamage(err) {
				return err
			}
		}
		f := faultOf(p, "backup", SeverityWarning, "the backup can't be read")
		f.File, f.Repair = backupKey(key), "`gscd check --repair` copies the log file again"
		if c.Repair {
			f.Repaired, f.Repair = true, "done: copied again"
			missing = true
		}
		c.fault(f)
	}
	if !missing {
		return nil
	}
	if !c.Repair {
		c.report.NotBackedUp = append(c.report.NotBackedUp, p.Version)
		return nil
	}
	if err := Backup(ctx, c.store, p.Version); err != nil {
		if isDamage(err) { // what is to be copied is not there: a fault of its own
			return nil
		}
		return err
	}
	return nil
}

// compareBackup looks whether the commit is still the one that was backed up: a
// commit never changes. (A checkpoint may be written again.)
func (c *checker) compareBackup(ctx context.Context, p Pin) error {
	key := deltalog.CommitKey(p.Version)
	size, there := c.objects[key]
	copied, backed := c.objects[backupKey(key)]
	same := size == copied
	if !there || !backed || copied == 0 {
		return nil
	}
	if same && c.Deep {
		commit, err := c.store.Get(ctx, key)
		if err != nil {
			return err
		}
		backup, err := c.store.Get(ctx, backupKey(key))
		if err != nil {
			return err
		}
		same = bytes.Equal(commit, backup) || readable(key, backup) != nil // that is a fault of its own
	}
	if !same {
		f := faultOf(p, "backup", SeverityWarning, "its commit and the backup of it differ: one of them was changed")
		f.File = key
		f.Repair = "compare it with " + backupKey(key) + "; the digest in the evidence is that of the files that were sealed"
		c.fault(f)
	}
	return nil
}
