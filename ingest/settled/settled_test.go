package settled

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/gscd-io/gscd/alloctest"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/progress"
)

var ctx = context.Background()

func item(offset int64, state State) Item {
	return Item{Place{"shop.users", 3, offset, int32(offset % 3)}, Resolution{State: state, At: 1658000000000 + offset, Version: 40 + offset, Note: "ünï\n\"q\""}}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	store := mem.New()
	var files []progress.SettledFile
	want := Set{}
	for n := range int64(50) {
		added := []Item{item(n, Replayed), item(n/2, Dismissed)}
		var err error
		if files, err = Write(ctx, store, files, added); err != nil {
			t.Fatal(err)
		}
		for _, i := range added {
			want[i.Place] = i.Resolution
		}
		if len(files) > maxFiles {
			t.Fatalf("%d files after %d commits", len(files), n+1)
		}
		got, err := Load(ctx, store, files)
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(got, want) {
			t.Fatalf("after %d commits: %v, want %v", n+1, got, want)
		}
	}
	if same, err := Write(ctx, store, files, nil); err != nil || len(same) != len(files) {
		t.Errorf("nothing added: %v, %v", same, err)
	}
}

func TestAFileThatIsDamagedIsNamed(t *testing.T) {
	store := mem.New()
	files, err := Write(ctx, store, nil, []Item{item(1, Replayed)})
	if err != nil {
		t.Fatal(err)
	}
	files[0].Count++
	if _, err := Load(ctx, store, files); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a wrong count: %v", err)
	}
	odd, err := encode([]Item{item(1, "lost")})
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{nil, []byte("no zstd"), odd} {
		if err := store.Put(ctx, fmt.Sprint("x", len(data)), data); err != nil {
			t.Fatal(err)
		}
		_, err := Load(ctx, store, []progress.SettledFile{{Key: fmt.Sprint("x", len(data)), Count: 1}})
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%q: %v", data, err)
		}
	}
	if _, err := Load(ctx, store, []progress.SettledFile{{Key: "gone"}}); err == nil {
		t.Error("a file that is gone was read")
	}
}

func FuzzDecode(f *testing.F) {
	seed, err := encode([]Item{item(1, Replayed), item(2, Undone)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add(seed[:bytes.Index(seed, []byte("\x5c\x2a\x4d\x18"))]) // without the sum behind it
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		alloctest.Within(t, len(data), 16*maxRatio, 4*freeBytes, func() { _, _ = decode(data) })
		if items, err := decode(data); err == nil {
			if _, err := encode(items); err != nil {
				t.Error(err)
			}
		}
	})
}
