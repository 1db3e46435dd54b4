package storetest

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// Service is the server of a fake storage. A test may answer requests in its place.
type Service struct {
	*httptest.Server
	// Requests counts all that came.
	Requests atomic.Int64
	answer   http.HandlerFunc
	before   atomic.Pointer[Before]
}

// Before sees a request before the fake does; true: it has answered.
type Before func(w http.ResponseWriter, r *http.Request) bool

// NewService starts a server that answers until the test ends.
func NewService(t *testing.T, answer http.HandlerFunc) *Service {
	s := &Service{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Requests.Add(1)
		if before := s.before.Load(); before != nil && *before != nil && (*before)(w, r) {
			return
		}
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// Set has before answer the requests to come; nil: nobody but the fake.
func (s *Service) Set(before Before) { s.before.Store(&before) }

// Lost carries a request out and breaks the connection in place of an answer.
func (s *Service) Lost(w http.ResponseWriter, r *http.Request) bool {
	s.answer(httptest.NewRecorder(), r)
	return Broken(w, r)
}

// Broken breaks the connection before anything is done.
func Broken(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }

// Once has before see only the n-th request (from 1) of a method.
func Once(method string, n int64, before Before) Before {
	var seen atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) bool {
		return r.Method == method && seen.Add(1) == n && before(w, r)
	}
}
