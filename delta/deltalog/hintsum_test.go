package deltalog

import (
	"context"
	"testing"

	"github.com/gscd-io/gscd/delta/objstore/mem"
)

// The example of the protocol's own text.
func TestHintSumOfTheProtocol(t *testing.T) {
	sum, stands, err := hintSum([]byte(`{"k0":"'v 0'", "checksum": "adsaskfljadfkjadfkj", "k1":{"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]}}`))
	if err != nil || sum != "6a92d155a59bf2eecbd4b4ec7fd1f875" || stands != "adsaskfljadfkjadfkj" {
		t.Errorf("%s, stands %s, %v", sum, stands, err)
	}
}

// A hint with one other bit, wherever, is as good as none: it never misleads.
func TestHintWithOtherBits(t *testing.T) {
	ctx, store := context.Background(), mem.New()
	want := Hint{Version: 42, Size: 7, SizeInBytes: 4711, NumOfAddFiles: 3, V2: &V2Hint{Path: "a b.parquet", SizeInBytes: 9, ModificationTime: 11}}
	if err := WriteHint(ctx, store, want); err != nil {
		t.Fatal(err)
	}
	data, err := store.Get(ctx, HintKey)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok, err := ReadHint(ctx, store); err != nil || !ok || got.Version != 42 || *got.V2 != *want.V2 {
		t.Fatalf("read back %+v, %v, %v", got, ok, err)
	}
	for i := range data {
		for bit := range 8 {
			data[i] ^= 1 << bit
			if err := store.Put(ctx, HintKey, data); err != nil {
				t.Fatal(err)
			}
			if got, ok, _ := ReadHint(ctx, store); ok {
				t.Errorf("byte %d bit %d: read %+v from %s", i, bit, got, data)
			}
			data[i] ^= 1 << bit
		}
	}
}
