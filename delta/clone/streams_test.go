package clone_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/clone"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/counting"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

// A file that is larger than the memory is appended, put together and copied in pieces:
// no call of the storage carries more than three quarters of the memory, and none of a copy more
// than a piece.
func TestNobodyHoldsALargeFile(t *testing.T) {
	const rows, width, memory = 80_000, 1 << 10, 24 << 20
	ctx := t.Context()
	store := counting.New(mem.New())
	table := delta.New(store)
	if _, err := write.Create(ctx, table, write.Definition{
		Columns: []schema.Field{write.Column("id", schema.Of(schema.Long)), write.Column("text", schema.Of(schema.StringType))},
	}, write.Source{}); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	letters := make([]byte, width)
	batch := func(from int) write.Source {
		return write.Rows(func(yield func([]schema.Value, error) bool) {
			for i := from; i < from+rows/2; i++ {
				for c := range letters {
					letters[c] = byte(32 + random.IntN(90))
				}
				if !yield([]schema.Value{schema.IntValue(int64(i)), schema.StringValue(string(letters))}, nil) {
					return
				}
			}
		})
	}
	small := func(what string, store *counting.Store) {
		t.Helper()
		if read, written := store.Largest(); read > memory*3/4 || written > memory*3/4 {
			t.Errorf("%s: a call read %d bytes, one wrote %d", what, read, written)
		}
		store.Reset()
	}
	for i := range 2 {
		r, err := write.Append(ctx, table, batch(i*rows/2), write.WithMemory(memory), write.WithTargetFileSize(1<<30))
		if err != nil || r.FilesAdded != 1 || r.BytesAdded < memory {
			t.Fatalf("%+v, %v: want one file, larger than the memory", r.Counts, err)
		}
		small("append", store)
	}
	for _, order := range [][]string{nil, {"text"}} {
		report, err := layout.Optimize(ctx, table, layout.Options{TargetSize: 1 << 30, MemoryLimit: memory, OrderBy: order, TempDir: t.TempDir()})
		if err != nil || len(report.Snapshot.Files()) != 1 || report.Snapshot.Files()[0].Size < 2*memory {
			t.Fatalf("by %q: %+v, %v: want one file of all", order, report, err)
		}
		small(fmt.Sprintf("optimize by %q", order), store)
	}
	snapshot, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	other := counting.New(mem.New())
	report, err := clone.Clone(ctx, table, snapshot, delta.New(other), clone.Options{Deep: true})
	if err != nil || report.CopiedBytes != snapshot.Files()[0].Size {
		t.Fatalf("%+v, %v", report, err)
	}
	if read, written := store.Largest(); max(read, written) > objstore.PieceBytes {
		t.Errorf("clone: a call read %d bytes", read)
	}
	if _, written := other.Largest(); written > objstore.PieceBytes {
		t.Errorf("clone: a call wrote %d bytes", written)
	}
	rowsOf, err := scan.New(other, report.Snapshot, scan.Options{Columns: []string{"id"}})
	if err != nil {
		t.Fatal(err)
	}
	n, sum := int64(0), int64(0)
	for row, err := range rowsOf.Rows(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		sum += row[0].I
	}
	if n != rows || sum != rows*(rows-1)/2 {
		t.Errorf("%d rows, the numbers give %d", n, sum)
	}
}
