package ingest

import (
	"context"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// What a lane shares with the others of its process. Each is optional, and is
// asked once a block or commit, never once a record.

// Budget bounds the memory of the batches of all lanes.
type Budget interface {
	// Hold says how many bytes of records the lane's batch and the one that is being
	// written hold now (0: they were committed or dropped). flush asks the lane to commit
	// early.
	Hold(bytes int64) (flush bool)
}

// Gate bounds how many lanes do heavy work at once. Enter waits for its turn;
// leave must be called when the work is done. The error is ctx's.
type Gate interface {
	Enter(ctx context.Context, work Work) (leave func(), err error)
}

// Work is heavy work that a Gate lets in.
type Work string

// The kinds of heavy work. The checkpoint of a seal is part of the seal; one that is
// written beside the lane has its own turn, and is over before the lane waits for another.
const (
	SealWork       Work = "seal"
	CheckpointWork Work = "checkpoint"
	IndexWork      Work = "index"
)

// Observer is told what a lane does. All calls come from the goroutine of Run,
// and must return at once.
type Observer interface {
	// Alive is called each time around: while the lane waits for records, too.
	Alive()
	// Loaded gives the state that the lane goes on from: at each start, and
	// again where it dropped what it had.
	Loaded(View)
	// Took gives the state with what was taken since the last commit, about
	// once a second.
	Took(View)
	// Committed tells of a commit, and the state that it made.
	Committed(Commit, View)
}

// View is a lane's state. It may be read until the call that brings it returns.
type View struct {
	// Progress is nil where the table does not exist yet.
	Progress *progress.Progress
	Calendar *snapshotter.Calendar
	// Version is the table's newest that the lane knows of, LastCommit the last
	// one of gscd; -1 before the first.
	Version, LastCommit int64
	// Ends are the high watermarks that the source has told last; a partition
	// of which none is known is missing.
	Ends map[change.PartitionID]int64
	// Clock is that of the seal rule.
	Clock time.Time
	// Committed is when the last commit was made, Opened when the open label
	// was opened by a seal; zero where that is not known.
	Committed, Opened time.Time
	// Conflicts counts commits that met another one, since this lane began.
	Conflicts int64
	// Files are the live data files. Savepoints are the pinned versions, and Bytes the size
	// of the live files, at the last load or seal; -1 where they are not known.
	Files             int
	Savepoints, Bytes int64
	// Waits are what the lane waits for that does not answer, or is not its turn.
	Waits []Wait
	// Table and Snapshot are the table at Version, nil where it does not exist yet.
	// Both may be used, and kept, by other goroutines.
	Table    *delta.Table
	Snapshot *delta.Snapshot
	// IndexKeys are in the key index, which takes IndexBytes of memory.
	IndexKeys, IndexBytes int64
}

// What a Wait is for.
const (
	ForSource  = "the source"
	ForSchemas = "the schema registry"
	ForTurn    = "its turn"
)

// Wait is something that a lane waits for, and can't hurry.
type Wait struct {
	For   string // ForSource, ForSchemas, ForTurn
	Since time.Time
	// Err is what was met last, nil where nothing failed.
	Err error
}

// Commit is one commit of a lane.
type Commit struct {
	Kind    progress.Kind
	Version int64
	// Records is the number of records that a batch has brought.
	Records int
	// Open is how long the batch had been taking records, Took how long it took
	// to write and commit.
	Open, Took time.Duration
}

// endsTeller is a Source that hears of the ends of partitions while it reads.
type endsTeller interface {
	Ends() map[change.PartitionID]int64
}

// tookEvery is how often an Observer is shown what was taken.
const tookEvery = time.Second

// alive tells the observer that the lane goes on, and once in a while where it is.
func (l *Lane) alive() {
	if l.o.Observer == nil {
		return
	}
	l.o.Observer.Alive()
	// A table that does not exist yet is shown for what it waits for alone.
	if (l.p != nil || l.waits() != nil) && time.Since(l.shownAt) >= tookEvery {
		l.o.Observer.Took(l.view())
	}
}

func (l *Lane) waits() []Wait {
	if l.queue == nil {
		return nil
	}
	out := append(l.queue.outage.wait(), l.queue.schemas.wait()...)
	if !l.turnSince.IsZero() {
		out = append(out, Wait{For: ForTurn, Since: l.turnSince, Err: errOftenTaken})
	}
	return out
}

func (l *Lane) view() View {
	l.shownAt = time.Now()
	v := View{Progress: l.p, Calendar: l.o.Calendar, Version: -1, LastCommit: -1, Clock: l.o.Now(), Committed: l.committedAt, Opened: l.openedAt, Waits: l.waits()}
	if l.base != nil {
		v.Version, v.LastCommit = l.base.Version(), l.lastCommit
		v.Table, v.Snapshot = l.table, l.base
	}
	v.Ends = l.knownEnds()
	v.Conflicts, v.Savepoints, v.Bytes, v.Files = l.conflictsMet, -1, -1, -1
	if l.base != nil {
		v.Files, v.Savepoints, v.Bytes = l.base.NumFiles(), l.savepoints, l.liveBytes
	}
	if l.writer != nil {
		v.IndexKeys, v.IndexBytes = int64(l.writer.Index().Len()), l.writer.Index().Bytes()
	}
	return v
}

func (l *Lane) showLoaded() {
	if l.o.Observer == nil {
		return
	}
	l.lastCommit, l.committedAt, l.openedAt = -1, time.Time{}, time.Time{}
	l.measure()
	if l.p != nil && l.base != nil {
		if last, ok := l.base.Txn(progress.AppID); ok {
			l.lastCommit, l.committedAt = last.Version, l.timeOf(last.Version)
		}
		if l.p.LastSeal >= 0 {
			l.openedAt = l.timeOf(l.p.LastSeal)
		}
	}
	l.o.Observer.Loaded(l.view())
}

// measure takes the figures of the table that cost a look at all of its files.
func (l *Lane) measure() {
	l.savepoints, l.liveBytes = 0, 0
	if l.base == nil {
		return
	}
	l.savepoints = int64(len(savepoint.PinsOf(l.base)))
	for _, f := range l.base.Files() {
		l.liveBytes += f.Size
	}
}

// timeOf is the writer's time of a commit, zero where the log does not tell.
func (l *Lane) timeOf(version int64) time.Time {
	info, err := l.table.CommitInfo(l.ctx, version)
	if err != nil {
		return time.Time{}
	}
	if ms := action.ParseInfo(info).Timestamp; ms > 0 {
		return time.UnixMilli(ms)
	}
	return time.Time{}
}

// showCommit shows a commit, and the progress that it carries.
func (l *Lane) showCommit(c Commit, p *progress.Progress) {
	if l.o.Observer == nil {
		return
	}
	l.lastCommit, l.committedAt = c.Version, time.Now()
	if c.Kind == progress.SealKind {
		l.openedAt = l.committedAt
		l.measure()
	}
	v := l.view()
	v.Progress = p
	l.o.Observer.Committed(c, v)
}

// hearEnds keeps what the source said of the ends.
func (l *Lane) hearEnds(states []change.PartitionState) {
	l.ends = make(map[change.PartitionID]int64, len(states))
	for _, st := range states {
		l.ends[st.ID] = st.End
	}
}

// overBudget reports that the batch must be committed for the sake of other tables.
func (l *Lane) overBudget() bool {
	if l.o.Budget == nil {
		return false
	}
	l.told = l.holds()
	return l.o.Budget.Hold(l.told) && l.told > 0
}

// size is the bytes of records that the batch holds.
func (b *batch) size() int64 { return b.bytes + b.held.Bytes() }

// tellEvery is by how many bytes a batch grows until its budget is asked.
const tellEvery = 1 << 20

// inTurn does heavy work when the gate lets it in.
func (l *Lane) inTurn(work Work, do func() error) error {
	if l.o.Gate == nil || l.inside {
		return do()
	}
	leave, err := l.o.Gate.Enter(l.ctx, work)
	if err != nil {
		return err
	}
	l.inside = true
	defer func() {
		l.inside = false
		leave()
	}()
	return do()
}
