package dynamodb

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

// Store is the store of a table's bucket, whose commits go through DynamoDB. It
// is safe for concurrent use.
type Store struct {
	objstore.Store
	client *Client
	// tablePath is what all writers call the table.
	tablePath string
	now       func() time.Time
}

var _ objstore.Streamer = (*Store)(nil)

// Store puts the commits of a table through DynamoDB. base is rooted at the
// table's folder; tablePath is its URI as the other writers spell it, without a
// slash at its end: Spark's is s3a://BUCKET/PATH.
func (c *Client) Store(base objstore.Store, tablePath string) *Store {
	return &Store{base, c, strings.TrimRight(tablePath, "/"), time.Now}
}

// Unwrap gives the store of the bucket.
func (s *Store) Unwrap() objstore.Store { return s.Store }

const (
	logFolder  = "_delta_log/"
	tempFolder = ".tmp/"
)

// fileOf gives the name of a commit's file.
func fileOf(key string) (file string, ok bool) {
	file, ok = strings.CutPrefix(key, logFolder)
	digits, isJSON := strings.CutSuffix(file, ".json")
	if !ok || !isJSON || len(digits) != 20 || strings.Trim(digits, "0123456789") != "" {
		return "", false
	}
	return file, true
}

// before gives the file of the version before; "" before the first.
func before(file string) string {
	n, err := strconv.ParseUint(strings.TrimSuffix(file, ".json"), 10, 64)
	if err != nil || n == 0 {
		return ""
	}
	return fmt.Sprintf("%020d.json", n-1)
}

// Create implements objstore.Streamer: what is not put if absent is no commit, and goes
// to the bucket.
func (s *Store) Create(ctx context.Context, key string) (objstore.Writer, error) {
	return objstore.Begin(ctx, s.Store, key)
}

// PutIfAbsent implements objstore.Store. For a commit it returns nil once the
// entry stands, even where the copy has failed: every later call finds it, and
// finishes it.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	file, ok := fileOf(key)
	if !ok {
		return s.Store.PutIfAbsent(ctx, key, data)
	}
	r := attempt.Request{Op: "put", Key: key, Store: s.String()}
	switch _, err := s.Store.Head(ctx, key); {
	case err == nil:
		return attempt.Exists(r)
	case !errors.Is(err, objstore.ErrNotExist):
		return err
	}
	if err := s.prepare(ctx, r, file); err != nil {
		return err
	}
	e := entry{file: file, temp: tempFolder + file + "." + uuid()}
	if err := s.Store.Put(ctx, logFolder+e.temp, data); err != nil {
		return err
	}
	if err := s.claim(ctx, e); err != nil {
		if errors.Is(err, objstore.ErrUnknownOutcome) {
			return err
		}
		s.forget(ctx, e)
		if errors.Is(err, objstore.ErrExist) {
			return s.lost(ctx, r, file)
		}
		return err
	}
	switch err := s.Store.PutIfAbsent(ctx, key, data); {
	case errors.Is(err, objstore.ErrExist):
		there, err := s.Store.Get(ctx, key)
		if err == nil && !bytes.Equal(there, data) {
			// Somebody has written past DynamoDB, and was first.
			if s.finish(ctx, e) == nil {
				s.forget(ctx, e)
			}
			return attempt.Exists(r)
		}
		if err != nil {
			return fmt.Errorf("put %s: whose it is can't be seen: %w", key, attempt.Unknown(err))
		}
	case err != nil:
		return nil // it stands in DynamoDB
	}
	if s.finish(ctx, e) == nil {
		s.forget(ctx, e)
	}
	return nil
}

// prepare sees to it that the version before a commit is there, and that no
// table of the past stands in the way.
func (s *Store) prepare(ctx context.Context, r attempt.Request, file string) error {
	previous := before(file)
	first := previous == ""
	if first {
		previous = file // a first version may have an entry itself
	}
	e, found, err := s.entry(ctx, previous)
	switch {
	case err == nil && found && !e.complete:
		err = s.recover(ctx, e)
	case err == nil && first && found:
		return s.done(ctx, r, file)
	case err == nil && !first:
		if _, err = s.Store.Head(ctx, logFolder+previous); errors.Is(err, objstore.ErrNotExist) {
			err = fmt.Errorf("the version before it is not in %s: read the table anew, and commit behind its newest version", s.Store)
		}
	}
	if err != nil {
		return fmt.Errorf("put %s: %w", r.Key, err)
	}
	return nil
}

// done is the error of a version whose entry is complete: it is there, or the
// entry has outlived its table.
func (s *Store) done(ctx context.Context, r attempt.Request, file string) error {
	_, err := s.Store.Head(ctx, r.Key)
	switch {
	case errors.Is(err, objstore.ErrNotExist):
		return fmt.Errorf("put %s: DynamoDB table %s has a complete entry of %s for %s, which is not in the bucket: if the table was removed and is to be made anew, remove the items of this tablePath, or wait a day", r.Key, s.client.table, file, s.tablePath)
	case err != nil:
		return err
	}
	return attempt.Exists(r)
}

// lost words the loss of a race, after the winner's commit was helped to be seen.
func (s *Store) lost(ctx context.Context, r attempt.Request, file string) error {
	e, found, err := s.entry(ctx, file)
	if err != nil || !found {
		return attempt.Exists(r)
	}
	if !e.complete {
		if err := s.recover(ctx, e); err != nil {
			return fmt.Errorf("put %s: another writer has this version: %w", r.Key, err)
		}
		return attempt.Exists(r)
	}
	return s.done(ctx, r, file)
}

// forget removes a temporary file that nobody needs. What can't be removed stays.
func (s *Store) forget(ctx context.Context, e entry) {
	_ = s.Store.Delete(ctx, logFolder+e.temp) // a lifecycle rule, or nobody, minds it
}

// uuid makes a random UUID, which other writers have in these names.
func uuid() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// recovered asks again for a commit that is not there, once another writer's
// entry of it was finished.
func recovered[T any](ctx context.Context, s *Store, key string, read func() (T, error)) (T, error) {
	v, err := read()
	file, ok := fileOf(key)
	if !ok || !errors.Is(err, objstore.ErrNotExist) {
		return v, err
	}
	e, found, entryErr := s.entry(ctx, file)
	switch {
	case entryErr != nil:
		return v, entryErr
	case !found || e.complete:
		return v, err
	}
	if err := s.recover(ctx, e); err != nil {
		return v, err
	}
	return read()
}

// Get implements objstore.Store.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	return recovered(ctx, s, key, func() ([]byte, error) { return s.Store.Get(ctx, key) })
}

// GetRange implements objstore.Store.
func (s *Store) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	return recovered(ctx, s, key, func() ([]byte, error) { return s.Store.GetRange(ctx, key, offset, length) })
}

// Head implements objstore.Store.
func (s *Store) Head(ctx context.Context, key string) (objstore.Object, error) {
	return recovered(ctx, s, key, func() (objstore.Object, error) { return s.Store.Head(ctx, key) })
}

// List implements objstore.Store.
func (s *Store) List(ctx context.Context, prefix, startAfter string) iter.Seq2[objstore.Object, error] {
	return func(yield func(objstore.Object, error) bool) {
		if mayListCommits(prefix) && ctx.Err() == nil {
			e, found, err := s.latest(ctx)
			if err == nil && found && !e.complete {
				err = s.recover(ctx, e)
			}
			if err != nil {
				yield(objstore.Object{}, fmt.Errorf("list %s in %s: %w", prefix, s, err))
				return
			}
		}
		for o, err := range s.Store.List(ctx, prefix, startAfter) {
			if err == nil && strings.HasPrefix(o.Key, logFolder+tempFolder) {
				continue
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

// mayListCommits: a key of a commit may begin with prefix.
func mayListCommits(prefix string) bool {
	rest, inLog := strings.CutPrefix(prefix, logFolder)
	if !inLog {
		return strings.HasPrefix(logFolder, prefix)
	}
	return rest == "" || rest[0] >= '0' && rest[0] <= '9'
}

// Probe finds out whether the DynamoDB table is there, and whether the bucket
// can be committed to.
func (s *Store) Probe(ctx context.Context) error {
	if err := s.client.Check(ctx); err != nil {
		return err
	}
	if bucket, ok := s.Store.(interface{ Probe(context.Context) error }); ok {
		return bucket.Probe(ctx)
	}
	return nil
}

// Check finds out whether the DynamoDB table is there and has the right keys.
// It needs the right dynamodb:DescribeTable.
func (c *Client) Check(ctx context.Context) error {
	r := attempt.Request{Op: "describe", Key: "table " + c.table, Store: c.service.Name, Right: "dynamodb:DescribeTable"}
	var out *dynamodb.DescribeTableOutput
	_, err := c.service.Do(ctx, r, func(ctx context.Context) (err error) {
		out, err = c.api.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &c.table})
		return err
	})
	if err != nil {
		return err
	}
	keys := map[types.KeyType]string{}
	if out.Table != nil {
		for _, k := range out.Table.KeySchema {
			if k.AttributeName != nil {
				keys[k.KeyType] = *k.AttributeName
			}
		}
	}
	if keys[types.KeyTypeHash] != attrTable || keys[types.KeyTypeRange] != attrFile {
		return fmt.Errorf("DynamoDB table %s has the keys %q and %q, not %s and %s: name the table that Spark uses, or make one", c.table, keys[types.KeyTypeHash], keys[types.KeyTypeRange], attrTable, attrFile)
	}
	return nil
}
