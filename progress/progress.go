package progress

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/drift"
	"github.com/gscd-io/gscd/format"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/snapshotter"
)

// FormatVersion is the version of the JSON that this program writes.
const FormatVersion = 1

// Key is the member of commitInfo that holds a Progress.
const Key = "gscd"

// AppID is the txn application id whose version is that of the last gscd commit.
const AppID = "gscd"

// ErrFormat is wrapped by errors about progress that this program can't read.
var ErrFormat = errors.New("progress of another format")

// Kind says what a commit was for.
type Kind string

// The kinds of commit. Create makes the table or takes over another program's,
// Batch moves rows and offsets, SealKind closes labels, Rollback takes an older
// progress, Maintenance changes settings, savepoints, offsets or files only.
const (
	Create      Kind = "create"
	Batch       Kind = "batch"
	SealKind    Kind = "seal"
	Rollback    Kind = "rollback"
	Maintenance Kind = "maintenance"
)

// Progress is the state of a table at one version.
type Progress struct {
	FormatVersion int  `json:"format_version"`
	Kind          Kind `json:"kind"`
	// Label names the one label whose changes the commit holds: the open one.
	// A seal names the label that it opens.
	Label string            `json:"label"`
	State snapshotter.State `json:"state"`
	// TopicIDs are Kafka's ids of the topics, to tell a recreated one; absent for recordings.
	TopicIDs map[string]string `json:"topic_ids,omitempty"`
	// ColumnsAtOpen are the table's columns when the open label opened.
	ColumnsAtOpen []string `json:"columns_at_open,omitempty"`
	// DDL are the statements of the source that the columns follow, oldest first.
	DDL []AppliedDDL `json:"ddl,omitempty"`
	// Held and Markers are the side files that belong to this version.
	Held    []drift.File `json:"held,omitempty"`
	Markers []MarkerFile `json:"markers,omitempty"`
	// Group numbers the commits that wrote held files, ascending.
	Group int64 `json:"group,omitempty"`
	// Rows is the number of live rows.
	Rows int64 `json:"rows"`
	// Counts is of the open label, Totals of the table since its first offset.
	Counts Counts `json:"counts"`
	Totals Totals `json:"totals"`
	// DeadLetters counts the dead letters of each label that has some, by its name.
	DeadLetters map[string]int64 `json:"dead_letters,omitempty"`
	// Resolved counts the dead letters that were replayed, superseded or dismissed
	// while a label was open, by its name: from that label on they don't count.
	Resolved map[string]int64 `json:"dead_letters_resolved,omitempty"`
	// Settled are the files that say what became of single dead letters.
	Settled []SettledFile `json:"settled,omitempty"`
	// Undone are the versions that rollbacks have taken back, oldest first: what
	// they brought is no part of this version.
	Undone []Span `json:"undone,omitempty"`
	// RolledBack lists the labels that no commit has named again.
	RolledBack []RolledBack `json:"rolled_back,omitempty"`
	// Deleted lists deleted savepoints, newest last; the oldest are dropped past 1,000.
	Deleted []Deleted `json:"deleted,omitempty"`
	// Policies lists the labels whose savepoints policies deleted, in the order in which the
	// policies first did.
	Policies []PolicyDeleted `json:"deleted_by_policy,omitempty"`
	// Transform says which columns and rows are taken, as the table's settings had it.
	Transform string `json:"transform,omitempty"`
	// Incomplete says from which label on labels are incomplete, and why; a complete load ends it.
	Incomplete *Incomplete `json:"incomplete,omitempty"`
	// Foreign lists the commits of other programs that changed rows while the
	// open label was open, oldest first, MaxForeign at most; Counts.Foreign has all.
	Foreign []ForeignCommit `json:"foreign,omitempty"`
	// Rewritten tells where the rows of live files count as being that another
	// program wrote without hidden columns, oldest first, MaxRewritten at most.
	Rewritten []Rewritten `json:"rewritten,omitempty"`
	// FirstUnseen is the first version whose commit, if it is another program's,
	// no ingester has looked at yet, though a commit by hand came after it; 0: there
	// is none before this commit.
	FirstUnseen int64 `json:"first_unseen,omitempty"`
	// OwnerEpoch is raised by each ingester that takes the table, with its first
	// commit; Owner names the one of the epoch. Raised are the times of the last
	// raises, milliseconds, oldest first, MaxRaised at most.
	OwnerEpoch int64   `json:"owner_epoch,omitempty"`
	Owner      string  `json:"owner,omitempty"`
	Raised     []int64 `json:"raised,omitempty"`
	// Slice is the slice that was applied to the open label, nil for none; its rows are
	// there, its seal may be still to come. Slices counts those that were loaded.
	Slice  *Slice `json:"slice,omitempty"`
	Slices int64  `json:"slices,omitempty"`
	// LastSeal is the version of the newest seal, -1 before the first.
	LastSeal int64 `json:"last_seal"`
	// Late are the late changes of this commit alone, at most MaxLate.
	Late []LateChange `json:"late,omitempty"`
	// Seals is the evidence of the labels that this commit seals, oldest first.
	Seals []Evidence `json:"seals,omitempty"`
}

// MaxLate bounds the late changes that a commit and a seal list; all are counted.
const MaxLate = 10_000

// MaxForeign bounds the commits of other programs that progress and seal list.
const MaxForeign = 100

// MaxRewritten bounds the entries of Rewritten; past it the two oldest become one.
const MaxRewritten = 16

// MaxRaised bounds the raises of the owner epoch that are remembered.
const MaxRaised = 8

// ForeignCommit is a commit of another program that changed rows.
type ForeignCommit struct {
	Version int64 `json:"version"`
	// Operation and Engine are what its commitInfo says, "" where it says nothing.
	Operation string `json:"operation"`
	Engine    string `json:"engine,omitempty"`
	// Label is the one that was open when gscd took the commit up.
	Label snapshotter.Label `json:"label"`
	// RowsAdded and RowsRemoved count rows of files, so that a rewritten file's
	// count on both sides; -1 where the statistics don't say.
	RowsAdded   int64 `json:"rows_added"`
	RowsRemoved int64 `json:"rows_removed"`
}

// Rewritten tells where rows count as being whose hidden columns another program
// has dropped: at the highest position that their partition had in the last
// commit of gscd before the file was written.
type Rewritten struct {
	// Version is that commit; Commits are those that wrote the files.
	Version int64   `json:"version"`
	Commits []int64 `json:"commits"`
	// Files are paths as the log has them. None is gone from the table.
	Files []string     `json:"files"`
	Highs []HighOfLine `json:"highs"`
}

// HighOfLine is the highest position that a partition had taken, of the line that
// it last had one of.
type HighOfLine struct {
	Partition   int32           `json:"partition"`
	Line        int32           `json:"line"`
	Position    change.Position `json:"position"`
	HasPosition bool            `json:"has_position,omitempty"`
	// Time is the partition's watermark, microseconds.
	Time int64 `json:"time"`
}

// MarkerFile is a file of delete markers: keys deleted in Label, and where.
type MarkerFile struct {
	Key   string            `json:"key"`
	Label snapshotter.Label `json:"label"`
	Count int64             `json:"count"`
	Bytes int64             `json:"bytes"`
}

// SettledFile is a file that says what became of dead letters, each by its
// place. Of two that name one place the later in the list counts.
type SettledFile struct {
	Key   string `json:"key"`
	Count int64  `json:"count"`
	Bytes int64  `json:"bytes"`
}

// Span is a range of versions, both included.
type Span struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Counts is what became of the records that count in one label. They count records.
type Counts struct {
	Inserts    int64 `json:"inserts"`
	Updates    int64 `json:"updates"`
	Deletes    int64 `json:"deletes"`
	Truncates  int64 `json:"truncates,omitempty"`
	Superseded int64 `json:"superseded,omitempty"`
	Duplicates int64 `json:"duplicates,omitempty"`
	Late       int64 `json:"late,omitempty"`
	Drift      int64 `json:"drift,omitempty"`
	Tombstones int64 `json:"tombstones,omitempty"`
	Filtered   int64 `json:"filtered,omitempty"`
	// Replaced counts event times that were missing or clamped.
	Replaced int64 `json:"replaced_times,omitempty"`
	NewLines int64 `json:"new_lines,omitempty"`
	// UnsureKeys counts updates of which nothing says whether they changed the key.
	UnsureKeys int64 `json:"unsure_keys,omitempty"`
	// SplitPairs counts key changes whose halves have different labels.
	SplitPairs int64 `json:"split_pairs,omitempty"`
	// Touched counts what changed a row: 0 makes a sealed label empty.
	Touched int64 `json:"touched,omitempty"`
	// SchemaChanges counts statements of the source that the columns follow, SchemaKept
	// records of those that they do not; both are among Filtered.
	SchemaChanges int64 `json:"schema_changes,omitempty"`
	SchemaKept    int64 `json:"schema_kept,omitempty"`
	// Foreign counts commits of other programs that changed rows, no records.
	Foreign int64 `json:"foreign,omitempty"`
}

// Applied is the number of records that were applied.
func (c Counts) Applied() int64 { return c.Inserts + c.Updates + c.Deletes + c.Truncates }

// Totals counts records since the table's first offset, each row of a record that
// holds several. Applied, Superseded, Duplicates, Tombstones, Filtered, DeadLetters
// and the records held now add up to Taken; with Holes and without FurtherRows they
// equal the offsets taken. A dead letter that is
// replayed gets its new fate here; one that is dismissed stays a dead letter.
type Totals struct {
	Taken       int64 `json:"taken"`
	Applied     int64 `json:"applied"`
	Superseded  int64 `json:"superseded"`
	Duplicates  int64 `json:"duplicates"`
	Tombstones  int64 `json:"tombstones"`
	Filtered    int64 `json:"filtered"`
	DeadLetters int64 `json:"dead_letters"`
	// Dismissed counts the dead letters that a person has given up.
	Dismissed int64 `json:"dismissed,omitempty"`
	Held      int64 `json:"held"`
	Holes     int64 `json:"holes"`
	// FurtherRows counts the rows behind the first of records that hold several.
	FurtherRows int64 `json:"further_rows,omitempty"`
	// Rewound counts offsets that were taken and then counted anew, where the
	// topic was cut off or recreated and that loss was accepted.
	Rewound int64 `json:"rewound,omitempty"`
}

// Missing is 0 where every record has its one fate.
func (t Totals) Missing() int64 {
	return t.Taken - t.Applied - t.Superseded - t.Duplicates - t.Tombstones - t.Filtered - t.DeadLetters - t.Held
}

// RolledBack is a label that was rolled back.
type RolledBack struct {
	Label snapshotter.Label `json:"label"`
	// Version is its savepoint's, -1 where it was not sealed.
	Version int64 `json:"version"`
	// At is when, To the label that the table went back to. For good tells
	// that the rollback kept the progress: no commit will name it again.
	At      string            `json:"at"`
	To      snapshotter.Label `json:"to"`
	ForGood bool              `json:"for_good,omitempty"`
}

// Deleted is a savepoint that was deleted.
type Deleted struct {
	Label   snapshotter.Label `json:"label"`
	Version int64             `json:"version"`
	At      string            `json:"at"`
}

// PolicyDeleted is what a retention policy deleted. When is the time of each label's
// entry in the map.
type PolicyDeleted struct {
	// Policy is the text of the policy.
	Policy string `json:"policy"`
	// Labels are ranges, first and last one of each, ascending and apart: at most one
	// more than there are labels between them that are kept.
	Labels [][2]snapshotter.Label `json:"labels"`
}

// DeletedByPolicy gives the policy that deleted a label's savepoint, "" for none.
func (p *Progress) DeletedByPolicy(l snapshotter.Label) string {
	for i := range p.Policies {
		ranges := p.Policies[i].Labels
		at, found := slices.BinarySearchFunc(ranges, l, func(r [2]snapshotter.Label, l snapshotter.Label) int { return cmp.Compare(r[0], l) })
		if found || at > 0 && l <= ranges[at-1][1] {
			return p.Policies[i].Policy
		}
	}
	return ""
}

// NoteDeletedByPolicy adds labels, ascending, to what a policy deleted. Whatever was
// noted of them before is forgotten.
func (p *Progress) NoteDeletedByPolicy(policy string, labels []snapshotter.Label) {
	p.forgetDeleted(labels)
	i := slices.IndexFunc(p.Policies, func(d PolicyDeleted) bool { return d.Policy == policy })
	if i < 0 {
		i = len(p.Policies)
		p.Policies = append(p.Policies, PolicyDeleted{Policy: policy})
	}
	ranges := p.Policies[i].Labels
	for _, l := range labels {
		ranges = append(ranges, [2]snapshotter.Label{l, l})
	}
	slices.SortFunc(ranges, func(a, b [2]snapshotter.Label) int { return cmp.Compare(a[0], b[0]) })
	joined := ranges[:0]
	for _, r := range ranges {
		if n := len(joined); n > 0 && r[0] <= joined[n-1][1]+1 {
			joined[n-1][1] = max(joined[n-1][1], r[1])
		} else {
			joined = append(joined, r)
		}
	}
	p.Policies[i].Labels = joined
}

// NoteDeleted adds a label that a person deleted; of more than keep the oldest are dropped.
func (p *Progress) NoteDeleted(d Deleted, keep int) {
	p.forgetDeleted([]snapshotter.Label{d.Label})
	p.Deleted = append(p.Deleted, d)
	if len(p.Deleted) > keep {
		p.Deleted = p.Deleted[len(p.Deleted)-keep:]
	}
}

// forgetDeleted takes labels, ascending, out of the deleted ones.
func (p *Progress) forgetDeleted(labels []snapshotter.Label) {
	among := func(l snapshotter.Label) bool { _, found := slices.BinarySearch(labels, l); return found }
	p.Deleted = slices.DeleteFunc(p.Deleted, func(d Deleted) bool { return among(d.Label) })
	for i := range p.Policies {
		var left [][2]snapshotter.Label
		for _, r := range p.Policies[i].Labels {
			at, _ := slices.BinarySearch(labels, r[0])
			for ; at < len(labels) && labels[at] <= r[1]; at++ {
				if r[0] < labels[at] {
					left = append(left, [2]snapshotter.Label{r[0], labels[at] - 1})
				}
				r[0] = labels[at] + 1
			}
			if r[0] <= r[1] {
				left = append(left, r)
			}
		}
		p.Policies[i].Labels = left
	}
	p.Policies = slices.DeleteFunc(p.Policies, func(d PolicyDeleted) bool { return len(d.Labels) == 0 })
}

// Incomplete says since when, and why, days may lack rows.
type Incomplete struct {
	Since  snapshotter.Label `json:"since"`
	Reason string            `json:"reason"`
	// At, where it is set, is the last place in the source's log, of Line, at which rows went
	// without events: a load from before it does not end the incompleteness.
	At   *change.Position `json:"at,omitempty"`
	Line int32            `json:"line,omitempty"`
}

// LateChange is one change that came after its label was sealed.
type LateChange struct {
	Topic     string            `json:"topic"`
	Partition int32             `json:"partition"`
	Offset    int64             `json:"offset"`
	Key       string            `json:"key"`
	Label     snapshotter.Label `json:"label"`
	// Fate is folded, superseded or dead_letter.
	Fate string `json:"fate"`
}

// Evidence is why a label was sealed, and what is in it.
type Evidence struct {
	Label snapshotter.Label `json:"label"`
	Name  string            `json:"name"`
	// SealedAt is the wall clock, Clock the reader's clock of the rule (they
	// differ for recordings), both RFC 3339 UTC.
	SealedAt   string              `json:"sealed_at"`
	Clock      string              `json:"clock"`
	Partitions []PartitionEvidence `json:"partitions"`
	// Format is that of the records, empty where none has shown it.
	Format string `json:"format,omitempty"`
	// Transform says which columns and rows were taken.
	Transform  string             `json:"transform,omitempty"`
	Lines      []snapshotter.Line `json:"lines,omitempty"`
	Counts     Counts             `json:"counts"`
	Rows       int64              `json:"rows"`
	Attributes []string           `json:"attributes,omitempty"`
	// DeadLetters counts those that the label lacked when it was sealed.
	DeadLetters int64 `json:"dead_letters,omitempty"`
	// Reason explains the attribute incomplete.
	Reason string `json:"reason,omitempty"`
	// Digest is SHA-256 over the live files and deletion vectors, hex.
	Digest string       `json:"digest"`
	Late   []LateChange `json:"late,omitempty"`
	// Foreign are commits of other programs that changed rows of the label,
	// MaxForeign at most; Counts.Foreign has all.
	Foreign []ForeignCommit `json:"foreign,omitempty"`
	// Forced tells that a person sealed it by hand.
	Forced bool `json:"forced,omitempty"`
	// Slice is the slice that the label was loaded from, nil for none.
	Slice *Slice `json:"slice,omitempty"`
}

// Slice is a slice of rows that was loaded as the state of a label, or its changes.
type Slice struct {
	// Source names what was read, without credentials; Digest is SHA-256 of its rows,
	// whatever their order, hex.
	Source string `json:"source"`
	Digest string `json:"digest"`
	// Mode is full: all rows that the label has; upsert: those that are new or changed;
	// fill: those that a table with topics lacked.
	Mode string `json:"mode"`
	// Rows counts the rows of the slice. They are New, Changed or Unchanged, compared with
	// the rows before; Deleted rows were there before and are not in it. With fill, rows
	// whose delete the topics have brought are none of these.
	Rows      int64 `json:"rows"`
	New       int64 `json:"new"`
	Changed   int64 `json:"changed"`
	Deleted   int64 `json:"deleted"`
	Unchanged int64 `json:"unchanged"`
	// Replaced is the version of the savepoint that it took the place of, 0 for none.
	Replaced int64 `json:"replaced,omitempty"`
	// At is where in a server's log the rows stood, nil where that is not known: changes
	// of the topics before it are older.
	At *SourcePosition `json:"at,omitempty"`
}

// SourcePosition is a place in the binlog of a server.
type SourcePosition struct {
	ServerID int64           `json:"server_id"`
	Position change.Position `json:"position"`
	// Time is the server's, in microseconds since 1970.
	Time int64 `json:"time"`
}

// The modes of a Slice.
const (
	FullSlice   = "full"
	UpsertSlice = "upsert"
	FillSlice   = "fill"
)

// PartitionEvidence is one partition's part of a seal.
type PartitionEvidence struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Offset is where reading goes on: everything below has its fate.
	Offset    int64            `json:"offset"`
	Watermark int64            `json:"watermark"`
	Rule      snapshotter.Rule `json:"rule"`
	// Origins: without positions the order of changes was arrival.
	snapshotter.Origins
}

// Encode gives the JSON for commitInfo.
func (p *Progress) Encode() (json.RawMessage, error) {
	p.FormatVersion = FormatVersion
	return json.Marshal(p)
}

// Decode reads the "gscd" member of a commitInfo object. It gives nil without
// an error where there is none. The error is a *format.Newer where a newer gscd
// wrote it, or wraps ErrFormat.
func Decode(commitInfo json.RawMessage) (*Progress, error) {
	var info struct {
		GSCD   json.RawMessage `json:"gscd"`
		Engine json.RawMessage `json:"engineInfo"`
	}
	if err := json.Unmarshal(commitInfo, &info); err != nil {
		return nil, fmt.Errorf("read commitInfo: %w", err)
	}
	if len(info.GSCD) == 0 || string(info.GSCD) == "null" {
		return nil, nil
	}
	p := &Progress{LastSeal: -1}
	if err := json.Unmarshal(info.GSCD, p); err != nil || p.FormatVersion > FormatVersion {
		if newer := newerThan(info.GSCD, info.Engine); newer != nil {
			return nil, newer
		}
		return nil, fmt.Errorf("read progress: %w", err)
	}
	if p.FormatVersion != FormatVersion {
		return nil, fmt.Errorf("%w: version %d, this program writes %d", ErrFormat, p.FormatVersion, FormatVersion)
	}
	if err := p.State.Validate(); err != nil {
		return nil, fmt.Errorf("read progress: %w", err)
	}
	return p, nil
}

// newerThan tells a progress of a newer version, whose members may be of other types, from a damaged one.
func newerThan(gscd, engine json.RawMessage) error {
	var head struct {
		FormatVersion int `json:"format_version"`
	}
	if err := json.Unmarshal(gscd, &head); err != nil || head.FormatVersion <= FormatVersion {
		return nil //nolint:nilerr // it says no version: the caller's error tells what is wrong
	}
	return &format.Newer{
		What: "the progress in commitInfo." + Key, Found: strconv.Itoa(head.FormatVersion), Known: strconv.Itoa(FormatVersion), Release: ReleaseOf(engine),
	}
}

// ReleaseOf gives the release of gscd that the member engineInfo of a commitInfo names, "gscd/v0.3.0"; "" where it names none.
func ReleaseOf(engineInfo json.RawMessage) string {
	var name string
	if err := json.Unmarshal(engineInfo, &name); err != nil || !strings.HasPrefix(name, "gscd/v") {
		return ""
	}
	return name
}

// Clone copies a Progress so that the copy can be changed.
func (p *Progress) Clone() *Progress {
	raw, err := json.Marshal(p)
	if err != nil {
		panic("progress: " + err.Error()) // plain data
	}
	out := &Progress{}
	if err := json.Unmarshal(raw, out); err != nil {
		panic("progress: " + err.Error())
	}
	return out
}

// DeadLettersAsOf counts the dead letters that the rows as of a label lack: those of
// labels up to it, without those that were resolved in one of these. upTo tells
// which labels these are, by name.
func (p *Progress) DeadLettersAsOf(upTo func(label string) bool) (n int64) {
	for name, count := range p.DeadLetters {
		if upTo(name) {
			n += count
		}
	}
	for name, count := range p.Resolved {
		if upTo(name) {
			n -= count
		}
	}
	return n
}
