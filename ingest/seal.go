package ingest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// maxSealsInOneCommit bounds how many empty labels share a version.
const maxSealsInOneCommit = 1000

// askAgain is how often a table without anything to take asks for partitions.
const askAgain = time.Minute

// atEnd runs where nothing can be taken: it commits, ends loads and seals. done
// tells that nothing is left to do without a new record or a later clock.
func (l *Lane) atEnd() (done bool, err error) {
	if l.ctx.Err() != nil {
		return false, nil // run stops
	}
	clock := l.o.Now()
	if !l.o.UntilEnd && l.batch.dirty && l.timeIsUp() {
		if err := l.advance(); err != nil {
			return false, err
		}
	}
	if f := l.inFlight; f != nil && !l.o.UntilEnd && !l.isOver(f.aside) {
		return false, nil // records may come before it is over
	}
	if err := l.settleFlight(); err != nil {
		return false, err
	}
	if err := l.lookForNewer(); err != nil {
		return false, err
	}
	if !l.o.UntilEnd && len(l.judge.LoadsToEnd()) == 0 && !l.sealMayBeDue(clock) {
		if time.Since(l.askedAt) < askAgain {
			return false, nil
		}
		added, err := l.queue.newPartitions(l.ctx, askAgain)
		if l.ctx.Err() != nil {
			return false, nil
		}
		if err != nil {
			return false, l.rideAsking(err)
		}
		if !added {
			l.askedAt = time.Now()
			l.queue.outage.over()
			return false, nil
		}
	}
	if !l.o.UntilEnd && time.Since(l.askedAt) < time.Second && !l.allPaused() {
		return false, nil
	}
	l.askedAt = time.Now()
	states, err := l.queue.partitions(l.ctx)
	if l.ctx.Err() != nil {
		return false, nil
	}
	if err != nil {
		return false, l.rideAsking(err)
	}
	l.queue.outage.over()
	l.hearEnds(states)
	if added, err := l.takeNewPartitions(states); added || err != nil {
		return false, err
	}
	ends := make([]snapshotter.End, 0, len(states))
	allRead := true
	for _, st := range states {
		p := l.state().Find(st.ID)
		ends = append(ends, snapshotter.End{Partition: p, Offset: st.End})
		allRead = allRead && (p.Next >= st.End || l.judge.Paused(p))
	}
	if allRead {
		if err := l.endLoads(); err != nil {
			return false, err
		}
	}
	decision := l.judge.MaySeal(ends, clock.UnixMicro(), l.o.DriftIdle.Microseconds())
	if decision.Seal && !l.proven(ends) {
		decision = snapshotter.Decision{Reason: "no partition has shown that the source lived past the label (seal.proof: " + l.o.SealProof + ")"}
	}
	finished := l.o.UntilEnd && l.readToEnd()
	if decision.Seal {
		if err := l.settleCheckpoint(); err != nil { // it may wait for the turn that the seal would hold
			return false, err
		}
		return false, l.inTurn(SealWork, func() error {
			if err := l.flush(); err != nil {
				return err
			}
			if err := l.rewriteBeforeSeal(); err != nil {
				return err
			}
			return l.seal(ends, decision, clock)
		})
	}
	if finished {
		if err := l.flush(); err != nil {
			return false, err
		}
	}
	l.notSealed(decision)
	return finished, nil
}

// sealMayBeDue tells whether it is worth asking the source for a seal: with the
// ends that were heard of last, which only grow, the label could be sealed.
func (l *Lane) sealMayBeDue(clock time.Time) bool {
	if clock.Before(time.UnixMicro(l.o.Calendar.End(l.state().Open))) {
		return false
	}
	ends := make([]snapshotter.End, 0, len(l.ends))
	for id, end := range l.ends {
		p := l.state().Find(id)
		if p == nil {
			return true
		}
		ends = append(ends, snapshotter.End{Partition: p, Offset: end})
	}
	decision := l.judge.MaySeal(ends, clock.UnixMicro(), l.o.DriftIdle.Microseconds())
	if decision.Seal {
		return l.proven(ends)
	}
	l.notSealed(decision)
	return false
}

// notSealed logs what holds the seal back, once.
func (l *Lane) notSealed(d snapshotter.Decision) {
	if d.Reason != l.sealWas {
		l.sealWas = d.Reason
		l.o.Log.Debug("not sealed", zap.String("table", l.o.Name), zap.String("label", l.o.Calendar.Name(l.state().Open)), zap.String("reason", d.Reason))
	}
}

// rideAsking gives nil for an error of asking the source that may pass.
func (l *Lane) rideAsking(err error) error {
	if err := l.queue.outage.ride(err); err != nil {
		return fmt.Errorf("table %s: ask for partitions: %w", l.o.Name, err)
	}
	return nil
}

// allPaused reports that no known partition has more to say about the open
// label: then it can be sealed at once, and a replay runs at full speed.
func (l *Lane) allPaused() bool {
	for _, p := range l.state().Partitions {
		if !l.judge.Paused(p) {
			return false
		}
	}
	return true
}

func (l *Lane) proven(ends []snapshotter.End) bool {
	if l.o.SealProof != "any" && l.o.SealProof != "heartbeat" {
		return true
	}
	for _, e := range ends {
		if e.Partition.Watermark >= l.o.Calendar.End(l.state().Open) {
			return true
		}
	}
	return false
}

// takeNewPartitions registers partitions that were added to the topics and
// starts to read them at their earliest offset.
func (l *Lane) takeNewPartitions(states []change.PartitionState) (added bool, err error) {
	offsets := map[change.PartitionID]int64{}
	for _, st := range states {
		p := l.state().Find(st.ID)
		if p == nil {
			p = l.addPartition(st.ID, st.Earliest)
			l.batch.dirty, added = true, true
			l.o.Log.Info("a new partition", zap.String("table", l.o.Name), zap.Stringer("partition", st.ID), zap.Int64("offset", st.Earliest))
		}
		offsets[st.ID] = p.Next
	}
	if !added {
		return false, nil
	}
	if err := l.noteEnds(states); err != nil {
		return true, err
	}
	return true, l.queue.reset(l.ctx, offsets)
}

// seal closes the open label in a commit of its own, and with it the empty
// labels that follow and are due at the same moment.
func (l *Lane) seal(ends []snapshotter.End, d snapshotter.Decision, clock time.Time) error {
	var seals []progress.Evidence
	for {
		seals = append(seals, l.evidence(ends, d, clock))
		l.openNext()
		if len(seals) >= maxSealsInOneCommit || l.anythingFor(ends) {
			break
		}
		if d = l.judge.MaySeal(ends, clock.UnixMicro(), l.o.DriftIdle.Microseconds()); !d.Seal || !l.proven(ends) {
			break
		}
	}
	return l.commitSeals(seals)
}

// commitSeals makes the savepoint of the labels that were just closed; it sets
// the digest of their evidence.
func (l *Lane) commitSeals(seals []progress.Evidence) error {
	return traced(l.o.Tracer, SealStage, func(s *Stretch) error {
		err := l.makeSavepoint(seals)
		if s != nil && err == nil {
			s.Label, s.Version = seals[len(seals)-1].Name, l.p.LastSeal
		}
		return err
	})
}

func (l *Lane) makeSavepoint(seals []progress.Evidence) error {
	l.writing = time.Now()
	l.p.Kind = progress.SealKind
	l.p.Label = l.o.Calendar.Name(l.state().Open)
	l.p.Late, l.p.Seals = nil, seals
	version := int64(0)
	for {
		tx, err := l.transaction()
		if err != nil {
			return err
		}
		if l.base != nil {
			version = l.base.Version() + 1
			digest := savepoint.Digest(l.base) // a seal changes no file: of all its labels alike
			for i := range seals {
				seals[i].Digest = digest
			}
		}
		l.p.LastSeal = version
		for _, s := range seals {
			tx.SetTxn(savepoint.SealAppID(s.Name), delta.OwnVersion)
		}
		if err = l.commit(tx, "SEAL"); errors.Is(err, errConflict) {
			if err = l.follow(err); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		break
	}
	l.pinned = nil
	l.o.Log.Info("sealed", zap.String("table", l.o.Name), zap.String("label", seals[0].Name), zap.Int("labels", len(seals)),
		zap.Int64("version", version), zap.Int64("rows", l.p.Rows), zap.Strings("attributes", seals[0].Attributes))
	l.publish()
	l.saveIndex(true)
	return l.pin()
}

// pin makes the seal's version readable for as long as its savepoint lives.
func (l *Lane) pin() error {
	if err := l.checkpoint(); err != nil {
		return err
	}
	if protect, _ := l.base.Property(savepoint.PropertyProtect); l.o.Backup || savepoint.BacksUp(protect) {
		if err := savepoint.Backup(l.ctx, l.o.Store, l.base.Version()); err != nil {
			if errors.Is(err, l.ctx.Err()) {
				return err
			}
			l.o.Log.Warn("the backup of a savepoint was not written", l.fields("err", err.Error())...)
		}
	}
	if err := l.list(l.base); err != nil {
		return err
	}
	return l.recordChecksum()
}

// recordChecksum records the checksum of the rows of a seal, in a commit of its own. The
// seal stands without it: where it can't be computed, `gscd maintain` tries again.
func (l *Lane) recordChecksum() error {
	if !l.o.SealChecksum {
		return nil
	}
	done, err := savepoint.RecordChecksums(l.ctx, l.table, savepoint.ChecksumOptions{Seal: l.base})
	if err != nil {
		if errors.Is(err, l.ctx.Err()) {
			return err
		}
		l.o.Log.Warn("the checksum of a savepoint was not recorded", l.fields("err", err.Error())...)
	}
	if len(done) == 0 {
		return nil
	}
	return l.takeUp()
}

// wantsLists: something is written at seals for engines that do not read the log.
func (l *Lane) wantsLists() bool { return l.o.Lists != "" && l.o.Lists != savepoint.NoList }

// list writes the lists of a seal's files. The seal stands without them: where they can't
// be written, the next start or seal does so.
func (l *Lane) list(sealed *delta.Snapshot) error {
	if !l.wantsLists() {
		return nil
	}
	if err := savepoint.WriteLists(l.ctx, l.table, sealed, l.o.Lists); err != nil {
		if errors.Is(err, l.ctx.Err()) {
			return err
		}
		l.o.Log.Warn("the lists of a savepoint's files were not written", l.fields("err", err.Error())...)
	}
	return nil
}

// repairLists writes the lists of the newest seal where a process ended before it did, or
// where the setting is new.
func (l *Lane) repairLists() error {
	if !l.wantsLists() || l.p == nil || l.p.LastSeal < 0 {
		return nil
	}
	latest, ok, err := savepoint.ReadLatestList(l.ctx, l.o.Store)
	if err == nil && ok && latest.Version == l.p.LastSeal && latest.Kind == l.o.Lists {
		return nil
	}
	sealed, err := l.table.SnapshotAt(l.ctx, l.p.LastSeal)
	if err != nil {
		if errors.Is(err, l.ctx.Err()) {
			return err
		}
		l.o.Log.Warn("the lists of a savepoint's files were not written", l.fields("err", err.Error())...)
		return nil
	}
	return l.list(sealed)
}

// openNext turns the state to the label behind the open one.
func (l *Lane) openNext() {
	l.judge.Seal(l.o.DriftWait.Microseconds())
	open := l.state().Open
	l.p.Counts, l.late, l.p.Foreign, l.p.Slice = progress.Counts{}, nil, nil, nil
	l.p.ColumnsAtOpen = l.columns.names()
	l.columns.opened(l.p.ColumnsAtOpen)
	l.p.Markers = l.markers.Prune(l.p.Markers, open)
	sealed := func(r progress.RolledBack) bool { return r.Label < open && !r.ForGood }
	l.p.RolledBack = slices.DeleteFunc(l.p.RolledBack, sealed)
}

// anythingFor reports whether the open label has work before it could be
// sealed: held changes, or records that a partition has not given yet.
func (l *Lane) anythingFor(ends []snapshotter.End) bool {
	for _, f := range l.p.Held {
		if l.due(f) {
			return true
		}
	}
	for _, e := range ends {
		if e.Partition.Next < e.Offset && !l.judge.Paused(e.Partition) {
			return true
		}
	}
	return len(l.judge.LoadsToEnd()) > 0
}

// evidence is what the seal of the open label says about it.
func (l *Lane) evidence(ends []snapshotter.End, d snapshotter.Decision, clock time.Time) progress.Evidence {
	s := l.state()
	e := progress.Evidence{
		Label: s.Open, Name: l.o.Calendar.Name(s.Open), SealedAt: rfc3339(time.Now()), Clock: rfc3339(clock),
		Lines: s.Lines, Counts: l.p.Counts, Rows: l.p.Rows, Late: l.late, Foreign: l.p.Foreign, Slice: l.p.Slice,
		DeadLetters: l.p.DeadLettersAsOf(func(string) bool { return true }), // none is of a label to come
	}
	e.Transform = l.p.Transform
	if l.queue.format != decode.Auto {
		e.Format = l.queue.format
	}
	byClock := len(ends) > 0 // a table without topics has no clock to wait for
	for _, end := range ends {
		p := end.Partition
		rule := d.Rules[p.Number]
		byClock = byClock && rule != snapshotter.ByWatermark
		e.Partitions = append(e.Partitions, progress.PartitionEvidence{
			Topic: p.Topic, Partition: p.Kafka, Offset: p.Next, Watermark: p.Watermark, Rule: rule,
			Origins: p.Origins,
		})
	}
	attribute := func(name string, set bool) {
		if set {
			e.Attributes = append(e.Attributes, name)
		}
	}
	if i := l.p.Incomplete; i != nil && i.Since <= s.Open {
		e.Reason = i.Reason
		attribute("incomplete", true)
	}
	attribute("no load", !s.LoadedBy(s.Open) && l.p.Slices == 0)
	attribute("by clock", byClock)
	attribute("empty", l.p.Counts.Touched == 0)
	attribute("compacted", l.compacted)
	attribute("foreign", l.p.Counts.Foreign > 0)
	return e
}
