package gcs_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

// A storage that writes over what is there is refused before the first commit.
func TestProbe(t *testing.T) {
	f := newFake(t)
	s := f.open(t, "t")
	for range 2 {
		if err := s.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	first := f.Requests.Load()
	if err := s.Probe(t.Context()); err != nil || f.Requests.Load() != first {
		t.Errorf("%v, %d requests for what is known", err, f.Requests.Load()-first)
	}
	if err := f.open(t, "t").Probe(t.Context()); err != nil { // finds what the first one left
		t.Error(err)
	}
	f.Set(func(_ http.ResponseWriter, r *http.Request) bool {
		q := r.URL.Query()
		q.Del("ifGenerationMatch")
		r.URL.RawQuery = q.Encode()
		return false
	})
	err := f.open(t, "u").Probe(t.Context())
	if !errors.Is(err, attempt.ErrNoConditionalPut) || !strings.Contains(err.Error(), "two writers could commit one version") {
		t.Errorf("no conditions: %v", err)
	}
	f.Set(func(w http.ResponseWriter, r *http.Request) bool {
		refuse(w, http.StatusNotImplemented, "NotImplemented", "no conditions here")
		return true
	})
	if err := f.open(t, "v").Probe(t.Context()); err == nil || errors.Is(err, attempt.ErrNoConditionalPut) || !strings.Contains(err.Error(), "501") {
		t.Errorf("refused: %v", err)
	}
}
