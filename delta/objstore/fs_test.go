package objstore_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"testing"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
)

func TestFS(t *testing.T) {
	store := mem.New()
	large := bytes.Repeat([]byte("0123456789abcde\n"), 700_000) // more than is fetched at once
	for key, data := range map[string][]byte{
		"a.csv": []byte("id\n1\n"), "days/2022-07-16/part-1.csv": large, "days/2022-07-16/part-2.csv": nil, "days/2022-07-17.csv": []byte("x"),
	} {
		if err := store.Put(t.Context(), key, data); err != nil {
			t.Fatal(err)
		}
	}
	files := objstore.FS(t.Context(), store)
	if got, err := fs.ReadFile(files, "days/2022-07-16/part-1.csv"); err != nil || !bytes.Equal(got, large) {
		t.Errorf("%d bytes, %v; want %d", len(got), err, len(large))
	}
	var names []string
	list, err := fs.ReadDir(files, "days")
	for _, e := range list {
		names = append(names, e.Name())
		if e.IsDir() {
			names = append(names, "/")
		}
	}
	if want := []string{"2022-07-16", "/", "2022-07-17.csv"}; err != nil || len(names) != 3 || names[0] != want[0] || names[1] != want[1] || names[2] != want[2] {
		t.Errorf("%q, %v; want %q", names, err, want)
	}
	if _, err := fs.Stat(files, "none"); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("%v, want that it does not exist", err)
	}
	if _, err := files.Open("days/../a.csv"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("%v, want an invalid name", err)
	}
	f, err := files.Open("a.csv")
	if err != nil {
		t.Fatal(err)
	}
	part := make([]byte, 2)
	if n, err := f.(io.ReaderAt).ReadAt(part, 3); n != 2 || err != nil || string(part) != "1\n" {
		t.Errorf("%d bytes %q, %v", n, part, err)
	}
}
