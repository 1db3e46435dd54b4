package marker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/alloctest"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/snapshotter"
)

var ctx = context.Background()

func at(n int64) snapshotter.Meta {
	return snapshotter.Meta{Partition: 3, Offset: n, Line: 1, Position: change.Position{File: 7, Pos: n, Row: 2}, HasPosition: n%2 == 0, Rank: snapshotter.RankChange, Time: -n}
}

// TestSet: a marker counts in its label and the two sealed ones behind it.
func TestSet(t *testing.T) {
	s := NewSet()
	s.Put("a", 10, at(1))
	s.Put("b", 11, at(2))
	for open, want := range map[snapshotter.Label]string{9: "", 10: "a", 11: "a b", 12: "a b", 13: "b", 14: ""} {
		var got []string
		for _, k := range []string{"a", "b", "c"} {
			if _, ok := s.Get(k, open); ok {
				got = append(got, k)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("with %d open, %v are known, want %q", open, got, want)
		}
	}
	s.Put("a", 11, at(3)) // deleted again: the older marker goes
	if m, ok := s.Get("a", 13); !ok || m != at(3) || s.Len() != 2 {
		t.Errorf("a is %v, %v", m, ok)
	}
	s.Delete("a")
	if _, ok := s.Get("a", 11); ok || s.Len() != 1 {
		t.Error("a is still known")
	}
	files := []progress.MarkerFile{{Key: "x", Label: 10}, {Key: "y", Label: 11}, {Key: "z", Label: 12}}
	kept := s.Prune(files, 13)
	if len(kept) != 2 || kept[0].Key != "y" || files[0].Key != "x" {
		t.Errorf("kept %v of %v", kept, files)
	}
	if s.Prune(nil, 14); s.Len() != 0 {
		t.Errorf("%d markers are left", s.Len())
	}
}

// TestWriteLoad: batches of deletes over several labels, with many files joined,
// come back as the set that was in memory.
func TestWriteLoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store := mem.New()
		set := NewSet()
		var files []progress.MarkerFile
		open := snapshotter.Label(1)
		n := int64(0)
		for range rapid.IntRange(0, 60).Draw(t, "batches") {
			if rapid.IntRange(0, 19).Draw(t, "seal") == 0 {
				open++
				files = set.Prune(files, open)
			}
			batch := map[string]snapshotter.Meta{}
			for range rapid.IntRange(0, 3).Draw(t, "deletes") {
				n++
				batch[fmt.Sprint("k", rapid.IntRange(0, 20).Draw(t, "key"))] = at(n)
			}
			var added []Added
			for _, k := range slices.Sorted(maps.Keys(batch)) {
				added = append(added, Added{k, batch[k]})
			}
			before := slices.Clone(files)
			list, err := Write(ctx, store, files, open, added, set)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(before, files) {
				t.Fatal("the list of an older progress was changed")
			}
			files = list
			for _, a := range added {
				set.Put(a.Key, open, a.Meta)
			}
			perLabel := map[snapshotter.Label]int{}
			for _, f := range files {
				if perLabel[f.Label]++; perLabel[f.Label] > maxFiles {
					t.Fatalf("label %d has more than %d files", f.Label, maxFiles)
				}
			}
		}
		loaded, err := Load(ctx, store, files)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 21 {
			k := fmt.Sprint("k", i)
			want, known := set.Get(k, open)
			if got, ok := loaded.Get(k, open); ok != known || got != want {
				t.Fatalf("%s is %v, %v; want %v, %v", k, got, ok, want, known)
			}
		}
	})
}

// TestCorrupt cuts a file at every length and flips every byte.
func TestCorrupt(t *testing.T) {
	store := mem.New()
	files, err := Write(ctx, store, nil, 1, []Added{{"a", at(1)}, {"", at(2)}, {"some longer key", at(1 << 60)}}, NewSet())
	if err != nil {
		t.Fatal(err)
	}
	want, err := Load(ctx, store, files)
	if err != nil || want.Len() != 3 {
		t.Fatalf("%v, %v", want, err)
	}
	whole, err := store.Get(ctx, files[0].Key)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, data []byte) {
		if err := store.Put(ctx, files[0].Key, data); err != nil {
			t.Fatal(err)
		}
		got, err := Load(ctx, store, files)
		switch {
		case err == nil && !reflect.DeepEqual(got, want):
			t.Errorf("%s: other markers came back", what)
		case err != nil && (!errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), files[0].Key)):
			t.Errorf("%s: %v", what, err)
		}
	}
	for n := range whole {
		try(fmt.Sprintf("cut at %d", n), whole[:n])
		flipped := bytes.Clone(whole)
		flipped[n] ^= 0x41
		try(fmt.Sprintf("byte %d flipped", n), flipped)
	}
	if err := store.Put(ctx, files[0].Key, whole); err != nil {
		t.Fatal(err)
	}
	more := slices.Clone(files)
	more[0].Count++
	if _, err := Load(ctx, store, more); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a marker too few: %v", err)
	}
	if err := store.Delete(ctx, files[0].Key); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(ctx, store, files); !errors.Is(err, objstore.ErrNotExist) || !strings.Contains(err.Error(), files[0].Key) {
		t.Errorf("a missing file: %v", err)
	}
}

// TestNothingToWrite: a batch without deletes writes no file.
func TestNothingToWrite(t *testing.T) {
	files := []progress.MarkerFile{{Key: "x"}}
	got, err := Write(ctx, nil, files, 1, nil, NewSet())
	if err != nil || !reflect.DeepEqual(got, files) {
		t.Fatalf("%v, %v", got, err)
	}
}

// unsummed is a file without the sum behind it, so that its bytes are looked at.
func unsummed(data []byte) []byte {
	return data[:bytes.Index(data, []byte("\x5c\x2a\x4d\x18"))]
}

func FuzzDecode(f *testing.F) {
	for _, added := range [][]Added{nil, {{"a", at(1)}}, {{"", at(2)}, {"bb", at(-3)}}} {
		data, err := encode(added)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, int64(len(added)))
		f.Add(unsummed(data), int64(len(added)))
	}
	f.Fuzz(func(t *testing.T, data []byte, count int64) {
		alloctest.Within(t, len(data), 16*maxRatio, 4*freeBytes, func() { _, _ = decode(data, count) })
		added, err := decode(data, count)
		if err != nil {
			return
		}
		again, err := encode(added)
		if err != nil {
			t.Fatal(err)
		}
		back, err := decode(again, count)
		if err != nil || !reflect.DeepEqual(added, back) {
			t.Fatalf("%v came back as %v, %v", added, back, err)
		}
	})
}
