package recording

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/ingest/change"
)

// genRecord draws any record at all: binary, JSON, text, nil, empty.
func genRecord(t *rapid.T, topic string, partition int32, offset int64) *change.Record {
	bytesOf := rapid.OneOf(
		rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 20),
		rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) }),
		rapid.Map(rapid.MapOf(rapid.String(), rapid.Int()), func(m map[string]int) []byte { b, _ := json.Marshal(m); return b }),
		rapid.Map(rapid.SampledFrom([]string{"null", "true", " 1 ", "1", "[1,\n2]", "{}\r\n", `"a"`, `{"a":"\ud83d\ude00"}`, "NaN", "\u2028"}), func(s string) []byte { return []byte(s) }),
	)
	r := &change.Record{Topic: topic, Partition: partition, Offset: offset,
		Timestamp: rapid.Int64Range(-1, 1<<42).Draw(t, "ts"), Key: bytesOf.Draw(t, "key"), Value: bytesOf.Draw(t, "value")}
	for range rapid.IntRange(0, 2).Draw(t, "headers") {
		r.Headers = append(r.Headers, change.Header{Key: string(bytesOf.Draw(t, "name")), Value: bytesOf.Draw(t, "header")})
	}
	return r
}

// TestModel writes random records in random forms, files and compressions, and
// reads them back with random assignments, pauses and poll sizes: each
// partition must deliver exactly its records from the offset assigned.
func TestModel(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		model := make(map[change.PartitionID][]*change.Record)
		next := make(map[change.PartitionID]int64)
		var files []string
		for f := range rapid.IntRange(1, 3).Draw(t, "files") {
			var buf bytes.Buffer
			var ws [2]*Writer
			for i := range ws {
				ws[i] = NewWriter(&buf, Form(i))
			}
			for range rapid.IntRange(0, 40).Draw(t, "records") {
				id := change.PartitionID{Topic: rapid.SampledFrom([]string{"t", "u.\"x"}).Draw(t, "topic"), Partition: rapid.Int32Range(0, 2).Draw(t, "partition")}
				r := genRecord(t, id.Topic, id.Partition, next[id]+rapid.Int64Range(0, 3).Draw(t, "hole"))
				next[id] = r.Offset + 1
				model[id] = append(model[id], r)
				w := ws[rapid.IntRange(0, 1).Draw(t, "form")]
				if err := errors.Join(w.Write(r), w.Flush()); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(dir, fmt.Sprintf("%d-%d", n, f))
			content := buf.Bytes()
			if rapid.Bool().Draw(t, "gzip") {
				var z bytes.Buffer
				w := gzip.NewWriter(&z)
				w.Write(content)
				w.Close()
				content = z.Bytes()
			}
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			files = append(files, path)
		}
		r, err := Open(files, Options{BlockBytes: rapid.Int64Range(1, 5000).Draw(t, "bytes")})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		ids := slices.SortedFunc(maps.Keys(model), change.PartitionID.Compare)
		for range 2 {
			checkAssignment(t, r, model, ids)
		}
	})
}

func checkAssignment(t *rapid.T, r *Recording, model map[change.PartitionID][]*change.Record, ids []change.PartitionID) {
	ctx := context.Background()
	from, at := make(map[change.PartitionID]int64), make(map[change.PartitionID]int)
	for _, id := range ids {
		if rapid.IntRange(0, 4).Draw(t, "skip") == 0 {
			continue
		}
		from[id] = rapid.Int64Range(model[id][0].Offset, model[id][len(model[id])-1].Offset+1).Draw(t, "from")
		for at[id] < len(model[id]) && model[id][at[id]].Offset < from[id] {
			at[id]++
		}
	}
	if err := r.Assign(ctx, from); err != nil {
		t.Fatal(err)
	}
	paused := make(map[change.PartitionID]bool)
	for left := 300; left > 0; left-- {
		missing := 0
		for id := range from {
			missing += len(model[id]) - at[id]
		}
		if missing == 0 {
			return
		}
		for _, id := range ids {
			if rapid.IntRange(0, 3).Draw(t, "flip") == 0 {
				if paused[id] = !paused[id] && left > 20; paused[id] {
					r.Pause(id)
				} else {
					r.Resume(id)
				}
			}
		}
		blocks, err := r.read(rapid.IntRange(0, 9).Draw(t, "max"))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			if paused[b.ID] {
				t.Fatalf("%v delivers while paused", b.ID)
			}
			for _, rec := range b.Records {
				want := model[b.ID][at[b.ID]]
				if show(rec) != show(want) {
					t.Fatalf("got  %s\nwant %s", show(rec), show(want))
				}
				at[b.ID]++
			}
			if b.Next != model[b.ID][at[b.ID]-1].Offset+1 {
				t.Fatalf("next %d", b.Next)
			}
		}
	}
	t.Fatal("records are missing")
}
