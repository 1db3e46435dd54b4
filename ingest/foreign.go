package ingest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/stats"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
)

// Other engines may commit to the table too. What they did between gscd's last
// commit and the newest version is read from the log: a change of layout is
// followed, a change of rows belongs to the open label, and what puts the rows
// where gscd's offsets are not stops the table.

// ErrForeignCommit: another engine's commit has parted the rows, or what gscd keeps
// with them, from gscd's progress. The error says with which command to go on.
var ErrForeignCommit = errors.New("another engine has changed what gscd's progress rests on")

// foreignKind is what a commit of another engine did.
type foreignKind uint8

const (
	// ownCommit was made by hand with gscd: a savepoint, properties, offsets.
	ownCommit foreignKind = iota
	// propertiesOnly changed no file: comments, properties, columns, txns of others.
	propertiesOnly
	// layoutOnly moved rows and changed none.
	layoutOnly
	// dataChanged inserted, updated or deleted rows.
	dataChanged
	// From here on it stops the table.
	putBack     // RESTORE: files of an older version are live again
	overwritten // all rows, or those of a part of the table, were replaced
	replaced    // CREATE OR REPLACE TABLE
)

// foreignCommit is one commit between gscd's last one and the newest version.
type foreignCommit struct {
	progress.ForeignCommit
	kind foreignKind
	// writes tells that it added files.
	writes bool
	// removes are the files that it took away.
	removes []*action.Remove
}

// by names operation and engine for messages.
func (f *foreignCommit) by() string {
	text := cmp.Or(f.Operation, "a commit without commitInfo")
	if f.Engine != "" {
		text += " by " + f.Engine
	}
	return fmt.Sprintf("version %d (%s)", f.Version, text)
}

// prior is the table before a commit that is looked at.
type prior struct {
	base    *delta.Snapshot // nil where it can't be read any more
	meta    *action.Metadata
	changed map[string]*action.Add // since base; nil for a file that is gone
	live    int
	gone    map[string]bool // paths that were part of the table and are not
}

func priorOf(base *delta.Snapshot) *prior {
	p := &prior{base: base, changed: map[string]*action.Add{}}
	if base != nil {
		p.meta, p.live = base.Metadata(), base.NumFiles()
	}
	return p
}

func (p *prior) file(path string) *action.Add {
	if add, ok := p.changed[path]; ok {
		return add
	}
	if p.base == nil {
		return nil
	}
	add, _ := p.base.File(path)
	return add
}

// wasThere reports whether a path left the table before.
func (p *prior) wasThere(path string) bool {
	if p.gone == nil {
		p.gone = map[string]bool{}
		if p.base != nil {
			for _, r := range p.base.Tombstones() {
				p.gone[r.Path] = true
			}
		}
	}
	return p.gone[path]
}

// apply moves on to the version behind a commit.
func (p *prior) apply(c *action.Commit) {
	if c.Metadata != nil {
		p.meta = c.Metadata
	}
	for _, r := range c.Removes {
		if p.file(r.Path) != nil {
			p.live--
		}
		p.changed[r.Path] = nil
		if p.gone != nil {
			p.gone[r.Path] = true
		}
	}
	for _, a := range c.Adds {
		if p.file(a.Path) == nil {
			p.live++
		}
		p.changed[a.Path] = a
	}
}

// classify says what a commit did to the table before it.
func (p *prior) classify(version int64, c *action.Commit) foreignCommit {
	info := action.ParseInfo(c.Info)
	f := foreignCommit{
		ForeignCommit: progress.ForeignCommit{Version: version, Operation: info.Operation, Engine: info.EngineInfo},
		kind:          propertiesOnly, writes: len(c.Adds) > 0, removes: c.Removes,
	}
	f.RowsAdded, f.RowsRemoved = p.rows(c)
	data := false
	for _, a := range c.Adds {
		data = data || a.DataChange
	}
	for _, r := range c.Removes {
		data = data || r.DataChange
	}
	switch operation := strings.ToUpper(info.Operation); {
	case p.replaces(operation, c.Metadata):
		f.kind = replaced
	case operation == "RESTORE", p.revives(c):
		f.kind = putBack
	case data && (strings.EqualFold(info.Mode, "overwrite") || operation == "" && p.exchanges(c)):
		f.kind = overwritten
	case data:
		f.kind = dataChanged
	case len(c.Adds)+len(c.Removes) > 0:
		f.kind = layoutOnly
	case strings.HasPrefix(info.EngineInfo, "gscd/"):
		f.kind = ownCommit
	}
	return f
}

// replaces reports that a commit makes another table of this one.
func (p *prior) replaces(operation string, m *action.Metadata) bool {
	switch {
	case m == nil:
		return false
	case strings.Contains(operation, "REPLACE TABLE"), p.meta != nil && p.meta.ID != m.ID:
		return true
	}
	_, ours := m.Configuration[savepoint.PropertyFormatVersion]
	return !ours
}

// revives reports that a commit makes rows live again that were gone: only a
// RESTORE does that, whatever it calls itself.
func (p *prior) revives(c *action.Commit) bool {
	dead := func(a *action.Add) int64 {
		if a.DeletionVector == nil {
			return 0
		}
		return a.DeletionVector.Cardinality
	}
	for _, a := range c.Adds {
		if before := p.file(a.Path); before != nil {
			if dead(a) < dead(before) {
				return true
			}
		} else if p.wasThere(a.Path) {
			return true
		}
	}
	return false
}

// exchanges reports that every file of the table goes, and others come.
func (p *prior) exchanges(c *action.Commit) bool {
	return p.base != nil && p.live > 0 && len(c.Removes) >= p.live && len(c.Adds) > 0
}

// rows counts the rows of files that come and go; -1 where that is not known.
func (p *prior) rows(c *action.Commit) (added, removed int64) {
	of := func(a *action.Add) int64 {
		if a == nil {
			return -1
		}
		n, known := stats.NumRecords(a.Stats)
		if !known {
			return -1
		}
		if a.DeletionVector != nil {
			n -= a.DeletionVector.Cardinality
		}
		return n
	}
	sum := func(total, n int64) int64 {
		if total < 0 || n < 0 {
			return -1
		}
		return total + n
	}
	vectors := map[string]int64{} // files that stay under another deletion vector
	for _, r := range c.Removes {
		n := of(p.file(r.Path))
		vectors[r.Path] = n
		removed = sum(removed, n)
	}
	for _, a := range c.Adds {
		n := of(a)
		if before, stays := vectors[a.Path]; stays && before >= 0 && n >= 0 && removed >= 0 {
			removed -= min(before, n) // those that stay neither come nor go
			n = max(0, n-before)
		}
		added = sum(added, n)
	}
	return added, removed
}

// readForeign looks at the commits of versions, one after the other, on a table
// that was as before says; nil where that is not known.
func (l *Lane) readForeign(from, to int64, before *delta.Snapshot) ([]foreignCommit, error) {
	var list []foreignCommit
	p := priorOf(before)
	for v := from; v <= to; v++ {
		c, err := l.table.Commit(l.ctx, v)
		if errors.Is(err, delta.ErrVersionNotFound) {
			unknown := progress.ForeignCommit{Version: v, Operation: "not known: its log entry was cleaned away", RowsAdded: -1, RowsRemoved: -1}
			list = append(list, foreignCommit{ForeignCommit: unknown, kind: dataChanged, writes: true})
			continue
		}
		if err != nil {
			return nil, err
		}
		if own, err := progress.Decode(orEmptyObject(c.Info)); err != nil || own != nil {
			list = append(list, foreignCommit{ForeignCommit: progress.ForeignCommit{Version: v}, kind: ownCommit})
		} else {
			list = append(list, p.classify(v, c))
		}
		p.apply(c)
	}
	return list, nil
}

func orEmptyObject(raw []byte) []byte {
	if len(raw) == 0 {
		return []byte("{}")
	}
	return raw
}

// takeForeign looks at what other engines did since gscd's last commit. It lists
// what belongs to the open label in the progress, or stops the table.
func (l *Lane) takeForeign() error {
	l.foreign, l.rowsThen = nil, l.p.Rows
	txn, _ := l.base.Txn(progress.AppID)
	from := txn.Version + 1
	if l.p.FirstUnseen > 0 {
		from = min(from, l.p.FirstUnseen)
	}
	if from > l.base.Version() {
		return nil
	}
	before, err := l.table.SnapshotAt(l.ctx, from-1)
	if errors.Is(err, delta.ErrVersionNotFound) || errors.Is(err, delta.ErrCorrupt) {
		before, err = nil, nil // its log was cleaned away
	}
	if err != nil {
		return fmt.Errorf("table %s: open version %d, gscd's last: %w", l.o.Name, from-1, err)
	}
	if l.foreign, err = l.readForeign(from, l.base.Version(), before); err != nil {
		return fmt.Errorf("table %s: read what others have committed: %w", l.o.Name, err)
	}
	if err := l.checkForeign(l.foreign, before, l.base); err != nil {
		return err
	}
	l.p.FirstUnseen = 0
	for i := range l.foreign {
		if f := &l.foreign[i]; f.kind >= dataChanged && (f.writes || len(f.removes) > 0) {
			l.listForeign(&l.foreign[i])
		}
	}
	return nil
}

// checkForeign stops the table where commits of others allow no going on.
func (l *Lane) checkForeign(list []foreignCommit, before, now *delta.Snapshot) error {
	at := slices.IndexFunc(list, func(f foreignCommit) bool { return f.kind >= putBack })
	if at >= 0 && !sameTable(before, now) {
		f := &list[at]
		what := map[foreignKind]string{
			putBack:     "made rows of an older version live again, and gscd's offsets are those of the newer one",
			overwritten: "overwrote rows that gscd had written",
			replaced:    "made another table of this one",
		}[f.kind]
		return fmt.Errorf("table %s: %w: %s %s; %s", l.o.Name, ErrForeignCommit, f.by(), what, l.waysBack(now, list[0].Version-1))
	}
	if err := l.checkForeignSchema(before, now); err != nil {
		return fmt.Errorf("table %s: %w: %w; %s", l.o.Name, ErrForeignCommit, err, l.waysBack(now, list[0].Version-1))
	}
	return nil
}

// sameTable reports that all that was done between two versions was undone again.
func sameTable(a, b *delta.Snapshot) bool {
	// Not by the text of the schema: engines write it anew, and leave ids in it.
	sameColumn := func(x, y schema.Field) bool {
		return x.Name == y.Name && x.Type.String() == y.Type.String() && x.Nullable == y.Nullable
	}
	return a != nil && savepoint.Digest(a) == savepoint.Digest(b) && slices.EqualFunc(a.Schema().Fields, b.Schema().Fields, sameColumn) &&
		slices.Equal(a.Metadata().PartitionColumns, b.Metadata().PartitionColumns)
}

// listForeign makes a commit one of the open label's.
func (l *Lane) listForeign(f *foreignCommit) {
	f.Label = l.state().Open
	l.p.Counts.Foreign++
	if len(l.p.Foreign) < progress.MaxForeign {
		l.p.Foreign = append(l.p.Foreign, f.ForeignCommit)
	}
	l.batch.dirty = true
	l.o.Log.Warn("another engine has changed rows; they belong to the open label", zap.String("table", l.o.Name),
		zap.String("label", l.o.Calendar.Name(l.state().Open)), zap.Int64("version", f.Version), zap.String("operation", f.Operation),
		zap.String("engine", f.Engine), zap.Int64("rows_added", f.RowsAdded), zap.Int64("rows_removed", f.RowsRemoved))
}

// foreignRows sets the number of rows, where others have committed, to what the
// key index says. A commit that claimed to change no row, and did, is listed too.
func (l *Lane) foreignRows() {
	if len(l.foreign) == 0 {
		return
	}
	l.p.Rows = int64(l.writer.Index().Len())
	if l.p.Rows == l.rowsThen || slices.ContainsFunc(l.foreign, func(f foreignCommit) bool { return f.kind >= dataChanged }) {
		return
	}
	for i := range l.foreign {
		if l.foreign[i].kind == layoutOnly {
			l.listForeign(&l.foreign[i])
		}
	}
}

// explainDuplicate says who brought a key that is live twice.
func (l *Lane) explainDuplicate(err error) error {
	for _, f := range slices.Backward(l.foreign) {
		if f.writes {
			return fmt.Errorf("%w, with the engine that wrote it; %s was the last other one to write, and `gscd rollback` undoes what it did", err, f.by())
		}
	}
	return err
}

// checkWriteMode finds that deletion vectors were switched off while there are
// some: engines may then leave them out, and deleted rows come back.
func checkWriteMode(s *delta.Snapshot, copyOnWrite bool) error {
	if on, _ := s.Property(delta.PropertyDeletionVectors); on == "true" {
		return nil
	}
	if !copyOnWrite && slices.Contains(delta.FeaturesOf(s.Protocol()), delta.FeatureDeletionVectors) {
		return fmt.Errorf("%w: %s is no longer true, and gscd would write some: ALTER TABLE … SET TBLPROPERTIES ('%s'='true') sets it again (`gscd check --repair` too, where there are some), or set write.mode: copy-on-write",
			ErrForeignCommit, delta.PropertyDeletionVectors, delta.PropertyDeletionVectors)
	}
	for _, add := range s.Files() {
		if add.DeletionVector != nil {
			return fmt.Errorf("%w: %s is no longer true, and %s has a deletion vector: engines may show deleted rows; `gscd check --repair` sets it again",
				ErrForeignCommit, delta.PropertyDeletionVectors, add.Path)
		}
	}
	return nil
}

// checkForeignSchema follows columns that were added and can be written, and
// refuses all else. before is nil where it can't be read any more.
func (l *Lane) checkForeignSchema(before, now *delta.Snapshot) error {
	old := map[string]bool{}
	s := now.Schema()
	if before == nil {
		for _, name := range l.p.ColumnsAtOpen {
			if old[name] = true; s.Index(name) < 0 {
				return fmt.Errorf("the column %s is gone: columns that another engine drops or renames are not followed", name)
			}
		}
	} else {
		if before.Metadata().SchemaString == now.Metadata().SchemaString {
			return nil
		}
		for _, was := range before.Schema().Fields {
			at := s.Index(was.Name)
			old[was.Name] = true
			switch {
			case at < 0:
				return fmt.Errorf("the column %s is gone: columns that another engine drops or renames are not followed", was.Name)
			case s.Fields[at].Type.String() != was.Type.String() && !l.wasWidened(was, s.Fields[at], before, now):
				return fmt.Errorf("the column %s was %s and is %s: gscd does not follow types that change, unless `gscd widen` changes them", was.Name, was.Type, s.Fields[at].Type)
			case was.Nullable && !s.Fields[at].Nullable:
				return fmt.Errorf("the column %s takes no NULL any more, and changes may bring one: make it nullable again", was.Name)
			}
		}
	}
	for _, f := range s.Fields {
		if old[f.Name] {
			continue
		}
		if err := checkColumn(f); err != nil {
			return err
		}
	}
	return nil
}

// checkColumn refuses a column that gscd could not write rows beside.
func checkColumn(f schema.Field) error {
	switch {
	case strings.HasPrefix(strings.ToLower(f.Name), HiddenPrefix):
		return fmt.Errorf("the column %s is gscd's own by its name, and shows what data files hide", f.Name)
	case !f.Nullable:
		return fmt.Errorf("the column %s takes no NULL, and gscd's rows have none other for it", f.Name)
	}
	if _, err := parquet.NewEncoder([]parquet.Column{{Name: f.Name, Type: f.Type}}, parquet.EncoderOptions{}); err != nil {
		return fmt.Errorf("the column %s is of type %s, which gscd can't write: %w", f.Name, f.Type, err)
	}
	return nil
}

// waysBack names the commands that bring a table back into step.
func (l *Lane) waysBack(now *delta.Snapshot, last int64) string {
	open := l.state().Open
	text := ""
	for label := open - 1; label >= max(l.state().First, open-maxLabelsBack); label-- {
		name := l.o.Calendar.Name(label)
		if txn, ok := now.Txn(savepoint.SealAppID(name)); ok && txn.Version >= 0 {
			text = fmt.Sprintf("`gscd rollback --to %s` puts rows and offsets back to that day and reads on from there; ", name)
			break
		}
	}
	return text + fmt.Sprintf("to restore version %d with the other engine (RESTORE TABLE … TO VERSION AS OF %d) undoes what it did, and gscd goes on; "+
		"`gscd adopt --label %s` takes the rows as they are", last, last, l.o.Calendar.Name(open))
}

// maxLabelsBack bounds the search for a label to go back to.
const maxLabelsBack = 400

// explainLost says what to do about a table that was gscd's and has lost what gscd
// keeps with it.
func (l *Lane) explainLost(err error) error {
	lost := errors.Is(err, savepoint.ErrForeign) || errors.Is(err, delta.ErrVersionNotFound)
	txn, ours := l.base.Txn(progress.AppID)
	switch {
	case !lost:
		return err
	case !ours && len(savepoint.PinsOf(l.base)) == 0:
		return err // it never was gscd's
	case ours && errors.Is(err, savepoint.ErrForeign):
		return fmt.Errorf("%w: its properties gscd.* are gone, as after CREATE OR REPLACE or RESTORE (%w): `gscd check --repair` sets them again, and then `gscd rollback --to` a sealed label brings its rows back; "+
			"to restore version %d with the other engine undoes what it did; `gscd adopt` takes the rows as they are", ErrForeignCommit, err, txn.Version)
	}
	return fmt.Errorf("%w: gscd's progress is gone (%w): `gscd adopt` takes the rows as they are, with offsets of yours", ErrForeignCommit, err)
}

// explainUnreadable says to which version to go back where another engine has
// turned on what gscd can't read: a rename or a drop of a column does.
func (l *Lane) explainUnreadable(err error) error {
	var unsupported *delta.UnsupportedFeatureError
	if !errors.As(err, &unsupported) {
		return err
	}
	versions, _ := l.table.Versions(l.ctx)
	for i, v := range slices.Backward(versions) {
		if len(versions)-i > maxLabelsBack {
			break
		}
		if info, readErr := l.table.CommitInfo(l.ctx, v); readErr != nil {
			continue
		} else if p, decodeErr := progress.Decode(orEmptyObject(info)); decodeErr == nil && p != nil {
			return fmt.Errorf("%w: %w: another engine has turned it on (to rename or drop a column turns on column mapping); to restore version %d with that engine "+
				"(RESTORE TABLE … TO VERSION AS OF %d) undoes it, and gscd goes on", ErrForeignCommit, err, v, v)
		}
	}
	return err
}
