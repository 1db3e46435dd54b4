package gcs

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"iter"
	"math"
	"net/http"
	"strings"
	"time"

	"google.golang.org/api/googleapi"
	"google.golang.org/api/storage/v1"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

// Store keeps objects in a bucket, below a prefix. It is safe for concurrent use.
type Store struct {
	client *Client
	bucket string
	// prefix is "" or ends with a slash.
	prefix string
	probe  attempt.Probe
}

var _ objstore.Streamer = (*Store)(nil)

// String implements objstore.Store: "gs://bucket/prefix".
func (s *Store) String() string {
	return strings.TrimSuffix("gs://"+s.bucket+"/"+s.prefix, "/")
}

func (s *Store) request(op, key, right string) attempt.Request {
	return attempt.Request{Op: op, Key: key, Store: s.String(), Right: right}
}

func check(r attempt.Request) error {
	if err := objstore.CheckKey(r.Key); err != nil {
		return fmt.Errorf("%s: %w", r.Op, err)
	}
	return nil
}

// Get implements objstore.Store.
func (s *Store) Get(ctx context.Context, key string) (data []byte, err error) {
	r := s.request("get", key, "storage.objects.get")
	if err := check(r); err != nil {
		return nil, err
	}
	_, err = s.client.service.Do(ctx, r, func(ctx context.Context) error {
		response, err := s.download(ctx, key, "")
		if err != nil {
			return err
		}
		if data, err = attempt.ReadBody(response.Body, response.ContentLength); err != nil {
			return err
		}
		if sum := sumOf(response.Header); sum != "" && sum != checksum(data) {
			return attempt.ErrDamaged
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// GetRange implements objstore.Store.
func (s *Store) GetRange(ctx context.Context, key string, offset, length int64) (data []byte, err error) {
	r := s.request("get", key, "storage.objects.get")
	if err := check(r); err != nil {
		return nil, err
	}
	if offset < 0 || length < 0 {
		return nil, fmt.Errorf("get %s in %s: range of %d bytes at %d is negative", key, s, length, offset)
	}
	if length == 0 {
		_, err := s.head(ctx, r)
		return nil, err
	}
	last := offset + min(length-1, math.MaxInt64-offset)
	_, err = s.client.service.Do(ctx, r, func(ctx context.Context) error {
		response, err := s.download(ctx, key, fmt.Sprintf("bytes=%d-%d", offset, last))
		if answerOf(err).Status == http.StatusRequestedRangeNotSatisfiable {
			data = nil // there is an object, and it ends before
			return nil
		}
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusPartialContent {
			data, err = attempt.Cut(response.Body, offset, length)
			return err
		}
		data, err = attempt.ReadRange(response.Body, response.ContentLength, response.Header.Get("Content-Range"), offset, length)
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// download asks for content. That there is none is answered in words that are
// not always Google's, so the object's description is asked for then.
func (s *Store) download(ctx context.Context, key, bytes string) (*http.Response, error) {
	call := s.client.api.Objects.Get(s.bucket, s.prefix+key).Context(ctx)
	if bytes != "" {
		call.Header().Set("Range", bytes)
	}
	response, err := call.Download()
	if a := answerOf(err); a.Status == http.StatusNotFound && a.Message == "" {
		if _, reason := s.client.api.Objects.Get(s.bucket, s.prefix+key).Fields("name").Context(ctx).Do(); reason != nil {
			return nil, reason
		}
	}
	return response, err
}

// Head implements objstore.Store.
func (s *Store) Head(ctx context.Context, key string) (objstore.Object, error) {
	r := s.request("head", key, "storage.objects.get")
	if err := check(r); err != nil {
		return objstore.Object{}, err
	}
	o, err := s.head(ctx, r)
	if err != nil {
		return objstore.Object{}, err
	}
	modified, err := time.Parse(time.RFC3339, o.Updated)
	if err != nil {
		return objstore.Object{}, fmt.Errorf("head %s in %s: %w", key, s, err)
	}
	return objstore.Object{Key: key, Size: int64(o.Size), Modified: modified}, nil
}

func (s *Store) head(ctx context.Context, r attempt.Request) (o *storage.Object, err error) {
	_, err = s.client.service.Do(ctx, r, func(ctx context.Context) (err error) {
		o, err = s.client.api.Objects.Get(s.bucket, s.prefix+r.Key).Fields("name", "size", "updated", "metadata", "crc32c").Context(ctx).Do()
		return err
	})
	return o, err
}

// Put implements objstore.Store.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	return s.write(ctx, key, data, false)
}

// PutIfAbsent implements objstore.Store.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return s.write(ctx, key, data, true)
}

// Probe finds out whether the bucket keeps the condition of PutIfAbsent, once a Store: an
// emulator may not. The error wraps attempt.ErrNoConditionalPut where it does not. It
// needs the right to write, and leaves an object behind.
func (s *Store) Probe(ctx context.Context) error { return s.probe.Run(ctx, s, "ifGenerationMatch=0") }

// tokenName is the metadata that tells whose write an object is.
const tokenName = "gscd-write"

func (s *Store) write(ctx context.Context, key string, data []byte, absent bool) error {
	r := s.request("put", key, "storage.objects.create and storage.objects.delete")
	if err := check(r); err != nil {
		return err
	}
	token := rand.Text()
	return s.client.service.Settle(ctx, r, absent, func(ctx context.Context) error {
		call := s.client.api.Objects.Insert(s.bucket, &storage.Object{
			Name: s.prefix + key, Crc32c: checksum(data), Metadata: map[string]string{tokenName: token},
		}).Fields("generation").Context(ctx)
		// One request, whatever the size: the object appears at its end.
		call.Media(bytes.NewReader(data), googleapi.ChunkSize(0), googleapi.ContentType("application/octet-stream"))
		if absent {
			call.IfGenerationMatch(0)
		}
		_, err := call.Do()
		return err
	}, func(ctx context.Context) (attempt.Owner, error) { return s.whose(ctx, key, data, token) })
}

// whose looks at the object of a write's key.
func (s *Store) whose(ctx context.Context, key string, data []byte, token string) (attempt.Owner, error) {
	return attempt.Whose(ctx, s, key, data, token, func(ctx context.Context) (string, int64, error) {
		o, err := s.head(ctx, s.request("head", key, "storage.objects.get"))
		if err != nil {
			return "", 0, err
		}
		return o.Metadata[tokenName], int64(o.Size), nil
	})
}

// Delete implements objstore.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	r := s.request("delete", key, "storage.objects.delete")
	if err := check(r); err != nil {
		return err
	}
	applied, err := s.client.service.Do(ctx, r, func(ctx context.Context) error {
		return s.client.api.Objects.Delete(s.bucket, s.prefix+key).Context(ctx).Do()
	})
	switch {
	case isNotExist(err):
		return nil
	case err != nil && applied:
		return attempt.Unknown(err)
	}
	return err
}

// List implements objstore.Store. Each page of a thousand objects is a request;
// none is made before it is needed. What has no key of ours (a folder that a
// console made: "a/") is left out.
func (s *Store) List(ctx context.Context, prefix, startAfter string) iter.Seq2[objstore.Object, error] {
	return func(yield func(objstore.Object, error) bool) {
		if err := objstore.CheckPrefix(prefix); err != nil {
			yield(objstore.Object{}, fmt.Errorf("list: %w", err))
			return
		}
		r := s.request("list", prefix, "storage.objects.list")
		last := s.prefix + startAfter
		for token := ""; ; {
			var page *storage.Objects
			_, err := s.client.service.Do(ctx, r, func(ctx context.Context) (err error) {
				call := s.client.api.Objects.List(s.bucket).Prefix(s.prefix+prefix).Fields("kind", "nextPageToken", "items(name,size,updated)").Context(ctx)
				if startAfter != "" {
					call.StartOffset(last)
				}
				if token != "" {
					call.PageToken(token)
				}
				if page, err = call.Do(); err == nil && page.Kind != "storage#objects" {
					return errNotGCS // a web page reads as a list of nothing
				}
				return err
			})
			if err != nil {
				yield(objstore.Object{}, err)
				return
			}
			for _, o := range page.Items {
				if startAfter != "" && o.Name == s.prefix+startAfter { // the offset is the first one's name
					continue
				}
				if o.Name <= last && last != s.prefix {
					yield(objstore.Object{}, fmt.Errorf("list %s in %s: %s lists %q behind %q: use a storage that lists in the order of bytes", prefix, s, s.client.service.Name, o.Name, last))
					return
				}
				last = o.Name
				key := strings.TrimPrefix(o.Name, s.prefix)
				if objstore.CheckKey(key) != nil {
					continue
				}
				modified, err := time.Parse(time.RFC3339, o.Updated)
				if err != nil {
					yield(objstore.Object{}, fmt.Errorf("list %s in %s: time of %s: %w", prefix, s, key, err))
					return
				}
				if !yield(objstore.Object{Key: key, Size: int64(o.Size), Modified: modified}, nil) {
					return
				}
			}
			if token = page.NextPageToken; token == "" {
				return
			}
		}
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is the CRC-32C of data as Google writes it.
func checksum(data []byte) string { return sumText(crc32.Checksum(data, castagnoli)) }

func sumText(sum uint32) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

// sumOf is the CRC-32C of an object in the headers of its content, "" where
// there is none.
func sumOf(h http.Header) string {
	for _, line := range h.Values("X-Goog-Hash") {
		for part := range strings.SplitSeq(line, ",") {
			if sum, ok := strings.CutPrefix(strings.TrimSpace(part), "crc32c="); ok {
				return sum
			}
		}
	}
	return ""
}
