package local_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/objstore/storetest"
	"pgregory.net/rapid"
)

func open(t *testing.T, dir string, opts local.Options) *local.Store {
	t.Helper()
	s, err := local.New(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) objstore.Store {
		return open(t, filepath.Join(t.TempDir(), "not", "yet", "there"), local.Options{NoSync: true})
	})
}

func TestConformanceWithSync(t *testing.T) {
	storetest.Run(t, func(t *testing.T) objstore.Store { return open(t, t.TempDir(), local.Options{}) })
}

func TestReadingCreatesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "absent")
	s := open(t, dir, local.Options{})
	for _, err := range s.List(t.Context(), "", "") {
		t.Errorf("list: %v", err)
	}
	if _, err := s.Get(t.Context(), "k"); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("get: %v", err)
	}
	if err := s.Delete(t.Context(), "k"); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory was created: %v", err)
	}
}

func TestTemporaryFilesAreHiddenAndCleaned(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, local.Options{})
	log := filepath.Join(dir, "_delta_log")
	if err := os.Mkdir(log, 0o755); err != nil {
		t.Fatal(err)
	}
	stale, fresh := filepath.Join(log, ".gscd-tmp-stale"), filepath.Join(log, ".gscd-tmp-fresh")
	for _, p := range []string{stale, fresh} {
		if err := os.WriteFile(p, []byte("half"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-25 * time.Hour)
	if err := os.Chtimes(stale, long, long); err != nil {
		t.Fatal(err)
	}
	for o := range s.List(t.Context(), "", "") {
		t.Errorf("listed %s", o.Key)
	}
	if _, err := s.Get(t.Context(), "_delta_log/.gscd-tmp-fresh"); !errors.Is(err, objstore.ErrKey) {
		t.Errorf("get of a temporary file: %v", err)
	}
	if err := s.Put(t.Context(), "_delta_log/0.json", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the stale file is still there: %v", err)
	}
	entries, err := os.ReadDir(log)
	if err != nil || len(entries) != 2 {
		t.Errorf("folder holds %v, %v; want the object and the fresh file", entries, err)
	}
}

func TestSymbolicLinksDoNotLeaveTheRoot(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	s, ctx := open(t, dir, local.Options{}), t.Context()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(ctx, "inside/real", []byte("x")); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"file": secret, "dir": outside, "good": "inside/real"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"file", "dir/secret"} {
		if data, err := s.Get(ctx, key); err == nil {
			t.Errorf("get %s = %q through a link that leaves the root", key, data)
		}
	}
	if err := s.Put(ctx, "dir/new", nil); err == nil {
		t.Error("put through a link that leaves the root")
	}
	if data, err := s.Get(ctx, "good"); err != nil || string(data) != "x" {
		t.Errorf("get good = %q, %v", data, err)
	}
	// Replacing a link replaces the name, not what it points to.
	if err := s.Put(ctx, "file", []byte("own")); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "secret" {
		t.Errorf("the file outside is now %q, %v", data, err)
	}
	var got []string
	for o, err := range s.List(ctx, "", "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, o.Key)
	}
	if want := "file good inside/real"; strings.Join(got, " ") != want {
		t.Errorf("list = %q, want %q", got, want)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	if _, err := local.New("", local.Options{}); err == nil {
		t.Error("an empty path was taken")
	}
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := local.New(file, local.Options{}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file as root: %v", err)
	}
	s := open(t, filepath.Join(file, "below"), local.Options{})
	if err := s.Put(t.Context(), "k", nil); err == nil || errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("put below a file: %v", err)
	}
	if os.Getuid() == 0 {
		t.Skip("root may write anywhere: the unwritable directory is not tried")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o755)
	err := open(t, dir, local.Options{}).Put(t.Context(), "k", nil)
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), dir) {
		t.Errorf("put into an unwritable directory: %v", err)
	}
}

// The directory behaves as the store in memory does.
func TestAgainstMemory(t *testing.T) {
	keys := rapid.SampledFrom([]string{"a", "b/a", "b/b", "b-c", "b.c/d", "b/c/e", "z0", "z/0"})
	prefixes := rapid.SampledFrom([]string{"", "b", "b/", "b/c/", "z", "nope/"})
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "gscd-local-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		s, err := local.New(dir, local.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		model, ctx := mem.New(), context.Background()
		same := func(op, key string, a, b error) {
			for _, sentinel := range []error{objstore.ErrNotExist, objstore.ErrExist, objstore.ErrKey} {
				if errors.Is(a, sentinel) != errors.Is(b, sentinel) || (a == nil) != (b == nil) {
					t.Fatalf("%s %s: %v in the directory, %v in memory", op, key, a, b)
				}
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "calls") {
			key := keys.Draw(t, "key")
			switch op := rapid.SampledFrom([]string{"put", "put if absent", "delete", "get", "list"}).Draw(t, "op"); op {
			case "put":
				data := []byte(rapid.String().Draw(t, "data"))
				same(op, key, s.Put(ctx, key, data), model.Put(ctx, key, data))
			case "put if absent":
				data := []byte(rapid.String().Draw(t, "data"))
				same(op, key, s.PutIfAbsent(ctx, key, data), model.PutIfAbsent(ctx, key, data))
			case "delete":
				same(op, key, s.Delete(ctx, key), model.Delete(ctx, key))
			case "get":
				got, err1 := s.Get(ctx, key)
				want, err2 := model.Get(ctx, key)
				same(op, key, err1, err2)
				if string(got) != string(want) {
					t.Fatalf("get %s = %q, want %q", key, got, want)
				}
			case "list":
				prefix, after := prefixes.Draw(t, "prefix"), rapid.OneOf(keys, rapid.Just("")).Draw(t, "after")
				list := func(s objstore.Store) (text string) {
					for o, err := range s.List(ctx, prefix, after) {
						text += fmt.Sprintf("%s %d %v\n", o.Key, o.Size, err)
					}
					return text
				}
				if got, want := list(s), list(model); got != want {
					t.Fatalf("list %q after %q:\n%swant\n%s", prefix, after, got, want)
				}
			}
		}
	})
}
