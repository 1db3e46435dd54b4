package objstore

import (
	"context"
	"errors"
	"iter"
	"time"
)

// What callers decide on.
var (
	// ErrNotExist: there is no object of that key.
	ErrNotExist = errors.New("object does not exist")
	// ErrExist: PutIfAbsent found an object of that key.
	ErrExist = errors.New("object exists")
	// ErrUnknownOutcome: a write got no answer; the object may or may not be
	// there. Read it back before anything is concluded.
	ErrUnknownOutcome = errors.New("outcome of the write is unknown")
	// ErrTemporary: the storage could not be reached, or asked to be left alone
	// for a while. The same call may succeed later. A write may wrap it together
	// with ErrUnknownOutcome.
	ErrTemporary = errors.New("storage does not answer for the time being")
)

// Object describes one stored object.
type Object struct {
	// Key is the path below the store's root, parts joined by "/", no leading slash.
	Key  string
	Size int64
	// Modified is the store's own time of the last write.
	Modified time.Time
}

// Elsewhere is a Store that also leads to objects outside of its root, where whoever
// opened it allowed that. The log of a shallow clone names such objects.
type Elsewhere interface {
	// Absolute gives the store and the key of an absolute path ("/data/t/f.parquet") or
	// URI ("s3://bucket/t/f.parquet"), decoded and without "..". The error says that it
	// is not allowed.
	Absolute(path string) (Store, string, error)
}

// Store keeps objects under keys below one root. Every call is safe for
// concurrent use. Errors wrap the sentinels above and name the key. A key that
// would leave the root (empty, "..", absolute) is refused by every call.
type Store interface {
	// Get reads a whole object.
	Get(ctx context.Context, key string) ([]byte, error)
	// GetRange reads length bytes from offset; fewer only where the object ends.
	GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error)
	// Head describes an object without reading it.
	Head(ctx context.Context, key string) (Object, error)
	// Put writes a whole object, replacing one that is there. The object is
	// durable, and wholly the old or wholly the new one for every reader, when
	// Put returns nil. data is not kept.
	Put(ctx context.Context, key string, data []byte) error
	// PutIfAbsent is Put that fails with ErrExist where the key is taken. Of
	// concurrent calls for one key exactly one succeeds.
	PutIfAbsent(ctx context.Context, key string, data []byte) error
	// Delete removes an object; one that is not there is no error.
	Delete(ctx context.Context, key string) error
	// List gives the objects whose key begins with prefix and is greater than
	// startAfter, in byte order of keys, over all levels. A prefix that ends in
	// "/" lists a folder. An error ends the sequence.
	List(ctx context.Context, prefix, startAfter string) iter.Seq2[Object, error]
	// String names the root for messages, without secrets: "/data/t", "s3://bucket/t".
	String() string
}
