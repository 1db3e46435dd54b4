package gcs

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/api/googleapi"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

// Create implements objstore.Streamer: a resumable upload in pieces of objstore.PieceBytes
// (Google wants multiples of 256 KiB). The SDK's own makes requests again by itself.
func (s *Store) Create(ctx context.Context, key string) (objstore.Writer, error) {
	r := s.request("put", key, "storage.objects.create and storage.objects.delete")
	if err := check(r); err != nil {
		return nil, err
	}
	return &writer{ctx: ctx, s: s, r: r, token: rand.Text()}, nil
}

// writer is an object in the making.
type writer struct {
	ctx   context.Context
	s     *Store
	r     attempt.Request
	token string
	// session is the URL of the upload, "" before its first piece. Who knows it may write:
	// it stands in no error.
	session string
	buf     []byte // what the storage has not said to have
	at      int64  // its place in the object
	sum     uint32 // of all that was written
	unsure  bool   // an answer was lost: what the storage has must be asked
	ended   bool
}

// Write implements objstore.Writer.
func (w *writer) Write(data []byte) (int, error) {
	if w.ended {
		return 0, objstore.ErrEnded
	}
	n := 0
	for n < len(data) {
		if len(w.buf) >= objstore.PieceBytes {
			if _, err := w.s.client.service.Do(w.ctx, w.r, func(ctx context.Context) error { return w.send(ctx, false) }); err != nil {
				return n, err
			}
		}
		take := data[n:min(len(data), n+objstore.PieceBytes-len(w.buf))]
		w.buf = append(w.buf, take...)
		w.sum = crc32.Update(w.sum, castagnoli, take)
		n += len(take)
	}
	return n, nil
}

// Commit implements objstore.Writer.
func (w *writer) Commit() error {
	if w.ended {
		return objstore.ErrEnded
	}
	w.ended = true
	defer func() { w.buf = nil }()
	if w.session == "" { // it is small
		return w.s.write(w.ctx, w.r.Key, w.buf, false)
	}
	size := w.at + int64(len(w.buf))
	err := w.s.client.service.Settle(w.ctx, w.r, false, func(ctx context.Context) error { return w.send(ctx, true) },
		func(ctx context.Context) (attempt.Owner, error) { return w.s.whose(ctx, w.r.Key, nil, w.token) })
	if err != nil {
		w.end()
		return err
	}
	// The checksum was not known when the upload began.
	o, err := w.s.head(w.ctx, w.r)
	if err == nil && o.Metadata[tokenName] == w.token && (o.Crc32c != sumText(w.sum) || int64(o.Size) != size) {
		err = w.s.client.service.Fault(w.r, attempt.ErrDamaged)
	}
	return err
}

// Abort implements objstore.Writer.
func (w *writer) Abort() {
	if w.session != "" && !w.ended {
		w.end()
	}
	w.ended, w.buf = true, nil
}

// end gives the upload up: Google forgets one that nobody ends after a week.
func (w *writer) end() { _, _, _ = w.ask(context.WithoutCancel(w.ctx), http.MethodDelete, "", nil) }

// send sends what is held; with last the object appears. After an error it may be called
// again: it asks what has come of the time before.
func (w *writer) send(ctx context.Context, last bool) error {
	if w.session == "" {
		if err := w.begin(ctx); err != nil {
			return err
		}
	}
	end, total := w.at+int64(len(w.buf)), "*"
	if last {
		total = strconv.FormatInt(end, 10)
	}
	for {
		data, span := w.buf, fmt.Sprintf("bytes %d-%d/%s", w.at, end-1, total)
		asks := w.unsure || len(data) == 0
		if asks {
			data, span = nil, "bytes */"+total
		}
		w.unsure = true
		has, done, err := w.ask(ctx, http.MethodPut, span, data)
		if err != nil {
			return err
		}
		w.unsure = false
		switch {
		case done && last:
			w.at, w.buf = end, nil
			return nil
		case done, has < w.at, has > end:
			return fmt.Errorf("the upload has %d bytes, and %d to %d were sent: %w", has, w.at, end, errNotGCS)
		case has == w.at && !asks: // nothing was taken
			return io.ErrUnexpectedEOF
		}
		// In memory of its own: where the answer came before all was sent, the transport may
		// still read what was handed to it.
		w.buf = append(make([]byte, 0, cap(w.buf)), w.buf[has-w.at:]...)
		w.at = has
		if len(w.buf) == 0 && !last {
			return nil
		}
	}
}

// begin makes the session.
func (w *writer) begin(ctx context.Context) error {
	about, err := json.Marshal(map[string]any{"metadata": map[string]string{tokenName: w.token}})
	if err != nil {
		return err
	}
	address := strings.TrimSuffix(w.s.client.api.BasePath, "storage/v1/") + "upload/storage/v1/b/" + url.PathEscape(w.s.bucket) +
		"/o?uploadType=resumable&name=" + url.QueryEscape(w.s.prefix+w.r.Key)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(about))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Upload-Content-Type", "application/octet-stream")
	response, err := w.s.client.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := googleapi.CheckResponse(response); err != nil {
		return err
	}
	if w.session = response.Header.Get("Location"); w.session == "" {
		return errNotGCS
	}
	return nil
}

// ask makes a request of the session: how much the storage has, or that the object is there.
func (w *writer) ask(ctx context.Context, method, span string, data []byte) (has int64, done bool, err error) {
	request, err := http.NewRequestWithContext(ctx, method, w.session, bytes.NewReader(data))
	if err != nil {
		return 0, false, errNotGCS
	}
	if span != "" {
		request.Header.Set("Content-Range", span)
	}
	response, err := w.s.client.http.Do(request)
	if err != nil {
		return 0, false, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusPermanentRedirect { // "Resume Incomplete"
		err := googleapi.CheckResponse(response)
		return 0, err == nil, err
	}
	if kept := response.Header.Get("Range"); kept != "" {
		if _, err := fmt.Sscanf(kept, "bytes=0-%d", &has); err != nil {
			return 0, false, errNotGCS
		}
		has++
	}
	return has, false, nil
}
