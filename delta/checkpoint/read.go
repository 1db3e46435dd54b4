package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
)

// readers is how many files of a checkpoint are read at a time: an object store
// answers them side by side, and as many are in memory at once.
const readers = 4

// Read reads the files of one checkpoint, in the order of its parts, and the
// sidecars that they name. A key that ends in .json is a manifest in JSON. The
// error wraps ErrCorrupt and names the file, or is the store's.
func Read(ctx context.Context, store objstore.Store, keys ...string) (*action.Commit, error) {
	files, err := readAll(ctx, store, keys, decodeFile)
	if err != nil {
		return nil, err
	}
	state := &action.Commit{}
	for i, f := range files {
		if v := f.CheckpointVersion; v != nil && !strings.HasPrefix(path.Base(keys[i]), fmt.Sprintf("%020d.", *v)) {
			return nil, fmt.Errorf("%s: %w: it is the checkpoint of version %d", keys[i], ErrCorrupt, *v)
		}
		merge(state, f)
	}
	sidecars, err := readSidecars(ctx, store, state.Sidecars, decodeFile)
	if err != nil {
		return nil, err
	}
	for _, f := range sidecars { // they hold file actions and nothing else
		state.Adds = append(state.Adds, f.Adds...)
		state.Removes = append(state.Removes, f.Removes...)
	}
	state.Sidecars, state.CheckpointVersion = nil, nil
	return state, nil
}

func decodeFile(key string, data []byte) (*action.Commit, error) {
	if strings.HasSuffix(key, ".json") {
		return action.Decode(data)
	}
	return Decode(data)
}

func merge(into, part *action.Commit) {
	if part.Protocol != nil {
		into.Protocol = part.Protocol
	}
	if part.Metadata != nil {
		into.Metadata = part.Metadata
	}
	into.Txns = append(into.Txns, part.Txns...)
	into.Domains = append(into.Domains, slices.DeleteFunc(part.Domains, func(d action.DomainMetadata) bool { return d.Removed })...)
	into.Removes = append(into.Removes, part.Removes...)
	into.Adds = append(into.Adds, part.Adds...)
	into.Sidecars = append(into.Sidecars, part.Sidecars...)
}

// readSidecars reads sidecars in order.
func readSidecars[T any](ctx context.Context, store objstore.Store, sidecars []action.Sidecar, decode func(key string, data []byte) (T, error)) ([]T, error) {
	keys := make([]string, len(sidecars))
	sizes := make(map[string]int64, len(sidecars))
	for i, s := range sidecars {
		key, err := SidecarKey(s.Path)
		if err != nil {
			return nil, err
		}
		if _, again := sizes[key]; again {
			return nil, fmt.Errorf("%w: sidecar %q is named twice", ErrCorrupt, s.Path)
		}
		keys[i], sizes[key] = key, s.SizeInBytes
	}
	out, err := readAll(ctx, store, keys, func(key string, data []byte) (T, error) {
		if want := sizes[key]; int64(len(data)) != want {
			var none T
			return none, fmt.Errorf("%w: it has %d bytes, its manifest says %d", ErrCorrupt, len(data), want)
		}
		return decode(key, data)
	})
	if errors.Is(err, objstore.ErrNotExist) {
		err = fmt.Errorf("%w: a sidecar is missing: %w", ErrCorrupt, err)
	}
	return out, err
}

// sidecarDir is where all sidecars are.
const sidecarDir = "_delta_log/_sidecars/"

// SidecarKey gives the key of a sidecar from its path in a manifest. The
// protocol has them in one folder, and its own name or an absolute URI as the
// path: only the last part of it counts. The error wraps ErrCorrupt.
func SidecarKey(encoded string) (string, error) {
	name, err := action.Key(encoded[strings.LastIndexByte(encoded, '/')+1:])
	if err != nil || strings.Contains(name, "/") {
		return "", fmt.Errorf("%w: a sidecar cannot have the path %q", ErrCorrupt, encoded)
	}
	return sidecarDir + name, nil
}

// readAll reads and decodes files, some at a time, and gives them in order. The
// error is that of the first file that has one.
func readAll[T any](ctx context.Context, store objstore.Store, keys []string, decode func(key string, data []byte) (T, error)) ([]T, error) {
	out, errs := make([]T, len(keys)), make([]error, len(keys))
	slots := make(chan struct{}, readers)
	var running sync.WaitGroup
	for i, key := range keys {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			data, err := store.Get(ctx, key)
			if err == nil {
				if out[i], err = decode(key, data); err != nil {
					err = fmt.Errorf("%s: %w", key, err)
				}
			}
			errs[i] = err
		})
	}
	running.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
