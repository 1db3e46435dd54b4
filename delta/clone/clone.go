package clone

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/objstore"
)

// What callers decide on.
var (
	// ErrExists: there is a table already.
	ErrExists = errors.New("there is a table already")
	// ErrInconsistent: a file is not what the log says of it.
	ErrInconsistent = errors.New("log and file disagree")
)

// Options say how Clone makes the table.
type Options struct {
	// Deep copies the files; else the clone names those of the source.
	Deep bool
	// Replace makes the clone the newest version of a table that is there. Files that a
	// deep clone has from an earlier time are not copied again.
	Replace bool
	// Properties gives the properties of the clone, made of those of the source; nil
	// takes all. The map is the caller's.
	Properties func(map[string]string) map[string]string
	// LeaveFeatures are writer features of the source that the clone does not need.
	LeaveFeatures []string
	// Progress, where set, is told how many bytes of the files are copied.
	Progress func(done, total int64)
}

// Report says what Clone did.
type Report struct {
	// Version is the version of the clone that was committed.
	Version  int64
	Snapshot *delta.Snapshot
	// Files and Bytes are those of the source's version; Copied and CopiedBytes what had
	// to be copied, deletion vectors among them.
	Files, Copied      int
	Bytes, CopiedBytes int64
}

// kept are features whose rules hold for rows that are taken over as they are.
var kept = []string{
	delta.FeatureInvariants, delta.FeatureCheckConstraints, delta.FeatureGeneratedColumns, delta.FeatureIdentityColumns,
	delta.FeatureColumnDefaults, delta.FeatureColumnMapping, delta.FeatureTypeWidening, delta.FeatureTypeWidening + "-preview",
	delta.FeatureRowTracking, delta.VoidColumns,
}

// Clone makes a version of a table, which must be readable, a table of its own: schema,
// properties and files, without history and without txn actions. The error wraps
// ErrExists, delta.ErrUnsupportedFeature, ErrInconsistent or what a store says; before
// the commit the clone is no table, and what was copied is found again by the next try.
func Clone(ctx context.Context, from *delta.Table, version *delta.Snapshot, to *delta.Table, o Options) (*Report, error) {
	c := &cloning{from: from, version: version, to: to, o: o, report: &Report{}}
	if err := c.run(ctx); err != nil {
		return c.report, fmt.Errorf("clone version %d of %s to %s: %w", version.Version(), from.Store(), to.Store(), err)
	}
	return c.report, nil
}

// cloning is one run.
type cloning struct {
	from, to *delta.Table
	version  *delta.Snapshot
	o        Options
	report   *Report
	base     *delta.Snapshot // of the clone, nil for a new one

	mu    sync.Mutex
	total int64
	done  int64
}

func (c *cloning) run(ctx context.Context) error {
	var err error
	c.base, err = c.to.Snapshot(ctx)
	switch {
	case errors.Is(err, delta.ErrNotATable):
		c.base = nil
	case err != nil:
		return err
	case !c.o.Replace:
		return fmt.Errorf("%w, at version %d: replace it, or give another address", ErrExists, c.base.Version())
	}
	adds := make([]*action.Add, 0, c.version.NumFiles())
	var copies []copied
	packs := map[string]string{}
	for _, add := range c.version.Files() {
		c.report.Files++
		c.report.Bytes += add.Size
		again := *add
		again.DataChange, again.Tags = true, nil
		if c.o.Deep {
			var more []copied
			if more, err = c.deep(&again, packs); err != nil {
				return err
			}
			copies = append(copies, more...)
		} else if err = c.shallow(&again); err != nil {
			return err
		}
		adds = append(adds, &again)
	}
	if err := c.copyAll(ctx, copies); err != nil {
		return err
	}
	return c.commit(ctx, adds)
}

// shallow makes the paths of a file absolute.
func (c *cloning) shallow(add *action.Add) error {
	path, err := c.absolute(add.Path)
	if err != nil {
		return err
	}
	add.Path = path
	if d := add.DeletionVector; d != nil && d.StorageType == "u" {
		key, _, err := delta.VectorKey(d)
		if err != nil {
			return err
		}
		outside := *d
		outside.StorageType, outside.PathOrInlineDV = "p", URI(c.from.Store().String(), key)
		add.DeletionVector = &outside
	}
	return nil
}

// absolute gives the absolute form of a path of the source's log.
func (c *cloning) absolute(path string) (string, error) {
	key, err := action.Key(path)
	if errors.Is(err, action.ErrAbsolutePath) {
		return path, nil // the source is a clone itself
	}
	if err != nil {
		return "", err
	}
	return URI(c.from.Store().String(), key), nil
}

// URI gives the absolute URI of an object below a root, as it stands in a log: root is
// a path of this machine or begins with a scheme, and is not encoded yet.
func URI(root, key string) string {
	scheme, rest, ok := strings.Cut(root, "://")
	if !ok {
		scheme, rest = "file", root
	}
	whole := encode("/" + strings.Trim(rest, "/") + "/" + key)
	if scheme == "file" {
		return "file:" + whole // the form that Spark writes: it finds no file under another one
	}
	return scheme + "://" + whole[1:]
}

// encode is action.EncodePath as Java does it: letters beyond ASCII stand as they are.
// Spark compares absolute paths as texts when it writes deletion vectors.
func encode(path string) string {
	if !utf8.ValidString(path) {
		return action.EncodePath(path)
	}
	var b strings.Builder
	for _, r := range path {
		if r >= 0x80 && r != utf8.RuneError && !unicode.IsSpace(r) && !unicode.IsControl(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(action.EncodePath("/" + string(r))[1:])
		}
	}
	return b.String()
}

// copied is an object to copy.
type copied struct {
	store objstore.Store
	from  string
	to    string
	size  int64 // -1: not known
}

// deep gives a file a place below the clone's root. packs tells where files of deletion
// vectors went.
func (c *cloning) deep(add *action.Add, packs map[string]string) (list []copied, err error) {
	store, key, err := delta.Locate(c.from.Store(), add.Path)
	if err != nil {
		return nil, err
	}
	to := key
	if own, err := action.Key(add.Path); err != nil || own != key {
		to = "part-" + uuid.NewString() + ".parquet"
		add.Path = action.EncodePath(to)
	}
	list = []copied{{store, key, to, add.Size}}
	d := add.DeletionVector
	if d == nil || d.StorageType == "i" {
		return list, nil
	}
	if d.StorageType == "u" {
		key, _, err := delta.VectorKey(d)
		if err != nil || packs[key] != "" {
			return list, err
		}
		packs[key] = key
		return append(list, copied{c.from.Store(), key, key, -1}), nil
	}
	if store, key, err = delta.Locate(c.from.Store(), d.PathOrInlineDV); err != nil {
		return nil, err
	}
	name := store.String() + "/" + key
	if packs[name] == "" {
		id := uuid.New()
		packs[name] = dv.PathOfID(id)
		list = append(list, copied{store, key, dv.FileName(id), -1})
	}
	inside := *d
	inside.StorageType, inside.PathOrInlineDV = "u", packs[name]
	add.DeletionVector = &inside
	return list, nil
}

// copiers is how many objects are copied at one time, each by pieces.
const copiers = 4

// copyAll copies objects side by side.
func (c *cloning) copyAll(ctx context.Context, list []copied) error {
	for _, x := range list {
		c.total += max(x.size, 0)
	}
	return objstore.InParallel(ctx, len(list), copiers, func(ctx context.Context, i int) error {
		return c.copy(ctx, list[i])
	})
}

func (c *cloning) copy(ctx context.Context, x copied) error {
	size, err := c.copyOne(ctx, x)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if size >= 0 {
		c.report.Copied++
		c.report.CopiedBytes += size
	}
	c.done += max(x.size, 0)
	if c.o.Progress != nil {
		c.o.Progress(c.done, c.total)
	}
	return nil
}

// copyOne gives the size of what it copied, -1 where it was there.
func (c *cloning) copyOne(ctx context.Context, x copied) (int64, error) {
	there, err := c.to.Store().Head(ctx, x.to)
	if err == nil && x.size >= 0 && there.Size == x.size { // names of files are never used twice
		return -1, nil
	}
	if err != nil && !errors.Is(err, objstore.ErrNotExist) {
		return 0, err
	}
	is, err := x.store.Head(ctx, x.from)
	if err != nil {
		return 0, err
	}
	if x.size >= 0 && is.Size != x.size {
		return 0, fmt.Errorf("%w: %s has %d bytes, the log says %d", ErrInconsistent, x.from, is.Size, x.size)
	}
	return is.Size, objstore.Copy(ctx, x.store, x.from, is.Size, c.to.Store(), x.to)
}

// commit makes the files a version of the clone.
func (c *cloning) commit(ctx context.Context, adds []*action.Add) error {
	m := *c.version.Metadata()
	m.ID = uuid.NewString()
	now := c.to.Now()
	stamp := now.UnixMilli()
	m.CreatedTime = &stamp
	m.Configuration = maps.Clone(m.Configuration)
	if c.o.Properties != nil {
		m.Configuration = c.o.Properties(m.Configuration)
	}
	protocol := *c.version.Protocol()
	for _, f := range c.o.LeaveFeatures {
		protocol = delta.WithoutFeature(protocol, f)
	}
	tx := delta.NewTransaction(c.to, c.base)
	tx.Implements(kept...)
	tx.AbsolutePaths = !c.o.Deep
	removed, removedBytes, known := 0, int64(0), map[string]bool{}
	if c.base != nil {
		m.ID, m.CreatedTime = c.base.Metadata().ID, c.base.Metadata().CreatedTime
		protocol = delta.WithFeatures(*c.base.Protocol(), delta.FeaturesOf(&protocol)...)
		stays := map[action.FileKey]bool{}
		for _, add := range adds {
			stays[add.Key()] = true
		}
		for _, live := range c.base.Files() {
			if stays[live.Key()] {
				known[live.Path] = true
				continue
			}
			tx.Remove(delta.RemoveOf(live, now, true))
			removed++
			removedBytes += live.Size
		}
	}
	tx.SetProtocol(protocol)
	tx.SetMetadata(m)
	for _, add := range adds {
		if !known[add.Path] {
			tx.Add(add)
		}
	}
	tx.SetCommitInfo("CLONE", map[string]string{
		"source": c.from.Store().String(), "sourceVersion": fmt.Sprint(c.version.Version()), "isShallow": fmt.Sprint(!c.o.Deep),
	}, map[string]string{
		"sourceTableSize": fmt.Sprint(c.report.Bytes), "sourceNumOfFiles": fmt.Sprint(c.report.Files), "numRemovedFiles": fmt.Sprint(removed), "removedFilesSize": fmt.Sprint(removedBytes),
		"numCopiedFiles": fmt.Sprint(c.report.Copied), "copiedFilesSize": fmt.Sprint(c.report.CopiedBytes),
	}, nil)
	outcome, err := tx.Commit(ctx)
	if err != nil {
		return err
	}
	if !outcome.Committed {
		return fmt.Errorf("%w: %s", delta.ErrConflict, outcome.Conflict)
	}
	c.report.Version, c.report.Snapshot = outcome.Version, outcome.Snapshot
	return nil
}
