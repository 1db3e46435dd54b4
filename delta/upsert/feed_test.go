package upsert_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/upsert"
)

// A batch's change data is one change a key with the row before and after, whether few
// rows of a file end or most, whether their keys are named or not, and in either mode.
func TestChangeData(t *testing.T) {
	s, err := schema.New(
		schema.Field{Name: "id", Type: schema.Of(schema.Long), Nullable: true}, schema.Field{Name: "v", Type: schema.Of(schema.StringType), Nullable: true},
		schema.Field{Name: "p", Type: schema.Of(schema.StringType), Nullable: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, copyOnWrite := range []bool{false, true} {
		for _, by := range [][]string{nil, {"p"}} {
			t.Run(fmt.Sprintf("copy-on-write %v by %v", copyOnWrite, by), func(t *testing.T) { feedTable(t, s, copyOnWrite, by) })
		}
	}
}

func feedTable(t *testing.T, s *schema.Schema, copyOnWrite bool, by []string) {
	r := rand.New(rand.NewPCG(1, 2))
	store := mem.New()
	table := delta.New(store)
	w := upsert.New(store, upsert.Options{Key: []string{"id"}, CopyOnWrite: copyOnWrite})
	rows := map[int64]string{} // what is live: "v p"
	var base *delta.Snapshot
	for step, size := range []int{5000, 20, 3000, 1, 4000, 50} {
		b := &upsert.Batch{Schema: s, PartitionBy: by, ChangeData: true, Killed: map[uint32]*dv.Bitmap{}}
		want := map[string]int{}
		next := maps.Clone(rows)
		for _, n := range r.Perm(6000)[:size] {
			id := int64(n)
			key := string(schema.IntValue(id).AppendEncoded(nil))
			ref, old := w.Index().Get(key), rows[id]
			switch r.IntN(4) {
			case 0: // it goes
				if ref == 0 {
					continue
				}
				want["delete "+old]++
				delete(next, id)
				if r.IntN(2) == 0 {
					if b.Killed[ref.Segment()] == nil {
						b.Killed[ref.Segment()] = dv.New()
					}
					b.Killed[ref.Segment()].Add(ref.Row())
					continue
				}
				b.Replaced, b.Removed = append(b.Replaced, ref), append(b.Removed, key)
				continue
			case 1: // taken away without its name, and here again
				if ref != 0 {
					if b.Killed[ref.Segment()] == nil {
						b.Killed[ref.Segment()] = dv.New()
					}
					b.Killed[ref.Segment()].Add(ref.Row())
				}
			default:
				if ref != 0 {
					b.Replaced = append(b.Replaced, ref)
				}
			}
			v, p := fmt.Sprintf("%d of %d", id, step), fmt.Sprint(r.IntN(3))
			b.Rows = append(b.Rows, []schema.Value{schema.IntValue(id), schema.StringValue(v), schema.StringValue(p)})
			b.Keys, b.Tags = append(b.Keys, key), append(b.Tags, 0)
			next[id] = v + " " + p
			if ref == 0 {
				want["insert "+next[id]]++
			} else {
				want["update_preimage "+old]++
				want["update_postimage "+next[id]]++
			}
		}
		tx := delta.NewTransaction(table, base)
		if base == nil {
			tx.SetProtocol(delta.ProtocolFor(delta.FeatureDeletionVectors, delta.FeatureChangeDataFeed))
			tx.SetMetadata(action.Metadata{ID: "t", Format: action.Format{Provider: "parquet"}, SchemaString: s.String(), PartitionColumns: append([]string{}, by...),
				Configuration: map[string]string{delta.PropertyChangeDataFeed: "true", delta.PropertyDeletionVectors: "true"}})
		}
		written, err := w.Write(t.Context(), b, tx)
		if err != nil {
			t.Fatal(err)
		}
		out, err := tx.Commit(t.Context())
		if err != nil || !out.Committed {
			t.Fatalf("%+v, %v", out, err)
		}
		if err := w.Applied(written); err != nil {
			t.Fatal(err)
		}
		base, rows = out.Snapshot, next
		got := map[string]int{}
		for c, err := range scan.Changes(t.Context(), table, out.Version, out.Version, nil) {
			if err != nil {
				t.Fatal(err)
			}
			for i, kind := range c.Kinds {
				got[kind+" "+c.Columns[1][i].S+" "+c.Columns[2][i].S]++
			}
		}
		if !maps.Equal(got, want) {
			t.Fatalf("step %d: %d changes, want %d; the first: %q, want %q", step, len(got), len(want), slices.Sorted(maps.Keys(got))[0], slices.Sorted(maps.Keys(want))[0])
		}
	}
}
