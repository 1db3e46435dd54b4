package delta

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/objstore"
)

// VectorKey gives the key of the object that holds a deletion vector; ok is
// false for an inline one, which has none. The error wraps ErrCorrupt,
// ErrAbsolutePath (storage type "p") or ErrPathEscapes.
func VectorKey(d *action.DeletionVector) (key string, ok bool, err error) {
	switch d.StorageType {
	case "i":
		return "", false, nil
	case "p":
		key, err = action.Key(d.PathOrInlineDV)
	case "u":
		if key, err = dv.KeyOfPath(d.PathOrInlineDV); err != nil {
			err = fmt.Errorf("%w: deletion vector: %w", ErrCorrupt, err)
		}
	default:
		err = fmt.Errorf("%w: deletion vector of storage type %q", ErrCorrupt, d.StorageType)
	}
	return key, err == nil, err
}

// Locate gives the store and the key of the object that a path of the log names, in
// a file action or a deletion vector of type "p". An absolute path leads into the
// table itself where it begins with the root, and elsewhere only where the store is
// an objstore.Elsewhere: shallow clones have such paths. The error wraps one of the
// sentinels of paths.
func Locate(store objstore.Store, encoded string) (objstore.Store, string, error) {
	key, err := action.Key(encoded)
	if !errors.Is(err, ErrAbsolutePath) {
		return store, key, err
	}
	absolute, decodeErr := action.AbsolutePath(encoded)
	if decodeErr != nil {
		return nil, "", decodeErr
	}
	if key, inside := strings.CutPrefix(absolute, strings.TrimSuffix(store.String(), "/")+"/"); inside && key != "" {
		return store, key, nil
	}
	if other, ok := store.(objstore.Elsewhere); ok {
		return other.Absolute(absolute)
	}
	return nil, "", err
}

// keysOf gives the keys of the objects of a logical file.
func keysOf(encoded string, d *action.DeletionVector) ([]string, error) {
	key, err := action.Key(encoded)
	if err != nil {
		return nil, err
	}
	keys := []string{key}
	if d != nil {
		key, ok, err := VectorKey(d)
		if err != nil {
			return nil, err
		}
		if ok {
			keys = append(keys, key)
		}
	}
	return keys, nil
}
