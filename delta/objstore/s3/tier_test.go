package s3_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/s3"
)

// The fake knows no classes: these are put into its lists, as they were asked for.
func TestSetClass(t *testing.T) {
	f := newFake(t)
	class := ""
	contents := regexp.MustCompile(`<Size>`)
	var inside http.Handler
	f.before = func(w http.ResponseWriter, r *http.Request) bool {
		if asked := r.Header.Get("X-Amz-Storage-Class"); asked != "" {
			if from := r.Header.Get("X-Amz-Copy-Source"); from != "lake/t/none" && from != "lake/t/p%3Da%20b%2Bc/part-1.parquet" || r.Header.Get("X-Amz-Metadata-Directive") != "COPY" {
				t.Errorf("headers %v", r.Header)
			}
			class = asked
			return false
		}
		if class == "" || r.URL.Query().Get("list-type") == "" {
			return false
		}
		answer := httptest.NewRecorder()
		inside.ServeHTTP(answer, r)
		for name, values := range answer.Header() {
			if name != "Content-Length" {
				w.Header()[name] = values
			}
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(contents.ReplaceAll(answer.Body.Bytes(), []byte("<StorageClass>"+class+"</StorageClass><Size>")))
		return true
	}
	inside = f.inside()
	s := open(t, "t", f.options())
	const key = "p=a b+c/part-1.parquet"
	data := bytes.Repeat([]byte("gscd"), 1000)
	if err := s.Put(t.Context(), key, data); err != nil {
		t.Fatal(err)
	}
	if got := classesOf(t, s); got[key] != "STANDARD" {
		t.Fatalf("before: %v", got)
	}
	for range 2 {
		if err := s.SetClass(t.Context(), key, "STANDARD_IA"); err != nil {
			t.Fatal(err)
		}
	}
	if got := classesOf(t, s); got[key] != "STANDARD_IA" {
		t.Errorf("after: %v", got)
	}
	if got, err := s.Get(t.Context(), key); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := s.SetClass(t.Context(), "none", "STANDARD_IA"); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("an object that is not there: %v", err)
	}
	for _, class := range []string{"GLACIER", "DEEP_ARCHIVE", "standard_ia", ""} {
		if err := s.SetClass(t.Context(), key, class); !errors.Is(err, s3.ErrOptions) {
			t.Errorf("class %q: %v", class, err)
		}
	}
}

func classesOf(t *testing.T, s *s3.Store) map[string]string {
	t.Helper()
	list := map[string]string{}
	for o, err := range s.ListClasses(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		list[o.Key] = o.Class
	}
	return list
}
