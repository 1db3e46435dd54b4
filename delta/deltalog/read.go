package deltalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
)

// ahead is how many commits are read at a time: enough to hide the latency of
// an object store, few enough that memory stays small.
const ahead = 16

// ReadCommit reads one version's commit file. The error wraps
// objstore.ErrNotExist where there is none, and ErrCorrupt where it is damaged.
func ReadCommit(ctx context.Context, store objstore.Store, version int64) (*action.Commit, error) {
	key := CommitKey(version)
	data, err := store.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read commit %d: %w", version, err)
	}
	c, err := action.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("read commit %d: %s: %w", version, key, err)
	}
	return c, nil
}

// ReadCommits reads commits side by side and gives them in order. The sequence
// ends with the first error, which is as ReadCommit's.
func ReadCommits(ctx context.Context, store objstore.Store, commits []Commit) iter.Seq2[*action.Commit, error] {
	type result struct {
		commit *action.Commit
		err    error
	}
	return func(yield func(*action.Commit, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		pending := make(chan chan result, ahead)
		go func() {
			defer close(pending)
			for _, c := range commits {
				one := make(chan result, 1)
				select {
				case pending <- one:
				case <-ctx.Done():
					return
				}
				go func() {
					commit, err := ReadCommit(ctx, store, c.Version)
					one <- result{commit, err}
				}()
			}
		}()
		for range commits {
			one, ok := <-pending
			if !ok {
				yield(nil, context.Cause(ctx))
				return
			}
			r := <-one
			if !yield(r.commit, r.err) || r.err != nil {
				return
			}
		}
	}
}

// Hint is the content of _last_checkpoint.
type Hint struct {
	Version int64 `json:"version"`
	// Size is the number of actions in the checkpoint.
	Size int64 `json:"size"`
	// Parts is set for a checkpoint in parts.
	Parts         int64 `json:"parts,omitempty"`
	SizeInBytes   int64 `json:"sizeInBytes,omitempty"`
	NumOfAddFiles int64 `json:"numOfAddFiles,omitempty"`
}

// ReadHint reads the Hint; ok is false where it is absent, broken or of no use.
// An error is one of the store only.
func ReadHint(ctx context.Context, store objstore.Store) (h Hint, ok bool, err error) {
	data, err := store.Get(ctx, HintKey)
	if errors.Is(err, objstore.ErrNotExist) {
		return Hint{}, false, nil
	}
	if err != nil {
		return Hint{}, false, fmt.Errorf("read %s: %w", HintKey, err)
	}
	if json.Unmarshal(data, &h) != nil || h.Version < 0 {
		return Hint{}, false, nil
	}
	return h, true, nil
}

// WriteHint overwrites the Hint. The checkpoint must be there, and good.
func WriteHint(ctx context.Context, store objstore.Store, h Hint) error {
	data, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("write %s: %w", HintKey, err)
	}
	if err := store.Put(ctx, HintKey, data); err != nil {
		return fmt.Errorf("write %s: %w", HintKey, err)
	}
	return nil
}

// Find lists as little as the Hint allows and gives the files of the newest
// version. The errors are those of SegmentNewest and of the store.
func Find(ctx context.Context, store objstore.Store) (*Segment, *Listing, error) {
	hint, ok, err := ReadHint(ctx, store)
	if err != nil {
		return nil, nil, err
	}
	if ok {
		l, err := List(ctx, store, hint.Version)
		if err != nil {
			return nil, nil, err
		}
		if s, err := l.SegmentNewest(store); err == nil && s.Checkpoint != nil {
			return s, l, nil
		}
	}
	l, err := List(ctx, store, 0)
	if err != nil {
		return nil, nil, err
	}
	s, err := l.SegmentNewest(store)
	return s, l, err
}
