package savepoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/format"
	"github.com/gscd-io/gscd/progress"
)

// Severity says how bad a fault is.
type Severity string

const (
	// SeverityError: rows of a savepoint or of the newest version can't be read, or
	// are not those that were sealed.
	SeverityError Severity = "error"
	// SeverityWarning: everything can still be read, and something that protects it is gone.
	SeverityWarning Severity = "warning"
)

// Fault is one thing that is not as it should be.
type Fault struct {
	// Check names what found it: log, settings, properties, lock, map, seal, island,
	// checkpoint, backup, list, savepoint, file, change_data, held, marker, settled, rows, checksum, bytes, totals.
	Check    string
	Severity Severity
	// Label is the first savepoint that suffers, "" where none does.
	Label string
	// Version is its version, -1 where the fault has none.
	Version int64
	// File is a key below the table's root, "" where the fault is in no file.
	File    string
	Message string
	// Repair says what to do, or what was done where Repaired is set.
	Repair   string
	Repaired bool
}

// CheckOptions say how much Check does.
type CheckOptions struct {
	// Deep reads every row, deletion vector, held change and delete marker.
	Deep bool
	// Repair puts right what can be put right.
	Repair bool
	// Now is the time ages are counted from.
	Now time.Time
	// Progress, where set, is told how far a step is that may take long, by
	// several goroutines.
	Progress func(what string, done, total int)
}

// CheckReport is what Check found.
type CheckReport struct {
	// Faults are by version, then by check and file.
	Faults []Fault
	// Savepoints and Objects count what was looked at, Rows what Deep read.
	Savepoints, Objects int
	Rows                int64
	// Unfortified are readable savepoints that have no checkpoint of their own
	// yet: an ingester ended between a seal and its checkpoint. No fault: Repair
	// and the next vacuum write it.
	Unfortified []int64
	// NotBackedUp are savepoints of a table with backups that have none yet.
	NotBackedUp []int64
}

// Open counts the faults that were not repaired.
func (r *CheckReport) Open() (n int) {
	for _, f := range r.Faults {
		if !f.Repaired {
			n++
		}
	}
	return n
}

// Check opens every savepoint and the newest version and looks at all that they
// depend on. Damage is a Fault; an error is one of the store, or of a log that
// a newer or another program wrote.
func Check(ctx context.Context, table *delta.Table, o CheckOptions) (*CheckReport, error) {
	c := &checker{CheckOptions: o, table: table, store: table.Store(), report: &CheckReport{}, needs: map[string]*need{}, parts: map[partKey]*part{}, rows: map[int64][]*part{}}
	err := c.run(ctx)
	slices.SortStableFunc(c.report.Faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), strings.Compare(a.Check, b.Check), strings.Compare(a.File, b.File))
	})
	return c.report, err
}

// checker is one run of Check.
type checker struct {
	CheckOptions
	table  *delta.Table
	store  objstore.Store
	report *CheckReport
	mu     sync.Mutex // guards report.Faults

	objects map[string]int64 // every object below the root, with its size
	listing *deltalog.Listing
	newest  *delta.Snapshot
	pins    []Pin
	// labels is nil where the map can't be read, lostSettings says that the
	// properties are why.
	labels       *Map
	lostSettings bool
	progress     map[int64]*progress.Progress // of the pins, and the one in force
	// needs are the data files and deletion vectors that pins and the newest
	// version refer to; with Deep, parts are what their rows are read from.
	needs map[string]*need
	parts map[partKey]*part
	// rows is what each version is made of, with Deep only.
	rows    map[int64][]*part
	columns []*columnSet
}

func (c *checker) fault(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Faults = append(c.report.Faults, f)
}

// known tells that an error of a version's log files is reported, and was not repaired.
func (c *checker) known(version int64) bool {
	return slices.ContainsFunc(c.report.Faults, func(f Fault) bool {
		return f.Version == version && !f.Repaired && f.Severity == SeverityError && (f.Check == "island" || f.Check == "checkpoint")
	})
}

// faultOf begins a fault of a pin.
func faultOf(p Pin, check string, severity Severity, message string) Fault {
	f := Fault{Check: check, Severity: severity, Version: p.Version, Message: message}
	if len(p.Names) > 0 {
		f.Label = p.Names[0]
	}
	return f
}

// isDamage tells damage of the table from trouble in reaching it.
func isDamage(err error) bool {
	for _, known := range []error{delta.ErrCorrupt, objstore.ErrNotExist, delta.ErrVersionNotFound, progress.ErrFormat, ErrForeign, ErrNotSealer, ErrGap} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

func (c *checker) run(ctx context.Context) error {
	if err := c.list(ctx); err != nil {
		return err
	}
	if ok, err := c.openNewest(ctx); err != nil || !ok {
		return err
	}
	c.pins = PinsOf(c.newest)
	c.report.Savepoints = len(c.pins)
	if err := c.checkIslands(ctx); err != nil {
		return err
	}
	if err := c.checkBackupsAhead(ctx); err != nil {
		return err
	}
	if err := c.checkMap(ctx); err != nil {
		return err
	}
	if err := c.checkHint(ctx); err != nil {
		return err
	}
	if err := c.openSavepoints(ctx); err != nil {
		return err
	}
	c.checkFiles()
	if err := c.checkChangeData(ctx); err != nil {
		return err
	}
	if err := c.checkSideFiles(ctx); err != nil {
		return err
	}
	if err := c.checkRows(ctx); err != nil {
		return err
	}
	if err := c.checkChecksums(ctx); err != nil {
		return err
	}
	if err := c.checkBackups(ctx); err != nil {
		return err
	}
	if err := c.checkLists(ctx); err != nil {
		return err
	}
	if err := c.checkObjects(ctx); err != nil {
		return err
	}
	if err := c.checkWriteMode(ctx); err != nil {
		return err
	}
	return errors.Join(c.checkProperties(ctx), c.checkLock(ctx))
}

// list lists everything below the root, and the log.
func (c *checker) list(ctx context.Context) error {
	c.objects = map[string]int64{}
	for object, err := range c.store.List(ctx, "", "") {
		if err != nil {
			return fmt.Errorf("list %s: %w", c.store, err)
		}
		c.objects[object.Key] = object.Size
	}
	c.report.Objects = len(c.objects)
	var err error
	c.listing, err = deltalog.List(ctx, c.store, 0)
	return err
}

// sideFolder is where all of gscd's own files lie.
const sideFolder = deltalog.Dir + "_gscd/"

// openNewest opens the newest version; ok is false where it can't be read, and
// the fault says why.
func (c *checker) openNewest(ctx context.Context) (ok bool, err error) {
	if c.newest, err = c.table.Snapshot(ctx); err == nil {
		return true, nil
	}
	if !isDamage(err) {
		return false, err
	}
	f := Fault{
		Check: "log", Severity: SeverityError, Version: -1, Message: fmt.Sprintf("the newest version can't be read: %v", err),
		Repair: "bring the file back from a copy of the storage; `gscd check --repair` tries the backups of savepoints",
	}
	if version, any := c.listing.Newest(); any {
		f.Version = version
	}
	for key := range c.objects { // the error names it
		if strings.HasPrefix(key, deltalog.Dir) && !strings.HasPrefix(key, sideFolder) && len(key) > len(f.File) && strings.Contains(err.Error(), key) {
			f.File = key
		}
	}
	if c.Repair {
		var back []string
		if back, err = c.restoreDamaged(ctx); err != nil {
			return false, err
		}
		if c.newest, err = c.table.Snapshot(ctx); err == nil {
			f.Repaired, f.Repair = true, "done: put back "+strings.Join(back, ", ")
			err = c.list(ctx)
		} else if isDamage(err) {
			err = nil
		}
	} else {
		err = nil
	}
	c.fault(f)
	return f.Repaired, err
}

// checkMap reads the map and compares it with what the versions say of themselves.
func (c *checker) checkMap(ctx context.Context) error {
	versions := versionsOf(c.pins)
	if txn, ok := c.newest.Txn(progress.AppID); ok && !slices.Contains(versions, txn.Version) {
		versions = append(versions, txn.Version)
	}
	var faults map[int64]error
	c.progress, faults = readProgress(ctx, c.table, versions)
	for _, err := range faults {
		if !isDamage(err) {
			return err
		}
	}
	if err := c.checkSettings(ctx); err != nil {
		return err
	}
	m, err := Read(ctx, c.table, c.newest)
	switch {
	case errors.Is(err, format.ErrNewer):
		return err
	case err == nil:
		c.labels = m
		c.checkSeals()
		c.checkTotals()
	case !isDamage(err):
		return err
	case !c.lostSettings:
		c.fault(Fault{Check: "map", Severity: SeverityError, Version: c.newest.Version(), Message: err.Error(),
			Repair: "the commit or the label that is named is lost; bring it back from a copy of the storage"})
	}
	return nil
}

// checkSettings looks whether the table still says that it is gscd's: without
// that no command answers by label.
func (c *checker) checkSettings(ctx context.Context) error {
	_, err := ReadSettings(ctx, c.table, c.newest)
	_, written := c.newest.Txn(progress.AppID)
	if err == nil || errors.Is(err, format.ErrNewer) || !written {
		return err
	}
	c.lostSettings = true
	f := Fault{Check: "settings", Severity: SeverityError, Version: c.newest.Version(), Message: "its properties gscd.* are lost or changed: " + err.Error(),
		Repair: "`gscd check --repair` sets those that are missing as the newest savepoint has them; where another engine replaced the rows, roll back to it then"}
	if c.Repair {
		version, err := restoreSettings(ctx, c.table, c.pins)
		if err != nil && !isDamage(err) {
			return err
		}
		if err == nil {
			if c.newest, err = c.table.Snapshot(ctx); err != nil {
				return err
			}
			if _, err := SettingsOf(c.newest); err == nil {
				f.Repaired, f.Repair = true, fmt.Sprintf("done: set by version %d; where another engine replaced the rows, roll back to the newest savepoint", version)
				c.lostSettings = false
			}
		}
	}
	c.fault(f)
	return nil
}

// checkSeals looks whether the versions of the map sealed their labels.
func (c *checker) checkSeals() {
	for _, e := range c.labels.Entries {
		p := c.progress[e.Version]
		if !e.pinned() || p == nil {
			continue // a commit that can't be read is a fault already
		}
		if _, err := sealIn(p, e); err != nil {
			c.fault(Fault{Check: "seal", Severity: SeverityError, Label: e.Name, Version: e.Version, Message: err.Error(),
				Repair: "none is known: report it, with the table's log"})
		}
	}
}

// checkTotals looks whether every record has its one fate.
func (c *checker) checkTotals() {
	t := c.labels.Progress.Totals
	if n := t.Missing(); n != 0 {
		c.fault(Fault{Check: "totals", Severity: SeverityError, Version: c.newest.Version(),
			Message: fmt.Sprintf("of %d records taken the fates add up to %d: %d have none", t.Taken, t.Taken-n, n),
			Repair:  "none is known: report it, with the table's log"})
	}
}

// openSavepoints opens every pinned version and the newest one, gathers what
// they refer to, and compares it with what was sealed.
func (c *checker) openSavepoints(ctx context.Context) error {
	byVersion := map[int64]Pin{}
	for _, p := range c.pins {
		byVersion[p.Version] = p
	}
	c.refer(c.newest, Pin{Version: c.newest.Version()})
	if _, pinned := byVersion[c.newest.Version()]; !pinned {
		c.verify(c.newest, Pin{Version: c.newest.Version()})
	}
	versions, opened := versionsOf(c.pins), 0
	return c.table.EachSnapshot(ctx, versions, func(version int64, s *delta.Snapshot, err error) error {
		opened++
		tell(c.Progress, "opening savepoints", opened, len(versions))
		p := byVersion[version]
		if err != nil {
			if !isDamage(err) {
				return err
			}
			if c.known(version) {
				return nil
			}
			f := faultOf(p, "savepoint", SeverityError, err.Error())
			f.Repair = "bring the log file back from a copy of the storage, or give the savepoint up with `gscd savepoint delete " + p.Names[0] + "`"
			c.fault(f)
			return nil
		}
		c.refer(s, p)
		c.verify(s, p)
		return c.checkFileList(ctx, s, p)
	})
}

// verify compares a version with its own commit. That of another label is a
// fault of its own.
func (c *checker) verify(s *delta.Snapshot, p Pin) {
	at := c.progress[s.Version()]
	if at == nil {
		return // no commit of gscd, or one that can't be read: a fault already
	}
	if err := verify(s, at); err != nil {
		f := faultOf(p, "savepoint", SeverityError, err.Error())
		f.File = deltalog.CommitKey(s.Version())
		f.Repair = "compare it and the checkpoint with their copies in " + BackupFolder + ", or bring them back from a copy of the storage"
		c.fault(f)
	}
}

// evidenceOf gives the evidence of the labels that a pin is for.
func (c *checker) evidenceOf(p Pin) (list []*progress.Evidence) {
	at := c.progress[p.Version]
	if at == nil {
		return nil
	}
	for i := range at.Seals {
		ev := &at.Seals[i]
		if slices.ContainsFunc(p.Names, func(name string) bool { return name == ev.Name || strings.HasPrefix(name, ev.Name+"@") }) {
			list = append(list, ev)
		}
	}
	return list
}
