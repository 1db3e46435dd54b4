package attempt

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// Options say how patiently a service is asked. The zero value is the default.
type Options struct {
	// Attempts is how often a request is made in all. Default 6.
	Attempts int
	// FirstWait is the wait before the second attempt; each later one is twice as
	// long, up to a hundred times. Default 100 ms, and five times that where the
	// service asks for fewer requests.
	FirstWait time.Duration
	// Timeout is how long a request may go without a byte sent or received.
	// Default 30 s.
	Timeout time.Duration
	// Retried is told of each request that is made again. It may be called
	// from several goroutines.
	Retried func(Retry)
	// Transport wraps what sends requests: for tests and tracing.
	Transport func(http.RoundTripper) http.RoundTripper
}

// WithDefaults fills in what is not set.
func (o Options) WithDefaults() Options {
	o.Attempts = max(cmp.Or(o.Attempts, 6), 1)
	o.FirstWait = cmp.Or(o.FirstWait, 100*time.Millisecond)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	return o
}

// Retry describes a request that failed and will be made again.
type Retry struct {
	// Store is the store's name, Op and Key what was asked for.
	Store, Op, Key string
	// Attempt is the number of the attempt that failed, from 1.
	Attempt int
	// Wait is how long the next attempt waits.
	Wait time.Duration
	// Err says what happened, without secrets.
	Err error
}

// Request names what is asked of a service, for messages.
type Request struct {
	// Op is the call: get, head, put, delete, list.
	Op, Key string
	// Store is the name of the store that asks.
	Store string
	// Right is what a policy must allow.
	Right string
}

// Answer is what a service said of a failure. Status 0: it said nothing.
type Answer struct {
	Status int
	// Code is the service's word for the failure, Message its sentence, ID the
	// number by which it knows the request. Each may be "".
	Code, Message, ID string
}

// Service is one storage, and how its errors are read. Its fields are set once,
// before the first request.
type Service struct {
	Options Options
	// Name is the service for messages: "Azure Blob Storage", or its endpoint.
	Name string
	// Endpoint is the setting to check where the service can't be reached.
	Endpoint string
	// Answer reads the error of the SDK.
	Answer func(error) Answer
	// Verdict, where it is set, tells what the service's own codes and errors say;
	// Open where the status, or the want of one, is to tell.
	Verdict func(Answer, error) Verdict
	// Missing tells answers that say that there is no such object, Taken those that
	// say that a key is not free, Gone those that say that what the request builds
	// on is used up, by an earlier attempt it may be. Each may be nil.
	Missing, Taken, Gone func(Answer) bool
	// Sentence says what to do about an answer, or about an error of credentials;
	// "" where it knows nothing better than the general one.
	Sentence func(Request, Answer, error) string
	// Word, where it is set, makes the errors in the place of Sentence and Missing:
	// with Worded, so that they are left alone from then on.
	Word func(Request, error) error
}

// Verdict is what an error says about making the request again.
type Verdict int

// What an error says.
const (
	Open    Verdict = iota // nothing
	Refused                // it stays so
	Again                  // nothing was done, and it may pass
	Slower                 // nothing was done, for there are too many requests
	Lost                   // it may have been done, and it may pass
)

// OfStatus is what a status says; Open where it is that of no failure.
func OfStatus(status int) Verdict {
	switch {
	case status == http.StatusTooManyRequests:
		return Slower
	case status == http.StatusRequestTimeout:
		return Again // the body came late: nothing was stored
	case status == http.StatusNotImplemented, status == http.StatusHTTPVersionNotSupported, status == http.StatusInsufficientStorage:
		return Refused
	case status >= 500:
		return Lost // it may come from a proxy that had passed the request on
	case status >= 300:
		return Refused
	}
	return Open
}

// decision says what to do after a failed attempt.
type decision struct {
	// again: the same request may succeed after wait.
	again bool
	wait  time.Duration
	// applied: a write may have had its effect.
	applied bool
}

// decide is the one place that decides on a failed attempt, the n-th from 1.
// reached tells that a connection was there to send on.
func (s *Service) decide(err error, n int, reached bool) decision {
	a, verdict := s.answer(err), Open
	if s.Verdict != nil {
		verdict = s.Verdict(a, err)
	}
	if verdict == Open {
		verdict = OfStatus(a.Status)
	}
	switch {
	case verdict != Open:
	case reached:
		verdict = Lost // no answer, or one that broke off: the request may have arrived
	case Passing(err):
		verdict = Again
	}
	first := s.Options.FirstWait
	if verdict == Slower { // it wants fewer requests, so later ones
		first *= 5
	}
	return decision{again: verdict != Open && verdict != Refused, wait: backoff(first, n), applied: verdict == Lost}
}

// MayRepeat tells whether an answer would have the request made again.
func (s *Service) MayRepeat(err error) bool { return s.decide(err, 1, true).again }

// backoff is the wait before attempt n+1: the first one doubled each time, up to
// a hundred times, of which a random half is left out, for many clients fail in
// the same moment.
func backoff(first time.Duration, n int) time.Duration {
	d := min(first<<min(n-1, 10), 100*first)
	return d/2 + rand.N(d/2+1)
}

func (s *Service) is(test func(Answer) bool, a Answer) bool {
	return a.Status != 0 && test != nil && test(a)
}

func (s *Service) answer(err error) Answer {
	if err == nil {
		return Answer{}
	}
	return s.Answer(err)
}

// once makes a request one time, and decides on its error.
func (s *Service) once(ctx context.Context, n int, send func(context.Context) error) (decision, error) {
	var reached atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { reached.Store(true) },
	})
	err := send(traced)
	if err == nil {
		return decision{}, nil
	}
	if isCredentials(err) { // it was never sent
		d := s.decide(err, n, false)
		d.applied = false
		return d, err
	}
	return s.decide(err, n, reached.Load()), err
}

// Do makes a request whose repetition does no harm, until it is answered. The
// error has its sentence; applied tells that one of the attempts may have had
// its effect.
func (s *Service) Do(ctx context.Context, r Request, send func(context.Context) error) (applied bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, s.Fault(r, err)
	}
	for n := 1; ; n++ {
		d, err := s.once(ctx, n, send)
		if err == nil {
			return true, nil
		}
		applied = applied || d.applied
		if !s.again(ctx, r, n, d, err) {
			return applied, s.Fault(r, s.given(ctx, err))
		}
	}
}

// Settle makes the request of a write until its outcome is known. absent: the
// write is to fail where the key is taken. Where an answer was lost, and where
// the service says that the key is taken or the upload gone (by an earlier
// attempt, or a proxy's repetition, it may be), look tells whose the object is. The error wraps
// ErrExist or ErrUnknownOutcome where it is that.
func (s *Service) Settle(ctx context.Context, r Request, absent bool, send func(context.Context) error, look func(context.Context) (Owner, error)) error {
	if err := ctx.Err(); err != nil {
		return s.Fault(r, err)
	}
	applied := false
	for n := 1; ; n++ {
		d, err := s.once(ctx, n, send)
		if err == nil {
			return nil
		}
		applied = applied || d.applied
		a := s.answer(err)
		taken := absent && s.is(s.Taken, a)
		if taken || applied || s.is(s.Gone, a) {
			who, lookErr := look(ctx)
			switch {
			case lookErr != nil && taken && !applied:
				return Exists(r) // the service has said so
			case lookErr != nil:
				// Nothing is known but the error itself.
			case who == Own:
				return nil
			case who == Other && absent:
				return Exists(r)
			case taken:
				d.again = true // it was removed in between
			}
		}
		if !s.again(ctx, r, n, d, err) {
			if err = s.Fault(r, s.given(ctx, err)); applied {
				return Unknown(err)
			}
			return err
		}
	}
}

// again waits for the next attempt; false where there is to be none.
func (s *Service) again(ctx context.Context, r Request, n int, d decision, err error) bool {
	if !d.again || n >= s.Options.Attempts || ctx.Err() != nil {
		return false
	}
	if s.Options.Retried != nil {
		s.Options.Retried(Retry{Store: r.Store, Op: r.Op, Key: r.Key, Attempt: n, Wait: d.wait, Err: s.Fault(r, err)})
	}
	t := time.NewTimer(d.wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// given puts the caller's giving up before what it brought about in the SDK. An
// answer goes before both.
func (s *Service) given(ctx context.Context, err error) error {
	if s.answer(err).Status == 0 && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
