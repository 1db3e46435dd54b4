package storetest

import (
	"bytes"
	"context"
	"io"
	"slices"
	"testing"

	"github.com/gscd-io/gscd/delta/objstore"
)

// streamed is enough for three pieces, the last of them not whole.
var streamed = func() []byte {
	data := make([]byte, 2*objstore.PieceBytes+12345)
	for i := range data {
		data[i] = byte(i * i >> 7)
	}
	return data
}()

func begin(t *testing.T, s objstore.Store, key string) objstore.Writer {
	t.Helper()
	w, err := objstore.Begin(t.Context(), s, key)
	if err != nil {
		t.Fatalf("create %s: %v", key, err)
	}
	t.Cleanup(w.Abort)
	return w
}

// writeIn writes data in pieces of a size, of which the writer may keep none.
func writeIn(t *testing.T, w io.Writer, data []byte, size int) {
	t.Helper()
	piece := make([]byte, 0, size)
	for len(data) > 0 {
		piece = append(piece[:0], data[:min(size, len(data))]...)
		data = data[len(piece):]
		if n, err := w.Write(piece); n != len(piece) || err != nil {
			t.Fatalf("write of %d bytes = %d, %v", len(piece), n, err)
		}
		clear(piece)
	}
}

func streams(t *testing.T, s objstore.Store) {
	for name, c := range map[string]struct {
		data []byte
		size int
		make func(string) objstore.Writer
	}{
		"nothing":       {nil, 1, func(key string) objstore.Writer { return begin(t, s, key) }},
		"little":        {[]byte("little"), 2, func(key string) objstore.Writer { return begin(t, s, key) }},
		"pieces":        {streamed, 1 << 20, func(key string) objstore.Writer { return begin(t, s, key) }},
		"at once":       {streamed, len(streamed), func(key string) objstore.Writer { return begin(t, s, key) }},
		"odd pieces":    {streamed, 1<<20 + 7, func(key string) objstore.Writer { return objstore.Create(t.Context(), s, key) }},
		"little behind": {[]byte("x"), 1, func(key string) objstore.Writer { return objstore.Create(t.Context(), s, key) }},
	} {
		key := "dir/" + name
		w := c.make(key)
		writeIn(t, w, c.data, c.size)
		if err := w.Commit(); err != nil {
			t.Fatalf("%s: commit: %v", name, err)
		}
		if got, err := s.Get(t.Context(), key); err != nil || !bytes.Equal(got, c.data) {
			t.Errorf("%s: %d bytes, %v; want the %d that were written", name, len(got), err, len(c.data))
		}
		wantErr(t, name+": second commit", w.Commit(), objstore.ErrEnded)
		w.Abort()
		if head, err := s.Head(t.Context(), key); err != nil || head.Size != int64(len(c.data)) {
			t.Errorf("%s: after an abort behind the commit: %+v, %v", name, head, err)
		}
	}
}

func streamsShowNothing(t *testing.T, s objstore.Store) {
	put(t, s, "old", "old")
	for _, key := range []string{"old", "new"} {
		w := begin(t, s, key)
		writeIn(t, w, streamed, 1<<20)
		wantGet(t, s, "old", "old")
		if got := keys(t, s, "", ""); !slices.Equal(got, []string{"old"}) {
			t.Errorf("listed before the commit: %q", got)
		}
		w.Abort()
		_, err := w.Write([]byte("x"))
		wantErr(t, "write after abort", err, objstore.ErrEnded)
		wantErr(t, "commit after abort", w.Commit(), objstore.ErrEnded)
	}
	wantGet(t, s, "old", "old")
	_, err := s.Head(t.Context(), "new")
	wantErr(t, "head", err, objstore.ErrNotExist)
	w := begin(t, s, "old")
	writeIn(t, w, streamed[:100], 100)
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	wantGet(t, s, "old", string(streamed[:100]))

	ctx, cancel := context.WithCancel(t.Context())
	w, err = objstore.Begin(ctx, s, "cancelled")
	if err != nil {
		t.Fatal(err)
	}
	writeIn(t, w, []byte("x"), 1)
	cancel()
	wantErr(t, "commit", w.Commit(), context.Canceled)
	if got := keys(t, s, "", ""); !slices.Equal(got, []string{"old"}) {
		t.Errorf("left: %q", got)
	}
}

func streamsOfBadKeys(t *testing.T, s objstore.Store) {
	for _, key := range []string{"", "..", "/abs", "a/../b"} {
		_, err := objstore.Begin(t.Context(), s, key)
		wantErr(t, "create "+key, err, objstore.ErrKey)
		wantErr(t, "commit "+key, objstore.Create(t.Context(), s, key).Commit(), objstore.ErrKey)
	}
}

func copies(t *testing.T, s objstore.Store) {
	put(t, s, "from", string(streamed))
	size := int64(len(streamed))
	if err := objstore.Copy(t.Context(), s, "from", size, s, "to"); err != nil {
		t.Fatal(err)
	}
	wantGet(t, s, "to", string(streamed))
	wantErr(t, "copy of a shorter object", objstore.Copy(t.Context(), s, "from", size+1, s, "short"), io.ErrUnexpectedEOF)
	wantErr(t, "copy of nothing", objstore.Copy(t.Context(), s, "nothing", 1, s, "short"), objstore.ErrNotExist)
	_, err := s.Head(t.Context(), "short")
	wantErr(t, "head", err, objstore.ErrNotExist)
}
