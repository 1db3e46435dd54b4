package s3_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/s3"
)

// A put without an answer is looked up: what is there tells whose it is.
func TestLostPut(t *testing.T) {
	mine, theirs := []byte("mine"), []byte("their")
	another := func(plain *s3.Store, data []byte) fate {
		// Another writer is faster, and the answer to the loser gets lost.
		return func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if err := plain.PutIfAbsent(r.Context(), "k", data); err != nil {
				return nil, err
			}
			return lost(r, send)
		}
	}
	foreign := func(server *fake, data []byte) fate {
		// So is one that leaves no token: another program.
		return func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if _, err := server.backend.PutObject(bucket, "t/k", nil, bytes.NewReader(data), int64(len(data)), nil); err != nil {
				return nil, err
			}
			return lost(r, send)
		}
	}
	// A proxy that repeats a request whose answer was lost to itself.
	repeated := fate(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if _, err := lost(r, send); err == nil {
			return nil, errIsNil
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		return send()
	})
	for name, c := range map[string]struct {
		what func(plain *s3.Store, server *fake) fate
		want error
		left string
	}{
		"own":                        {func(*s3.Store, *fake) fate { return lost }, nil, "mine"},
		"own, by a proxy":            {func(*s3.Store, *fake) fate { return repeated }, nil, "mine"},
		"another's":                  {func(p *s3.Store, _ *fake) fate { return another(p, theirs) }, objstore.ErrExist, "their"},
		"another's of the same size": {func(p *s3.Store, _ *fake) fate { return another(p, []byte("xine")) }, objstore.ErrExist, "xine"},
		// The same bytes, and yet not this write: only one of two may succeed.
		"another's of the same bytes":   {func(p *s3.Store, _ *fake) fate { return another(p, mine) }, objstore.ErrExist, "mine"},
		"a program's":                   {func(_ *s3.Store, f *fake) fate { return foreign(f, theirs) }, objstore.ErrExist, "their"},
		"a program's of the same size":  {func(_ *s3.Store, f *fake) fate { return foreign(f, []byte("xine")) }, objstore.ErrExist, "xine"},
		"a program's of the same bytes": {func(_ *s3.Store, f *fake) fate { return foreign(f, mine) }, nil, "mine"},
	} {
		server := newFake(t)
		f := &faults{}
		o := server.options()
		plain := open(t, "t", o)
		o.Transport = f.wrap
		s := open(t, "t", o)
		for _, p := range []*s3.Store{plain, s} {
			if err := p.Probe(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		f.reset(onPuts(1, c.what(plain, server)))
		if err := s.PutIfAbsent(t.Context(), "k", mine); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if got, err := plain.Get(t.Context(), "k"); err != nil || string(got) != c.left {
			t.Errorf("%s: the key has %q, %v; want %q", name, got, err, c.left)
		}
	}
}

// A lost answer that can't be looked up leaves the outcome open, whatever comes behind it.
func TestLostPutThatCannotBeLookedUp(t *testing.T) {
	for name, behind := range map[string]fate{
		"denied": answers(403, "AccessDenied"), "busy": answers(503, "SlowDown"), "expired": answers(400, "ExpiredToken"), "gone": refused,
	} {
		s, plain, f, _ := rigged(t, func(o *s3.Options) { o.Attempts = 2 })
		for _, write := range []func() error{
			func() error { return s.PutIfAbsent(t.Context(), "k", []byte("x")) },
			func() error { return s.Put(t.Context(), "k", []byte("x")) },
			func() error { return s.Delete(t.Context(), "k") },
		} {
			f.reset(func(n int, _ *http.Request) fate {
				if n == 1 {
					return lost
				}
				return behind
			})
			err := write()
			if err == nil || !errors.Is(err, objstore.ErrUnknownOutcome) {
				// A delete is refused only after its first attempt was lost.
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := plain.Get(t.Context(), "k"); !errors.Is(err, objstore.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The storage says that the key is taken, and lets nobody see by whom.
	s, plain, f, _ := rigged(t)
	if err := plain.PutIfAbsent(t.Context(), "k", []byte("theirs")); err != nil {
		t.Fatal(err)
	}
	f.reset(func(_ int, r *http.Request) fate {
		if r.Method == http.MethodPut {
			return nil
		}
		return answers(403, "AccessDenied")
	})
	if err := s.PutIfAbsent(t.Context(), "k", []byte("mine")); !errors.Is(err, objstore.ErrExist) {
		t.Errorf("a taken key that can't be read: %v", err)
	}
}

// keepsCondition makes the fake honour If-None-Match on the end of an upload,
// as S3 does.
func keepsCondition(f *fake) {
	var mu sync.Mutex
	f.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || r.URL.Query().Get("uploadId") == "" || r.Header.Get("If-None-Match") != "*" {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		if _, err := f.backend.HeadObject(bucket, strings.TrimPrefix(r.URL.Path, "/"+bucket+"/")); err != nil {
			return false
		}
		w.WriteHeader(http.StatusPreconditionFailed)
		io.WriteString(w, `<Error><Code>PreconditionFailed</Code><Message>taken</Message></Error>`)
		return true
	}
}

func large(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i * 31 >> 4)
	}
	return data
}

func uploads(requests []string) (created, whole int) {
	for _, r := range requests {
		switch {
		case strings.HasPrefix(r, "POST") && strings.Contains(r, "?uploads"):
			created++
		case strings.HasPrefix(r, "PUT") && !strings.Contains(r, "partNumber"):
			whole++
		}
	}
	return created, whole
}

func TestMultipart(t *testing.T) {
	server := newFake(t)
	keepsCondition(server)
	f := &faults{}
	o := server.options()
	o.Transport = f.wrap
	s := open(t, "t", o)
	data := large(12<<20 + 5)
	if err := s.Put(t.Context(), "k", data); err != nil {
		t.Fatal(err)
	}
	if created, whole := uploads(f.seen()); created != 1 || whole != 0 {
		t.Errorf("%d uploads and %d puts", created, whole)
	}
	if got, err := s.Get(t.Context(), "k"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	// Up to the size of a part it is one put.
	f.reset(nil)
	if err := s.Put(t.Context(), "small", data[:5<<20]); err != nil {
		t.Fatal(err)
	}
	if created, whole := uploads(f.seen()); created != 0 || whole != 1 {
		t.Errorf("%d uploads and %d puts", created, whole)
	}
	// The condition stands at the end of the upload.
	f.reset(nil)
	if err := s.PutIfAbsent(t.Context(), "k", data[1:]); !errors.Is(err, objstore.ErrExist) {
		t.Errorf("a taken key: %v", err)
	}
	if err := s.PutIfAbsent(t.Context(), "free", data[1:]); err != nil {
		t.Errorf("a free key: %v", err)
	}
	if created, whole := uploads(f.seen()); created != 3 || whole > 2 { // the probes' too
		t.Errorf("%d uploads and %d puts: %q", created, whole, f.seen())
	}
	if got, err := s.Get(t.Context(), "k"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the loser changed it: %d bytes, %v", len(got), err)
	}
	leftUploads(t, server)
}

// leftUploads looks for parts that nobody will use.
func leftUploads(t *testing.T, server *fake) {
	t.Helper()
	answer, err := http.Get(server.URL + "/" + bucket + "?uploads")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || !strings.Contains(string(text), "ListMultipartUploadsResult") || strings.Contains(string(text), "<Upload>") {
		t.Errorf("uploads were left: %s, %v", text, err)
	}
}

// A storage that leaves the condition at the end of an upload out of account gets
// large objects in one put: gofakes3 is one.
func TestLargePutWhereUploadsHaveNoCondition(t *testing.T) {
	server := newFake(t)
	f := &faults{}
	o := server.options()
	o.Transport = f.wrap
	s := open(t, "t", o)
	data := large(11 << 20)
	if err := s.PutIfAbsent(t.Context(), "k", data); err != nil {
		t.Fatal(err)
	}
	if err := s.PutIfAbsent(t.Context(), "k", data[1:]); !errors.Is(err, objstore.ErrExist) {
		t.Errorf("a taken key: %v", err)
	}
	for _, r := range f.seen() {
		if strings.Contains(r, "/t/k?uploads") {
			t.Errorf("an upload was begun: %s", r)
		}
	}
	if got, err := s.Get(t.Context(), "k"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
}

// Each request of an upload fails once, in each way.
func TestMultipartFaults(t *testing.T) {
	server := newFake(t)
	keepsCondition(server)
	f := &faults{}
	o := server.options()
	o.Transport, o.Timeout = f.wrap, 2*time.Second
	s := open(t, "t", o)
	data := large(5<<20 + 100)
	if err := s.PutIfAbsent(t.Context(), "first", data); err != nil { // the probes
		t.Fatal(err)
	}
	for _, name := range []string{"slow down", "broken in between", "answer lost", "conflict"} {
		for _, at := range []int{1, 3, 4} { // begin, a part, complete
			for _, absent := range []bool{true, false} {
				if err := s.Delete(t.Context(), "k"); err != nil {
					t.Fatal(err)
				}
				put := s.Put
				if absent {
					put = s.PutIfAbsent
				}
				f.reset(nth(at, passing[name]))
				err := put(t.Context(), "k", data)
				f.reset(nil)
				if err != nil {
					t.Errorf("%s at %d: %v", name, at, err)
				}
				if got, err := s.Get(t.Context(), "k"); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%s at %d: %d bytes came back, %v", name, at, len(got), err)
				}
			}
		}
	}
	// What can't be done leaves no parts behind; a lost begin may leave an upload
	// without any.
	server2 := newFake(t)
	o = server2.options()
	o.Transport, o.Attempts = f.wrap, 2
	s = open(t, "t", o)
	f.reset(func(_ int, r *http.Request) fate {
		if strings.Contains(r.URL.RawQuery, "partNumber=2") {
			return answers(403, "AccessDenied")
		}
		return nil
	})
	if err := s.Put(t.Context(), "k", data); err == nil || errors.Is(err, objstore.ErrUnknownOutcome) || !strings.Contains(err.Error(), "allow s3:PutObject") {
		t.Errorf("a part that is denied: %v", err)
	}
	leftUploads(t, server2)
}

// An upload that the storage has lost is begun anew.
func TestUploadThatIsGone(t *testing.T) {
	s, plain, f, _ := rigged(t)
	data := large(5<<20 + 100)
	gone := 0
	f.reset(func(_ int, r *http.Request) fate {
		if r.Method == http.MethodPost && strings.Contains(r.URL.RawQuery, "uploadId") {
			if gone++; gone <= 2 {
				return answers(404, "NoSuchUpload")
			}
		}
		return nil
	})
	if err := s.Put(t.Context(), "k", data); err != nil {
		t.Errorf("gone twice: %v", err)
	}
	if got, err := plain.Get(t.Context(), "k"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	if created, _ := uploads(f.seen()); created != 3 {
		t.Errorf("%d uploads were begun, want 3", created)
	}
	f.reset(func(_ int, r *http.Request) fate {
		if r.Method == http.MethodPost && strings.Contains(r.URL.RawQuery, "uploadId") {
			return answers(404, "NoSuchUpload")
		}
		return nil
	})
	if err := s.Put(t.Context(), "k", data); err == nil || !strings.Contains(err.Error(), "NoSuchUpload") {
		t.Errorf("gone for good: %v", err)
	}
}

// Puts go out side by side, and have no more bytes on their way than is allowed.
func TestUploadMemory(t *testing.T) {
	const part, memory = 5 << 20, 15 << 20
	server := newFake(t)
	var now, top, bodies, most atomic.Int64
	o := server.options()
	o.UploadMemory = memory
	o.Transport = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPut {
				raise(&top, now.Add(r.ContentLength))
				raise(&most, bodies.Add(1))
				defer func() { now.Add(-r.ContentLength); bodies.Add(-1) }()
				time.Sleep(20 * time.Millisecond) // as long as a line would take
			}
			return next.RoundTrip(r)
		})
	}
	client, err := s3.NewClient(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	data := large(2*part + 1)
	var writers sync.WaitGroup
	for _, table := range []string{"a", "b"} { // stores of a client share the memory
		s, err := client.Store(bucket, table)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"1", "2"} {
			writers.Go(func() {
				if err := s.Put(t.Context(), key, data); err != nil {
					t.Error(err)
				}
			})
		}
	}
	writers.Wait()
	if top.Load() > memory || most.Load() != 3 {
		t.Errorf("%d bytes in %d bodies were on their way, want %d in 3", top.Load(), most.Load(), memory)
	}
}

func raise(top *atomic.Int64, to int64) {
	for old := top.Load(); old < to && !top.CompareAndSwap(old, to); old = top.Load() {
	}
}

// A buffer is the caller's again when the call returns, however it ended.
func TestBodiesAreNotKept(t *testing.T) {
	s, _, f, _ := rigged(t, func(o *s3.Options) { o.Attempts = 1 })
	data := large(1 << 20)
	var late sync.WaitGroup
	f.reset(always(func(r *http.Request, _ func() (*http.Response, error)) (*http.Response, error) {
		connected(r)
		if body := r.Body; body != nil {
			late.Go(func() { // as a connection that goes on writing
				time.Sleep(10 * time.Millisecond)
				io.Copy(io.Discard, body)
			})
		}
		return nil, io.EOF
	}))
	if err := s.Put(t.Context(), "k", data); !errors.Is(err, objstore.ErrUnknownOutcome) {
		t.Errorf("error %v", err)
	}
	clear(data) // the race detector looks on
	late.Wait()
}

func TestProbe(t *testing.T) {
	server := newFake(t)
	f := &faults{}
	o := server.options()
	o.Transport = f.wrap
	if err := open(t, "t", o).Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.seen(); len(got) != 2 {
		t.Errorf("a new folder took %q", got)
	}
	// Where there is a probe already one request is enough, and once a store.
	f.reset(nil)
	s := open(t, "t", o)
	for range 3 {
		if err := s.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.PutIfAbsent(t.Context(), "k", nil); err != nil {
		t.Fatal(err)
	}
	if got := f.seen(); len(got) != 2 || !strings.HasPrefix(got[0], "PUT /lake/t/.gscd-conditional-put") || !strings.HasPrefix(got[1], "PUT /lake/t/k") {
		t.Errorf("requests %q", got)
	}
}

// A storage on which two writers could both win is refused before anything is written.
func TestStorageWithoutConditions(t *testing.T) {
	server := newFake(t)
	server.before = func(w http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("If-None-Match")
		return false
	}
	s := open(t, "t", server.options())
	for range 2 {
		err := s.PutIfAbsent(t.Context(), "k", []byte("x"))
		if !errors.Is(err, s3.ErrNoConditionalPut) || !strings.Contains(err.Error(), "two writers could commit one version") {
			t.Errorf("error %v", err)
		}
	}
	if _, err := s.Get(t.Context(), "k"); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("it was written: %v", err)
	}
	server.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("If-None-Match") == "" {
			return false
		}
		w.WriteHeader(http.StatusNotImplemented)
		io.WriteString(w, `<Error><Code>NotImplemented</Code><Message>A header you provided implies functionality that is not implemented.</Message></Error>`)
		return true
	}
	if err := open(t, "u", server.options()).Probe(t.Context()); !errors.Is(err, s3.ErrNoConditionalPut) || !strings.Contains(err.Error(), "501 NotImplemented") {
		t.Errorf("error %v", err)
	}
	// Reading goes on without the right to write, and without a probe.
	server.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `<Error><Code>AccessDenied</Code><Message>no</Message></Error>`)
		return true
	}
	if _, err := server.backend.PutObject(bucket, "v/k", nil, strings.NewReader("x"), 1, nil); err != nil {
		t.Fatal(err)
	}
	reader := open(t, "v", server.options())
	if data, err := reader.Get(t.Context(), "k"); err != nil || string(data) != "x" {
		t.Errorf("got %q, %v", data, err)
	}
	if err := reader.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), "allow s3:PutObject on the bucket lake") {
		t.Errorf("probe: %v", err)
	}
}

// The token stands in the object's metadata, and is another each time.
func TestToken(t *testing.T) {
	server := newFake(t)
	s := open(t, "t", server.options())
	var tokens []string
	for _, key := range []string{"a", "b"} {
		if err := s.Put(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
		answer, err := http.Head(server.URL + "/" + bucket + "/t/" + key)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		tokens = append(tokens, answer.Header.Get("X-Amz-Meta-Gscd-Write"))
	}
	slices.Sort(tokens)
	if tokens = slices.Compact(tokens); len(tokens) != 2 || len(tokens[0]) < 20 {
		t.Errorf("tokens %q", tokens)
	}
}
