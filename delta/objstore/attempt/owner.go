package attempt

import (
	"bytes"
	"context"
	"errors"

	"github.com/gscd-io/gscd/delta/objstore"
)

// Owner says whose the object of a key is.
type Owner int

// What a look at the object of a write tells.
const (
	Nobody Owner = iota // there is none
	Own
	Other
)

// Whose looks at the object of a write's key. head tells the token that the
// object bears, "" where it has none, and its size. An object without a token, of
// another writer or of a storage that drops metadata, is the write's if the bytes are.
func Whose(ctx context.Context, s objstore.Store, key string, data []byte, token string, head func(context.Context) (found string, size int64, err error)) (Owner, error) {
	found, size, err := head(ctx)
	switch {
	case errors.Is(err, objstore.ErrNotExist):
		return Nobody, nil
	case err != nil:
		return Nobody, err
	case found == token:
		return Own, nil
	case found != "" || size != int64(len(data)):
		return Other, nil
	}
	there, err := s.Get(ctx, key)
	switch {
	case errors.Is(err, objstore.ErrNotExist):
		return Nobody, nil
	case err != nil:
		return Nobody, err
	case bytes.Equal(there, data):
		return Own, nil
	}
	return Other, nil
}
