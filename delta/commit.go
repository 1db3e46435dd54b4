package delta

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/selfsum"
)

// Outcome says what became of a commit.
type Outcome struct {
	Committed bool
	// Version is the version that was written, or that was asked for and taken.
	Version int64
	// Snapshot is the state after the commit, made without reading it back; nil
	// unless Committed.
	Snapshot *Snapshot
	// Conflict is set unless Committed.
	Conflict *Conflict
}

// Conflict describes the commit that took the version.
type Conflict struct {
	Version int64
	// Operation and TxnID are the winner's, empty where its commitInfo has none.
	Operation string
	TxnID     string
	// Reason is a sentence for the log.
	Reason string
}

// String names the winner.
func (c *Conflict) String() string { return fmt.Sprintf("version %d: %s", c.Version, c.Reason) }

// attempts is how often a write whose answer got lost is looked up and written
// again, and patience how long the first pause is.
const (
	attempts = 4
	patience = 50 * time.Millisecond
	// lookUpTime bounds the look at the log behind a commit that failed, or was interrupted.
	lookUpTime = 5 * time.Second
)

// Commit writes the transaction as the version after its base. A version that
// someone else has taken is a Conflict in the Outcome.
//
// Errors: ErrInvalidTransaction and ErrUnsupportedFeature before anything is
// written; an error that wraps objstore.ErrUnknownOutcome where the answer of
// the store was lost and could not be found out: the same transaction may be
// committed again, it recognises its own commit. After any other error nothing
// was written.
func (x *Transaction) Commit(ctx context.Context) (Outcome, error) {
	if x.done {
		return Outcome{}, fmt.Errorf("%w: it is committed already", ErrInvalidTransaction)
	}
	version := x.version()
	if err := x.validate(); err != nil {
		return Outcome{}, fmt.Errorf("commit version %d of %s: %w", version, x.table.store, err)
	}
	now := x.table.now()
	conflict, err := x.guard(ctx, now)
	if err != nil {
		return Outcome{}, fmt.Errorf("commit version %d: %w", version, err)
	}
	if conflict != nil {
		return Outcome{Version: version, Conflict: conflict}, nil
	}
	commit, err := x.build(ctx, now)
	if err != nil {
		return Outcome{}, fmt.Errorf("commit version %d of %s: %w", version, x.table.store, err)
	}
	body := commit.Append(nil)
	selfsum.Commit.Set(body)
	winner, err := x.put(ctx, version, body)
	if err != nil {
		return Outcome{}, fmt.Errorf("commit version %d of %s: %w", version, x.table.store, err)
	}
	if winner != nil {
		return Outcome{Version: version, Conflict: winner}, nil
	}
	x.done = true
	r := newReplay(x.base)
	r.apply(commit)
	r.note(version, commit)
	s, err := r.snapshot(version, now)
	if err != nil {
		return Outcome{}, err // validate has made sure
	}
	return Outcome{Committed: true, Version: version, Snapshot: s}, nil
}

// guard keeps a commit from filling a hole that a log cleanup left behind: the
// base may be older than the log is long. A base that was the newest a moment
// ago can't be.
func (x *Transaction) guard(ctx context.Context, now time.Time) (*Conflict, error) {
	from := int64(0)
	if x.base != nil {
		if now.Sub(x.base.confirmed) < trusted {
			return nil, nil
		}
		from = x.base.version
	}
	listing, err := deltalog.List(ctx, x.table.store, from)
	if err != nil {
		return nil, err
	}
	if _, taken := listing.Commit(x.version()); taken {
		return nil, nil // put finds out by whom: it may be this transaction
	}
	if newest, ok := listing.Newest(); ok && newest >= x.version() {
		return &Conflict{Version: newest, Reason: fmt.Sprintf("the log is at version %d already", newest)}, nil
	}
	return nil, nil
}

// put writes the commit file. It returns the winner where the version is taken
// by another commit than this one.
func (x *Transaction) put(ctx context.Context, version int64, body []byte) (*Conflict, error) {
	key := deltalog.CommitKey(version)
	pause := patience
	var lost error
	for range attempts {
		err := x.table.store.PutIfAbsent(ctx, key, body)
		if err == nil {
			return nil, nil
		}
		unknown := errors.Is(err, objstore.ErrUnknownOutcome)
		if !unknown && !errors.Is(err, objstore.ErrExist) {
			return x.failed(ctx, version, lost != nil, err)
		}
		// Taken, maybe by an own attempt whose answer got lost: what the file says decides.
		own, winner, readErr := x.lookUp(ctx, version)
		switch {
		case readErr == nil && own:
			return nil, nil
		case readErr == nil:
			return winner, nil
		case unknown && errors.Is(readErr, objstore.ErrNotExist):
			lost = err // not there (yet): writing it again is safe, it is the same commit
		default:
			lost = fmt.Errorf("%w: %w", err, readErr)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", asUnknown(lost), ctx.Err())
		case <-time.After(pause):
			pause *= 2
		}
	}
	return nil, asUnknown(lost)
}

// failed decides about a put that failed, as its error says, without an effect. Whoever
// hears so removes the files of the commit, and a link over a network file system may have failed and be
// there: so the log is asked. lost tells that an earlier attempt may still land.
func (x *Transaction) failed(ctx context.Context, version int64, lost bool, fault error) (*Conflict, error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), lookUpTime)
	defer stop()
	own, winner, err := x.lookUp(ctx, version)
	switch {
	case err == nil && own:
		return nil, nil
	case err == nil:
		return winner, nil
	case errors.Is(err, objstore.ErrNotExist) && !lost:
		return nil, fault
	case errors.Is(err, objstore.ErrNotExist):
		return nil, asUnknown(fault)
	}
	return nil, fmt.Errorf("%w (and the log can't be asked: %w)", asUnknown(fault), err)
}

// asUnknown marks an error as one after which the commit may be there.
func asUnknown(err error) error {
	if err == nil || errors.Is(err, objstore.ErrUnknownOutcome) {
		return err
	}
	return fmt.Errorf("%w: %w", objstore.ErrUnknownOutcome, err)
}

// lookUp reads the commit that has the version and says whether it is this
// transaction's.
func (x *Transaction) lookUp(ctx context.Context, version int64) (own bool, winner *Conflict, err error) {
	c, err := deltalog.ReadCommit(ctx, x.table.store, version)
	if errors.Is(err, ErrCorrupt) {
		return false, &Conflict{Version: version, Reason: "taken by a commit that can't be read: " + err.Error()}, nil
	}
	if err != nil {
		return false, nil, err
	}
	info := action.ParseInfo(c.Info)
	if info.TxnID == x.txnID {
		return true, nil, nil
	}
	return false, &Conflict{
		Version: version, Operation: info.Operation, TxnID: info.TxnID,
		Reason: fmt.Sprintf("taken by %s", cmp.Or(info.Operation, "a commit without commitInfo")),
	}, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
