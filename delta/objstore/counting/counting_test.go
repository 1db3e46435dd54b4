package counting_test

import (
	"context"
	"testing"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/counting"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/objstore/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) objstore.Store { return counting.New(mem.New()) })
}

func TestCounts(t *testing.T) {
	ctx := context.Background()
	s := counting.New(mem.New())
	_ = s.PutIfAbsent(ctx, "_delta_log/0.json", []byte("1234"))
	_ = s.PutIfAbsent(ctx, "_delta_log/0.json", []byte("1234")) // taken, and counted
	_ = s.Put(ctx, "a.parquet", []byte("0123456789"))
	_, _ = s.GetRange(ctx, "a.parquet", 8, 5)
	_, _ = s.Get(ctx, "a.parquet")
	_, _ = s.Get(ctx, "v.bin")
	_, _ = s.Head(ctx, "a.parquet")
	for range s.List(ctx, "_delta_log/", "") {
	}
	_ = s.Delete(ctx, "a.parquet")
	if want := (counting.Counts{ConditionalPuts: 2, Written: 8, Lists: 1}); s.Log() != want {
		t.Errorf("log: %v, want %v", s.Log(), want)
	}
	if want := (counting.Counts{Puts: 1, Written: 10, Gets: 3, Read: 12, Heads: 1, Deletes: 1}); s.Data() != want || want.Calls() != 6 {
		t.Errorf("data: %v, want %v", s.Data(), want)
	}
	if o := s.Opened(); len(o) != 1 || o[0] != "a.parquet" {
		t.Errorf("opened %q", o)
	}
	s.Reset()
	if s.Log().Calls() != 0 || s.Data().Calls() != 0 || len(s.Opened()) != 0 {
		t.Errorf("counts after a reset: %v, %v", s.Log(), s.Data())
	}
}
