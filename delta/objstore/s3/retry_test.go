package s3_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/s3"
)

// rigged is a store with faults before it, and a plain one of the same folder.
func rigged(t *testing.T, change ...func(*s3.Options)) (s, plain *s3.Store, f *faults, r *retries) {
	t.Helper()
	server := newFake(t)
	f, r = &faults{}, &retries{}
	o := server.options()
	plain = open(t, "t", o)
	o.Transport, o.Retried, o.Timeout = f.wrap, r.add, 100*time.Millisecond
	for _, c := range change {
		c(&o)
	}
	s = open(t, "t", o)
	if err := s.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, plain, f, r
}

// operation is one call of a store on key "k", which has "before" or is absent.
type operation struct {
	name   string
	before string
	do     func(ctx context.Context, s objstore.Store) (string, error)
	want   string // what do gives
	after  string // what the key has then; "-" for none
}

var operations = []operation{
	{"get", "before", func(ctx context.Context, s objstore.Store) (string, error) {
		data, err := s.Get(ctx, "k")
		return string(data), err
	}, "before", "before"},
	{"range", "before", func(ctx context.Context, s objstore.Store) (string, error) {
		data, err := s.GetRange(ctx, "k", 2, 3)
		return string(data), err
	}, "for", "before"},
	{"head", "before", func(ctx context.Context, s objstore.Store) (string, error) {
		o, err := s.Head(ctx, "k")
		return fmt.Sprint(o.Key, o.Size), err
	}, "k6", "before"},
	{"list", "before", func(ctx context.Context, s objstore.Store) (text string, err error) {
		for o, listErr := range s.List(ctx, "", "") {
			if listErr != nil {
				return "", listErr
			}
			text += o.Key
		}
		return text, nil
	}, "k", "before"},
	{"put", "before", func(ctx context.Context, s objstore.Store) (string, error) {
		return "", s.Put(ctx, "k", []byte("after"))
	}, "", "after"},
	{"put if absent", "", func(ctx context.Context, s objstore.Store) (string, error) {
		return "", s.PutIfAbsent(ctx, "k", []byte("after"))
	}, "", "after"},
	{"delete", "before", func(ctx context.Context, s objstore.Store) (string, error) {
		return "", s.Delete(ctx, "k")
	}, "", "-"},
}

func (o operation) prepare(t *testing.T, s objstore.Store) {
	t.Helper()
	err := s.Delete(t.Context(), "k")
	if o.before != "" {
		err = s.Put(t.Context(), "k", []byte(o.before))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (o operation) check(t *testing.T, s objstore.Store) {
	t.Helper()
	data, err := s.Get(t.Context(), "k")
	if errors.Is(err, objstore.ErrNotExist) {
		data, err = []byte("-"), nil
	}
	if err != nil || string(data) != o.after {
		t.Errorf("the key has %q, %v; want %q", data, err, o.after)
	}
}

// Whatever passes is waited for, and the outcome is that of an undisturbed call:
// for every operation, every fault, and whichever request it hits.
func TestPassingFaults(t *testing.T) {
	s, plain, f, r := rigged(t)
	for _, o := range operations {
		for name, what := range passing {
			for at := 1; ; at++ {
				o.prepare(t, plain)
				f.reset(func(n int, _ *http.Request) fate {
					if n == at || name == "answer lost" && n == at+2 { // and once more
						return what
					}
					return nil
				})
				got, err := o.do(t.Context(), s)
				if err != nil || got != o.want {
					t.Errorf("%s, %s at request %d: %q, %v; want %q", o.name, name, at, got, err, o.want)
				}
				o.check(t, plain)
				for _, retry := range r.take() {
					noSecrets(t, o.name, retry.Err)
					if retry.Store != "s3://lake/t" || retry.Attempt < 1 || retry.Wait <= 0 || retry.Err == nil {
						t.Errorf("%s, %s: told of %+v", o.name, name, retry)
					}
				}
				if len(f.seen()) < at {
					break // the operation had no such request
				}
			}
		}
	}
}

// What does not pass is given up after as many attempts as are allowed. The
// error tells whether a write may have had its effect.
func TestFaultsThatStay(t *testing.T) {
	s, plain, f, _ := rigged(t, func(o *s3.Options) { o.Attempts, o.Timeout = 3, 20*time.Millisecond })
	for _, c := range []struct {
		name             string
		what             fate
		unknown, passing bool
		says             string
	}{
		{"slow down", answers(503, "SlowDown"), false, true, "answers 503 SlowDown, 3 times"},
		{"internal error", answers(500, "InternalError"), true, true, "answers 500 InternalError, 3 times"},
		{"refused", refused, false, true, "refuses connections: check that the storage runs, and s3.endpoint"},
		{"broken", broken, true, true, "broke off"},
		{"silent", silent, true, true, "answered nothing for 20ms"},
		{"denied", answers(403, "AccessDenied"), false, false, "may not do this"},
		{"unknown refusal", answers(400, "Whatever"), false, false, "refuses it with 400 Whatever (it says: as the test wants), request REQ1"},
	} {
		for _, o := range operations {
			o.prepare(t, plain)
			f.reset(always(c.what))
			_, err := o.do(t.Context(), s)
			if err == nil {
				t.Errorf("%s, %s: %v", o.name, c.name, errIsNil)
				continue
			}
			write := o.name == "put" || o.name == "put if absent" || o.name == "delete"
			if got := errors.Is(err, objstore.ErrUnknownOutcome); got != (write && c.unknown) {
				t.Errorf("%s, %s: unknown outcome is %v: %v", o.name, c.name, got, err)
			}
			if got := errors.Is(err, objstore.ErrTemporary); got != c.passing {
				t.Errorf("%s, %s: temporary is %v: %v", o.name, c.name, got, err)
			}
			if !strings.Contains(err.Error(), "k in s3://lake/t") && o.name != "list" || !strings.Contains(err.Error(), c.says) && o.name != "head" {
				t.Errorf("%s, %s: the error says %q", o.name, c.name, err)
			}
			noSecrets(t, o.name, err)
		}
	}
}

// The waits grow, have jitter, and are longer where the storage wants peace.
func TestWaits(t *testing.T) {
	s, plain, f, r := rigged(t, func(o *s3.Options) { o.FirstWait, o.Attempts = 2*time.Millisecond, 5 })
	operations[0].prepare(t, plain)
	waits := func(what fate) (list []time.Duration) {
		f.reset(always(what))
		if _, err := s.Get(t.Context(), "k"); err == nil {
			t.Fatal(errIsNil)
		}
		for i, retry := range r.take() {
			if retry.Attempt != i+1 || retry.Op != "get" || retry.Key != "k" {
				t.Errorf("told of %+v", retry)
			}
			list = append(list, retry.Wait)
		}
		return list
	}
	for first, what := range map[time.Duration]fate{2 * time.Millisecond: answers(500, "InternalError"), 10 * time.Millisecond: answers(503, "SlowDown")} {
		list := waits(what)
		if len(list) != 4 {
			t.Fatalf("%d waits, want 4", len(list))
		}
		for i, wait := range list {
			if top := first << i; wait < top/2 || wait > top {
				t.Errorf("wait %d is %s, want %s to %s", i+1, wait, top/2, top)
			}
		}
		again := waits(what)
		if slices.Equal(list, again) {
			t.Errorf("no jitter: %v twice", list)
		}
	}
}

// The contract of objstore, under faults at random with as few attempts as
// there may be: what a call says about a key is true.
func TestWhatIsSaidIsTrue(t *testing.T) {
	names := make([]string, 0, len(passing))
	for name := range passing {
		if name != "half-open" && name != "answer stops coming" { // they cost time
			names = append(names, name)
		}
	}
	slices.Sort(names)
	server := newFake(t)
	f := &faults{}
	o := server.options()
	plain := open(t, "t", o)
	o.Transport = f.wrap
	rapid.Check(t, func(rt *rapid.T) {
		o.Attempts = rapid.IntRange(1, 3).Draw(rt, "attempts")
		s := open(t, "t", o)
		f.reset(nil)
		if err := s.Probe(t.Context()); err != nil {
			rt.Fatal(err)
		}
		if err := plain.Delete(t.Context(), "k"); err != nil {
			rt.Fatal(err)
		}
		state := "-"
		for i := range rapid.IntRange(1, 12).Draw(rt, "calls") {
			f.reset(func(int, *http.Request) fate {
				if rapid.IntRange(0, 2).Draw(rt, "hit") > 0 {
					return nil
				}
				return passing[rapid.SampledFrom(names).Draw(rt, "fault")]
			})
			body := fmt.Sprint("body ", i)
			op := rapid.SampledFrom([]string{"put", "put if absent", "delete", "get"}).Draw(rt, "op")
			var err error
			after := state
			switch op {
			case "put":
				err, after = s.Put(t.Context(), "k", []byte(body)), body
			case "put if absent":
				if err = s.PutIfAbsent(t.Context(), "k", []byte(body)); err == nil && state != "-" {
					rt.Fatalf("a taken key was written")
				}
				if errors.Is(err, objstore.ErrExist) && state == "-" {
					rt.Fatalf("the key was free: %v", err)
				}
				if state == "-" {
					after = body
				}
			case "delete":
				err, after = s.Delete(t.Context(), "k"), "-"
			case "get":
				var data []byte
				data, err = s.Get(t.Context(), "k")
				if err == nil && string(data) != state || errors.Is(err, objstore.ErrNotExist) && state != "-" {
					rt.Fatalf("got %q, %v; want %q", data, err, state)
				}
			}
			data, getErr := plain.Get(t.Context(), "k")
			now := string(data)
			if errors.Is(getErr, objstore.ErrNotExist) {
				now = "-"
			} else if getErr != nil {
				rt.Fatal(getErr)
			}
			switch {
			case err == nil && now != after:
				rt.Fatalf("%s: it was done, and the key has %q, want %q", op, now, after)
			case errors.Is(err, objstore.ErrUnknownOutcome) && now != state && now != after:
				rt.Fatalf("%s: the key has %q, neither %q nor %q", op, now, state, after)
			case err != nil && !errors.Is(err, objstore.ErrUnknownOutcome) && now != state:
				rt.Fatalf("%s: %v, and the key has %q, not %q", op, err, now, state)
			}
			state = now
		}
	})
}

// A caller that gives up is free at once. What a write did is unknown then.
func TestGivingUp(t *testing.T) {
	s, plain, f, _ := rigged(t, func(o *s3.Options) { o.Timeout = time.Minute })
	for _, o := range operations {
		o.prepare(t, plain)
		f.reset(always(silent))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		began := time.Now()
		_, err := o.do(ctx, s)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
			t.Errorf("%s: %v after %s", o.name, err, time.Since(began))
		}
		write := o.after != o.before
		if errors.Is(err, objstore.ErrUnknownOutcome) != write || errors.Is(err, objstore.ErrTemporary) {
			t.Errorf("%s: %v", o.name, err)
		}
	}
	// Between two attempts too.
	slow, plain2, f2, _ := rigged(t, func(o *s3.Options) { o.FirstWait = time.Hour })
	operations[0].prepare(t, plain2)
	f2.reset(always(answers(503, "SlowDown")))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := slow.Get(ctx, "k"); err == nil || !strings.Contains(err.Error(), "SlowDown") {
		t.Errorf("the last answer is not told: %v", err)
	}
}
