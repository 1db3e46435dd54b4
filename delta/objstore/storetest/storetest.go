package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore"
)

// Run checks the contract of objstore.Store. make gives an empty store of its
// own for each call and cleans up through t.
func Run(t *testing.T, make func(t *testing.T) objstore.Store) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(t *testing.T, s objstore.Store)
	}{
		{"ReadsWhatWasWritten", readsWhatWasWritten},
		{"Ranges", ranges},
		{"Missing", missing},
		{"PutReplaces", putReplaces},
		{"PutIfAbsentKeepsTheFirst", putIfAbsentKeepsTheFirst},
		{"OneWinnerPerKey", oneWinnerPerKey},
		{"ReadersSeeWholeObjects", readersSeeWholeObjects},
		{"Delete", deletes},
		{"List", lists},
		{"ListStopsAndResumes", listStopsAndResumes},
		{"BadKeys", badKeys},
		{"OddKeys", oddKeys},
		{"BuffersAreNotShared", buffersAreNotShared},
		{"Streams", streams},
		{"StreamsShowNothingBeforeTheirCommit", streamsShowNothing},
		{"StreamsOfBadKeys", streamsOfBadKeys},
		{"Copy", copies},
		{"CancelledContext", cancelledContext},
		{"ReaderAt", readerAt},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, make(t)) })
	}
}

func put(t *testing.T, s objstore.Store, key, data string) {
	t.Helper()
	if err := s.Put(t.Context(), key, []byte(data)); err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
}

func wantGet(t *testing.T, s objstore.Store, key, want string) {
	t.Helper()
	got, err := s.Get(t.Context(), key)
	if err != nil || string(got) != want {
		t.Fatalf("get %s = %.40q, %v; want %.40q", key, got, err, want)
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want one that is %v", what, err, want)
	}
}

// keys lists and checks that each entry agrees with Head.
func keys(t *testing.T, s objstore.Store, prefix, startAfter string) []string {
	t.Helper()
	got := []string{}
	for o, err := range s.List(t.Context(), prefix, startAfter) {
		if err != nil {
			t.Fatalf("list %q after %q: %v", prefix, startAfter, err)
		}
		if head, err := s.Head(t.Context(), o.Key); err != nil || head.Key != o.Key || head.Size != o.Size {
			t.Errorf("head %s = %+v, %v; list says %+v", o.Key, head, err, o)
		}
		got = append(got, o.Key)
	}
	return got
}

func readsWhatWasWritten(t *testing.T, s objstore.Store) {
	before := time.Now().Add(-2 * time.Second)
	put(t, s, "_delta_log/00000000000000000000.json", "{}\n")
	put(t, s, "empty", "")
	large := strings.Repeat("0123456789abcdef", 1<<16)
	put(t, s, "part-0.parquet", large)
	wantGet(t, s, "_delta_log/00000000000000000000.json", "{}\n")
	wantGet(t, s, "empty", "")
	wantGet(t, s, "part-0.parquet", large)
	head, err := s.Head(t.Context(), "part-0.parquet")
	if err != nil || head.Key != "part-0.parquet" || head.Size != 1<<20 {
		t.Fatalf("head = %+v, %v", head, err)
	}
	if head.Modified.Before(before) || head.Modified.After(time.Now().Add(2*time.Second)) {
		t.Errorf("modified %s is not now", head.Modified)
	}
	if s.String() == "" {
		t.Error("the store has no name")
	}
}

func ranges(t *testing.T, s objstore.Store) {
	put(t, s, "k", "0123456789")
	for _, c := range []struct {
		offset, length int64
		want           string
	}{
		{0, 10, "0123456789"}, {0, 3, "012"}, {4, 3, "456"}, {7, 3, "789"},
		{7, 100, "789"}, {9, 1, "9"}, {10, 5, ""}, {11, 5, ""}, {1 << 40, 5, ""},
		{3, 0, ""}, {0, 1 << 40, "0123456789"},
	} {
		got, err := s.GetRange(t.Context(), "k", c.offset, c.length)
		if err != nil || string(got) != c.want {
			t.Errorf("range %d+%d = %q, %v; want %q", c.offset, c.length, got, err, c.want)
		}
	}
	for _, c := range [][2]int64{{-1, 5}, {0, -1}} {
		if got, err := s.GetRange(t.Context(), "k", c[0], c[1]); err == nil {
			t.Errorf("range %d+%d = %q, want an error", c[0], c[1], got)
		}
	}
}

func missing(t *testing.T, s objstore.Store) {
	put(t, s, "dir/there", "x")
	for _, key := range []string{"absent", "dir/absent", "dir", "dir/there/below", "no/such/dir/k"} {
		_, err := s.Get(t.Context(), key)
		wantErr(t, "get "+key, err, objstore.ErrNotExist)
		if err != nil && !strings.Contains(err.Error(), key) {
			t.Errorf("error %q does not name %s", err, key)
		}
		_, err = s.GetRange(t.Context(), key, 0, 1)
		wantErr(t, "range of "+key, err, objstore.ErrNotExist)
		_, err = s.Head(t.Context(), key)
		wantErr(t, "head "+key, err, objstore.ErrNotExist)
		if err := s.Delete(t.Context(), key); err != nil {
			t.Errorf("delete of absent %s: %v", key, err)
		}
	}
	wantGet(t, s, "dir/there", "x")
}

func putReplaces(t *testing.T, s objstore.Store) {
	put(t, s, "k", "a longer first text")
	put(t, s, "k", "second")
	wantGet(t, s, "k", "second")
	if head, err := s.Head(t.Context(), "k"); err != nil || head.Size != 6 {
		t.Errorf("head = %+v, %v", head, err)
	}
}

func putIfAbsentKeepsTheFirst(t *testing.T, s objstore.Store) {
	if err := s.PutIfAbsent(t.Context(), "log/0.json", []byte("first")); err != nil {
		t.Fatal(err)
	}
	err := s.PutIfAbsent(t.Context(), "log/0.json", []byte("second"))
	wantErr(t, "second put", err, objstore.ErrExist)
	if err != nil && !strings.Contains(err.Error(), "log/0.json") {
		t.Errorf("error %q does not name the key", err)
	}
	wantGet(t, s, "log/0.json", "first")
	if err := s.Delete(t.Context(), "log/0.json"); err != nil {
		t.Fatal(err)
	}
	if err := s.PutIfAbsent(t.Context(), "log/0.json", []byte("third")); err != nil {
		t.Fatal(err)
	}
	wantGet(t, s, "log/0.json", "third")
	if got := keys(t, s, "", ""); !slices.Equal(got, []string{"log/0.json"}) {
		t.Errorf("something else was left: %q", got)
	}
}

func oneWinnerPerKey(t *testing.T, s objstore.Store) {
	const writers, rounds = 8, 12
	for round := range rounds {
		key := fmt.Sprintf("_delta_log/%020d.json", round)
		var wg sync.WaitGroup
		errs := make([]error, writers)
		for w := range writers {
			wg.Go(func() {
				errs[w] = s.PutIfAbsent(t.Context(), key, bytes.Repeat([]byte{byte('a' + w)}, 4096))
			})
		}
		wg.Wait()
		winner := -1
		for w, err := range errs {
			switch {
			case err == nil && winner < 0:
				winner = w
			case err == nil:
				t.Fatalf("round %d: writers %d and %d both won", round, winner, w)
			default:
				wantErr(t, "loser", err, objstore.ErrExist)
			}
		}
		if winner < 0 {
			t.Fatalf("round %d: nobody won: %v", round, errs)
		}
		wantGet(t, s, key, strings.Repeat(string(rune('a'+winner)), 4096))
	}
}

func readersSeeWholeObjects(t *testing.T, s objstore.Store) {
	const size = 64 << 10
	put(t, s, "k", strings.Repeat("a", size))
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				got, err := s.Get(t.Context(), "k")
				if err != nil {
					t.Errorf("get during put: %v", err)
					return
				}
				if len(got) != size || bytes.Count(got, got[:1]) != size {
					t.Errorf("torn object of %d bytes", len(got))
					return
				}
			}
		})
	}
	for i := range 20 {
		put(t, s, "k", strings.Repeat(string(rune('a'+i)), size))
	}
	close(done)
	wg.Wait()
}

func deletes(t *testing.T, s objstore.Store) {
	put(t, s, "d/a", "1")
	put(t, s, "d/b", "2")
	if err := s.Delete(t.Context(), "d/a"); err != nil {
		t.Fatal(err)
	}
	_, err := s.Get(t.Context(), "d/a")
	wantErr(t, "get", err, objstore.ErrNotExist)
	if got := keys(t, s, "", ""); !slices.Equal(got, []string{"d/b"}) {
		t.Errorf("left: %q", got)
	}
	if err := s.Delete(t.Context(), "d/b"); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "d/b"); err != nil {
		t.Errorf("second delete: %v", err)
	}
	put(t, s, "d/a", "3")
	wantGet(t, s, "d/a", "3")
}

func lists(t *testing.T, s objstore.Store) {
	if got := keys(t, s, "", ""); len(got) != 0 {
		t.Fatalf("an empty store lists %q", got)
	}
	// Byte order of whole keys: "-" and "." stand before "/", "0" after it.
	all := []string{
		"_delta_log/00000000000000000000.json", "_delta_log/00000000000000000001.json",
		"_delta_log/00000000000000000010.checkpoint.parquet", "_delta_log/00000000000000000010.json",
		"_delta_log/_gscd/held/1", "_delta_log/_last_checkpoint", "a-b", "a.b", "a/b", "a/b-c/d", "a/b0", "a0", "z",
	}
	for _, i := range []int{7, 0, 12, 3, 1, 11, 5, 4, 2, 6, 10, 9, 8} {
		if all[i] != "a/b" { // a/b-c is a folder beside it
			put(t, s, all[i], all[i])
		}
	}
	put(t, s, "a/b", "x")
	for _, c := range []struct {
		prefix, after string
		want          []string
	}{
		{"", "", all},
		{"_delta_log/", "", all[:6]},
		{"_delta_log/0", "", all[:4]},
		{"_delta_log/", "_delta_log/00000000000000000001.json", all[2:6]},
		{"_delta_log/", "_delta_log/00000000000000000001.jso", all[1:6]},
		{"_delta_log/00000000000000000010", "_delta_log/00000000000000000010.checkpoint.parquet", all[3:4]},
		{"_delta_log/_gscd/", "", all[4:5]},
		{"a", "", all[6:12]},
		{"a/", "", all[8:11]},
		{"a/", "a/b", all[9:11]},
		{"", "a/b", all[9:]},
		{"", "a/b-c/d", all[10:]},
		{"", "a/", all[8:]},
		{"", "a", all[6:]},
		{"a/", "b", nil},
		{"a/", "_", all[8:11]},
		{"", "zz", nil},
		{"b", "", nil},
		{"no/such/", "", nil},
		{"z/", "", nil},
	} {
		if got := keys(t, s, c.prefix, c.after); !slices.Equal(got, c.want) {
			t.Errorf("list %q after %q:\n got %q\nwant %q", c.prefix, c.after, got, c.want)
		}
	}
}

func listStopsAndResumes(t *testing.T, s objstore.Store) {
	var want []string
	for i := range 25 {
		key := fmt.Sprintf("d%d/%03d", i%3, i)
		put(t, s, key, "x")
		want = append(want, key)
	}
	slices.Sort(want)
	var got []string
	for after := ""; ; {
		n := 0
		for o, err := range s.List(t.Context(), "", after) {
			if err != nil {
				t.Fatal(err)
			}
			got, after = append(got, o.Key), o.Key
			if n++; n == 4 {
				break
			}
		}
		if n == 0 {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("pages of 4:\n got %q\nwant %q", got, want)
	}
}

func badKeys(t *testing.T, s objstore.Store) {
	for _, key := range []string{"", ".", "..", "/", "/abs", "a/", "a//b", "../x", "a/../b", "a/..", "./a", "a/./b", "a\x00b", "a\xffb"} {
		_, err := s.Get(t.Context(), key)
		wantErr(t, fmt.Sprintf("get %q", key), err, objstore.ErrKey)
		_, err = s.GetRange(t.Context(), key, 0, 1)
		wantErr(t, fmt.Sprintf("range %q", key), err, objstore.ErrKey)
		_, err = s.Head(t.Context(), key)
		wantErr(t, fmt.Sprintf("head %q", key), err, objstore.ErrKey)
		wantErr(t, fmt.Sprintf("put %q", key), s.Put(t.Context(), key, nil), objstore.ErrKey)
		wantErr(t, fmt.Sprintf("put if absent %q", key), s.PutIfAbsent(t.Context(), key, nil), objstore.ErrKey)
		wantErr(t, fmt.Sprintf("delete %q", key), s.Delete(t.Context(), key), objstore.ErrKey)
	}
	for _, prefix := range []string{"/", "../", "a/../", "a//b", "./"} {
		var last error
		for _, err := range s.List(t.Context(), prefix, "") {
			last = err
		}
		wantErr(t, fmt.Sprintf("list %q", prefix), last, objstore.ErrKey)
	}
}

func oddKeys(t *testing.T, s objstore.Store) {
	want := []string{"a b/c%20d", "dt=2022-07-16/é", "x=A%2FA/f+g&h", "~#?", "ä/日本"}
	for _, key := range want {
		put(t, s, key, key)
	}
	for _, key := range want {
		wantGet(t, s, key, key)
	}
	if got := keys(t, s, "", ""); !slices.Equal(got, want) {
		t.Errorf("list = %q, want %q", got, want)
	}
}

func buffersAreNotShared(t *testing.T, s objstore.Store) {
	data := []byte("abc")
	if err := s.Put(t.Context(), "k", data); err != nil {
		t.Fatal(err)
	}
	data[0] = 'X'
	got, err := s.Get(t.Context(), "k")
	if err != nil || string(got) != "abc" {
		t.Fatalf("get = %q, %v", got, err)
	}
	got[1] = 'Y'
	wantGet(t, s, "k", "abc")
}

func cancelledContext(t *testing.T, s objstore.Store) {
	put(t, s, "k", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Get(ctx, "k")
	wantErr(t, "get", err, context.Canceled)
	wantErr(t, "put", s.Put(ctx, "k", nil), context.Canceled)
	var last error
	for _, err := range s.List(ctx, "", "") {
		last = err
	}
	wantErr(t, "list", last, context.Canceled)
	wantGet(t, s, "k", "x")
}

func readerAt(t *testing.T, s objstore.Store) {
	put(t, s, "k", "0123456789")
	r := objstore.NewReaderAt(t.Context(), s, "k", 10)
	got, err := io.ReadAll(io.NewSectionReader(r, 2, 5))
	if err != nil || string(got) != "23456" {
		t.Errorf("section = %q, %v", got, err)
	}
	buf := make([]byte, 4)
	if n, err := r.ReadAt(buf, 8); n != 2 || err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}
	if n, err := r.ReadAt(buf, 10); n != 0 || err != io.EOF {
		t.Errorf("past the end: %d, %v", n, err)
	}
	_, err = objstore.NewReaderAt(t.Context(), s, "k", 12).ReadAt(buf, 8)
	wantErr(t, "object shorter than said", err, io.ErrUnexpectedEOF)
}
