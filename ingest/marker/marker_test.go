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
	"github.com/gscd-io/gscd/delta/schema"
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
	s.put("a", 10, at(1))
	s.put("b", 11, at(2))
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
	s.put("a", 11, at(3)) // deleted again: the older marker goes
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
			list, err := set.Plan(files, open, added).Write(ctx, store)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(before, files) {
				t.Fatal("the list of an older progress was changed")
			}
			files = list
			for range rapid.IntRange(0, 2).Draw(t, "live again") {
				set.Delete(fmt.Sprint("k", rapid.IntRange(0, 20).Draw(t, "key")))
			}
			perLevel := map[[2]int64]int{}
			for _, f := range files {
				of := [2]int64{int64(f.Label), int64(level(f.Count))}
				if perLevel[of]++; perLevel[of] >= fan {
					t.Fatalf("label %d has %d files of one size", f.Label, perLevel[of])
				}
			}
			if rapid.IntRange(0, 19).Draw(t, "restart") == 0 {
				if set, err = Load(ctx, store, files); err != nil {
					t.Fatal(err)
				}
			}
		}
		// What is live again may still be in a file: the table's row is asked first.
		loaded, err := Load(ctx, store, files)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 21 {
			k := fmt.Sprint("k", i)
			want, known := set.Get(k, open)
			if got, ok := loaded.Get(k, open); known && (!ok || got != want) {
				t.Fatalf("%s is %v, %v; want %v, %v", k, got, ok, want, known)
			}
		}
	})
}

// TestDay: over a day of commits a marker is written a few times, there are a few files, and
// they are read back as the deletes were; with one file of all every 16 commits the last keys
// would have been written 300 times.
func TestDay(t *testing.T) {
	const commits, deletes = 5000, 7
	store, set := mem.New(), NewSet()
	var files []progress.MarkerFile
	written, most := int64(0), 0
	for c := range commits {
		var added []Added
		for d := range deletes {
			key := fmt.Sprint(c*deletes + d)
			if d == 0 {
				key = fmt.Sprint("again", c%10) // deleted before, and live in between
			}
			set.Delete(key)
			added = append(added, Added{key, at(int64(c*deletes + d))})
		}
		list, err := set.Plan(files, 1, added).Write(ctx, store)
		if err != nil {
			t.Fatal(err)
		}
		if written += list[len(list)-1].Count; len(list) > most {
			most = len(list)
		}
		for _, f := range files {
			if !slices.Contains(list, f) {
				if err := store.Delete(ctx, f.Key); err != nil {
					t.Fatal(err)
				}
			}
		}
		files = list
		if c%1000 == 700 { // a restart goes on where it was
			if set, err = Load(ctx, store, files); err != nil {
				t.Fatal(err)
			}
		}
	}
	if times := float64(written) / (commits * deletes); times > 7.5 || most > (fan-1)*8 {
		t.Errorf("a marker was written %.1f times, in up to %d files", times, most)
	}
	var order []int64 // of the newest marker of each file
	for _, f := range files {
		one, err := Load(ctx, store, []progress.MarkerFile{f})
		if err != nil {
			t.Fatal(err)
		}
		newest := int64(0)
		for _, m := range one.All() {
			newest = max(newest, m.Offset)
		}
		order = append(order, newest)
	}
	if !slices.IsSorted(order) || order[len(order)-1] != commits*deletes-1 {
		t.Errorf("the newest file is not the last: %v", order)
	}
	loaded, err := Load(ctx, store, files)
	if err != nil || loaded.Len() != commits*(deletes-1)+10 || !maps.Equal(maps.Collect(loaded.All()), maps.Collect(set.All())) {
		t.Errorf("%d markers, %v", loaded.Len(), err)
	}
}

// TestOldFiles: a label that has more files than are written now, and files that the set
// knows nothing of, go on.
func TestOldFiles(t *testing.T) {
	store, files := mem.New(), []progress.MarkerFile{}
	for i := range int64(16) {
		list, err := NewSet().Plan(nil, 1, []Added{{fmt.Sprint(i), at(i)}}).Write(ctx, store)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, list...)
	}
	got, err := NewSet().Plan(files, 1, []Added{{"x", at(99)}}).Write(ctx, store)
	if err != nil || len(got) != 17 || got[16].Count != 1 {
		t.Errorf("%v, %v", got, err)
	}
	set, err := Load(ctx, store, files)
	if err != nil {
		t.Fatal(err)
	}
	set.Delete("3")
	if got, err = set.Plan(files, 1, []Added{{"x", at(99)}}).Write(ctx, store); err != nil || len(got) != 1 || got[0].Count != 16 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestFilter(t *testing.T) {
	f, others := newFilter(1000), 0
	number := func(i int) string { return string(schema.IntValue(int64(i)).AppendEncoded(nil)) }
	for i := range 512 {
		if !f.add(fmt.Sprint("key", i)) || !f.add(number(i)) {
			t.Fatal("no room")
		}
	}
	if f.add("one more") {
		t.Error("room for more than it was made for")
	}
	for i := range 512 {
		if !f.mayHave(fmt.Sprint("key", i)) || !f.mayHave(number(i)) {
			t.Fatalf("key %d is lost", i)
		}
	}
	for i := range 1000 {
		for _, other := range []string{fmt.Sprint("other", i), number(5000 + i)} {
			if f.mayHave(other) {
				others++
			}
		}
	}
	if others > 200 {
		t.Errorf("%d of 2000 other keys", others)
	}
	if (&filter{}).mayHave("") {
		t.Error("an empty one has a key")
	}
}

// TestCorrupt cuts a file at every length and flips every byte.
func TestCorrupt(t *testing.T) {
	store := mem.New()
	files, err := NewSet().Plan(nil, 1, []Added{{"a", at(1)}, {"", at(2)}, {"some longer key", at(1 << 60)}}).Write(ctx, store)
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
	got, err := NewSet().Plan(files, 1, nil).Write(ctx, nil)
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
