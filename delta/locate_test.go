package delta_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/objstore/mem"
)

func TestLocate(t *testing.T) {
	base := t.TempDir()
	root, source := filepath.Join(base, "clone"), filepath.Join(base, "source")
	for _, file := range []string{filepath.Join(root, "own file"), filepath.Join(source, "d", "f%"), filepath.Join(base, "secret")} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(filepath.Base(file)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("loop", filepath.Join(root, "loop")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(base, filepath.Join(root, "out")); err != nil {
		t.Fatal(err)
	}
	closed, err := local.New(root, local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	open, err := local.New(root, local.Options{Outside: []string{source + "/"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path         string
		closed, open string // the content, or "" where it is refused
	}{
		{"own%20file", "own file", "own file"},
		{"file:" + root + "/own%20file", "own file", "own file"},
		{"file://" + root + "/own%20file", "own file", "own file"},
		{root + "/own%20file", "own file", "own file"},
		{"file:" + source + "/d/f%25", "", "f%"},
		{source + "/d/f%25", "", "f%"},
		{base + "/secret", "", ""},
		{source + "/../secret", "", ""},
		{source + "/%2e%2e/secret", "", ""},
		{root + "/../secret", "", ""},
		{source, "", ""},
		{source + "2/f", "", ""},
		{"file://host" + source + "/d/f%25", "", ""},
		{"s3://bucket" + source + "/d/f%25", "", ""},
		{"../secret", "", ""},
		{"..%2Fsecret", "", ""},
		{"%2Fetc%2Fpasswd", "", ""},
		{"loop", "", ""},
		{"out/secret", "", ""},
	} {
		for _, s := range []struct {
			store *local.Store
			want  string
		}{{closed, c.closed}, {open, c.open}} {
			got := ""
			store, key, err := delta.Locate(s.store, c.path)
			if err == nil {
				var data []byte
				data, err = store.Get(ctx, key)
				got = string(data)
			}
			if got != s.want || (err == nil) != (s.want != "") {
				t.Errorf("%s: %q, %v; want %q", c.path, got, err, s.want)
			}
		}
	}
	if _, _, err := delta.Locate(closed, source+"/d/f"); !errors.Is(err, local.ErrOutside) {
		t.Errorf("%v", err)
	}
	if _, _, err := delta.Locate(mem.New(), "/x"); !errors.Is(err, delta.ErrAbsolutePath) {
		t.Errorf("a store that leads nowhere else: %v", err)
	}
}

// Of a file on this machine /x, file:/x and file:///x are one, as for Spark.
func TestLocalPathsAreOne(t *testing.T) {
	forms := []string{"/data/x%20y", "file:/data/x%20y", "file:///data/x%20y", "FILE:/data/x%20y"}
	for i, a := range forms {
		for j, b := range forms {
			if x, y := (&action.Add{Path: a}).Key(), (&action.Remove{Path: b}).Key(); x != y {
				t.Errorf("%s and %s (%d, %d): %v, %v", a, b, i, j, x, y)
			}
		}
	}
	for _, other := range []string{"file://host/data/x%20y", "s3:/data/x%20y", "data/x%20y", "/data/x y"} {
		if (&action.Add{Path: other}).Key() == (&action.Add{Path: forms[0]}).Key() {
			t.Error(other)
		}
	}
}
