package deltalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/selfsum"
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
	c, err := DecodeCommit(data)
	if err != nil {
		return nil, fmt.Errorf("read commit %d: %s: %w", version, key, err)
	}
	return c, nil
}

// DecodeCommit is action.Decode of a commit file that has all bytes that were written, as
// far as it says what they are. The error wraps ErrCorrupt.
func DecodeCommit(data []byte) (*action.Commit, error) {
	if _, err := selfsum.Commit.Check(data); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return action.Decode(data)
}

// ReadCommits reads commits side by side and gives them in order. The sequence
// ends with the first error, which is as ReadCommit's.
func ReadCommits(ctx context.Context, store objstore.Store, commits []Commit) iter.Seq2[*action.Commit, error] {
	return readAhead(ctx, len(commits), func(ctx context.Context, i int) ([]*action.Commit, error) {
		c, err := ReadCommit(ctx, store, commits[i].Version)
		return []*action.Commit{c}, err
	})
}

// Read is ReadCommits of the commits of a segment, where a compaction file
// stands for those that it covers; one that is damaged, not reconciled or gone is passed over.
func (s *Segment) Read(ctx context.Context, store objstore.Store) iter.Seq2[*action.Commit, error] {
	type step struct{ from, to int } // into Commits
	var steps []step
	var files []*File
	compacted := s.Compacted
	for i := 0; i < len(s.Commits); {
		if len(compacted) > 0 && compacted[0].Version == s.Commits[i].Version {
			f := compacted[0]
			compacted = compacted[1:]
			to := i + int(f.To-f.Version) + 1
			steps, files = append(steps, step{i, to}), append(files, &f)
			i = to
			continue
		}
		steps, files = append(steps, step{i, i + 1}), append(files, nil)
		i++
	}
	return readAhead(ctx, len(steps), func(ctx context.Context, i int) ([]*action.Commit, error) {
		if f := files[i]; f != nil {
			if data, err := store.Get(ctx, f.Key); err == nil {
				if c, err := action.Decode(data); err == nil && reconciled(c) {
					return []*action.Commit{c}, nil
				}
			} else if !errors.Is(err, objstore.ErrNotExist) {
				return nil, fmt.Errorf("read %s: %w", f.Key, err)
			}
		}
		var commits []*action.Commit
		for _, c := range s.Commits[steps[i].from:steps[i].to] {
			commit, err := ReadCommit(ctx, store, c.Version)
			if err != nil {
				return nil, err
			}
			commits = append(commits, commit)
		}
		return commits, nil
	})
}

// reconciled reports whether no action of a compaction file takes another one
// back. Some writers put commits together as they are; read as one they would
// bring removed files to life.
func reconciled(c *action.Commit) bool {
	files := make(map[action.FileKey]bool, len(c.Adds)+len(c.Removes))
	for _, a := range c.Adds {
		files[a.Key()] = true
	}
	for _, r := range c.Removes {
		files[r.Key()] = true
	}
	apps, domains := make(map[string]bool, len(c.Txns)), make(map[string]bool, len(c.Domains))
	for _, t := range c.Txns {
		apps[t.AppID] = true
	}
	for _, d := range c.Domains {
		domains[d.Domain] = true
	}
	return len(files) == len(c.Adds)+len(c.Removes) && len(apps) == len(c.Txns) && len(domains) == len(c.Domains)
}

// readAhead runs read for 0..n-1, some at a time, and gives what they read in order.
func readAhead(ctx context.Context, n int, read func(ctx context.Context, i int) ([]*action.Commit, error)) iter.Seq2[*action.Commit, error] {
	type result struct {
		commits []*action.Commit
		err     error
	}
	return func(yield func(*action.Commit, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		pending := make(chan chan result, ahead)
		go func() {
			defer close(pending)
			for i := range n {
				one := make(chan result, 1)
				select {
				case pending <- one:
				case <-ctx.Done():
					return
				}
				go func() {
					commits, err := read(ctx, i)
					one <- result{commits, err}
				}()
			}
		}()
		for range n {
			one, ok := <-pending
			if !ok {
				yield(nil, context.Cause(ctx))
				return
			}
			r := <-one
			if r.err != nil {
				yield(nil, r.err)
				return
			}
			for _, c := range r.commits {
				if !yield(c, nil) {
					return
				}
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
	// V2 is set for a v2 checkpoint with a name of its own: without it Trino takes the
	// checkpoint for one that is gone, and the table for broken.
	V2 *V2Hint `json:"v2Checkpoint,omitempty"`
	// Checksum is of the rest, as the protocol says; WriteHint sets it.
	Checksum string `json:"checksum,omitempty"`
}

// V2Hint names the top file of a v2 checkpoint.
type V2Hint struct {
	// Path is the name of the file, in the folder of the log.
	Path             string `json:"path"`
	SizeInBytes      int64  `json:"sizeInBytes"`
	ModificationTime int64  `json:"modificationTime"` // milliseconds since 1970
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
	if sum, stands, err := hintSum(data); err != nil || stands != "" && sum != stands {
		return Hint{}, false, nil
	}
	return h, true, nil
}

// WriteHint overwrites the Hint. The checkpoint must be there, and good.
func WriteHint(ctx context.Context, store objstore.Store, h Hint) error {
	h.Checksum = ""
	data, err := json.Marshal(h)
	if err == nil {
		h.Checksum, _, err = hintSum(data)
	}
	if err == nil {
		data, err = json.Marshal(h)
	}
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
