package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
)

// One ingester owns a table. Who starts raises the owner epoch: one that reads on
// and on with a commit of its own, as soon as all checks have passed, one with an
// end (UntilEnd) with its first commit. The one before meets that commit at its own
// next one, sees the higher epoch and stops. So a paused process that wakes up adds nothing, and a new
// process takes over without asking the old one. Two that are started again and
// again, by two supervisors, would take turns for ever: who finds the epoch
// raised often in the last hour waits first.

// ErrLostOwnership: another ingester has taken the table.
var ErrLostOwnership = errors.New("lost ownership")

const (
	oftenRaised = 3
	raisedSpan  = time.Hour
	firstWait   = time.Minute
	longestWait = 10 * time.Minute
)

// newOwner names a lane for people: host and process, and a part that no other has.
func newOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s process %d (%.8s)", host, os.Getpid(), uuid.NewString())
}

// checkOwner compares the table's owner with the lane.
func (l *Lane) checkOwner() error {
	if l.owner == "" {
		return nil
	}
	other := l.p.Owner != "" && l.p.Owner != l.owner
	if l.owns && (l.p.OwnerEpoch > l.epoch || l.p.OwnerEpoch == l.epoch && other) {
		return fmt.Errorf("table %s: %w to %s (epoch %d, this process had %d): one process ingests a table; stop one of the two",
			l.o.Name, ErrLostOwnership, l.p.Owner, l.p.OwnerEpoch, l.epoch)
	}
	if !l.owns {
		l.epoch = l.p.OwnerEpoch + 1
	}
	return nil
}

// claim takes a table that is there, in a commit that changes nothing else. What a
// lane has loaded may be old by then, and loading a large table takes longer than
// the owner's next commit: so it is the claim that is tried again, not the loading.
func (l *Lane) claim() error {
	if !l.claims() {
		return nil
	}
	for again := false; ; again = true {
		l.p.Kind, l.p.Late, l.p.Seals = progress.Maintenance, nil, nil
		l.countHoles()
		l.showLoaded() // who counts what commits bring counts from here
		l.writing = time.Now()
		tx := delta.NewTransaction(l.table, l.base)
		if l.protectAsConfigured(tx) {
			l.o.Log.Info("the table's protection follows the configuration", zap.String("table", l.o.Name), zap.String("protect", l.o.Protect))
		}
		err := l.commit(tx, "OWNER")
		if err == nil && again {
			return fmt.Errorf("%w: the table is taken, and has moved on before", errReload)
		}
		if !errors.Is(err, errConflict) {
			return err
		}
		l.conflicts++
		if err := l.backOff(); err != nil {
			return err
		}
		if l.base, err = l.table.Update(l.ctx, l.base); err != nil {
			return fmt.Errorf("table %s: %w", l.o.Name, err)
		}
		if l.p, err = savepoint.ProgressOf(l.ctx, l.table, l.base); err != nil {
			return fmt.Errorf("table %s: %w", l.o.Name, l.explainLost(err))
		}
		// Others' commits behind gscd's last one are looked at when the table is loaded anew.
		if txn, _ := l.base.Txn(progress.AppID); txn.Version < l.base.Version() && l.p.FirstUnseen == 0 {
			l.p.FirstUnseen = txn.Version + 1
		}
		if err := l.checkOwner(); err != nil {
			return err
		}
	}
}

// claims tells that the lane takes the table in a commit of its own, and has not yet.
func (l *Lane) claims() bool { return !l.owns && !l.o.UntilEnd && l.owner != "" }

// takeOwnership writes the lane's epoch into the progress of its next commit.
func (l *Lane) takeOwnership() {
	if l.owner == "" {
		return
	}
	l.epoch = max(l.epoch, 1)
	if l.p.OwnerEpoch != l.epoch || l.p.Owner != l.owner {
		l.p.Raised = append(l.p.Raised, time.Now().UnixMilli())
		if n := len(l.p.Raised) - progress.MaxRaised; n > 0 {
			l.p.Raised = l.p.Raised[n:]
		}
	}
	l.p.OwnerEpoch, l.p.Owner = l.epoch, l.owner
}

// errOftenTaken says why a lane waits for its turn.
var errOftenTaken = errors.New("other processes have taken the table again and again in the last hour")

// waitForTurn waits where the epoch was raised often of late; waited tells that
// the table must be looked at again.
func (l *Lane) waitForTurn(ctx context.Context) (waited bool, err error) {
	if l.waited || !l.claims() {
		return false, nil
	}
	l.waited = true
	wait := turn(l.p.Raised, time.Now(), cmp.Or(l.o.Turns, oftenRaised))
	if wait <= 0 {
		return false, nil
	}
	l.o.Log.Warn("other ingesters have taken this table again and again; waiting before taking it", zap.String("table", l.o.Name),
		zap.String("owner", l.p.Owner), zap.Int64("epoch", l.p.OwnerEpoch), zap.Duration("wait", wait))
	l.turnSince = time.Now()
	defer func() { l.turnSince = time.Time{} }()
	over, tick := time.After(wait), time.NewTicker(10*time.Second)
	defer tick.Stop()
	for {
		l.alive()
		select {
		case <-over:
			return true, nil
		case <-tick.C:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// turn is how long a starter waits: the more raises in the last hour, from often
// on, the longer, counted from the last one.
func turn(raised []int64, now time.Time, often int) time.Duration {
	n := 0
	for _, at := range raised {
		if now.Sub(time.UnixMilli(at)) < raisedSpan {
			n++
		}
	}
	if n < often {
		return 0
	}
	wait := min(firstWait<<(n-often), longestWait)
	return wait - now.Sub(time.UnixMilli(raised[len(raised)-1]))
}
