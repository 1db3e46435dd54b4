package drift

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/alloctest"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/faulty"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/snapshotter"
)

var ctx = context.Background()

// entry draws a held record; nil and empty bytes are apart.
func entry(t *rapid.T) *Entry {
	raw := func(name string) []byte {
		switch rapid.IntRange(0, 3).Draw(t, name+" kind") {
		case 0:
			return nil
		case 1:
			return []byte{}
		}
		return rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, name)
	}
	r := &change.Record{Stored: true,
		Topic: rapid.SampledFrom([]string{"", "t", "wörter"}).Draw(t, "topic"), Partition: rapid.Int32().Draw(t, "kafka partition"),
		Offset: rapid.Int64().Draw(t, "offset"), Timestamp: rapid.Int64().Draw(t, "timestamp"), Key: raw("key"), Value: raw("value"),
	}
	for range rapid.IntRange(0, 2).Draw(t, "headers") {
		r.Headers = append(r.Headers, change.Header{Key: rapid.StringN(0, 5, -1).Draw(t, "header"), Value: raw("header value")})
	}
	e := &Entry{
		Record: r, Kind: rapid.SampledFrom([]snapshotter.Kind{snapshotter.RowChange, snapshotter.FullRead, snapshotter.TableTruncate}).Draw(t, "kind"),
		Label: snapshotter.Label(rapid.Int64Range(-2, 2).Draw(t, "label")),
		Meta: snapshotter.Meta{
			Partition: rapid.Int32().Draw(t, "partition"), Offset: r.Offset, Line: rapid.Int32().Draw(t, "line"),
			Position:    change.Position{File: rapid.Int64().Draw(t, "file"), Pos: rapid.Int64().Draw(t, "pos"), Row: rapid.Int32().Draw(t, "row")},
			HasPosition: rapid.Bool().Draw(t, "has position"), Rank: rapid.SampledFrom([]snapshotter.Rank{snapshotter.RankRead, snapshotter.RankChange}).Draw(t, "rank"),
			Time: rapid.Int64().Draw(t, "time"),
		},
	}
	if e.Kind == snapshotter.FullRead {
		e.Load = &LoadID{Line: 1, Position: change.Position{File: rapid.Int64Range(1, 2).Draw(t, "load")}}
	}
	return e
}

// readAll reads every entry, and the file that each came from.
func readAll(store objstore.Store, files []File) (entries []*Entry, keys []string, err error) {
	r := NewReader(ctx, store, files)
	defer r.Close()
	for {
		e, key, err := r.Next()
		if e == nil || err != nil {
			return entries, keys, err
		}
		entries, keys = append(entries, e), append(keys, key)
	}
}

// TestRoundTrip: whatever is held comes back as it was, in the order in which it
// was taken, group by group; and again from any place in the middle.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store := mem.New()
		var want []*Entry
		var files []File
		for group := range int64(rapid.IntRange(1, 3).Draw(t, "groups")) {
			var w Writer
			for range rapid.IntRange(0, 6).Draw(t, "entries") {
				e := entry(t)
				w.Add(e)
				want = append(want, e)
			}
			if w.Len() != len(w.Entries()) {
				t.Fatalf("%d entries, %d", w.Len(), len(w.Entries()))
			}
			written, err := w.Write(ctx, store, group+1)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range written {
				if f.Group != group+1 || !strings.HasPrefix(f.Key, Folder) || f.Count == 0 {
					t.Fatalf("file %+v", f)
				}
			}
			files = append(files, written...)
		}
		shuffled := rapid.Permutation(files).Draw(t, "order of the files")
		got, keys, err := readAll(store, shuffled)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%d entries, want %d", len(got), len(want))
		}
		for i := range want {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Fatalf("entry %d\n got %+v %+v\nwant %+v %+v", i, got[i], got[i].Record, want[i], want[i].Record)
			}
			f := files[slices.IndexFunc(files, func(f File) bool { return f.Key == keys[i] })]
			if want[i].Load == nil && (f.Load != nil || f.Label != want[i].Label) || want[i].Load != nil && *f.Load != *want[i].Load {
				t.Fatalf("entry %d lies in %+v", i, f)
			}
		}
		n := rapid.IntRange(0, len(want)).Draw(t, "applied")
		for _, key := range keys[:n] {
			files[slices.IndexFunc(files, func(f File) bool { return f.Key == key })].Applied++
		}
		rest, _, err := readAll(store, files)
		if err != nil || len(rest) != len(want)-n {
			t.Fatalf("behind %d applied there are %d of %d, %v", n, len(rest), len(want), err)
		}
		for i := range rest {
			if !reflect.DeepEqual(rest[i], want[n+i]) {
				t.Fatalf("entry %d behind %d applied is %+v", i, n, rest[i])
			}
		}
	})
}

// some holds three changes of two labels and a read of a load.
func some(t testing.TB) (*mem.Store, []File) {
	t.Helper()
	store := mem.New()
	var w Writer
	for i, label := range []snapshotter.Label{5, 6, 5, 6} {
		e := &Entry{
			Record: &change.Record{Stored: true, Topic: "t", Offset: int64(i), Key: []byte(`{"id":1}`), Value: fmt.Appendf(nil, `{"op":"c","after":{"id":%d}}`, i)},
			Kind:   snapshotter.RowChange, Label: label, Meta: snapshotter.Meta{Offset: int64(i), HasPosition: true, Rank: snapshotter.RankChange},
		}
		if i == 3 {
			e.Kind, e.Load = snapshotter.FullRead, &LoadID{Position: change.Position{File: 1, Pos: 4}}
		}
		w.Add(e)
	}
	files, err := w.Write(ctx, store, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 3 {
		t.Fatalf("%d files of two labels and a load", len(files))
	}
	if w.Reset(); w.Len() != 0 || w.Bytes() != 0 {
		t.Fatal("Reset left something")
	}
	return store, files
}

// TestCorrupt cuts a file at every length and flips every byte: what comes back
// is right, or an error that wraps ErrCorrupt and names the file.
func TestCorrupt(t *testing.T) {
	store, files := some(t)
	want, _, err := readAll(store, files)
	if err != nil {
		t.Fatal(err)
	}
	f := files[slices.IndexFunc(files, func(f File) bool { return f.Label == 5 })]
	whole, err := store.Get(ctx, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, data []byte, f File) {
		broken := store.Clone()
		if err := broken.Put(ctx, f.Key, data); err != nil {
			t.Fatal(err)
		}
		list := slices.Clone(files)
		list[slices.IndexFunc(list, func(x File) bool { return x.Key == f.Key })] = f
		got, _, err := readAll(broken, list)
		switch {
		case err == nil && !reflect.DeepEqual(got, want):
			t.Errorf("%s: other entries came back", what)
		case err != nil && (!errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), f.Key)):
			t.Errorf("%s: %v", what, err)
		}
	}
	for n := range whole {
		try(fmt.Sprintf("cut at %d", n), whole[:n], f)
		flipped := bytes.Clone(whole)
		flipped[n] ^= 0x41
		try(fmt.Sprintf("byte %d flipped", n), flipped, f)
	}
	f.Count++
	try("an entry too few", whole, f)
	if _, _, err := readAll(store, []File{f}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("an entry too few: %v", err)
	}
	if err := store.Delete(ctx, f.Key); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readAll(store, files); !errors.Is(err, objstore.ErrNotExist) || !strings.Contains(err.Error(), f.Key) {
		t.Errorf("a missing file: %v", err)
	}
}

// TestWriteFails: an error of the store names nothing that a commit could refer to.
func TestWriteFails(t *testing.T) {
	store := faulty.New(mem.New(), faulty.Nth(2, faulty.Fault{}))
	var w Writer
	for label := range snapshotter.Label(3) {
		w.Add(&Entry{Record: &change.Record{Stored: true}, Label: label})
	}
	files, err := w.Write(ctx, store, 1)
	if !errors.Is(err, faulty.ErrInjected) || files != nil {
		t.Fatalf("%v, %v", files, err)
	}
}

func FuzzParseEntry(f *testing.F) {
	e := &Entry{Record: &change.Record{Stored: true, Topic: "t", Key: []byte("k"), Headers: []change.Header{{Key: "h", Value: []byte{}}}}, Sequence: 3}
	f.Add(appendEntry(nil, e))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0x80}, 40))
	f.Fuzz(func(t *testing.T, raw []byte) {
		alloctest.Within(t, len(raw), 64, 1<<20, func() { _, _ = parseEntry(raw) })
		e, err := parseEntry(raw)
		if err != nil {
			return
		}
		again, err := parseEntry(appendEntry(nil, e))
		if err != nil || !reflect.DeepEqual(e, again) {
			t.Fatalf("%+v came back as %+v, %v", e, again, err)
		}
	})
}

func FuzzHeldFile(f *testing.F) {
	store, files := some(f)
	for _, file := range files {
		data, err := store.Get(ctx, file.Key)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, int64(2))
		f.Add(data[:bytes.Index(data, []byte("\x5c\x2a\x4d\x18"))], int64(2)) // without the sum behind it
	}
	f.Fuzz(func(t *testing.T, data []byte, count int64) {
		var err error
		scan := func() {
			var s *scanner
			s, err = newScanner(File{Key: "x", Count: count}, data)
			for err == nil {
				var e *Entry
				if e, err = s.next(); e == nil && err == nil {
					break
				}
			}
		}
		// An entry of a few packed bytes may have 64 MiB, and a window as much.
		alloctest.Within(t, len(data), 1<<16, 256<<20, scan)
		if err == nil {
			return
		}
		if !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
	})
}
