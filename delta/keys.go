package delta

import (
	"fmt"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
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
