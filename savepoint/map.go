package savepoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/snapshotter"
)

const (
	sealPrefix  = "gscd.seal/"
	namedPrefix = "gscd.savepoint/"
)

// SealAppID is the txn application id of a label's entry in the map.
func SealAppID(label string) string { return sealPrefix + label }

// NamedAppID is that of a named savepoint.
func NamedAppID(name string) string { return namedPrefix + name }

// keptAppID is that of a rolled-back savepoint that is still pinned.
func keptAppID(label string, version int64) string {
	return fmt.Sprintf("%s%s@%d", sealPrefix, label, version)
}

// gone is the version that marks an entry as deleted or rolled back, and back.
func gone(version int64) int64 { return -1 - version }

// State is what a label is.
type State string

// The states.
const (
	Open       State = "open"
	Sealed     State = "sealed"
	RolledBack State = "rolled-back"
	DeletedOne State = "deleted"
)

// Entry is one label of the map, or a kept rolled-back savepoint of it.
type Entry struct {
	Label snapshotter.Label
	// Name is the label's name, LABEL@VERSION for a kept rolled-back savepoint.
	Name  string
	State State
	// Version is the savepoint's; for the open label that of the snapshot, for
	// a rolled-back label that was not sealed -1.
	Version int64
	// At is when the label was deleted or rolled back, To the label that the
	// rollback went to.
	At string
	To string
	// Policy is the retention policy that deleted the label, "" where a person did.
	Policy string
	// Kept tells that the entry is a rolled-back savepoint that is still pinned.
	Kept bool
}

// Named is a savepoint under a name of its own.
type Named struct {
	Name    string
	Version int64
}

// Map is the label-to-version map of a snapshot of a table.
type Map struct {
	Calendar *snapshotter.Calendar
	// Entries from the first label to the open one, then rolled-back labels
	// behind it; kept rolled-back savepoints stand behind their label.
	Entries []Entry
	Named   []Named
	// Progress is the one in force.
	Progress *progress.Progress
	settings *Settings
	pins     []Pin
}

// What resolving can answer besides a version.
var (
	ErrNoLabel    = snapshotter.ErrNotLabel
	ErrBefore     = errors.New("before the table's first snapshot")
	ErrAfter      = errors.New("after the open label")
	ErrRolledBack = errors.New("rolled back")
	ErrDeleted    = errors.New("savepoint deleted")
	ErrNotSealed  = errors.New("not sealed")
	ErrGap        = errors.New("the map has a gap")
	// ErrNotSealer: the map names a version that did not seal the label.
	ErrNotSealer = errors.New("the version did not seal the label")
)

// Read gives the map of a snapshot. It reads one commit beside it.
func Read(ctx context.Context, table *delta.Table, s *delta.Snapshot) (*Map, error) {
	settings, err := ReadSettings(ctx, table, s)
	if err != nil {
		return nil, err
	}
	p, err := ProgressOf(ctx, table, s)
	if err != nil {
		return nil, err
	}
	m := &Map{Calendar: settings.Calendar, Progress: p, settings: settings, pins: PinsOf(s)}
	versions := map[snapshotter.Label]int64{}
	kept := map[snapshotter.Label][]keptSavepoint{}
	stamps := map[snapshotter.Label]string{} // of entries that are gone
	for txn := range s.Txns() {
		if name, ok := strings.CutPrefix(txn.AppID, namedPrefix); ok && txn.Version >= 0 {
			m.Named = append(m.Named, Named{name, txn.Version})
		}
		name, ok := strings.CutPrefix(txn.AppID, sealPrefix)
		if !ok {
			continue
		}
		label, version, isKept := strings.Cut(name, "@")
		l, err := m.Calendar.Parse(label)
		if err != nil {
			return nil, fmt.Errorf("txn %q: %w", txn.AppID, err)
		}
		at := ""
		if txn.LastUpdated != nil && (isKept || txn.Version < 0) {
			at = time.UnixMilli(*txn.LastUpdated).UTC().Format(time.RFC3339Nano)
		}
		if !isKept {
			versions[l], stamps[l] = txn.Version, at
		} else if v, err := strconv.ParseInt(version, 10, 64); err == nil && txn.Version >= 0 {
			kept[l] = append(kept[l], keptSavepoint{v, at})
		}
	}
	if err := m.fill(versions, stamps, kept, s.Version()); err != nil {
		return nil, err
	}
	slices.SortFunc(m.Named, func(a, b Named) int { return strings.Compare(a.Name, b.Name) })
	return m, nil
}

// keptSavepoint is a rolled-back savepoint that is still pinned, and since when.
type keptSavepoint struct {
	version int64
	at      string
}

func (m *Map) fill(versions map[snapshotter.Label]int64, stamps map[snapshotter.Label]string, kept map[snapshotter.Label][]keptSavepoint, newest int64) error {
	st := &m.Progress.State
	rolled := map[snapshotter.Label]progress.RolledBack{}
	last := st.Open
	for _, r := range m.Progress.RolledBack {
		rolled[r.Label] = r
		last = max(last, r.Label)
	}
	deleted := map[snapshotter.Label]progress.Deleted{}
	for _, d := range m.Progress.Deleted {
		deleted[d.Label] = d
	}
	for l := st.First; l <= last; l++ {
		e := Entry{Label: l, Name: m.Calendar.Name(l), State: Sealed, Version: -1}
		v, mapped := versions[l]
		r, isRolled := rolled[l]
		switch {
		case isRolled:
			e.State, e.Version, e.At, e.To = RolledBack, r.Version, r.At, m.Calendar.Name(r.To)
		case l == st.Open:
			e.State, e.Version = Open, newest
		case l > st.Open:
			continue
		case mapped && v >= 0:
			e.Version = v
		case mapped:
			e.State, e.Version = DeletedOne, gone(v)
			e.At, e.Policy = cmp.Or(deleted[l].At, stamps[l]), m.Progress.DeletedByPolicy(l)
		default:
			return fmt.Errorf("%w: label %s lies between the first and the open one, and no txn action names it; `gscd check` says more", ErrGap, e.Name)
		}
		m.Entries = append(m.Entries, e)
		list := kept[l]
		slices.SortFunc(list, func(a, b keptSavepoint) int { return cmp.Compare(a.version, b.version) })
		for _, k := range list {
			m.Entries = append(m.Entries, Entry{
				Label: l, Name: fmt.Sprintf("%s@%d", e.Name, k.version), State: RolledBack, Version: k.version, Kept: true, At: k.at,
			})
		}
	}
	return nil
}

// Resolution is the version that answers a question.
type Resolution struct {
	Entry Entry
	// Notice is for the error stream: the day is not sealed, or incomplete. A
	// day that was incomplete until a later load has none here: its evidence says it.
	Notice string
}

// Resolve answers "as of label". sealed makes the open label an error. Errors
// wrap one of this package's sentinels and say what there is instead.
func (m *Map) Resolve(label string, sealed bool) (Resolution, error) {
	for _, e := range m.Entries {
		if e.Kept && e.Name == label {
			return Resolution{Entry: e, Notice: fmt.Sprintf("%s is a savepoint that was rolled back", e.Name)}, nil
		}
		if e.State == Sealed && fmt.Sprintf("%s@%d", e.Name, e.Version) == label {
			label = e.Name // a rollback made it the label's savepoint again
			break
		}
	}
	l, err := m.Calendar.Parse(label)
	if err != nil {
		return Resolution{}, err
	}
	st := &m.Progress.State
	if l < st.First {
		return Resolution{}, fmt.Errorf("%s lies %w: the first snapshot is %s", label, ErrBefore, m.Calendar.Name(st.First))
	}
	i := slices.IndexFunc(m.Entries, func(e Entry) bool { return e.Label == l && !e.Kept })
	if i < 0 {
		return Resolution{}, fmt.Errorf("%s lies %w: the open label is %s", label, ErrAfter, m.Calendar.Name(st.Open))
	}
	e := m.Entries[i]
	switch e.State {
	case RolledBack:
		return Resolution{}, fmt.Errorf("%s was %w at %s, to %s; it can be asked for again when a commit names it", label, ErrRolledBack, e.At, e.To)
	case DeletedOne:
		by := ""
		if e.Policy != "" {
			by = fmt.Sprintf(" by the policy %q", e.Policy)
		}
		return Resolution{}, fmt.Errorf("%s: %w at %s%s%s", label, ErrDeleted, e.At, by, m.nearest(l))
	case Open:
		if sealed {
			return Resolution{}, fmt.Errorf("%s is %w: it is the open label, and its rows may still change", label, ErrNotSealed)
		}
		return Resolution{e, m.OpenNotice()}, nil
	}
	r := Resolution{Entry: e}
	if inc := m.Progress.Incomplete; inc != nil && l >= inc.Since {
		r.Notice = fmt.Sprintf("%s is incomplete: %s", label, inc.Reason)
	}
	return r, nil
}

// OpenNotice says of the newest rows, for the error stream, that their label is open, and
// what they lack.
func (m *Map) OpenNotice() string {
	notice := fmt.Sprintf("%s is not sealed: it is the open label, and its rows may still change", m.Calendar.Name(m.Progress.State.Open))
	if inc := m.Progress.Incomplete; inc != nil {
		notice += fmt.Sprintf("; it is incomplete: %s", inc.Reason)
	}
	return notice
}

// nearest names the kept labels around one.
func (m *Map) nearest(l snapshotter.Label) string {
	before, after := "", ""
	for _, e := range m.Entries {
		if e.State != Sealed || e.Kept {
			continue
		}
		if e.Label < l {
			before = e.Name
		} else if after == "" && e.Label > l {
			after = e.Name
		}
	}
	switch {
	case before != "" && after != "":
		return fmt.Sprintf("; the nearest kept labels are %s and %s", before, after)
	case before+after != "":
		return fmt.Sprintf("; the nearest kept label is %s", before+after)
	}
	return ""
}

// Evidence gives what the seal of a label recorded.
func (m *Map) Evidence(ctx context.Context, table *delta.Table, e Entry) (*progress.Evidence, error) {
	s, err := m.Seal(ctx, table, e)
	if err != nil {
		return nil, err
	}
	return s.Evidence, nil
}

// Pinned gives the versions that must stay readable: those of sealed labels,
// of kept rolled-back ones and of named savepoints, ascending, without repeats.
func (m *Map) Pinned() []int64 { return versionsOf(m.pins) }
