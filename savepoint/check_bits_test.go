package savepoint_test

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/savepoint"
)

// flips is how many bits of each object are flipped, one at a time.
var flips = flag.Int("flips", 4, "bits of each object that TestCheckFindsEveryBit flips; 0 is all of them")

// manyKinds is a table with an object of every kind: data files, deletion vectors, change
// data, held changes, delete markers, checkpoints, lists, backups.
func manyKinds(t testing.TB) *mem.Store {
	g := newRig(t)
	g.options = func(o *ingest.Options) { o.Lists, o.ChangeData = savepoint.FileList, true }
	for id := 30; id < 70; id++ {
		g.put(july(1, 0), "c", id, "stays")
	}
	for day := 1; day <= 4; day++ {
		g.day(day, 1, 2, 3, 4, day+10)
		g.put(july(day, 22), "d", day+9, "")
		g.ingest()
	}
	table, s, _ := g.newest()
	if _, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{}); err != nil {
		t.Fatal(err)
	}
	return g.store
}

// Whichever bit of whichever object is another one, the deep check names the object.
func TestCheckFindsEveryBit(t *testing.T) {
	store := manyKinds(t)
	kinds := map[string]int{}
	if report := faults(t, store, savepoint.CheckOptions{Deep: true}); len(report.Faults) > 0 {
		t.Fatalf("before any: %+v", report.Faults)
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	for object, err := range store.List(ctx, "", "") {
		if err != nil {
			t.Fatal(err)
		}
		key := object.Key
		kinds[kindOf(key)]++
		bits := int(object.Size) * 8
		var list []int
		for i := range bits {
			list = append(list, i)
		}
		if *flips > 0 { // the edges, where lengths and magic numbers are, and some others
			list = []int{random.IntN(8), bits - 1 - random.IntN(64)}
			for len(list) < *flips {
				list = append(list, random.IntN(bits))
			}
		}
		for _, bit := range list {
			damaged := store.Clone()
			data, err := damaged.Get(ctx, key)
			if err != nil {
				t.Fatal(err)
			}
			data = slices.Clone(data)
			data[bit/8] ^= 1 << (bit % 8)
			if err := damaged.Put(ctx, key, data); err != nil {
				t.Fatal(err)
			}
			report, err := savepoint.Check(ctx, open(t, damaged), savepoint.CheckOptions{Deep: true, Now: time.Now()})
			if err != nil {
				t.Errorf("seed %d: %s bit %d: %v", seed, key, bit, err)
				continue
			}
			if !slices.ContainsFunc(report.Faults, func(f savepoint.Fault) bool { return f.File == key || strings.Contains(f.Message, key) }) {
				t.Errorf("seed %d: %s bit %d of %d is not named; found %+v", seed, key, bit, bits, report.Faults)
			}
		}
	}
	for _, kind := range []string{"data", "vectors", "change data", "commit", "checkpoint", "hint", "held", "markers", "backup", "files"} {
		if kinds[kind] == 0 {
			t.Errorf("the table has no object of the kind %q: %v", kind, kinds)
		}
	}
	t.Logf("objects: %v, bits flipped in each: %d", kinds, *flips)
}

func kindOf(key string) string {
	switch {
	case strings.HasPrefix(key, "_change_data/"):
		return "change data"
	case strings.HasPrefix(key, "_delta_log/_gscd/"):
		return strings.Split(key, "/")[2]
	case strings.HasSuffix(key, "/_last_checkpoint"):
		return "hint"
	case strings.Contains(key, ".checkpoint."):
		return "checkpoint"
	case strings.HasPrefix(key, "_delta_log/"):
		return "commit"
	case strings.HasSuffix(key, ".bin"):
		return "vectors"
	}
	return "data"
}
