package delta_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/local"
)

// longLog writes a table of so many commits on the local disk, each with a
// commitInfo of 10 kB and 25 files under a new deletion vector.
func longLog(b *testing.B, commits int) (objstore.Store, []deltalog.Commit) {
	b.Helper()
	store, err := local.New(b.TempDir(), local.Options{})
	if err != nil {
		b.Fatal(err)
	}
	table := delta.New(store)
	x := delta.NewTransaction(table, nil)
	x.SetMetadata(metadata("long"))
	x.SetProtocol(delta.ProtocolFor(delta.FeatureDeletionVectors))
	stats := `{"numRecords":100000,"minValues":{"id":1,"name":"aaaaaaaaaaaaaaaa","at":"2024-01-01T00:00:00.000Z"},"maxValues":{"id":900000,"name":"zzzzzzzzzzzzzzzz","at":"2024-01-02T00:00:00.000Z"},"nullCount":{"id":0,"name":0,"at":0},"tightBounds":false}`
	for i := range 25 {
		a := add(fmt.Sprintf("part-%05d-00000000-0000-4000-8000-000000000000.parquet", i))
		a.Stats = stats
		x.Add(a)
	}
	info := map[string]any{"gscd": map[string]string{"progress": strings.Repeat("0123456789", 1000)}}
	s := commit(b, x)
	for n := range commits {
		x := delta.NewTransaction(table, s)
		x.SetCommitInfo("UPSERT", nil, nil, info)
		x.SetTxn("gscd", delta.OwnVersion)
		for _, a := range s.Files() {
			x.Remove(delta.RemoveOf(a, table.Now(), true))
			x.Add(withVector(a, n))
		}
		s = commit(b, x)
	}
	listing, err := deltalog.List(ctx, store, 0)
	if err != nil {
		b.Fatal(err)
	}
	return store, listing.Commits
}

// BenchmarkOpen1000Commits: opening is to cost at most three times what reading
// the bytes of the log costs (its sub-benchmark).
func BenchmarkOpen1000Commits(b *testing.B) {
	store, commits := longLog(b, 1000)
	var bytes int64
	for _, c := range commits {
		bytes += c.Size
	}
	b.Run("read", func(b *testing.B) {
		b.SetBytes(bytes)
		for b.Loop() {
			for _, c := range commits {
				if _, err := store.Get(ctx, c.Key); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("open", func(b *testing.B) {
		b.SetBytes(bytes)
		b.ReportAllocs()
		for b.Loop() {
			s, err := delta.New(store).Snapshot(ctx)
			if err != nil || s.NumFiles() != 25 {
				b.Fatal(s, err)
			}
		}
	})
}

// BenchmarkCommit is the cost of a commit apart from the store's: 25 of 10,000
// files get a new deletion vector.
func BenchmarkCommit(b *testing.B) {
	_, table, s := newTable(b, newClock())
	x := delta.NewTransaction(table, s)
	for i := range 10_000 {
		x.Add(add(fmt.Sprintf("part-%05d-00000000-0000-4000-8000-000000000000.parquet", i)))
	}
	s = commit(b, x)
	all := s.Files()
	n := 0
	for b.Loop() {
		x := delta.NewTransaction(table, s)
		for i := range 25 {
			a, _ := s.File(all[(n*25+i)%len(all)].Path)
			x.Remove(delta.RemoveOf(a, table.Now(), true))
			x.Add(withVector(a, n))
		}
		s = commit(b, x)
		n++
	}
}
